//! Every format, against what ClickHouse writes.

use std::path::PathBuf;

use arrow_array::RecordBatch;

use super::samples::every_type;
use super::{Finished, Format, Writer};

fn written(format: Format, batches: &[RecordBatch], revision: u32) -> Vec<u8> {
    let mut writer = Writer::new(format, &batches[0].schema(), revision).unwrap();
    let mut out = Vec::new();
    for batch in batches {
        writer.write(batch, &mut out).unwrap();
    }
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let finished = Finished { rows, seconds: 0.25, rows_read: 7, bytes_read: 99 };
    writer.finish(&finished, &mut out).unwrap();
    out
}

fn golden(format: Format) -> PathBuf {
    let folder = "src/serve/clickhouse/formats/golden";
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder).join(format.name())
}

/// The formats of which `golden/` has the sample as ClickHouse 26.9 wrote it: it read the answer
/// in `Native` and wrote it in each format.
#[test]
fn the_sample_is_written_as_clickhouse_writes_it() {
    let formats = Format::ALL.into_iter().filter(|format| {
        !matches!(format, Format::Arrow | Format::ArrowStream | Format::Parquet | Format::Null)
    });
    for format in formats {
        let own = written(format, &[every_type()], 0);
        if std::env::var_os("STY_WRITE_GOLDEN").is_some() {
            std::fs::create_dir_all(golden(format).parent().unwrap()).unwrap();
            #[expect(clippy::disallowed_methods, reason = "a file of the sources")]
            std::fs::write(golden(format), &own).unwrap();
        }
        let expected = std::fs::read(golden(format)).unwrap();
        if own != expected {
            let at = own.iter().zip(&expected).take_while(|(a, b)| a == b).count();
            let around = |bytes: &[u8]| {
                let end = bytes.len().min(at + 60);
                String::from_utf8_lossy(&bytes[at.saturating_sub(60).min(end)..end]).into_owned()
            };
            panic!("{format:?} at {at}:\n{:?}\n{:?}", around(&own), around(&expected));
        }
    }
}
