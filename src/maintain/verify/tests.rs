//! A writer that lies: segments and manifests with right checksums that say what is not so. Each
//! lie is found and named.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};

use super::*;
use crate::block::{Bound, Order, Stats, placed_crc};
use crate::disk::{Disk, RealDisk};
use crate::encoding::{Options, Profile};
use crate::model::{Arrangement, ColumnId, DataType, PartitionKey, Scalar, Schema, SortKey};
use crate::segment::reader::RECORD;
use crate::segment::writer::{InputColumn, SegmentInput, encode};
use crate::segment::{ColumnRecord, Footer};
use crate::store::{Changes, Edit, NewSegment, Store, TableOptions};

pub(in crate::maintain) const ROWS: usize = 3000;
pub(in crate::maintain) const ID: ColumnId = ColumnId(0);
pub(in crate::maintain) const NAME: ColumnId = ColumnId(1);
pub(in crate::maintain) const V: ColumnId = ColumnId(2);
const FLAG: ColumnId = ColumnId(3);

pub(in crate::maintain) fn schema() -> Schema {
    Schema::from_names([
        ("id", DataType::Int64),
        ("name", DataType::Utf8),
        ("v", DataType::Float64),
        ("flag", DataType::Bool),
    ])
    .unwrap()
}

/// Rising numbers, few names, doubles with nulls and a NaN, and truth values.
pub(in crate::maintain) fn rows() -> SegmentInput {
    let rows = 0..ROWS as i64;
    let names = ["alder", "birch", "cedar"];
    let v = rows.clone().map(|i| match i % 10 {
        3 => None,
        _ if i == 77 => Some(f64::NAN),
        _ => Some(i as f64 / 4.0),
    });
    let arrays: [ArrayRef; 4] = [
        Arc::new(Int64Array::from_iter_values(rows.clone())),
        Arc::new(StringArray::from_iter_values(rows.clone().map(|i| names[i as usize % 3]))),
        Arc::new(v.collect::<Float64Array>()),
        Arc::new(rows.map(|i| Some(i % 2 == 0)).collect::<BooleanArray>()),
    ];
    let schema = schema();
    let columns = schema.columns().iter().zip(arrays).map(|(column, array)| InputColumn {
        id: column.id,
        data_type: column.data_type.clone(),
        arrays: vec![array],
    });
    SegmentInput { rows: ROWS, block_rows: 1024, columns: columns.collect() }
}

/// A segment whose record of a column is changed, with the checksums that it then has.
pub(in crate::maintain) fn forged(
    bytes: &[u8],
    id: ColumnId,
    lie: impl FnOnce(&mut ColumnRecord),
) -> Vec<u8> {
    let mut footer = Footer::parse(bytes).unwrap();
    let (rows, block_rows, uuid) = (footer.rows, footer.block_rows, footer.uuid);
    let entry = footer.columns.iter_mut().find(|entry| entry.column == id).unwrap();
    let stored = &bytes[entry.offset as usize..][..entry.len as usize];
    let mut record = ColumnRecord::decode(stored, bytes.len() as u64, rows, block_rows).unwrap();
    lie(&mut record);
    let record = record.encode();
    let mut out = bytes.to_vec();
    entry.offset = out.len() as u64;
    entry.len = record.len() as u32;
    entry.crc = placed_crc(crc32fast::hash(&record), &uuid, id.0, RECORD);
    out.extend(record);
    let footer = footer.encode();
    out.extend(&footer);
    out.extend(Footer::tail(&footer));
    out
}

pub(in crate::maintain) type Change<'a> = &'a dyn Fn(&mut Changes);

/// A table of one segment with these bytes, of which the manifest says `stats`.
pub(in crate::maintain) struct Written {
    _dir: tempfile::TempDir,
    pub(in crate::maintain) store: PathBuf,
    file: PathBuf,
}

pub(in crate::maintain) fn write(
    bytes: &[u8],
    stats: Vec<(ColumnId, DataType, Stats)>,
    change: Change<'_>,
) -> Written {
    let dir = tempfile::tempdir().unwrap();
    let table = Store::open(dir.path()).table("t").unwrap();
    let mut writer = table.writer(Some((schema(), TableOptions::default()))).unwrap();
    let mut file = writer.data_files().create_in("").unwrap();
    file.write_all(bytes).unwrap();
    let footer = Footer::parse(bytes).unwrap();
    let new = NewSegment {
        file: file.uuid(),
        offset: 0,
        length: bytes.len() as u64,
        uuid: footer.uuid,
        footer_crc: Footer::stored_crc(bytes).unwrap(),
        rows: footer.rows,
        stats,
    };
    let mut changes = writer.changes();
    changes.edits.push(Edit { at: 0, remove: 0, insert: vec![new] });
    change(&mut changes);
    writer.commit_changes(changes).unwrap();
    let path = file.path().to_path_buf();
    Written { store: dir.path().to_path_buf(), _dir: dir, file: path }
}

pub(in crate::maintain) fn problems(store: &Path) -> Vec<Damage> {
    // A new store, because a cache would still have the old mapping.
    verify(&Store::open(store).table("t").unwrap().snapshot().unwrap()).problems
}

pub(in crate::maintain) fn sound() -> (Vec<u8>, Vec<(ColumnId, DataType, Stats)>) {
    let encoded = encode(&rows(), &Options::new(Profile::Balanced)).unwrap();
    (encoded.parts.concat(), encoded.stats)
}

fn exact(value: Scalar) -> Option<Bound> {
    Some(Bound { value, exact: true })
}

#[test]
fn what_is_true_is_sound() {
    let (bytes, stats) = sound();
    assert!(problems(&write(&bytes, stats.clone(), &|_| ()).store).is_empty());
    // Less may be said than is known.
    let vague = forged(&bytes, ID, |record| {
        record.stats = Stats { rows: ROWS as u64, ..Stats::default() };
        record.block_stats[1].min = Some(Bound { value: Scalar::Int(-5), exact: false });
    });
    assert!(problems(&write(&vague, stats, &|_| ()).store).is_empty());
}

pub(in crate::maintain) type Lie = fn(&mut Stats);

/// Lies about a column's statistics, and what is said of them.
pub(in crate::maintain) fn lies() -> Vec<(ColumnId, Lie, &'static str)> {
    vec![
        (ID, |stats| stats.min = exact(Scalar::Int(5000)), "the exact minimum is said to be 5000"),
        (ID, |stats| stats.max = exact(Scalar::Int(7)), "the exact maximum is said to be 7"),
        (
            ID,
            |stats| stats.max = Some(Bound { value: Scalar::Int(7), exact: false }),
            "the inexact maximum is said to be 7",
        ),
        (ID, |stats| stats.nulls = 3, "nulls are said to be 3, but are 0"),
        (ID, |stats| stats.sum = Some(-1), "the sum is said to be -1"),
        (ID, |stats| stats.distinct = Some(9), "at most 9 distinct values"),
        (ID, |stats| stats.order.descending = true, "said to be descending, and are not"),
        (V, |stats| stats.nans = 0, "NaN are said to be 0, but are 1"),
        (V, |stats| stats.sum = Some(0), "float64 has a sum"),
        (V, |stats| stats.max = exact(Scalar::Float(1.0)), "the exact maximum is said to be 1,"),
        (V, |stats| stats.nulls = 0, "nulls are said to be 0"),
        (
            NAME,
            |stats| stats.max = exact(Scalar::Bytes((*b"birch").into())),
            "the exact maximum is said to be birch, but is cedar",
        ),
        (
            NAME,
            |stats| stats.min = exact(Scalar::Bytes((*b"aaa").into())),
            "the exact minimum is said to be aaa, but is alder",
        ),
        (
            NAME,
            |stats| {
                stats.order = Order { ascending: true, descending: false, strict: false };
            },
            "said to be ascending, and are not",
        ),
        (FLAG, |stats| stats.min = exact(Scalar::Int(1)), "the exact minimum is said to be true"),
        (FLAG, |stats| stats.distinct = Some(1), "at most 1 distinct values"),
    ]
}

#[test]
fn statistics_that_lie_are_named() {
    let (bytes, stats) = sound();
    for (id, lie, what) in lies() {
        let name = schema().columns()[id.0 as usize].name.clone();
        let check = |written: &Written, file: &Path, rows: Range<u64>, part: &str| {
            let found = problems(&written.store);
            let Error::Corrupt { file: named, what: said, offset } = &found[0].error else {
                panic!("{found:?}");
            };
            assert!(said.contains(what) && said.contains(part), "{what}: {found:?}");
            assert_eq!((&**named, found[0].rows.clone()), (file, Some(rows)), "{what}");
            assert!(*offset > 0 && !found[0].is_unreadable(), "{found:?}");
            assert_eq!((found[0].segment, &found[0].column), (Some(0), &Some(name.clone())));
        };
        // In a block, in the segment, in the manifest.
        if what != "NaN are said to be 0, but are 1" {
            let block = forged(&bytes, id, |record| lie(&mut record.block_stats[1]));
            let written = write(&block, stats.clone(), &|_| ());
            check(&written, &written.file, 1024..2048, "statistics of block 1");
        }
        let segment = forged(&bytes, id, |record| lie(&mut record.stats));
        let written = write(&segment, stats.clone(), &|_| ());
        check(&written, &written.file, 0..3000, if id == NAME { "" } else { "of the segment" });
        let mut lying = stats.clone();
        lying.iter_mut().filter(|known| known.0 == id).for_each(|known| lie(&mut known.2));
        let written = write(&bytes, lying, &|_| ());
        let snapshot = Store::open(&written.store).table("t").unwrap().snapshot().unwrap();
        let chunk = snapshot.dir().chunk(&snapshot.chunks()[0].id);
        check(&written, &chunk, 0..3000, "what the manifest says");
    }
}

#[test]
fn a_manifest_that_lies_about_columns_is_found() {
    let (bytes, stats) = sound();
    let found = |stats: Vec<_>, change: Change<'_>| {
        let found = problems(&write(&bytes, stats, change).store);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let without = stats.iter().filter(|known| known.0 != V).cloned().collect();
    assert!(found(without, &|_| ()).contains("there is no such column, but the segment has it"));
    let mut narrow = stats.clone();
    narrow[0].1 = DataType::Int32;
    assert!(found(narrow, &|_| ()).contains("its type is int32, but is int64"));
    let mut required = stats.clone();
    required[2].2.nulls = 0;
    let require: Change<'_> = &|changes| changes.schema.require(2);
    let said = found(required, require);
    assert!(said.contains("NOT NULL, but 300 rows have no value"), "{said}");
    let text = found(stats, &|changes| changes.schema.set_type(0, DataType::Utf8));
    assert!(text.contains("int64 is stored, which is not a type within utf8"), "{text}");
}

/// Partitions by an expression of the names.
pub(in crate::maintain) fn by_name(expression: &str) -> Arrangement {
    Arrangement {
        partition_by: vec![PartitionKey {
            name: "name".into(),
            expression: expression.into(),
            columns: vec![("name".into(), NAME)],
            data_type: DataType::Utf8,
        }],
        ..Arrangement::default()
    }
}

#[test]
fn rows_out_of_order_or_in_a_wrong_partition_are_found() {
    let (bytes, stats) = sound();
    let found = |arrangement: Arrangement| {
        let change = |changes: &mut Changes| changes.arrangement = arrangement.clone();
        problems(&write(&bytes, stats.clone(), &change).store)
    };
    let key = |column, descending| SortKey { column, descending, nulls_first: descending };
    let sorted = |keys: Vec<SortKey>| Arrangement { sort_by: keys, ..Arrangement::default() };
    assert!(found(sorted(vec![key(ID, false), key(V, false)])).is_empty());
    let wrong = found(sorted(vec![key(NAME, false), key(ID, false)]));
    assert_eq!((wrong[0].rows.clone(), wrong.len()), (Some(3..4), 1), "{wrong:?}");
    assert!(
        wrong[0].to_string().contains("not in the table's sort order (segment 0, column 'name'")
    );
    assert_eq!(found(sorted(vec![key(ID, true)]))[0].rows, Some(1..2));
    let wrong = found(by_name("name"));
    assert!(wrong[0].to_string().contains("does not belong to partition ''"), "{wrong:?}");
    // What cannot be compiled is not checked, which is said.
    let change = |changes: &mut Changes| changes.arrangement = by_name("upper(name)");
    let written = write(&bytes, stats.clone(), &change);
    let report = verify(&Store::open(&written.store).table("t").unwrap().snapshot().unwrap());
    assert!(report.problems.is_empty() && report.unchecked[0].contains("upper(name)"));
}

#[test]
fn a_ledger_that_lies_is_found() {
    let (bytes, stats) = sound();
    let source = |rows, rejected| LoadedSource {
        path: "/a.csv".into(),
        rows,
        rejected,
        done: true,
        ..LoadedSource::default()
    };
    let change = |changes: &mut Changes| changes.sources = vec![source(5, 5), source(5, 6)];
    let found = problems(&write(&bytes, stats, &change).store);
    assert_eq!(found.len(), 1);
    assert!(found[0].to_string().contains("has more rows rejected than read"), "{found:?}");
}

#[expect(clippy::disallowed_methods, reason = "damages a file, and need not be durable")]
fn overwrite(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_chunk_that_is_listed_twice_is_refused() {
    let (bytes, stats) = sound();
    let written = write(&bytes, stats, &|_| ());
    let snapshot = Store::open(&written.store).table("t").unwrap().snapshot().unwrap();
    let mut root = snapshot.root().clone();
    root.chunks.push(root.chunks[0].clone());
    root.rows *= 2;
    overwrite(&snapshot.dir().root(1), &root.encode());
    let error = Store::open(&written.store).table("t").unwrap().snapshot().unwrap_err();
    assert!(error.to_string().contains("is listed twice"), "{error}");
}

#[test]
fn all_damage_is_found_not_only_the_first() {
    let (bytes, stats) = sound();
    let written = write(&bytes, stats, &|_| ());
    let segment = crate::segment::Segment::open(
        Arc::new(crate::disk::Mapped::from_bytes(&bytes)),
        "x",
        0,
        bytes.len() as u64,
    )
    .unwrap();
    let place = |id, b: usize| segment.column(id).unwrap().unwrap().record().blocks[b].offset;
    let (first, second) = (place(ID, 0), place(V, 2));
    let mut damaged = bytes.clone();
    damaged[first as usize] ^= 1;
    damaged[second as usize + 1] ^= 4;
    overwrite(&written.file, &damaged);
    let found = problems(&written.store);
    let places = found.iter().map(|damage| match &damage.error {
        Error::Corrupt { offset, file, .. } if *file == written.file && damage.is_unreadable() => {
            (*offset, damage.column.as_deref().unwrap_or(""), damage.rows.clone().unwrap())
        }
        other => panic!("{other}"),
    });
    let expected = [(first, "id", 0..1024), (second, "v", 2048..3000)];
    assert_eq!(places.collect::<Vec<_>>(), expected);
    assert!(found[1].to_string().ends_with("(segment 0, column 'v', rows 2048 to 2999)"));
    RealDisk.remove(&written.file).unwrap();
    let found = problems(&written.store);
    assert_eq!((found.len(), found[0].rows.clone()), (1, Some(0..3000)), "{found:?}");
}
