//! Any text as JSON, in any layout and under any types: no panic, and the same number of rows
//! whatever the chunk size.

use std::io::Cursor;
use std::path::Path;

use stylobate::internal::ingest::json::{
    JsonChunk, JsonChunks, JsonOptions, JsonSchema, infer, parse_rows,
};
use stylobate::{DataType, Result};

/// The target.
pub fn run(bytes: &[u8]) {
    let Some(([flags, small, rows], text)) = bytes.split_first_chunk::<3>() else { return };
    let types = [DataType::Int64, DataType::Float64, DataType::Date, DataType::Utf8];
    let named =
        |bit: u8| types.get(usize::from(flags >> bit & 3)).cloned().unwrap_or(DataType::Bool);
    let options = JsonOptions {
        schema: if flags & 1 == 0 { vec![] } else { vec![("a".into(), named(1))] },
        prior: if flags & 8 == 0 { vec![] } else { vec![("b".into(), named(4))] },
        infer_rows: usize::from(*rows),
        ..JsonOptions::default()
    };
    let name = Path::new(if flags & 64 == 0 { "fuzz.json" } else { "fuzz.jsonl" });
    let Ok(whole) = chunks(name, text, 1 << 20) else { return };
    let Ok(schema) = infer(name, &options, whole.first()) else { return };
    let Ok(pieces) = chunks(name, text, usize::from(*small).max(1)) else {
        panic!("smaller chunks fail")
    };
    let (whole, pieces) = (count(&schema, &whole), count(&schema, &pieces));
    // Each chunk infers types for itself, so a row may be bad in chunks of one size and good in
    // those of the other. In both, every row is counted.
    if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
        assert_eq!(whole, pieces);
    }
}

fn chunks(name: &Path, text: &[u8], size: usize) -> Result<Vec<JsonChunk>> {
    JsonChunks::new(name, Box::new(Cursor::new(text.to_vec()))).with_chunk_bytes(size).collect()
}

/// Rows, good and bad.
fn count(schema: &JsonSchema, chunks: &[JsonChunk]) -> Result<usize> {
    let mut rows = 0;
    for chunk in chunks {
        let parsed = parse_rows(schema, chunk)?;
        assert!(parsed.batch.num_columns() >= schema.columns.len());
        rows += parsed.batch.num_rows() + parsed.bad.len();
    }
    Ok(rows)
}
