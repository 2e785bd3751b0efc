//! Makes a table of very many small segments, to measure the manifest. See README.md.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use rayon::prelude::*;
use stylobate::internal::encoding::Options;
use stylobate::internal::ingest::{SegmentBuilder, SegmentLimits, match_columns};
use stylobate::internal::model::{Arrangement, PartitionKey};
use stylobate::internal::segment::encode;
use stylobate::internal::store::{Changes, DataFiles, Edit, NewSegment};
use stylobate::{DataType, Error, Profile, Result, Schema, Store, TableOptions};

/// Rows of a segment.
const ROWS: i64 = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [table, numbers @ ..] = arguments.as_slice() else { return usage() };
    let Ok(numbers) = numbers.iter().map(|text| text.parse()).collect::<Result<Vec<i64>, _>>()
    else {
        return usage();
    };
    let &[partitions, segments, columns] = numbers.as_slice() else { return usage() };
    if partitions < 1 || segments < 1 || columns < 2 {
        return usage();
    }
    match make(Path::new(table), partitions, segments, columns) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: many-segments STORE/TABLE PARTITIONS SEGMENTS COLUMNS");
    ExitCode::from(2)
}

fn make(path: &Path, partitions: i64, segments: i64, columns: i64) -> Result<()> {
    let (Some(store), Some(name)) =
        (path.parent(), path.file_name().and_then(|name| name.to_str()))
    else {
        return Err(Error::InvalidInput(format!("{} is no STORE/TABLE", path.display())));
    };
    let of_partition = ROWS * (segments + partitions - 1) / partitions;
    let mut schema = Schema::default();
    match_columns(&mut schema, &rows(0, columns)?)?;
    let created = Some((Schema::default(), TableOptions::default()));
    let mut writer = Store::open(store).table(name)?.writer(created)?;
    let files = writer.data_files();
    let one = |segment| write(&files, &schema, segment * ROWS, columns, of_partition);
    let insert = (0..segments).into_par_iter().map(one).collect::<Result<Vec<NewSegment>>>()?;
    let id = schema.columns().first().map(|column| (Arc::clone(&column.name), column.id));
    let key = PartitionKey {
        name: "part".into(),
        expression: format!("id / {of_partition}").into(),
        columns: id.into_iter().collect(),
        data_type: DataType::Int64,
    };
    let arrangement = Arrangement { partition_by: vec![key], sort_by: Vec::new() };
    let edits = vec![Edit { at: 0, remove: 0, insert }];
    let commit =
        writer.commit_changes(Changes { schema, arrangement, edits, ..writer.changes() })?;
    println!(
        "{segments} segments in {partitions} partitions, {} bytes of metadata",
        commit.metadata_bytes
    );
    Ok(())
}

fn write(
    files: &DataFiles,
    schema: &Schema,
    first: i64,
    columns: i64,
    of_partition: i64,
) -> Result<NewSegment> {
    let limits = SegmentLimits { rows: 1 << 20, bytes: 1 << 30, block_rows: 65_536 };
    let (mut builder, batch) = (SegmentBuilder::new(limits), rows(first, columns)?);
    let ids: Vec<_> = schema.columns().iter().map(|column| column.id).collect();
    let _ = builder.push(&batch, &ids)?;
    let segment = encode(&builder.finish()?, &Options::new(Profile::Balanced))?;
    let mut file = files.create_in(&format!("part={}", first / of_partition))?;
    file.write_all(&segment.parts.concat())?;
    Ok(NewSegment {
        file: file.uuid(),
        offset: 0,
        length: segment.len,
        uuid: segment.uuid,
        footer_crc: segment.footer_crc,
        rows: segment.rows,
        stats: segment.stats,
    })
}

fn rows(first: i64, columns: i64) -> Result<RecordBatch> {
    let column = |at: i64| -> (String, ArrayRef) {
        let ids = first..first + ROWS;
        let name = match at {
            0 => "id".to_owned(),
            1 => "at".to_owned(),
            _ => format!("c{at}"),
        };
        let mixed = |id: i64| (id + at).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) >> 40;
        let values: ArrayRef = match at {
            0 => Arc::new(Int64Array::from_iter_values(ids)),
            1 => {
                Arc::new(TimestampMicrosecondArray::from_iter_values(ids.map(|id| id * 60_000_000)))
            }
            _ => match at % 4 {
                0 => Arc::new(Int64Array::from_iter_values(ids.map(mixed))),
                1 => Arc::new(StringArray::from_iter_values(
                    ids.map(|id| format!("w{}", mixed(id) % 100)),
                )),
                2 => {
                    Arc::new(Float64Array::from_iter_values(ids.map(|id| mixed(id) as f64 / 100.0)))
                }
                _ => Arc::new(TimestampMicrosecondArray::from_iter_values(ids.map(mixed))),
            },
        };
        (name, values)
    };
    RecordBatch::try_from_iter((0..columns).map(column))
        .map_err(|error| Error::InvalidInput(error.to_string()))
}
