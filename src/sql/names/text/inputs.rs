//! The inputs of a text table: files, or the standard input.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use arrow_array::ArrayRef;

use super::formats::{Chunks, Columns, TextSchema};
use super::options::TextOptions;
use crate::ingest::sources::zip::Member;
use crate::ingest::sources::{Input, PathColumns};
use crate::model::DataType;

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
    /// Where each column of the table is.
    pub(super) places: Vec<ColumnPlace>,
}

/// Where an input has a column of the table.
pub(super) enum ColumnPlace {
    /// Its position in the text.
    Text(usize),
    /// The value of all rows, by the path of the input.
    Path(ArrayRef),
    /// Nowhere: it is null.
    None,
}

/// A file, or a member of an archive, which has a path of its own.
#[derive(Clone, Debug)]
pub(crate) struct TextFile {
    pub(crate) path: PathBuf,
    pub(crate) member: Option<Member>,
}

impl TextFile {
    /// The file that an input is.
    pub(crate) fn of(input: &Input) -> TextFile {
        TextFile { path: input.name().to_path_buf(), member: input.as_member().cloned() }
    }

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
    /// An input of a table with these columns, read in the table's types. Those that it lacks are
    /// of its path, or null.
    pub(super) fn new(
        source: TextSource,
        mut schema: TextSchema,
        of_path: &PathColumns,
        columns: &Columns,
        options: Arc<TextOptions>,
        row_limit: usize,
    ) -> Self {
        let own = schema.columns();
        let place = |(name, data_type): &(Arc<str>, DataType)| {
            if let Some(at) = own.iter().position(|(known, _)| known == name) {
                schema.set_type(at, data_type);
                return ColumnPlace::Text(at);
            }
            let value = of_path.values().find(|(field, _)| **field.name() == **name);
            value.map_or(ColumnPlace::None, |(_, value)| ColumnPlace::Path(Arc::clone(value)))
        };
        let places = columns.iter().map(place).collect();
        let layout = Arc::new(Layout { schema, places });
        TextInput { source, layout, options, row_limit }
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
