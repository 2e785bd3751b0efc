//! Any text as CSV, under any options: no panic, and the same number of rows whatever the chunk
//! size, also where bad rows are left out.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use stylobate::internal::ingest::csv::{
    CsvChunk, CsvChunks, CsvSchema, infer, parse_chunk, parse_good_rows,
};
use stylobate::{CsvOptions, Result};

/// The target.
pub fn run(bytes: &[u8]) {
    let Some(([flags, delimiter, small, rows], text)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    let options = CsvOptions {
        delimiter: (flags & 32 == 0)
            .then(|| *b",\t;|".get(usize::from(*delimiter)).unwrap_or(delimiter)),
        quote: if flags & 1 == 0 { b'"' } else { b'\'' },
        header: [None, Some(true), Some(false), None][usize::from(flags >> 1 & 3)],
        nulls: if flags & 8 == 0 { vec![] } else { vec!["NA".into(), "\\N".into()] },
        empty_is_null: flags & 16 == 0,
        infer_rows: usize::from(*rows),
        skip_bad_rows: flags & 64 != 0,
        comment: (flags & 128 != 0).then_some(b'#'),
        // These are detected in the first chunk, and may differ with a smaller one.
        escape: Some(if flags & 128 == 0 { CsvOptions::NO_ESCAPE } else { b'\\' }),
        skip_initial_space: Some(flags & 129 == 129),
        ..CsvOptions::default()
    };
    if options.check().is_err() {
        return;
    }
    let Ok(whole) = chunks(text, &options, 1 << 20) else { return };
    let Ok(schema) = infer(Path::new("fuzz.csv"), &options, whole.first()).map(Arc::new) else {
        return;
    };
    if options.delimiter.is_none() || schema.header {
        // Delimiter and header are detected in the first chunk, and may differ with a smaller one.
        let _ = count(&schema, &whole);
        return;
    }
    let Ok(pieces) = chunks(text, &options, usize::from(*small).max(1)) else {
        panic!("smaller chunks fail")
    };
    let (whole, pieces) = (count(&schema, &whole), count(&schema, &pieces));
    // Each chunk infers types for itself, so one of the two may fail and the other succeed.
    if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
        assert_eq!(whole, pieces);
    }
}

fn chunks(text: &[u8], options: &CsvOptions, size: usize) -> Result<Vec<CsvChunk>> {
    let bytes = Box::new(Cursor::new(text.to_vec()));
    CsvChunks::new(Path::new("fuzz.csv"), bytes, options).with_chunk_bytes(size).collect()
}

/// Rows that are stored or left out.
fn count(schema: &Arc<CsvSchema>, chunks: &[CsvChunk]) -> Result<usize> {
    let mut rows = 0;
    for chunk in chunks {
        let (batch, rejected) = if schema.skip_bad_rows {
            let (batch, rejects) = parse_good_rows(schema, &Arc::new(chunk.clone()))?;
            let total = rejects.total();
            assert_eq!(rejects.count() as u64, total);
            (batch, total as usize)
        } else {
            (parse_chunk(schema, chunk)?, 0)
        };
        assert_eq!(batch.num_columns(), schema.columns.len());
        rows += batch.num_rows() + rejected;
    }
    Ok(rows)
}
