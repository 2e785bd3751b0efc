//! Segments and manifests with right checksums that say what is not so: they are written anew, and
//! no row is lost.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{RecordBatch, StringArray};

use super::*;
use crate::block::{self, Piece, placed_crc};
use crate::encoding::{Options, Profile};
use crate::maintain::verify::tests::*;
use crate::maintain::{blocks, read_block};
use crate::model::{Arrangement, DataType, SortKey};
use crate::segment::{BlockPlace, Footer};
use crate::store::{Changes, Store};

/// All rows, in their order.
fn read(store: &Path) -> RecordBatch {
    let snapshot = Store::open(store).table("t").unwrap().snapshot().unwrap();
    let places = blocks(&snapshot).unwrap();
    let all: Vec<_> = places.iter().map(|place| read_block(&snapshot, place).unwrap()).collect();
    arrow_select::concat::concat_batches(&all[0].schema(), &all).unwrap()
}

fn fix(store: &Path, dry_run: bool) -> RepairReport {
    let options = RepairOptions { dry_run, ..RepairOptions::default() };
    repair(&Store::open(store).table("t").unwrap(), &options).unwrap()
}

/// Repairs a table whose only segment has false statistics, and returns the report.
fn repaired(written: &Written, what: &str) -> RepairReport {
    assert!(!problems(&written.store).is_empty(), "{what}");
    let plan = fix(&written.store, true);
    assert!(plan.needed && plan.generation.is_none(), "{what}: {plan:?}");
    assert!(!problems(&written.store).is_empty(), "{what}: a dry run changed something");
    let report = fix(&written.store, false);
    assert_eq!(report.rewritten, plan.rewritten, "{what}");
    assert!(report.lost.is_empty() && report.moved.is_empty(), "{what}: {report:?}");
    assert_eq!((report.generation, report.rows), (Some(2), ROWS as u64), "{what}");
    let left = problems(&written.store);
    assert!(left.is_empty(), "{what}: {left:?}");
    assert!(fix(&written.store, false).is_sound(), "{what}");
    report
}

#[test]
fn false_statistics_are_put_right_and_no_row_is_lost() {
    let (bytes, stats) = sound();
    let expected = read(&write(&bytes, stats.clone(), &|_| ()).store);
    for (id, lie, what) in lies() {
        let mut lying = stats.clone();
        lying.iter_mut().filter(|known| known.0 == id).for_each(|known| lie(&mut known.2));
        let mut tables = vec![
            write(&forged(&bytes, id, |record| lie(&mut record.stats)), stats.clone(), &|_| ()),
            write(&bytes, lying, &|_| ()),
        ];
        if what != "NaN are said to be 0, but are 1" {
            let block = forged(&bytes, id, |record| lie(&mut record.block_stats[1]));
            tables.push(write(&block, stats.clone(), &|_| ()));
        }
        for written in tables {
            let report = repaired(&written, what);
            let [rewritten] = &report.rewritten[..] else { panic!("{what}: {report:?}") };
            assert_eq!((rewritten.segment, rewritten.rows), (0, ROWS as u64));
            let name = schema().columns()[id.0 as usize].name.clone();
            assert!(rewritten.why[0].contains(&format!("column '{name}'")), "{rewritten:?}");
            assert!(report.notes.is_empty(), "{report:?}");
            assert_eq!(read(&written.store), expected, "{what}");
        }
    }
}

#[test]
fn columns_that_a_manifest_denies_or_calls_otherwise_are_put_right() {
    let (bytes, stats) = sound();
    let expected = read(&write(&bytes, stats.clone(), &|_| ()).store);
    let without = stats.iter().filter(|known| known.0 != V).cloned().collect();
    let mut narrow = stats;
    narrow[0].1 = DataType::Int32;
    for stats in [without, narrow] {
        let written = write(&bytes, stats, &|_| ());
        repaired(&written, "the manifest");
        assert_eq!(read(&written.store), expected);
    }
}

/// The segment with other values in its dictionary of names, in this order.
fn with_names(bytes: &[u8], names: [&str; 3]) -> Vec<u8> {
    let array: arrow_array::ArrayRef = Arc::new(StringArray::from_iter_values(names));
    let values = block::gather(&DataType::Utf8, &[Piece { array: &array, start: 0, len: 3 }]);
    let options = Options::new(Profile::Balanced);
    let block =
        block::encode(&values.unwrap(), DataType::Utf8.physical(), &options.child()).unwrap();
    let mut out = bytes.to_vec();
    out.resize(out.len().next_multiple_of(64), 0);
    let (offset, len) = (out.len() as u64, block.len() as u64);
    out.extend(block.bytes());
    let footer = Footer::parse(bytes).unwrap();
    let number = u32::MAX - 1;
    let head_crc = placed_crc(block.head_crc, &footer.uuid, NAME.0, number);
    let footer = footer.encode();
    out.extend(&footer);
    out.extend(Footer::tail(&footer));
    forged(&out, NAME, |record| {
        let place = BlockPlace { offset, len, head_len: block.head_len, head_crc };
        record.dictionary.as_mut().unwrap().place = place;
    })
}

#[test]
fn dictionaries_are_put_in_order_again() {
    let (bytes, stats) = sound();
    let hash = forged(&bytes, NAME, |record| record.dictionary.as_mut().unwrap().hash ^= 1);
    let written = write(&hash, stats.clone(), &|_| ());
    let expected = read(&written.store);
    let report = repaired(&written, "hash");
    assert!(report.rewritten[0].why[0].contains("the hash of a dictionary"), "{report:?}");
    assert_eq!(read(&written.store), expected);
    let unsorted = with_names(&bytes, ["cedar", "alder", "birch"]);
    let written = write(&unsorted, stats, &|_| ());
    let expected = read(&written.store);
    let report = repaired(&written, "order");
    assert!(report.rewritten[0].why[0].contains("are not ascending"), "{report:?}");
    let found = read(&written.store);
    assert_eq!(found, expected);
    let names = arrow_cast::cast(found.column(1), &arrow_schema::DataType::Utf8).unwrap();
    assert_eq!(names.as_string::<i32>().value(0), "cedar");
}

#[test]
fn rows_are_put_in_order_and_into_their_partitions() {
    let (bytes, stats) = sound();
    let key = |column, descending| SortKey { column, descending, nulls_first: descending };
    let by_id = |found: &RecordBatch| {
        let mut ids = found.column(0).as_primitive::<Int64Type>().values().to_vec();
        ids.sort_unstable();
        ids == (0..ROWS as i64).collect::<Vec<_>>()
    };
    let order = Arrangement { sort_by: vec![key(ID, true)], ..Arrangement::default() };
    let change = |changes: &mut Changes| changes.arrangement = order.clone();
    let written = write(&bytes, stats.clone(), &change);
    repaired(&written, "order");
    let found = read(&written.store);
    assert!(by_id(&found));
    assert_eq!(found.column(0).as_primitive::<Int64Type>().value(0), ROWS as i64 - 1);
    let change = |changes: &mut Changes| changes.arrangement = by_name("name");
    let written = write(&bytes, stats, &change);
    repaired(&written, "partitions");
    let snapshot = Store::open(&written.store).table("t").unwrap().snapshot().unwrap();
    let segments = snapshot.segments().unwrap();
    let paths: Vec<&str> = segments.iter().map(|segment| &*segment.partition).collect();
    assert_eq!(paths, ["name=alder", "name=birch", "name=cedar"]);
    assert!(by_id(&read(&written.store)));
}

#[test]
fn a_column_with_nulls_is_no_longer_not_null() {
    let (bytes, stats) = sound();
    let mut lying = stats.clone();
    lying[2].2.nulls = 0;
    let written = write(&bytes, lying, &|changes| changes.schema.require(2));
    let expected = read(&write(&bytes, stats, &|_| ()).store);
    let report = repaired(&written, "NOT NULL");
    assert!(report.notes[0].contains("column 'v' is no longer NOT NULL"), "{report:?}");
    assert_eq!(read(&written.store), expected);
}

#[test]
fn what_does_not_follow_from_values_is_left() {
    let (bytes, stats) = sound();
    let written = write(&bytes, stats, &|changes| changes.schema.set_type(0, DataType::Utf8));
    let report = fix(&written.store, false);
    assert!(!report.needed && report.rewritten.is_empty() && !report.is_sound(), "{report:?}");
    assert!(report.notes[0].contains("1 false statements"), "{report:?}");
}
