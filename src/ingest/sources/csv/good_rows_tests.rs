//! Crafted and random texts with bad rows: exactly the bad rows are left out, with the right
//! reasons.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch, cast::AsArray};
use proptest::prelude::*;

use super::super::{CsvChunk, CsvChunks, CsvOptions, infer, parse_good_rows};
use crate::error::Result;
use crate::ingest::rejects::Reject;
use crate::model::DataType;

fn tolerant(schema: &[(&str, &str)]) -> CsvOptions {
    let schema = schema.iter().map(|(name, t)| (name.to_string(), t.parse().unwrap())).collect();
    // No word is null, as words are looked for in the first chunk alone.
    let nulls = vec![String::new()];
    let skip_bad_rows = true;
    CsvOptions { header: Some(true), schema, nulls, skip_bad_rows, ..CsvOptions::default() }
}

fn chunks(text: &[u8], options: &CsvOptions, size: usize, open: usize) -> Result<Vec<CsvChunk>> {
    let bytes = Box::new(Cursor::new(text.to_vec()));
    let chunks = CsvChunks::new(Path::new("t.csv"), bytes, options).with_chunk_bytes(size);
    chunks.with_max_open(open).collect()
}

/// The rows as text, with `|` between fields and `∅` for null, and the rejected rows.
fn read(text: &[u8], options: &CsvOptions, size: usize) -> Result<(Vec<String>, Vec<Reject>)> {
    let whole = chunks(text, options, 1 << 20, 1 << 20)?;
    let schema = Arc::new(infer(Path::new("t.csv"), options, whole.first())?);
    let (mut rows, mut rejected) = (Vec::new(), Vec::new());
    for chunk in chunks(text, options, size, 1 << 20)? {
        let (batch, rejects) = parse_good_rows(&schema, &Arc::new(chunk))?;
        let total = rejected.len() + rejects.total() as usize;
        rows.extend(shown(&batch));
        rejected.extend(rejects);
        assert_eq!(rejected.len(), total);
    }
    Ok((rows, rejected))
}

fn shown(batch: &RecordBatch) -> Vec<String> {
    let text = |array: &dyn Array| arrow_cast::cast(array, &arrow_schema::DataType::Utf8).unwrap();
    let columns: Vec<_> = batch.columns().iter().map(|column| text(column)).collect();
    let cell = |row: usize, column: &dyn Array| {
        let texts = column.as_string::<i32>();
        if texts.is_null(row) { "∅".to_owned() } else { texts.value(row).to_owned() }
    };
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|c| cell(row, c)).collect::<Vec<_>>().join("|"))
        .collect()
}

fn raw(reject: &Reject) -> String {
    String::from_utf8_lossy(&reject.raw).into_owned()
}

fn described(rejects: &[Reject]) -> Vec<String> {
    rejects.iter().map(|r| format!("{} [{}] {}: {}", r.line, r.column, r.reason, raw(r))).collect()
}

const TYPED: &[(&str, &str)] = &[("id", "int64"), ("name", "utf8")];

#[test]
fn every_kind_of_bad_row() {
    let table: &[(&[u8], &[&str], &[&str])] = &[
        (b"1,a\n2\n3,c\n", &["1|a", "3|c"], &["3 [] 1 field, expected 2: 2"]),
        (b"1,a,x\n\n2,b\r\n", &["2|b"], &["2 [] 3 fields, expected 2: 1,a,x"]),
        (b"1,a\n2,\"b\" x\n", &["1|a"], &["3 [] text after a closing quote: 2,\"b\" x"]),
        (b"1,a\nx,b\n", &["1|a"], &["3 [id] 'x' is not of type int64: x,b"]),
        (b"1,a\n2,\"b\n3,c\n", &["1|a", "3|c"], &["3 [] a quoted field does not end: 2,\"b"]),
        (
            b"1,a\n2,\xe9t\n3,c\n",
            &["1|a", "3|c"],
            &["3 [name] '\u{fffd}t' is not UTF-8: 2,\u{fffd}t"],
        ),
        (
            b"1,a\n2,\0,\0\n3,c\n4,d\n",
            &["1|a", "3|c", "4|d"],
            &["3 [] 3 fields, expected 2; it holds a zero byte: 2,\0,\0"],
        ),
        (
            b"1,\"two\nlines\"\nx,\"more\r\nlines\"\r\n3,c\n",
            &["1|two\nlines", "3|c"],
            &["4 [id] 'x' is not of type int64: x,\"more\r\nlines\""],
        ),
        // A stray quote costs its line only, and not all text up to the next quote.
        (
            b"1,\"a\n2,b\n3,\"c\"\n4,d\n",
            &["2|b", "3|c", "4|d"],
            &["2 [] text after a closing quote: 1,\"a"],
        ),
        (b"1,\"a\nb\",\"c\n2,d\n", &["2|d"], &["2 [] a quoted field does not end: 1,\"a\nb\",\"c"]),
        (
            b"1\nx,\"a\n2,\"b\"c\n",
            &[],
            &[
                "2 [] 1 field, expected 2: 1",
                "3 [] text after a closing quote: x,\"a",
                "4 [] text after a closing quote: 2,\"b\"c",
            ],
        ),
    ];
    for (body, rows, rejects) in table {
        let text = [b"id,name\n", *body].concat();
        let (found, rejected) = read(&text, &tolerant(TYPED), 1 << 20).unwrap();
        assert_eq!(found, *rows, "{:?}", String::from_utf8_lossy(body));
        assert_eq!(described(&rejected), *rejects, "{:?}", String::from_utf8_lossy(body));
    }
}

#[test]
fn wider_values_are_no_errors_and_what_would_lose_is() {
    let options = tolerant(&[]);
    let after = |sample: &str, text: &str| {
        let first =
            chunks(format!("v\n{sample}\n").as_bytes(), &options, 1 << 20, 1 << 20).unwrap();
        let schema = Arc::new(infer(Path::new("t.csv"), &options, first.first()).unwrap());
        let mut chunk = chunks(text.as_bytes(), &options, 1 << 20, 1 << 20).unwrap().remove(0);
        chunk.number = 1;
        let (batch, rejects) = parse_good_rows(&schema, &Arc::new(chunk)).unwrap();
        let data_type = DataType::from_arrow(batch.column(0).data_type()).unwrap().to_string();
        (data_type, shown(&batch), described(&rejects.collect::<Vec<_>>()))
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(
        after("1", "1\n2.5\n"),
        ("float64".into(), vec!["1.0".into(), "2.5".into()], none.clone())
    );
    let (data_type, rows, rejects) = after("1", "1\nx\n2.5\n");
    assert_eq!((data_type.as_str(), rows.len()), ("float64", 2));
    assert_eq!(rejects, ["2 [v] 'x' is not of type int64: x"]);
    // A fraction after integers that a double cannot hold is rejected; after a fraction, such an
    // integer is.
    let big = "9007199254740993";
    let (data_type, rows, rejects) = after("1", &format!("{big}\n1.5\n2\n"));
    assert_eq!((data_type.as_str(), rows.join(" ")), ("int64", format!("{big} 2")));
    assert_eq!(rejects, ["2 [v] '1.5' is not of type int64: 1.5"]);
    let (data_type, _, rejects) = after("1", &format!("1\n1.5\n{big}\n"));
    assert_eq!(data_type, "float64");
    assert_eq!(rejects, [format!("3 [v] '{big}' is not of type float64: {big}")]);
    // A row that is rejected for another reason widens nothing.
    assert_eq!(after("1", "1\n2.5,7\n").0, "int64");
    // A column of unknown type gets the type of the good rows.
    assert_eq!(after("", "1\n2,x\n").0, "int64");
    let (data_type, rows, rejects) = after("", "1\nx\n");
    assert_eq!((data_type.as_str(), rows.len(), rejects), ("utf8", 2, none));
}

#[test]
fn a_table_s_type_is_kept_where_the_sample_does_not_fit_it() {
    let prior = vec![("id".to_owned(), DataType::Int64), ("f".to_owned(), DataType::Int64)];
    let options = CsvOptions { prior, ..tolerant(&[]) };
    let (rows, rejects) = read(b"id,f\n1,1\nx,2\n3,2.5\n", &options, 1 << 20).unwrap();
    assert_eq!(rows, ["1|1.0", "3|2.5"]);
    assert_eq!(described(&rejects), ["3 [id] 'x' is not of type int64: x,2"]);
}

#[test]
fn what_is_not_about_a_row_stays_an_error() {
    let error = |text: &[u8]| read(text, &tolerant(&[]), 1 << 20).unwrap_err().to_string();
    assert!(error(b"id,\"na\"me\n1,2\n").contains("line 1: text after a closing quote"));
    assert!(error(b"id,\"name\n1,2\n").contains("line 1: a quoted field"));
    let noise: Vec<u8> =
        (0..20_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert!(error(&noise).contains("t.csv does not look like text: byte "), "{}", error(&noise));
    let long = [b"a,b\n1,\"".as_slice(), &[b'x'; 5000]].concat();
    let endless = CsvChunks::new(Path::new("t.csv"), Box::new(Cursor::new(long)), &tolerant(&[]));
    let last = endless.with_chunk_bytes(64).with_row_limit(1000).with_max_open(500).last().unwrap();
    assert!(last.unwrap_err().to_string().contains("starts in line 2 is longer than"));
}

/// An unterminated field costs only its line, however much text follows.
#[test]
fn an_open_quote_is_given_up_within_a_bound() {
    let text = format!("id,name\n1,a\n2,\"b\n{}", "3,c\n".repeat(10_000));
    let options = tolerant(TYPED);
    let pieces = chunks(text.as_bytes(), &options, 1000, 4000).unwrap();
    assert!(pieces.iter().all(|chunk| chunk.text.len() < 10_000), "the rest is not one chunk");
    let schema = Arc::new(infer(Path::new("t.csv"), &options, pieces.first()).unwrap());
    let (mut rows, mut rejects) = (0, Vec::new());
    for chunk in pieces {
        let (batch, bad) = parse_good_rows(&schema, &Arc::new(chunk)).unwrap();
        rows += batch.num_rows();
        rejects.extend(bad);
    }
    assert_eq!(
        (rows, described(&rejects)),
        (10_001, vec!["3 [] a quoted field does not end: 2,\"b".to_owned()])
    );
}

#[test]
fn many_bad_rows_take_no_longer_than_they_are() {
    let text = format!("id,name\n{}", "x,a\n".repeat(200_000));
    let (rows, rejects) = read(text.as_bytes(), &tolerant(TYPED), 1 << 20).unwrap();
    assert_eq!((rows.len(), rejects.len(), rejects[199_999].line), (0, 200_000, 200_001));
    let text = format!("id,name\n{}", "1,\"a\n".repeat(200_000));
    let (rows, rejects) = read(text.as_bytes(), &tolerant(TYPED), 1 << 20).unwrap();
    assert_eq!(rows.len() + rejects.len(), 200_000);
}

/// A row as text, and as it is stored; `None` for a bad one.
fn row() -> impl Strategy<Value = (String, Option<String>)> {
    let good =
        (any::<i32>(), "[a-z]{0,6}", any::<i16>(), 0..3_u8).prop_map(|(id, name, n, form)| {
            let n = f64::from(n) / 4.0;
            let value = format!("{n:?}");
            match form {
                0 => (format!("{id},\"{name}x\",{value}\n"), Some(format!("{id}|{name}x|{value}"))),
                1 => (
                    format!("{id},\"{name}\n1,\"\"y,2\",{value}\r\n"),
                    Some(format!("{id}|{name}\n1,\"y,2|{value}")),
                ),
                _ => (format!("{id},{name}x,\n"), Some(format!("{id}|{name}x|∅"))),
            }
        });
    let bad = prop::sample::select(vec![
        "1\n",
        "1,a\r\n",
        "1,a,2,3\n",
        "x,a,2\n",
        "1.5,a,2\n",
        "1,\"a\"b,2\n",
        "1,a,z\n",
        "99999999999,a,z\n",
        "1,\"a\" ,2\n",
        "007,a,1\n",
        "1,\"a\nb\",x\n",
        ",,,\n",
    ]);
    prop_oneof![4 => good, 1 => bad.prop_map(|text| (text.to_owned(), None))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Good rows mixed with bad ones, in chunks of any size: the good ones are stored and the bad
    /// ones rejected, in order.
    #[test]
    fn good_rows_are_stored_and_bad_ones_rejected(
        rows in prop::collection::vec(row(), 0..60),
        size in 1_usize..400,
    ) {
        let types = [("id", "int64"), ("name", "utf8"), ("v", "float64")];
        let options = tolerant(&types);
        let text: String = rows.iter().map(|(text, _)| text.as_str()).collect();
        let text = format!("id,name,v\n{text}");
        let (stored, rejects) = read(text.as_bytes(), &options, size).unwrap();
        // Types that the user has named are parsed leniently.
        let lenient = |text: &str| (text == "007,a,1\n").then(|| "7|a|1.0".to_owned());
        let is =
            |(text, good): &(String, Option<String>)| good.clone().or_else(|| lenient(text));
        let good: Vec<String> = rows.iter().filter_map(is).collect();
        prop_assert_eq!(stored, good);
        let (mut line, mut bad) = (2, Vec::new());
        for row in &rows {
            if is(row).is_none() {
                bad.push((line, row.0.trim_end_matches(['\n', '\r']).to_owned()));
            }
            line += row.0.matches('\n').count() as u64;
        }
        let rejected: Vec<_> =
            rejects.iter().map(|reject| (reject.line, raw(reject))).collect();
        prop_assert_eq!(rejected, bad);
    }

    /// Random bytes: every row is stored or rejected, whatever the chunk size. Splitting row by row
    /// finds the same rows as parsing a whole chunk.
    #[test]
    fn every_row_is_accounted_for(
        body in prop::collection::vec(prop::sample::select(&b"a1,\"\n\r-.:\0\xc3\xa9"[..]), 0..300),
        size in 1_usize..99,
    ) {
        let mut text = b"id,name\n".to_vec();
        text.extend(b"1,a\n".repeat(100));
        text.extend(body);
        let names: &[&[(&str, &str)]] = &[TYPED, &[]];
        for types in names {
            let options = tolerant(types);
            let whole = read(&text, &options, 1 << 20).unwrap();
            let small = read(&text, &options, size).unwrap();
            prop_assert_eq!(whole.0.len() + whole.1.len(), small.0.len() + small.1.len());
            if !types.is_empty() {
                let places = |rejects: &[Reject]| {
                    rejects.iter().map(|r| (r.line, r.raw.clone())).collect::<Vec<_>>()
                };
                prop_assert_eq!(&whole.0, &small.0);
                prop_assert_eq!(places(&whole.1), places(&small.1));
            }
            // Split row by row, because the first row is bad.
            let mut spoilt = text.clone();
            spoilt.splice(8..8, *b"bad\n");
            let taken_apart = read(&spoilt, &options, 1 << 20).unwrap();
            prop_assert_eq!(&taken_apart.0, &whole.0);
            prop_assert_eq!(taken_apart.1.len(), whole.1.len() + 1);
        }
    }
}
