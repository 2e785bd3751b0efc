//! Exact and refused conversions: for every pair of types, a value comes out unchanged or not at
//! all.

use arrow_array::{
    BooleanArray, Date32Array, Int64Array, TimestampMicrosecondArray, TimestampNanosecondArray,
    UInt64Array,
};

use super::*;
use crate::model::Schema;

fn assigned(data_type: &str, values: ArrayRef) -> Result<Vec<String>> {
    let schema = Schema::from_names(vec![("v", data_type.parse().unwrap())]).unwrap();
    let column = &schema.columns()[0];
    let array = assign(column, &values)?;
    assert_eq!(DataType::from_arrow(array.data_type()).as_ref(), Some(&column.data_type));
    Ok((0..array.len()).map(|row| array_value_to_string(&array, row).unwrap()).collect())
}

fn floats(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn ints(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn decimals(values: &[i128], precision: u8, scale: i8) -> ArrayRef {
    Arc::new(
        Decimal128Array::from(values.to_vec()).with_precision_and_scale(precision, scale).unwrap(),
    )
}

#[test]
fn exact_conversions() {
    let micros =
        |values: &[i64]| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(values.to_vec())) };
    for (data_type, values, expected) in [
        ("int32", floats(&[2.0, -0.0, -7.0]), &["2", "0", "-7"][..]),
        ("int64", floats(&[9_007_199_254_740_991.0]), &["9007199254740991"]),
        ("int8", ints(&[127, -128]), &["127", "-128"]),
        ("uint64", decimals(&[200, -0], 5, 2), &["2", "0"]),
        ("bool", ints(&[1, 0]), &["true", "false"]),
        ("int64", Arc::new(BooleanArray::from(vec![true])), &["1"]),
        ("float64", ints(&[9_007_199_254_740_992]), &["9007199254740992.0"]),
        ("float64", decimals(&[10, 1], 9, 1), &["1.0", "0.1"]),
        ("float32", decimals(&[10, 1], 9, 1), &["1.0", "0.1"]),
        (
            "float32",
            floats(&[0.1, 16_777_216.0, f64::NAN, f64::INFINITY]),
            &["0.1", "16777216.0", "NaN", "inf"],
        ),
        ("decimal(9,2)", floats(&[0.7, 2.9, -1.5, 1e6]), &["0.70", "2.90", "-1.50", "1000000.00"]),
        ("decimal(38,20)", floats(&[0.7]), &["0.70000000000000000000"]),
        ("decimal(9,1)", decimals(&[150], 9, 2), &["1.5"]),
        ("date", micros(&[86_400_000_000]), &["1970-01-02"]),
        ("timestamp(s)", micros(&[1_000_000]), &["1970-01-01T00:00:01"]),
        ("timestamp(us)", Arc::new(Date32Array::from(vec![1])), &["1970-01-02T00:00:00"]),
        ("utf8", ints(&[5]), &["5"]),
        ("utf8", floats(&[0.1]), &["0.1"]),
        ("int32", texts(&["7", " 7 ", "007", "+7"]), &["7", "7", "7", "7"]),
        ("decimal(9,2)", texts(&["1.50", "1.500"]), &["1.50", "1.50"]),
        ("decimal(38,0)", texts(&["12345678901234567890123"]), &["12345678901234567890123"]),
        ("float64", texts(&["0.1", "NaN", "-Infinity", "1e300"]), &["0.1", "NaN", "-inf", "1e300"]),
        ("date", texts(&["2024-02-29", "2024-02-29 00:00:00"]), &["2024-02-29", "2024-02-29"]),
        ("timestamp(us)", texts(&["2024-02-29 12:30:00.5"]), &["2024-02-29T12:30:00.500"]),
        ("timestamp(s,+00:00)", texts(&["2024-02-29 12:30:00+02:00"]), &["2024-02-29T10:30:00Z"]),
        ("time(us)", texts(&["12:30:00.25"]), &["12:30:00.250"]),
        ("bool", texts(&["true", "f"]), &["true", "false"]),
        (
            "binary",
            texts(&["\\x00fF", "\\x", "", "\\x0", "x00"]),
            &["00ff", "", "", "5c7830", "783030"],
        ),
    ] {
        match assigned(data_type, Arc::clone(&values)) {
            Ok(found) => assert_eq!(found, expected, "{data_type} of {values:?}"),
            Err(error) => panic!("{data_type} of {values:?}: {error}"),
        }
    }
    let nothing: ArrayRef = Arc::new(Float64Array::from(vec![None, Some(1.0)]));
    assert_eq!(assigned("int32", nothing).unwrap(), ["", "1"]);
}

#[test]
fn lossy_conversions_are_refused() {
    let nanos =
        |values: &[i64]| -> ArrayRef { Arc::new(TimestampNanosecondArray::from(values.to_vec())) };
    for (data_type, values, shown) in [
        ("int32", floats(&[1.0, 2.9]), "2.9"),
        ("int32", floats(&[f64::NAN]), "NaN"),
        ("int64", floats(&[9.3e18]), "9.3e18"),
        // It may have been 9007199254740993.
        ("int64", floats(&[1.0, 9_007_199_254_740_992.0]), "9007199254740992.0 is not exact"),
        ("decimal(38,0)", floats(&[-9_007_199_254_740_992.0]), "-9007199254740992.0 is not exact"),
        ("int8", ints(&[1, 128]), "128"),
        ("uint8", ints(&[-1]), "-1"),
        ("bool", ints(&[2]), "2"),
        ("int32", decimals(&[250], 9, 2), "2.50"),
        ("float64", ints(&[9_007_199_254_740_993]), "9007199254740993"),
        ("float64", ints(&[i64::MAX]), "9223372036854775807"),
        ("float64", Arc::new(UInt64Array::from(vec![u64::MAX])), "18446744073709551615"),
        ("float64", decimals(&[9_007_199_254_740_993], 38, 0), "9007199254740993"),
        ("float32", ints(&[16_777_217]), "16777217"),
        ("float32", floats(&[1e300]), "1e300"),
        ("float32", floats(&[1e-300]), "1e-300"),
        ("float32", floats(&[16_777_217.0]), "16777217"),
        ("decimal(9,2)", floats(&[1.005]), "1.005"),
        ("decimal(9,2)", floats(&[1e8]), "100000000.0"),
        ("decimal(9,2)", floats(&[f64::NAN]), "NaN"),
        ("decimal(9,1)", decimals(&[150, 155], 9, 2), "1.55"),
        ("decimal(4,1)", decimals(&[1_000_000], 9, 2), "10000.00"),
        ("date", nanos(&[86_400_000_000_000, 1]), "1970-01-01T00:00:00.000000001"),
        ("timestamp(us)", nanos(&[1]), "1970-01-01T00:00:00.000000001"),
        ("timestamp(ns)", Arc::new(Date32Array::from(vec![2_000_000])), "7445-"),
        ("date", ints(&[5]), "int64 is not converted to that implicitly"),
        ("int64", nanos(&[5]), "timestamp(ns) is not converted to that implicitly"),
        ("time(us)", nanos(&[5]), "timestamp(ns) is not converted to that implicitly"),
        ("int32", texts(&["2.9"]), "'2.9'"),
        ("int32", texts(&["1", ""]), "''"),
        ("int32", texts(&["two"]), "'two'"),
        ("decimal(9,2)", texts(&["1.005"]), "'1.005'"),
        ("float64", texts(&["9007199254740993"]), "'9007199254740993'"),
        ("float32", texts(&["0.1", "+16777217"]), "'+16777217'"),
        ("float64", texts(&["1e400"]), "'1e400'"),
        ("date", texts(&["2024-02-29 10:00:00"]), "2024-02-29T10:00:00"),
        ("date", texts(&["2024-02-30"]), "'2024-02-30'"),
        ("timestamp(us)", texts(&["2024-02-29T10:00:00+02:00"]), "+02:00'"),
        ("timestamp(s)", texts(&["2024-02-29T10:00:00.5"]), "10:00:00.500"),
        ("time(s)", texts(&["10:00:00.5"]), "10:00:00.500"),
        ("bool", texts(&["maybe"]), "'maybe'"),
    ] {
        match assigned(data_type, Arc::clone(&values)) {
            Ok(found) => panic!("{data_type} of {values:?} is {found:?}"),
            Err(error) => {
                let text = error.to_string();
                assert!(
                    matches!(error, Error::InvalidInput(_)) && text.contains(shown),
                    "{data_type}: {text}"
                );
                assert!(text.contains("column 'v' is"), "{text}");
            }
        }
    }
}

/// For all pairs of types: converting the result back gives the original value.
#[test]
fn conversions_round_trip() {
    let whole = [
        0_i64,
        1,
        -1,
        2,
        127,
        128,
        255,
        256,
        32_767,
        65_536,
        16_777_217,
        1 << 31,
        (1 << 53) + 1,
        i64::MAX,
        i64::MIN,
    ];
    let sources = [
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint64",
        "float32",
        "float64",
        "decimal(38,3)",
        "bool",
    ];
    for from in sources {
        for to in sources {
            for value in whole {
                let wide: ArrayRef = ints(&[value]);
                let Ok(source) = assign(
                    &Schema::from_names(vec![("s", from.parse().unwrap())]).unwrap().columns()[0],
                    &wide,
                ) else {
                    continue;
                };
                let Ok(there) = assigned(to, Arc::clone(&source)) else { continue };
                // The shortest text of an f32, read as a double, is another double.
                let number = |text: &str, of: &str| match text {
                    "true" => 1.0,
                    "false" => 0.0,
                    other if of == "float32" => f64::from(other.parse::<f32>().unwrap()),
                    other => other.parse::<f64>().unwrap(),
                };
                let shown = array_value_to_string(&source, 0).unwrap();
                assert!(
                    number(&there[0], to) == number(&shown, from),
                    "{shown} as {from} became {} as {to}",
                    there[0]
                );
            }
        }
    }
}
