//! Random tables and random bytes.

use proptest::prelude::*;

use super::*;

fn written(rows: &[Vec<Option<String>>], quote_all: bool, end: &str) -> String {
    let mut text = String::new();
    for row in rows {
        for (i, cell) in row.iter().enumerate() {
            text.push_str(if i > 0 { "," } else { "" });
            let Some(cell) = cell else { continue };
            if quote_all || cell.is_empty() || cell.contains([',', '"', '\n', '\r']) {
                text.push_str(&format!("\"{}\"", cell.replace('"', "\"\"")));
            } else {
                text.push_str(cell);
            }
        }
        text.push_str(end);
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn tables_come_back(
        rows in prop::collection::vec(
            prop::collection::vec(prop::option::of("[a-c,\"\r\n ü0-9]{0,9}"), 3),
            1..40,
        ),
        quote_all: bool, crlf: bool, size in 1_usize..300,
    ) {
        let text = written(&rows, quote_all, if crlf { "\r\n" } else { "\n" });
        let names = ["column0", "column1", "column2"];
        let schema = names.map(|n| (n.to_owned(), DataType::Utf8)).to_vec();
        let options = CsvOptions { schema, ..no_header() };
        let found = cells(&read_in(text.as_bytes(), &options, size).unwrap());
        let cell = |c: &Option<String>| c.clone().unwrap_or("∅".into());
        let expected: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn numbers_come_back(
        rows in prop::collection::vec(
            (
                any::<i64>(),
                any::<f64>().prop_filter("finite", |f| f.is_finite()),
                any::<u64>(),
            ),
            1..60,
        ),
        size in 1_usize..300,
    ) {
        let text: String = rows.iter().map(|(i, f, u)| format!("{i},{f:?},{u}\n")).collect();
        let schema = vec![("column2".to_owned(), DataType::UInt64)];
        let options = CsvOptions { schema, ..no_header() };
        let batches = read_in(text.as_bytes(), &options, size).unwrap();
        let mut row = 0;
        for batch in batches {
            let ints = batch.column(0).as_primitive::<arrow_array::types::Int64Type>();
            let floats = batch.column(1).as_primitive::<arrow_array::types::Float64Type>();
            let unsigned = batch.column(2).as_primitive::<arrow_array::types::UInt64Type>();
            for i in 0..batch.num_rows() {
                let found = (ints.value(i), floats.value(i).to_bits(), unsigned.value(i));
                let (int, float, uint) = rows[row];
                prop_assert_eq!(found, (int, float.to_bits(), uint));
                row += 1;
            }
        }
        prop_assert_eq!(row, rows.len());
    }

    #[test]
    fn any_bytes(
        text in prop::collection::vec(prop::sample::select(&b"a1,\"\n\r-.:T\xc3\xa9"[..]), 0..300),
        size in 1_usize..99,
    ) {
        for header in [None, Some(true), Some(false)] {
            let options = CsvOptions { header, ..CsvOptions::default() };
            let small = read_in(&text, &options, size).map(|b| cells(&b));
            let large = read_in(&text, &options, 1 << 20).map(|b| cells(&b));
            if let (Ok(small), Ok(large)) = (&small, &large) {
                // A column without values in a small chunk has another type, but the same number of
                // rows.
                prop_assert_eq!(small.len(), large.len());
            }
        }
    }
}
