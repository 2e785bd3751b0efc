//! Tables in a temporary store: loading into them, and reading every value back.

use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use arrow_array::{Array as _, ArrayRef};
use arrow_schema::DataType as ArrowType;
use stylobate::{
    DataType, Input, LoadOptions, LoadReport, Result, Schema, Snapshot, Store, Table, TableOptions,
    expand, load,
};

/// A store that is removed after the test.
pub(crate) struct Database {
    pub(crate) directory: tempfile::TempDir,
}

impl Database {
    pub(crate) fn new() -> Self {
        Database { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn table(&self, name: &str) -> Table {
        Store::open(self.directory.path().join("db")).table(name).unwrap()
    }

    /// The path of a file beside the store.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::File::create_new(&path).unwrap().write_all(bytes).unwrap();
        path
    }

    pub(crate) fn load(
        &self,
        table: &str,
        inputs: Vec<Input>,
        options: &LoadOptions,
    ) -> Result<LoadReport> {
        let created = (Schema::default(), TableOptions::default());
        load(self.table(table).writer(Some(created))?, inputs, options)
    }

    /// Loads one text with the default options.
    pub(crate) fn load_text(&self, table: &str, csv: &str) -> Result<LoadReport> {
        self.load(table, vec![text(csv)], &options())
    }

    /// Loads the files that these arguments of a command line name.
    pub(crate) fn load_files(&self, table: &str, arguments: &[PathBuf]) -> Result<LoadReport> {
        let arguments: Vec<String> =
            arguments.iter().map(|path| path.display().to_string()).collect();
        self.load(table, expand(&arguments)?, &options())
    }
}

/// The defaults of `sty ingest`.
pub(crate) fn options() -> LoadOptions {
    LoadOptions { threads: 2, ..LoadOptions::default() }
}

/// A CSV text as an input.
pub(crate) fn text(csv: &str) -> Input {
    Input::reader("input.csv", Box::new(Cursor::new(csv.as_bytes().to_vec())))
}

/// `name: type` of every column.
pub(crate) fn schema(table: &Table) -> Vec<String> {
    let snapshot = table.snapshot().unwrap();
    snapshot.schema().columns().iter().map(|c| format!("{}: {}", c.name, c.data_type)).collect()
}

/// The types in which the segments of a table store a column; `None` where a segment lacks it.
pub(crate) fn stored_types(table: &Table, column: &str) -> Vec<Option<String>> {
    let snapshot = table.snapshot().unwrap();
    let id = snapshot.schema().columns()[snapshot.schema().position(column).unwrap()].id;
    let segments = snapshot.segments().unwrap();
    let stored = segments.iter().map(|entry| {
        let column = snapshot.open_segment(entry).unwrap().column(id).unwrap();
        column.map(|column| column.data_type().to_string())
    });
    stored.collect()
}

/// A column's values in the table's type, block by block, in row order.
pub(crate) fn each_block(snapshot: &Snapshot, column: usize, mut visit: impl FnMut(ArrayRef)) {
    let column = &snapshot.schema().columns()[column];
    for entry in &*snapshot.segments().unwrap() {
        let segment = snapshot.open_segment(entry).unwrap();
        let Some(stored) = segment.column(column.id).unwrap() else {
            visit(arrow_array::new_null_array(&column.data_type.to_arrow(), entry.rows as usize));
            continue;
        };
        for b in 0..stored.blocks() {
            let range = segment.block_range(b);
            let rows = 0..(range.end - range.start) as usize;
            visit(stored.block(b).unwrap().decode_as(rows, &column.data_type).unwrap());
        }
    }
}

/// Every value of a column as text, `∅` for null.
pub(crate) fn values(table: &Table, column: &str) -> Vec<String> {
    let snapshot = table.snapshot().unwrap();
    let at = snapshot.schema().position(column).unwrap();
    let options = arrow_cast::display::FormatOptions::new().with_null("∅");
    let mut all = Vec::new();
    each_block(&snapshot, at, |array| {
        // Names of zones are not known to Arrow in all builds.
        let (array, end) = match array.data_type() {
            ArrowType::Timestamp(unit, Some(_)) => {
                (arrow_cast::cast(&array, &ArrowType::Timestamp(*unit, None)).unwrap(), "Z")
            }
            _ => (array, ""),
        };
        let formatter = arrow_cast::display::ArrayFormatter::try_new(&*array, &options).unwrap();
        let text = |row| match array.is_null(row) {
            true => "∅".to_owned(),
            false => format!("{}{end}", formatter.value(row)),
        };
        all.extend((0..array.len()).map(text));
    });
    all
}

/// The bytes of every segment, in row order.
pub(crate) fn segment_bytes(table: &Table) -> Vec<Vec<u8>> {
    let snapshot = table.snapshot().unwrap();
    let segments = snapshot.segments().unwrap();
    let bytes = segments.iter().map(|entry| {
        let range = entry.offset as usize..(entry.offset + entry.length) as usize;
        std::fs::read(snapshot.path(entry)).unwrap()[range].to_vec()
    });
    bytes.collect()
}

/// Names of the files in a directory, sorted.
pub(crate) fn files_in(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Parses the name of a type.
pub(crate) fn data_type(text: &str) -> DataType {
    text.parse().unwrap()
}
