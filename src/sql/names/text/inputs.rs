//! The inputs of a text table: files, or the standard input.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::formats::{Chunks, Columns, TextSchema};
use super::options::TextOptions;
use crate::ingest::sources::Input;
use crate::ingest::sources::zip::Member;

#[derive(Clone)]
pub(super) struct TextInput {
    pub(super) source: TextSource,
    pub(super) layout: Arc<Layout>,
    pub(super) options: Arc<TextOptions>,
    /// The longest row, in bytes.
    pub(super) row_limit: usize,
}

/// How the rows of an input are read.
pub(super) struct Layout {
    pub(super) schema: TextSchema,
    /// The position in the input of each column of the table.
    pub(super) positions: Vec<Option<usize>>,
}

/// A file, or a member of an archive, which has a path of its own.
#[derive(Clone, Debug)]
pub(crate) struct TextFile {
    pub(crate) path: PathBuf,
    pub(crate) member: Option<Member>,
}

impl TextFile {
    pub(crate) fn input(&self) -> Input {
        match &self.member {
            Some(member) => Input::member(member.clone()),
            None => Input::path(&self.path),
        }
    }
}

#[derive(Clone)]
pub(super) enum TextSource {
    File(TextFile),
    /// The standard input, which is read once: the chunks that are left, beginning with the sample.
    Stdin(Stdin),
}

/// The chunks of the standard input, until they are read.
pub(super) type Stdin = Arc<Mutex<Option<Chunks>>>;

impl TextInput {
    /// An input of a table with these columns, read in the table's types.
    pub(super) fn new(
        source: TextSource,
        mut schema: TextSchema,
        columns: &Columns,
        options: &Arc<TextOptions>,
        row_limit: usize,
    ) -> Self {
        let own = schema.columns();
        let place = |name: &Arc<str>| own.iter().position(|(known, _)| known == name);
        let positions: Vec<Option<usize>> = columns.iter().map(|(name, _)| place(name)).collect();
        for (place, (_, data_type)) in positions.iter().zip(columns) {
            if let Some(at) = place {
                schema.set_type(*at, data_type);
            }
        }
        let layout = Arc::new(Layout { schema, positions });
        TextInput { source, layout, options: Arc::clone(options), row_limit }
    }
}

impl fmt::Display for TextSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextSource::File(file) => file.path.display().fmt(f),
            TextSource::Stdin(_) => f.write_str("standard input"),
        }
    }
}
