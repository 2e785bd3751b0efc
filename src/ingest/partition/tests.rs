use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Date32Array, Int32Array, RecordBatch, StringArray};

use super::keys::{plain_name, split_alias};
use super::path::NULL_PARTITION;
use super::*;
use crate::model::{ColumnId, DataType, Schema};

fn partitions(columns: Vec<(&str, ArrayRef)>, requests: &[&str]) -> (Vec<u32>, Vec<String>) {
    let names = columns
        .iter()
        .map(|(name, array)| (*name, DataType::from_arrow(array.data_type()).unwrap()));
    let schema = Schema::from_names(names).unwrap();
    let ids: Vec<ColumnId> = schema.columns().iter().map(|column| column.id).collect();
    let requests: Vec<String> = requests.iter().map(ToString::to_string).collect();
    let keys = partition_keys(&requests, &schema, &ColumnsOnly).unwrap();
    let mut partitions = Partitions::new(keys, Arc::new(ColumnsOnly));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let numbers = partitions.number_rows(&batch, &ids, &schema).unwrap();
    (numbers, partitions.names.iter().map(ToString::to_string).collect())
}

#[test]
fn paths_say_the_values_and_give_them_back() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![
        Some("a/b"),
        Some(".."),
        Some(""),
        None,
        Some(NULL_PARTITION),
        Some("a/b"),
        Some("ü %"),
    ]));
    let bytes: ArrayRef =
        Arc::new(BinaryArray::from(vec![Some(&b"\xff/"[..]), None, Some(b"a"), Some(b"\xfe")]));
    let (numbers, paths) = partitions(vec![("b", bytes)], &["b"]);
    assert_eq!(numbers, [0, 1, 2, 3]);
    assert_eq!(paths, ["b=%FF%2F", &format!("b={NULL_PARTITION}"), "b=a", "b=%FE"]);
    assert_eq!(parse_path(&paths[0]), [(b"b".to_vec(), Some(b"\xff/".to_vec()))]);
    let days: ArrayRef = Arc::new(Date32Array::from(vec![
        Some(0),
        Some(0),
        Some(1),
        Some(1),
        None,
        Some(0),
        Some(0),
    ]));
    let (numbers, paths) =
        partitions(vec![("t", texts), ("day of trip", days)], &["t AS x", "day of trip"]);
    assert_eq!(numbers, [0, 1, 2, 3, 4, 0, 5]);
    assert_eq!(paths[0], "x=a%2Fb/day_of_trip=1970-01-01");
    assert_eq!(paths[3], format!("x={NULL_PARTITION}/day_of_trip=1970-01-02"));
    let back: Vec<_> = paths.iter().map(|path| parse_path(path)[0].1.clone()).collect();
    let values = [Some("a/b"), Some(".."), Some(""), None, Some(NULL_PARTITION), Some("ü %")];
    assert_eq!(back, values.map(|value| value.map(|text| text.as_bytes().to_vec())));
    assert_eq!(parse_path(&paths[4])[1], (b"day_of_trip".to_vec(), None));
    paths.iter().for_each(|path| crate::manifest::layout::check_partition(path).unwrap());
}

#[test]
fn a_type_that_widens_keeps_the_partitions() {
    let schema = |data_type| Schema::from_names([("k", data_type)]).unwrap();
    let keys = partition_keys(&["k".to_owned()], &schema(DataType::Int32), &ColumnsOnly).unwrap();
    let mut partitions = Partitions::new(keys, Arc::new(ColumnsOnly));
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![7, 8, 7]));
    let batch = RecordBatch::try_from_iter([("k", narrow)]).unwrap();
    assert_eq!(
        partitions.number_rows(&batch, &[ColumnId(0)], &schema(DataType::Int32)).unwrap(),
        [0, 1, 0]
    );
    assert_eq!(
        partitions.number_rows(&batch, &[ColumnId(0)], &schema(DataType::Int64)).unwrap(),
        [0, 1, 0]
    );
    assert_eq!(&*partitions.path(1), "k=8");
}

#[test]
fn names_of_keys() {
    assert_eq!(split_alias("year(a) AS y"), ("year(a)", Some("y")));
    assert_eq!(split_alias("cast(a as int)"), ("cast(a as int)", None));
    assert_eq!(plain_name("date_trunc('month', t)"), "date_trunc_month_t");
}
