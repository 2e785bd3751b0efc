//! Expands command-line arguments to inputs.

use std::path::Path;

use super::format::{data_extension, has_magic};
use super::input::Input;
use super::zip;
use crate::disk::real::look_up;
use crate::error::{Error, IoResult, Result};

/// The inputs that the arguments name: files, `-` for standard input, directories (all files
/// inside, sorted, except those whose names start with `.` or `_`), zip archives likewise
/// (`data.zip`, `data.zip/*.csv`), and glob patterns.
pub fn expand(arguments: &[String]) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for argument in arguments {
        let path = Path::new(argument);
        if argument == "-" {
            inputs.push(Input::stdin());
            continue;
        }
        match look_up(path)? {
            Some(found) if found.is_dir() => push_directory(path, &mut inputs)?,
            Some(_) => push_file(path, &mut inputs)?,
            None => match zip::members(path)? {
                Some(members) => inputs.extend(members.into_iter().map(Input::member)),
                None => push_pattern(argument, &mut inputs)?,
            },
        }
    }
    Ok(inputs)
}

/// Adds a file, or all members of a zip archive.
fn push_file(path: &Path, inputs: &mut Vec<Input>) -> Result<()> {
    match zip::members(path)? {
        Some(members) => inputs.extend(members.into_iter().map(Input::member)),
        None => inputs.push(Input::path(path)),
    }
    Ok(())
}

fn push_pattern(pattern: &str, inputs: &mut Vec<Input>) -> Result<()> {
    if !pattern.contains(['*', '?', '[']) {
        return Err(Error::NotFound(format!("{pattern}: there is no such file")));
    }
    let before = inputs.len();
    let matches = glob::glob(pattern)
        .map_err(|e| Error::InvalidInput(format!("{pattern}: not a pattern of file names: {e}")))?;
    for found in matches {
        let path = found.map_err(|e| {
            let path = e.path().to_path_buf();
            Error::io(path, e.into())
        })?;
        if path.is_dir() {
            push_directory(&path, inputs)?;
        } else {
            push_file(&path, inputs)?;
        }
    }
    if inputs.len() == before {
        return Err(Error::NotFound(format!("{pattern}: no file matches")));
    }
    Ok(())
}

/// The files in a directory, as those that [`expand`] finds there.
#[cfg(feature = "sql")]
pub(crate) fn files_in(directory: &Path) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    push_directory(directory, &mut inputs)?;
    Ok(inputs)
}

fn push_directory(directory: &Path, inputs: &mut Vec<Input>) -> Result<()> {
    let before = inputs.len();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(path) = waiting.pop() {
        if !path.is_dir() {
            push_file(&path, inputs)?;
            continue;
        }
        let entries = std::fs::read_dir(&path).with_path(&path)?;
        let mut inside = Vec::new();
        for entry in entries {
            let entry = entry.with_path(&path)?;
            let is_link_to_directory =
                entry.file_type().is_ok_and(|t| t.is_symlink()) && entry.path().is_dir();
            let name = entry.file_name();
            let hidden = matches!(name.as_encoded_bytes().first(), Some(b'.' | b'_'));
            if !hidden && !is_link_to_directory {
                inside.push(entry.path());
            }
        }
        inside.sort_unstable_by(|a, b| b.cmp(a));
        waiting.append(&mut inside);
    }
    let found = inputs.get(before..).unwrap_or_default();
    if found.is_empty() {
        return Err(Error::NotFound(format!(
            "{}: there are no files in this directory",
            directory.display()
        )));
    }
    check_names(directory, found)
}

/// Refuses a directory in which most files say by their names what they are, and one does not: a
/// README would be read as CSV, and give a table its columns.
fn check_names(directory: &Path, found: &[Input]) -> Result<()> {
    let known: Vec<(&Input, Option<&str>)> =
        found.iter().map(|input| (input, data_extension(input.name()))).collect();
    let is_other = |(input, extension): &&(&Input, Option<&str>)| {
        extension.is_none() && !has_magic(input.name())
    };
    let Some((other, _)) = known.iter().find(is_other) else { return Ok(()) };
    let mut counts: Vec<(usize, &str)> = Vec::new();
    for extension in known.iter().filter_map(|(_, extension)| *extension) {
        match counts.iter_mut().find(|(_, counted)| *counted == extension) {
            Some((count, _)) => *count += 1,
            None => counts.push((1, extension)),
        }
    }
    let Some((_, extension)) = counts.into_iter().max() else { return Ok(()) };
    let is_nested = |(input, _): &(&Input, Option<&str>)| input.name().parent() != Some(directory);
    let nested = if known.iter().any(is_nested) { "**/" } else { "" };
    let is_whole_end = |(input, known): &(&Input, Option<&str>)| {
        *known != Some(extension) || input.name().extension().is_some_and(|end| end == extension)
    };
    // Names may end with that of a compression.
    let end = if known.iter().all(is_whole_end) { "" } else { "*" };
    Err(Error::InvalidInput(format!(
        "{} is no CSV, TSV, JSON, Arrow or Parquet by its name, and other files of the directory \
         are; name those that are meant, for example '{}'",
        other.name().display(),
        directory.join(format!("{nested}*.{extension}{end}")).display()
    )))
}
