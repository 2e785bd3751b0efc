use std::sync::Arc;
use stylobate::{disk::Mapped, encoding::*, model::*, segment::writer::*, segment::*};
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let profile: Profile = std::env::args().nth(2).unwrap_or("balanced".into()).parse().unwrap();
    let f = std::fs::File::open(path).unwrap();
    let r = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(f)
        .unwrap()
        .with_batch_size(65536)
        .build()
        .unwrap();
    let mut batches: Vec<Vec<arrow_array::RecordBatch>> = vec![vec![]];
    let mut rows = 0;
    for b in r {
        let b = b.unwrap();
        rows += b.num_rows();
        batches.last_mut().unwrap().push(b);
        if rows >= 1 << 20 - 0 && rows % (1 << 20) < 65536 {
            if batches.last().unwrap().iter().map(|b| b.num_rows()).sum::<usize>() >= 983040 {
                batches.push(vec![]);
            }
        }
    }
    let mut total = 0u64;
    let t0 = std::time::Instant::now();
    let mut nrows = 0;
    for seg in batches.iter().filter(|s| !s.is_empty()) {
        let schema = seg[0].schema();
        let n: usize = seg.iter().map(|b| b.num_rows()).sum();
        nrows += n;
        let columns = (0..schema.fields().len())
            .map(|i| InputColumn {
                id: ColumnId(i as u32),
                data_type: DataType::from_arrow(schema.field(i).data_type()).unwrap(),
                arrays: seg.iter().map(|b| b.column(i).clone()).collect(),
            })
            .collect();
        let t = std::time::Instant::now();
        let enc = encode(&SegmentInput { rows: n, block_rows: 65536, columns }, &Options::new(profile)).unwrap();
        total += enc.len;
        println!("segment {n} rows {} bytes {:?}", enc.len, t.elapsed());
        let bytes = enc.parts.concat();
        let s = Segment::open(Arc::new(Mapped::of_bytes(&bytes)), "x", 0, enc.len).unwrap();
        for i in 0..schema.fields().len() {
            let c = s.column(ColumnId(i as u32)).unwrap().unwrap();
            let t = std::time::Instant::now();
            for b in 0..c.blocks() {
                let bl = c.block(b).unwrap();
                let mut r = 0;
                while r < bl.reader().rows() {
                    let e = (r + 8192).min(bl.reader().rows());
                    std::hint::black_box(bl.decode(r..e).unwrap());
                    r = e;
                }
            }
            println!(
                "  {:22} {:9} {:5.2} B/row {:6.2} ns/row dict {:?} {}",
                schema.field(i).name(),
                c.stored_bytes(),
                c.stored_bytes() as f64 / n as f64,
                t.elapsed().as_nanos() as f64 / n as f64,
                c.record().dictionary.map(|d| d.values),
                c.block(c.blocks() / 2).unwrap().reader().describe()
            );
        }
    }
    println!("total {total} = {:.2} B/row, {:?}, {nrows}", total as f64 / nrows as f64, t0.elapsed());
}
