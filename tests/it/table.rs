//! The golden tables: directories as version 1 of the format writes them. `trees` has two older
//! generations, a widened and an added column, a partition, and a file of two segments. `nights`
//! has an arrangement, a retention, a ledger that is partly in a file, and a record of what was
//! written. To write one of them again, delete it in `tests/golden/v1/store` and run with
//! `STY_WRITE_GOLDEN=1`; its identifiers, and so its bytes, will differ.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use arrow_array::cast::AsArray;
use arrow_array::types::Int16Type;
use arrow_array::{ArrayRef, UInt32Array, new_null_array};
use stylobate::internal::encoding::Options;
use stylobate::internal::manifest::LoadedSource;
use stylobate::internal::model::{Arrangement, PartitionKey, Scalar, SortKey};
use stylobate::internal::segment::{InputColumn, SegmentInput, encode};
use stylobate::internal::store::{Changes, DataFile, Edit, NewSegment};
use stylobate::{ColumnId, DataType, Profile, Schema, Snapshot, Store, TableOptions, verify};

use crate::columns::{array, assert_same, bytes_of};
use crate::project;
use crate::values::{self, NamedColumn};

const ROWS: usize = 40;
const NAME: ColumnId = ColumnId(1);
const EXTRA: ColumnId = ColumnId(2);

/// Opens the store of the golden tables.
fn golden() -> PathBuf {
    static WRITTEN: Once = Once::new();
    let store = project().join("tests/golden/v1/store");
    let write = |table: &str, write: fn(&Path)| {
        if std::env::var_os("STY_WRITE_GOLDEN").is_some() && !store.join(table).exists() {
            write(&store);
        }
    };
    WRITTEN.call_once(|| {
        write("trees", write_trees);
        write("nights", write_nights);
    });
    store
}

/// Segment `i`: shapes differ, and the last segment has a wider type and one more column.
fn rows(i: usize) -> SegmentInput {
    let number = if i == 2 { DataType::Int64 } else { DataType::Int16 };
    let mut types = vec![number, DataType::Utf8];
    types.extend((i == 2).then_some(DataType::Float64));
    let column = |(c, data_type): (usize, DataType)| InputColumn {
        id: ColumnId(c as u32),
        arrays: vec![array(&data_type, i, ROWS)],
        data_type,
    };
    SegmentInput {
        rows: ROWS,
        block_rows: 1024,
        columns: types.into_iter().enumerate().map(column).collect(),
    }
}

fn put(file: &mut DataFile, at: &mut u64, i: usize) -> NewSegment {
    put_rows(file, at, &rows(i))
}

fn put_rows(file: &mut DataFile, at: &mut u64, rows: &SegmentInput) -> NewSegment {
    let encoded = encode(rows, &Options::new(Profile::Balanced)).unwrap();
    let padding = at.next_multiple_of(16) - *at;
    file.write_all(&vec![0; padding as usize]).unwrap();
    file.write_all(&bytes_of(&encoded)).unwrap();
    let offset = *at + padding;
    *at = offset + encoded.len;
    NewSegment {
        file: file.uuid(),
        offset,
        length: encoded.len,
        uuid: encoded.uuid,
        footer_crc: encoded.footer_crc,
        rows: encoded.rows,
        stats: encoded.stats,
    }
}

fn write_trees(store: &Path) {
    let mut schema =
        Schema::from_names([("number", DataType::Int16), ("name", DataType::Utf8)]).unwrap();
    let options = TableOptions { block_rows: 1024, ..TableOptions::default() };
    let table = Store::open(store).table("trees").unwrap();
    let mut writer = table.writer(Some((schema.clone(), options))).unwrap();
    let (mut file, mut at) = (writer.new_data_file().unwrap(), 0);
    let segments = vec![put(&mut file, &mut at, 0), put(&mut file, &mut at, 1)];
    writer.commit(schema.clone(), segments).unwrap();
    schema.set_type(0, DataType::Int64);
    schema.add("extra", DataType::Float64).unwrap();
    let mut file = writer.data_files().create_in("kind=wide/year=2015").unwrap();
    let segment = put(&mut file, &mut 0, 2);
    writer.commit(schema, vec![segment]).unwrap();
}

/// How rows of `nights` are arranged.
fn arrangement() -> Arrangement {
    let kind = PartitionKey {
        name: Arc::from("kind"),
        expression: Arc::from("number % 2"),
        columns: vec![(Arc::from("number"), ColumnId(0))],
        data_type: DataType::Int16,
    };
    let key = |column, descending| SortKey {
        column: ColumnId(column),
        descending,
        nulls_first: descending,
    };
    Arrangement { partition_by: vec![kind], sort_by: vec![key(1, true), key(0, false)] }
}

/// The loaded sources of `nights`: more than a root holds, and the last one not loaded to its end.
fn sources() -> Vec<LoadedSource> {
    let source = |number: u64| LoadedSource {
        path: format!("/nights/{number}.csv").into(),
        size: 1000 + number,
        modified: number as i64 - 5,
        hash: (!number.is_multiple_of(3)).then_some([number as u8; 16]),
        load: [number as u8 / 4; 16],
        selected: false,
        rows: number * 7,
        rejected: number % 5,
        pieces: if number == 139 { 12 } else { 0 },
        generation: 0,
        done: number != 139,
    };
    (0..140).map(source).collect()
}

/// The rows of the partition `kind=i` of `nights`, as they are arranged: even or odd numbers, by
/// falling names and then rising numbers.
fn nights(i: usize) -> SegmentInput {
    let input = rows(0);
    let numbers = input.columns[0].arrays[0].as_primitive::<Int16Type>().clone();
    let names = input.columns[1].arrays[0].as_string_view().clone();
    let mut order: Vec<usize> =
        (0..ROWS).filter(|row| numbers.value(*row) % 2 == i as i16).collect();
    order.sort_by_key(|row| (Reverse(names.value(*row)), numbers.value(*row)));
    let order: UInt32Array = order.into_iter().map(|row| row as u32).collect();
    let columns = input.columns.into_iter().map(|column| InputColumn {
        arrays: vec![arrow_select::take::take(&column.arrays[0], &order, None).unwrap()],
        ..column
    });
    SegmentInput { rows: order.len(), block_rows: 1024, columns: columns.collect() }
}

fn write_nights(store: &Path) {
    let schema =
        Schema::from_names([("number", DataType::Int16), ("name", DataType::Utf8)]).unwrap();
    let options = TableOptions { block_rows: 1024, ..TableOptions::default() };
    let table = Store::open(store).table("nights").unwrap();
    let mut writer = table.writer(Some((schema.clone(), options))).unwrap();
    let segment = |i: usize| {
        let mut file = writer.data_files().create_in(&format!("kind={i}")).unwrap();
        put_rows(&mut file, &mut 0, &nights(i))
    };
    let segments = vec![segment(0), segment(1)];
    let changes = Changes {
        arrangement: arrangement(),
        keep: 3_600_000,
        loaded: segments.iter().map(|segment| segment.length).sum(),
        edits: vec![Edit { at: 0, remove: 0, insert: segments }],
        sources: sources(),
        ..writer.changes()
    };
    writer.commit_changes(changes).unwrap();
}

/// All rows of all columns as queries see them, by segment.
fn read(snapshot: &Snapshot) -> stylobate::Result<Vec<ArrayRef>> {
    let mut arrays = Vec::new();
    for entry in snapshot.segments()?.iter() {
        let segment = snapshot.open_segment(entry)?;
        for column in snapshot.schema().columns() {
            arrays.push(match segment.column(column.id)? {
                Some(read) => {
                    read.block(0)?.decode_as(0..segment.rows() as usize, &column.data_type)?
                }
                None => new_null_array(&column.data_type.to_arrow(), segment.rows() as usize),
            });
        }
    }
    Ok(arrays)
}

/// Compares the values of all columns, segment after segment, with `store-<table>.json`.
fn check_values(table: &str, snapshot: &Snapshot) {
    let (schema, arrays) = (snapshot.schema().columns(), read(snapshot).unwrap());
    let columns = schema.iter().enumerate().map(|(at, column)| NamedColumn {
        name: column.name.to_string(),
        data_type: column.data_type.to_string(),
        arrays: arrays.iter().skip(at).step_by(schema.len()).cloned().collect(),
    });
    let path = golden().with_file_name(format!("store-{table}.json"));
    values::check(&path, &columns.collect::<Vec<_>>());
}

fn expected(table: &str) -> Vec<ArrayRef> {
    if table == "nights" {
        return (0..2)
            .flat_map(|i| nights(i).columns)
            .map(|column| column.arrays[0].clone())
            .collect();
    }
    let int64 = DataType::Int64.to_arrow();
    let segment = |i: usize| {
        let columns = rows(i).columns;
        let extra = columns.get(2).map(|column| column.arrays[0].clone());
        [
            arrow_cast::cast(&columns[0].arrays[0], &int64).unwrap(),
            columns[1].arrays[0].clone(),
            extra.unwrap_or_else(|| new_null_array(&DataType::Float64.to_arrow(), ROWS)),
        ]
    };
    (0..3).flat_map(segment).collect()
}

#[test]
fn a_golden_table_keeps_its_arrangement_and_ledger() {
    let snapshot = Store::open(golden()).table("nights").unwrap().snapshot().unwrap();
    let root = snapshot.root();
    assert_eq!((&root.arrangement, root.history.keep), (&arrangement(), 3_600_000));
    // The file was written in 2026 or later.
    assert!(root.history.committed > 1_767_000_000_000);
    let sources: Vec<LoadedSource> =
        sources().into_iter().map(|source| LoadedSource { generation: 1, ..source }).collect();
    let mut found = snapshot.sources().unwrap();
    found.sort_by_key(|source| source.size);
    assert_eq!(found, sources);
    let stored: u64 = snapshot.segments().unwrap().iter().map(|segment| segment.length).sum();
    assert_eq!(root.write_volume.loaded, stored);
    let manifest = std::fs::read_dir(golden().join("nights/manifest")).unwrap();
    let manifest: u64 = manifest.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    let current = std::fs::metadata(golden().join("nights/CURRENT")).unwrap().len();
    assert_eq!(root.write_volume.written, stored + manifest + current);
    assert_same(&read(&snapshot).unwrap(), &expected("nights"), "golden table");
    check_values("nights", &snapshot);
    assert!(verify(&snapshot).problems.is_empty());
}

#[test]
fn the_golden_table_reads_as_it_was_written() {
    let store = Store::open(golden());
    let snapshot = store.table("trees").unwrap().snapshot().unwrap();
    assert_eq!((snapshot.generation(), snapshot.rows()), (2, 3 * ROWS as u64));
    let names: Vec<&str> = snapshot.schema().columns().iter().map(|c| &*c.name).collect();
    assert_eq!(names, ["number", "name", "extra"]);
    assert_same(&read(&snapshot).unwrap(), &expected("trees"), "golden table");
    check_values("trees", &snapshot);
    let report = verify(&snapshot);
    assert_eq!(
        (report.segments, report.rows, report.problems.len()),
        (3, 120, 0),
        "{:?}",
        report.problems
    );
    let stats = snapshot.column_stats(NAME).unwrap();
    let least = stats[1].as_ref().and_then(|known| known.stats.min.as_ref());
    assert!(least.is_some_and(|min| min.value == Scalar::Bytes((*b"alder").into()) && min.exact));
    assert!(snapshot.column_stats(EXTRA).unwrap()[..2].iter().all(Option::is_none));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Damage to the manifest gives an error or the right rows; `verify` finds all of it except in
/// bytes without a meaning.
#[test]
fn damaged_manifests_are_refused() {
    ["trees", "nights"].into_iter().for_each(damaged_manifest_is_refused);
}

#[expect(clippy::disallowed_methods, reason = "damages a copy, and need not be durable")]
fn damaged_manifest_is_refused(table: &str) {
    let dir = tempfile::tempdir().unwrap();
    copy(&golden(), dir.path());
    let right = expected(table);
    let manifest = std::fs::read_dir(dir.path().join(table).join("manifest")).unwrap();
    let files =
        manifest.map(|entry| entry.unwrap().path()).chain([dir.path().join(table).join("CURRENT")]);
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        let check = |damaged: &[u8], what: &str| {
            std::fs::write(&path, damaged).unwrap();
            // Each damaged copy gets a store of its own, since mappings are cached.
            let Ok(snapshot) = Store::open(dir.path()).table(table).unwrap().snapshot() else {
                return;
            };
            if let Ok(read) = read(&snapshot) {
                assert_same(&read, &right, what);
            }
            assert!(
                !verify(&snapshot).problems.is_empty(),
                "{what} is not found in {}",
                path.display()
            );
        };
        let bits = bytes.len() * 8;
        for bit in (0..bits).step_by(1 + bits / 150) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            check(&damaged, &format!("bit {bit}"));
        }
        for cut in (0..bytes.len()).step_by(1 + bytes.len() / 20) {
            check(&bytes[..cut], &format!("cut at {cut}"));
        }
        std::fs::write(&path, &bytes).unwrap();
    }
}
