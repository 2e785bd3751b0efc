use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StringViewArray, UInt32Array,
};
use arrow_buffer::Buffer;
use arrow_cast::display::array_value_to_string;

use super::*;
use crate::model::{DataType, Schema};

const LIMITS: SegmentLimits = SegmentLimits { rows: 1000, bytes: 1 << 20, block_rows: 1024 };

fn push(builder: &mut SegmentBuilder, schema: &mut Schema, columns: Vec<(&str, ArrayRef)>) -> bool {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let ids = match_columns(schema, &batch).unwrap();
    builder.push(&batch, &ids).unwrap().is_break()
}

#[test]
fn a_column_that_comes_and_goes_keeps_its_rows() {
    let (mut builder, mut schema) = (SegmentBuilder::new(LIMITS), Schema::default());
    let narrow = |v: i32| -> ArrayRef { Arc::new(Int32Array::from(vec![v])) };
    let wide = |v: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![v])) };
    let text = |v: &str| -> ArrayRef { Arc::new(StringArray::from(vec![v])) };
    push(&mut builder, &mut schema, vec![("a", narrow(1)), ("b", narrow(1))]);
    push(&mut builder, &mut schema, vec![("a", narrow(2))]);
    push(&mut builder, &mut schema, vec![("b", wide(3)), ("c", text("x")), ("a", narrow(3))]);
    push(&mut builder, &mut schema, vec![("a", narrow(4))]);
    let input = builder.finish().unwrap();
    let shown = |at: usize| -> Vec<String> {
        let rows = input.columns[at].arrays.iter().flat_map(|a| (0..a.len()).map(move |i| (a, i)));
        rows.map(|(a, i)| array_value_to_string(a, i).unwrap()).collect()
    };
    assert_eq!([shown(0), shown(1)], [["1", "2", "3", "4"], ["1", "", "3", ""]]);
    assert_eq!(shown(2), ["", "", "x", ""]);
    let types: Vec<DataType> = input.columns.iter().map(|c| c.data_type.clone()).collect();
    assert_eq!(types, [DataType::Int32, DataType::Int64, DataType::Utf8]);
}

#[test]
fn an_input_that_shares_no_column_is_refused() {
    let one: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let batch = |names: &[&str]| {
        RecordBatch::try_from_iter(names.iter().map(|name| (name, one.clone()))).unwrap()
    };
    let mut schema = Schema::default();
    match_columns(&mut schema, &batch(&["id", "fare"])).unwrap();
    match_columns(&mut schema, &batch(&["tip", "id"])).unwrap();
    let before = schema.clone();
    let error =
        match_columns(&mut schema, &batch(&["column0", "column1"])).unwrap_err().to_string();
    for part in ["(column0, column1)", "(id, fare, tip)", "--names", "--no-header"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(schema, before);
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let one: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let field = |array: &ArrayRef| arrow_schema::Field::new("a", array.data_type().clone(), true);
    let fields = arrow_schema::Schema::new(vec![field(&one), field(&one)]);
    let batch = RecordBatch::try_new(Arc::new(fields), vec![one.clone(), one]).unwrap();
    assert!(match_columns(&mut Schema::default(), &batch).is_err());
}

#[test]
fn nans_are_canonical() {
    let nans: ArrayRef =
        Arc::new(arrow_array::Float64Array::from(vec![Some(-f64::NAN), None, Some(1.5)]));
    let narrow: ArrayRef =
        Arc::new(arrow_array::Float32Array::from(vec![Some(-f32::NAN), Some(-0.0), None]));
    let batch = to_stored_layouts(
        RecordBatch::try_from_iter([("a", nans), ("b", narrow)]).unwrap(),
        KeptCodes::OfSegments,
    )
    .unwrap();
    let bits = batch.column(0).as_primitive::<Float64Type>().values().iter().map(|v| v.to_bits());
    assert_eq!(bits.collect::<Vec<_>>(), [f64::NAN.to_bits(), 0, 1.5_f64.to_bits()]);
    assert_eq!(batch.column(0).null_count(), 1);
    let bits = batch.column(1).as_primitive::<Float32Type>().values().iter().map(|v| v.to_bits());
    assert_eq!(bits.take(2).collect::<Vec<_>>(), [f32::NAN.to_bits(), (-0.0_f32).to_bits()]);
}

#[test]
fn nulls_of_a_dictionary_are_nulls() {
    let keys = Int32Array::from(vec![Some(0), Some(1), None, Some(2)]);
    let texts = StringArray::from(vec![Some("a"), None, Some("")]);
    let bytes = BinaryArray::from_opt_vec(vec![Some(b"a"), None, Some(b"")]);
    let coded =
        |values: ArrayRef| -> ArrayRef { Arc::new(DictionaryArray::new(keys.clone(), values)) };
    let columns = [("a", coded(Arc::new(texts))), ("b", coded(Arc::new(bytes)))];
    let batch =
        to_stored_layouts(RecordBatch::try_from_iter(columns).unwrap(), KeptCodes::OfSegments)
            .unwrap();
    for column in batch.columns() {
        let nulls: Vec<bool> = (0..4).map(|row| column.is_null(row)).collect();
        assert_eq!(nulls, [false, true, true, false], "{}", column.data_type());
    }
}

#[test]
fn the_bytes_of_views_count() {
    let (mut builder, mut schema) = (SegmentBuilder::new(LIMITS), Schema::default());
    let long = "x".repeat(150 << 10);
    let batch = || -> ArrayRef { Arc::new(StringViewArray::from(vec![long.as_str()])) };
    let full: Vec<bool> =
        (0..4).map(|_| push(&mut builder, &mut schema, vec![("a", batch())])).collect();
    assert_eq!(full, [false, false, false, true]);
    assert_eq!(builder.finish().unwrap().rows, 3);
}

#[test]
fn unused_view_buffers_are_freed() {
    let texts: Vec<String> = (0..100).map(|i| format!("{i:060000}")).collect();
    let all = StringViewArray::from_iter_values(&texts);
    let size =
        |array: &StringViewArray| array.data_buffers().iter().map(Buffer::capacity).sum::<usize>();
    let few = RecordBatch::try_from_iter([("a", Arc::new(all.slice(0, 10)) as ArrayRef)]).unwrap();
    let few = to_stored_layouts(few, KeptCodes::OfSegments).unwrap();
    let few = few.column(0).as_string_view();
    assert!(size(&all) > 5_000_000 && size(few) < 1_000_000);
    assert!(few.iter().flatten().eq(&texts[..10]));
    // Values that many rows share stay shared.
    let shared =
        StringViewArray::new(vec![all.views()[7]; 200].into(), all.data_buffers().to_vec(), None);
    let batch = RecordBatch::try_from_iter([("a", Arc::new(shared) as ArrayRef)]).unwrap();
    assert_eq!(
        size(to_stored_layouts(batch, KeptCodes::OfSegments).unwrap().column(0).as_string_view()),
        size(&all)
    );
}

/// The row counts of the segments that these batches fill.
fn segment_rows(limits: SegmentLimits, batches: Vec<ArrayRef>) -> Vec<usize> {
    let (mut builder, mut schema, mut rows) =
        (SegmentBuilder::new(limits), Schema::default(), Vec::new());
    for array in batches {
        let mut rest = RecordBatch::try_from_iter([("a", array)]).unwrap();
        let ids = match_columns(&mut schema, &rest).unwrap();
        while let ControlFlow::Break(more) = builder.push(&rest, &ids).unwrap() {
            rows.push(builder.finish().unwrap().rows);
            rest = more;
        }
    }
    rows.push(builder.finish().unwrap().rows);
    rows
}

#[test]
fn a_segment_is_cut_within_a_batch_that_exceeds_the_bound() {
    let texts = |sizes: &[usize]| sizes.iter().map(|size| "x".repeat(*size)).collect::<Vec<_>>();
    let strings = |sizes: &[usize]| -> ArrayRef { Arc::new(StringArray::from(texts(sizes))) };
    let views =
        |sizes: &[usize]| -> ArrayRef { Arc::new(StringViewArray::from_iter_values(texts(sizes))) };
    let limits = SegmentLimits { bytes: 20_000, ..LIMITS };
    for make in [&strings as &dyn Fn(&[usize]) -> ArrayRef, &views] {
        assert_eq!(segment_rows(limits, vec![make(&[3000; 10])]), [3, 3, 3, 1]);
        assert_eq!(segment_rows(limits, vec![make(&[3000; 2]), make(&[3000; 8])]), [3, 3, 3, 1]);
        assert_eq!(
            segment_rows(limits, vec![make(&[9000]), make(&[20_000, 30_000]), make(&[1; 4])]),
            [1, 1, 1, 4]
        );
        assert_eq!(segment_rows(limits, vec![make(&[1; 100])]), [100]);
    }
    assert_eq!(
        segment_rows(SegmentLimits { rows: 40, ..limits }, vec![views(&[1; 100])]),
        [40, 40, 20]
    );
    // A text that is stored once and viewed many times counts as often as it is viewed.
    let shared = StringViewArray::from_iter_values(texts(&[3000]));
    let many = StringViewArray::new(
        vec![shared.views()[0]; 7].into(),
        shared.data_buffers().to_vec(),
        None,
    );
    assert_eq!(segment_rows(limits, vec![Arc::new(many)]), [3, 3, 1]);
}

#[test]
fn a_segment_ends_before_a_vector_that_is_too_large_to_decode() {
    let text = StringViewArray::from_iter_values(["x".repeat(100_000)]);
    let views = |short: usize, long: usize| -> ArrayRef {
        let views = [vec![0; short], vec![text.views()[0]; long]].concat();
        Arc::new(StringViewArray::new(views.into(), text.data_buffers().to_vec(), None))
    };
    let limits = SegmentLimits { rows: 1 << 20, bytes: usize::MAX, block_rows: 65_536 };
    let fit = VECTOR_BYTES / value_bytes(&views(0, 1));
    assert!(fit < 1024);
    assert_eq!(segment_rows(limits, vec![views(0, 1500)]), [fit, fit, 1500 - 2 * fit]);
    let one_by_one = (0..fit + 3).map(|_| views(0, 1)).collect();
    assert_eq!(segment_rows(limits, one_by_one), [fit, 3]);
    // The first vector has 24 of them, and the second as many as fit.
    assert_eq!(segment_rows(limits, vec![views(1000, 24 + fit)]), [1024 + fit]);
    assert_eq!(segment_rows(limits, vec![views(1000, 0), views(0, 30 + fit)]), [1024 + fit, 6]);
    assert_eq!(segment_rows(limits, vec![views(5000, 0); 3]), [15_000]);
    // A row that is larger by itself has a segment of its own.
    let huge: ArrayRef =
        Arc::new(StringViewArray::from_iter_values(["x".repeat(VECTOR_BYTES / 2 + 100_000)]));
    assert_eq!(segment_rows(limits, vec![huge.clone(), views(0, 1), huge]), [1, 1, 1]);
}

#[test]
fn codes_of_inputs_stay_where_their_values_are_few() {
    let coded = |keys: Vec<Option<u32>>, values: ArrayRef| -> ArrayRef {
        Arc::new(DictionaryArray::new(UInt32Array::from(keys), values))
    };
    let keys: Vec<Option<u32>> = (0..1000).map(|i| (i % 3 > 0).then_some(i % 3)).collect();
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x", "y", "long text of a few bytes"]));
    let with_null: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("z")]));
    let wide: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100_000); 3]));
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5, -f64::NAN, 1.0]));
    let batch = RecordBatch::try_from_iter([
        ("texts", coded(keys.clone(), Arc::clone(&texts))),
        ("with_null", coded(keys.clone(), with_null)),
        ("floats", coded(keys.clone(), floats)),
    ])
    .unwrap();
    let kept = |batch: &RecordBatch, codes| -> Vec<bool> {
        let laid = to_stored_layouts(batch.clone(), codes).unwrap();
        laid.columns().iter().map(|column| crate::block::coded(column).is_some()).collect()
    };
    assert_eq!(kept(&batch, KeptCodes::OfInputs), [true, false, false]);
    assert_eq!(kept(&batch, KeptCodes::OfSegments), [true; 3]);
    assert_eq!(kept(&batch, KeptCodes::None), [false; 3]);
    // Three rows would hold values of 300 kB that they do not have.
    let few = RecordBatch::try_from_iter([("w", coded(vec![None, None, None], wide))]).unwrap();
    assert_eq!(kept(&few, KeptCodes::OfInputs), [false]);
    // They count as much as the texts that they are.
    let plain = arrow_cast::cast(batch.column(0), &texts.data_type().clone()).unwrap();
    let views = arrow_cast::cast(&plain, &arrow_schema::DataType::Utf8View).unwrap();
    let keys_alone = value_bytes(batch.column(0));
    assert_eq!(keys_alone, value_bytes(&views) - 1000_usize.div_ceil(8));
}
