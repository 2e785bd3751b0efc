//! Tasks of text: chunks of CSV and JSON; and the columns that come from the paths of inputs.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::ingest::misguesses::GuessCheck;
use crate::ingest::options::TASK_BYTES;
use crate::ingest::rejects::{Reject, Rejects};
use crate::ingest::sources::PathColumns;
use crate::ingest::sources::csv::{self, CsvChunk, CsvSchema};
use crate::ingest::sources::json::{self, JsonChunk, JsonSchema};
use crate::ingest::task::{Parsed, Reparse, Task};
use crate::model::DataType;

/// With `reparses`, a chunk that does not fit the table's types is parsed as these: the first rows
/// of a live input say little.
pub(super) fn csv_task(
    chunk: Result<CsvChunk>,
    schema: &Arc<CsvSchema>,
    reparses: bool,
    guess_check: Option<&Arc<GuessCheck>>,
) -> Result<Task> {
    let (chunk, schema) = (chunk?, schema.clone());
    let guess_check = guess_check.filter(|_| !schema.skip_bad_rows).cloned();
    if chunk.text.is_empty() {
        return Ok(Task::new(0, || Ok(Parsed::default())));
    }
    // A row that is longer than a chunk makes a longer chunk.
    let (bytes, weight) =
        (chunk.text.len() as u64, TASK_BYTES.max(chunk.text.len().saturating_mul(4)));
    let task = Task::new(weight, move || {
        let chunk = Arc::new(chunk);
        let parsed = csv::parse_rows(&schema, &chunk);
        if let (Err(Error::InvalidInput(_)), Some(check)) = (&parsed, &guess_check) {
            let wrong = csv::misguessed(&schema, &chunk);
            wrong.iter().for_each(|name| check.note(name, DataType::Utf8));
        }
        let csv::ParsedRows { batch, rejects, blank_lines } = parsed?;
        let reparse = (schema.skip_bad_rows || reparses).then(|| -> Reparse {
            Box::new(move |table| {
                let schema = Arc::new(schema.starting_from(table));
                let csv::ParsedRows { batch, rejects, .. } = csv::parse_rows(&schema, &chunk)?;
                Ok(Parsed { rejects, blank_lines, ..batch.into() })
            })
        });
        Ok(Parsed { rejects, reparse, blank_lines, ..batch.into() })
    });
    Ok(Task { bytes, ..task })
}

pub(super) fn json_task(
    chunk: Result<JsonChunk>,
    schema: &Arc<JsonSchema>,
    skip_bad_rows: bool,
    guess_check: Option<&Arc<GuessCheck>>,
) -> Result<Task> {
    let (chunk, schema, guess_check) = (chunk?, schema.clone(), guess_check.cloned());
    if chunk.text.is_empty() {
        return Ok(Task::new(0, || Ok(Parsed::default())));
    }
    let (bytes, weight) =
        (chunk.text.len() as u64, TASK_BYTES.max(chunk.text.len().saturating_mul(4)));
    if !skip_bad_rows {
        let task = Task::new(weight, move || {
            let parsed = json::parse_chunk(&schema, &chunk);
            if let (Err(Error::InvalidInput(_)), Some(check)) = (&parsed, &guess_check) {
                let wrong = json::misguessed(&schema, &chunk);
                wrong.into_iter().for_each(|(name, needed)| check.note(&name, needed));
            }
            Ok(parsed?.into())
        });
        return Ok(Task { bytes, ..task });
    }
    let task = Task::new(weight, move || {
        let json::ParsedRows { batch, bad } = json::parse_rows(&schema, &chunk)?;
        let file: Arc<Path> = Arc::from(schema.file());
        let reject = move |bad: json::BadRow| Reject {
            file: Arc::clone(&file),
            line: bad.first_line,
            column: Arc::from(bad.column.unwrap_or_default()),
            reason: bad.reason,
            raw: bad.text,
        };
        let rejects = Rejects::new(bad.len(), bad.into_iter().map(reject));
        Ok(Parsed { rejects, ..batch.into() })
    });
    Ok(Task { bytes, ..task })
}

/// The task with the path columns added to its batches.
pub(super) fn with_path_columns(task: Task, added: &Arc<PathColumns>) -> Task {
    if added.names().next().is_none() {
        return task;
    }
    let (Task { weight, bytes, input, origin, waits, starts_piece, work }, added) =
        (task, added.clone());
    Task {
        weight,
        bytes,
        input,
        origin,
        waits,
        starts_piece,
        work: Box::new(move || add_path_columns(work()?, added)),
    }
}

fn add_path_columns(parsed: Parsed, added: Arc<PathColumns>) -> Result<Parsed> {
    let batches =
        parsed.batches.into_iter().map(|batch| added.add_to(batch)).collect::<Result<_>>()?;
    let reparse = parsed.reparse.map(|reparse| -> Reparse {
        Box::new(move |table| add_path_columns(reparse(table)?, added))
    });
    Ok(Parsed { batches, reparse, ..parsed })
}

/// Skips `skip` chunks, counting `first`, and returns the next one.
pub(super) fn skip_chunks<T>(
    skip: u64,
    mut first: Option<T>,
    rest: &mut impl Iterator<Item = Result<T>>,
) -> Result<Option<T>> {
    for _ in 0..skip {
        if first.is_none() {
            break;
        }
        first = rest.next().transpose()?;
    }
    Ok(first)
}
