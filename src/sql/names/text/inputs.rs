//! The inputs of a text table: files, or the standard input.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::formats::{Chunks, Columns, TextSchema};

#[derive(Clone)]
pub(super) struct TextInput {
    pub(super) source: Source,
    pub(super) layout: Arc<Layout>,
}

/// How an input is read.
pub(super) struct Layout {
    pub(super) schema: TextSchema,
    /// Of each column of the table, its position in the input.
    pub(super) places: Vec<Option<usize>>,
}

#[derive(Clone)]
pub(super) enum Source {
    File(PathBuf),
    /// The standard input, which is read once: the chunks that are left, the sample first.
    Stdin(Stdin),
}

/// The standard input until somebody reads it.
pub(super) type Stdin = Arc<Mutex<Option<Chunks>>>;

impl TextInput {
    /// An input of a table with these columns, all in their types.
    pub(super) fn new(source: Source, mut schema: TextSchema, columns: &Columns) -> Self {
        let own = schema.columns();
        let place = |name: &Arc<str>| own.iter().position(|(known, _)| known == name);
        let places: Vec<Option<usize>> = columns.iter().map(|(name, _)| place(name)).collect();
        for (place, (_, data_type)) in places.iter().zip(columns) {
            if let Some(at) = place {
                schema.set_type(*at, data_type);
            }
        }
        TextInput { source, layout: Arc::new(Layout { schema, places }) }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(f),
            Source::Stdin(_) => f.write_str("standard input"),
        }
    }
}
