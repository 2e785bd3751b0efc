//! Rows and fields: quotes, line ends, delimiters, chunks of any size.

use std::sync::Arc;

use super::*;
use crate::ingest::sources::Format;

#[test]
fn tricky_text() {
    let table: &[(&str, &[&[&str]])] = &[
        ("a,b\nc,d\n", &[&["a", "b"], &["c", "d"]]),
        ("a,b\r\nc,d\r\n", &[&["a", "b"], &["c", "d"]]),
        ("a,b\nc,d", &[&["a", "b"], &["c", "d"]]),
        ("a,b\r\nc,d\r", &[&["a", "b"], &["c", "d"]]),
        ("a,b\rc,d\r", &[&["a", "b"], &["c", "d"]]),
        ("\r\ra;b\rc;d", &[&["a", "b"], &["c", "d"]]),
        ("\"x\ry\n\"\"\r\",b\rc,\"d\"\r", &[&["x\ry\n\"\r", "b"], &["c", "d"]]),
        ("a,x\ry\nc,d\n", &[&["a", "x\ry"], &["c", "d"]]),
        ("a,b\r\r\n\r\r\nc,\"d\"\r\r\n", &[&["a", "b"], &["c", "d"]]),
        ("\u{feff}a,b\n", &[&["a", "b"]]),
        ("a,\"b\"\n", &[&["a", "b"]]),
        ("a,\"b\"\r\n", &[&["a", "b"]]),
        ("a,\"\"\n\"\",b\n", &[&["a", ""], &["", "b"]]),
        ("a,\n,b\n", &[&["a", "∅"], &["∅", "b"]]),
        ("\"x\"\"y\",\"\"\"\"\n", &[&["x\"y", "\""]]),
        ("\"two\nlines\",\"a,b\"\nx,y\n", &[&["two\nlines", "a,b"], &["x", "y"]]),
        ("\"two\r\nlines\",z\r\n", &[&["two\r\nlines", "z"]]),
        ("5\" pipe,a\"b\nx,y\"\n", &[&["5\" pipe", "a\"b"], &["x", "y\""]]),
        ("a,b\n\n\r\nc,d\n\n", &[&["a", "b"], &["c", "d"]]),
        ("\n\na,b\n", &[&["a", "b"]]),
        ("a\n\nb\n", &[&["a"], &["∅"], &["b"]]),
        ("é,日本語\n🦀,\"ü,\"\n", &[&["é", "日本語"], &["🦀", "ü,"]]),
        (" a , b\n", &[&[" a ", " b"]]),
    ];
    for (text, expected) in table {
        let options = no_header();
        for size in [1, 2, 3, 7, 1 << 20] {
            let batches = read_in(text.as_bytes(), &options, size)
                .unwrap_or_else(|e| panic!("{text:?}: {e}"));
            assert_eq!(cells(&batches), *expected, "{text:?} in chunks of {size}");
        }
    }
}

#[test]
fn other_delimiters_and_projections() {
    let options = CsvOptions { quote: b'\'', ..CsvOptions::for_format(Format::Tsv) };
    assert_eq!(read("a\tb\n1\t'x\ty'\n", &options).1, [["1", "x\ty"]]);
    let first = chunks(b"1,a,2\n3,b,4\n", &no_header(), 99).unwrap();
    let schema = infer(Path::new("t"), &no_header(), first.first()).unwrap();
    let batch = parse_columns(&schema, &first[0], &[2, 0]).unwrap();
    assert_eq!(cells(&[batch]), [["2", "1"], ["4", "3"]]);
    assert_eq!(parse_columns(&schema, &first[0], &[]).unwrap().num_rows(), 2);
    assert!(parse_columns(&schema, &first[0], &[3]).is_err());
    assert!(CsvOptions { delimiter: Some(b'"'), ..CsvOptions::default() }.check().is_err());
}

#[test]
fn a_missing_quote_is_found_within_a_bound() {
    let text = format!("a,b\nc,\"d\n{}", "e,f\n".repeat(600_000));
    let options = no_header();
    let mut chunks =
        CsvChunks::new(Path::new("t.csv"), Box::new(Cursor::new(text.into_bytes())), &options)
            .with_chunk_bytes(4096)
            .with_row_limit(1 << 20);
    assert_eq!(chunks.next().unwrap().unwrap().text, b"a,b\n");
    let error = chunks.next().unwrap().unwrap_err();
    assert!(matches!(error, Error::LimitExceeded(_)));
    assert!(error.to_string().contains("starts in line 2 is longer than 1 MiB"), "{error}");
    assert!(chunks.next().is_none());
}

#[test]
fn line_feeds_after_a_block_of_carriage_returns_are_refused() {
    let text = "1,x\r".repeat(CHUNK_BYTES / 4 + 1) + "2,y\n";
    let error = chunks(text.as_bytes(), &no_header(), CHUNK_BYTES).unwrap_err().to_string();
    assert!(
        error.contains("end with a carriage return first, and with a line feed later"),
        "{error}"
    );
    let all = chunks(text.trim_end().as_bytes(), &no_header(), CHUNK_BYTES).unwrap();
    let lines =
        all.iter().map(|chunk| memchr::memchr_iter(b'\n', &chunk.text).count()).sum::<usize>();
    assert_eq!((all.len(), lines), (2, CHUNK_BYTES / 4 + 2));
}

#[test]
fn empty_lines_before_the_first_row_are_no_chunk() {
    for (text, line, offset) in
        [("\n\r\n\na;b\n1;2\n", 4, 4), ("\n\u{e9}\u{e9}", 2, 1), ("\n\n\r\n", 4, 4)]
    {
        for size in 1..20 {
            let first = chunks(text.as_bytes(), &CsvOptions::default(), size).unwrap();
            let first = first.first().map(|chunk| (chunk.number, chunk.line, chunk.offset));
            assert_eq!(
                first.unwrap_or((0, line, offset)),
                (0, line, offset),
                "{text:?} in chunks of {size}"
            );
        }
    }
    // A byte-order mark counts only at the very beginning.
    let later = chunks("\n\n\n\u{feff}a\n1\n".as_bytes(), &CsvOptions::default(), 3).unwrap();
    assert_eq!((later[0].offset, later[0].text.starts_with(b"\xef\xbb\xbf")), (3, true));
    let batches = read_in(b"\n\na;b\n1;2\n", &CsvOptions::default(), 1).unwrap();
    assert_eq!(cells(&batches), [["1", "2"]]);
}

#[test]
fn tiles_and_chunks_of_a_large_text_agree() {
    let mut text = String::from("id,name,score,when\n");
    for i in 0..30_000 {
        let name = match i % 5 {
            0 => format!("\"quoted, {i}\""),
            1 => format!("\"line\n{i} \"\"x\"\"\""),
            2 => String::new(),
            _ => format!("plain{i}"),
        };
        let blank = if i % 1000 == 7 { "\n" } else { "" };
        text.push_str(&format!(
            "{i},{name},{}.{:02},2013-08-{:02} 00:00:{:02}\n{blank}",
            i % 90,
            i % 97,
            1 + i % 28,
            i % 60
        ));
    }
    let expected = cells(&read_in(text.as_bytes(), &CsvOptions::default(), 1 << 24).unwrap());
    assert_eq!(expected.len(), 30_000);
    assert_eq!(expected[29_996][1], "line\n29996 \"x\"");
    for size in [10_000, 131_072, 300_001] {
        assert!(
            cells(&read_in(text.as_bytes(), &CsvOptions::default(), size).unwrap()) == expected,
            "{size}"
        );
    }
}

#[test]
fn lines_before_the_first_row() {
    let excel = "sep=;\r\na;b\r\n1;x,y\r\n";
    for (text, skip_lines) in [
        (excel, 0),
        ("made by hand, \"today\nsecond line\n\nsep=;\na;b\n1;x,y\n", 3),
        ("SEP=;\n\na;b\n1;x,y", 0),
        ("one\n\n\n\na;b\n1;x,y\n", 2),
    ] {
        let options = CsvOptions { skip_lines, ..CsvOptions::default() };
        for size in [1, 2, 7, 1 << 20] {
            let batches = read_in(text.as_bytes(), &options, size).unwrap();
            assert_eq!(cells(&batches), [["1", "x,y"]], "{text:?} by {size}");
        }
        let chunks = chunks(text.as_bytes(), &options, 1 << 20).unwrap();
        let lines = text.lines().count() as u64;
        assert_eq!((chunks[0].line, chunks[0].delimiter), (lines - 1, b';'), "{text:?}");
    }
    // What names a delimiter is no row under another one, either, and what does not is one.
    let comma = CsvOptions { delimiter: Some(b','), ..CsvOptions::default() };
    assert_eq!(cells(&read_in(b"sep=;\na,b\n1,2\n", &comma, 3).unwrap()), [["1", "2"]]);
    let data = CsvOptions { header: Some(false), ..CsvOptions::default() };
    for text in ["sep=\nx\n", "sep=ab\nx\n", "separator\nx\n", "se", "sep=\n\nx\n", "sep=\r\nx\n"] {
        let batches = read_in(text.as_bytes(), &data, 1).unwrap();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, text.lines().count(), "{text:?}");
    }
    // A byte that cannot delimit fields is not taken for it, wherever it comes from.
    for text in ["sep=\"\nx\n", "sep=\0\nx\n"] {
        assert_eq!(chunks(text.as_bytes(), &data, 9).unwrap()[0].delimiter, b',', "{text:?}");
    }
    let all = CsvOptions { skip_lines: 9, ..CsvOptions::default() };
    assert!(chunks(b"a\nb\nc", &all, 1).unwrap().is_empty());
}

#[test]
fn quotes_that_are_text() {
    let options =
        CsvOptions { delimiter: Some(b'\t'), quote: CsvOptions::NO_QUOTE, ..CsvOptions::default() };
    let text = "a\tb\n1\tsay \"hi\"\n2\t\"open\n3\t\"\n";
    for size in [1, 1 << 20] {
        let batches = read_in(text.as_bytes(), &options, size).unwrap();
        assert_eq!(cells(&batches), [["1", "say \"hi\""], ["2", "\"open"], ["3", "\""]]);
    }
}

#[test]
fn comment_lines_are_no_rows() {
    let text =
        "# made by \"hand, today\n\n#id;name\nid;name\n# one\n1;\"a\n# b\"\n#2;x\n#\n3;c#\n4\n";
    let (comment, delimiter) = (Some(b'#'), Some(b';'));
    let options = CsvOptions { comment, delimiter, ..CsvOptions::default() };
    for size in [1, 2, 7, 1 << 20] {
        let good = text.strip_suffix("4\n").unwrap();
        let first = chunks(good.as_bytes(), &options, 1 << 20).unwrap();
        let schema = infer(Path::new("t.csv"), &options, first.first()).unwrap();
        let parts = chunks(text.as_bytes(), &options, size).unwrap();
        let parsed: Vec<_> = parts.iter().map(|chunk| parse_chunk(&schema, chunk)).collect();
        let (good, bad): (Vec<_>, Vec<_>) = parsed.into_iter().partition(Result::is_ok);
        let error = bad.into_iter().next().unwrap().unwrap_err().to_string();
        assert!(error.contains("t.csv: line 11: 1 field, expected 2"), "{error} by {size}");
        if size < 10 {
            let good: Vec<_> = good.into_iter().map(Result::unwrap).collect();
            assert_eq!(cells(&good), [["1", "a\n# b"], ["3", "c#"]], "by {size}");
        }
    }
    let skipping = CsvOptions { skip_bad_rows: true, ..options };
    let whole = chunks(text.as_bytes(), &skipping, 1 << 20).unwrap().remove(0);
    let schema = infer(Path::new("t.csv"), &skipping, Some(&whole)).unwrap();
    let (batch, rejects) = parse_good_rows(&Arc::new(schema), &Arc::new(whole)).unwrap();
    assert_eq!(cells(&[batch]), [["1", "a\n# b"], ["3", "c#"]]);
    assert_eq!(rejects.map(|reject| reject.line).collect::<Vec<_>>(), [11]);
    // In a single column, an empty line is a null, and a comment nothing.
    let one = CsvOptions { comment: Some(b'#'), ..no_header() };
    for size in [1, 1 << 20] {
        let batches = read_in(b"#\n1\n# no\n\n2\n#", &one, size).unwrap();
        assert_eq!(cells(&batches), [["1"], ["∅"], ["2"]]);
    }
    for bad in [b',', b'"', b'\n', 0xe9] {
        assert!(CsvOptions { comment: Some(bad), ..CsvOptions::default() }.check().is_err());
    }
}

#[test]
fn escapes_and_blanks_before_quotes() {
    for (text, rows, note) in [
        (
            "a,b\n\"say \\\"hi\\\", you\",1\n\"C:\\\\\",2\n",
            [["say \"hi\", you", "1"], ["C:\\", "2"]],
            "--escape none",
        ),
        (
            "a, b\n1, \"b, \"\"c\"\"\"\n2, d\n",
            [["1", "b, \"c\""], ["2", "d"]],
            "--skip-initial-space=false",
        ),
    ] {
        let options = CsvOptions::default();
        let first = chunks(text.as_bytes(), &options, 1 << 20).unwrap();
        let schema = infer(Path::new("t.csv"), &options, first.first()).unwrap();
        assert!(
            schema.guesses.iter().any(|g| g.to_string().contains(note)),
            "{:?}",
            schema.guesses
        );
        assert_eq!(cells(&[parse_chunk(&schema, &first[0]).unwrap()]), rows);
        assert_eq!(schema.names().collect::<Vec<_>>(), ["a", "b"]);
        let told = CsvOptions {
            escape: Some(b'\\'),
            skip_initial_space: Some(true),
            header: Some(true),
            ..CsvOptions::default()
        };
        for size in [1, 2, 3, 1 << 20] {
            assert_eq!(cells(&read_in(text.as_bytes(), &told, size).unwrap()), rows, "by {size}");
        }
    }
}

#[test]
fn empty_lines_before_the_first_row_of_a_single_column() {
    for size in [1, 2, 1 << 20] {
        let data = read_in(b"\n\r\n5\n\n6\n", &no_header(), size).unwrap();
        assert_eq!(cells(&data), [["∅"], ["∅"], ["5"], ["∅"], ["6"]], "by {size}");
        let named = read_in(b"\n\nn\n5\n\n6\n", &CsvOptions::default(), size).unwrap();
        assert_eq!(cells(&named), [["5"], ["∅"], ["6"]], "by {size}");
        let several = read_in(b"\n\n5,a\n\n6,b\n", &no_header(), size).unwrap();
        assert_eq!(cells(&several), [["5", "a"], ["6", "b"]], "by {size}");
    }
}
