//! Files as tables: `FROM 'x.csv'`, `FROM 'y.parquet'`, `FROM 'logs/*.jsonl'`, `FROM 'logs/'`,
//! `FROM '-'`.
//!
//! A name is taken for a file if it has a known extension (or is `-`, the standard input), and for
//! a directory of files if it ends with a slash; only then is it looked for. A call such as
//! `read_csv('x.txt', skip => 1)` says itself what its files are (`file_calls`). CSV, TSV and JSON,
//! also compressed, are read by ingest's reader (`text`), Parquet and Arrow by DataFusion, guarded
//! (`foreign`); where they are compressed or piped in, from a temporary file (`spooled`).

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::Column;
use datafusion::datasource::ViewTable;
use datafusion::datasource::default_table_source::provider_as_source;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::disk::real::look_up;
use crate::error::{Error, IoResult, Result};
use crate::ingest::sources::zip::{self, Member};
use crate::ingest::sources::{Format, Input, Opened, files_in};
use crate::sql::names::file_calls::{FileCall, Kind};
use crate::sql::names::foreign::{self, ForeignFormat};
use crate::sql::names::mixed;
use crate::sql::names::spooled::Spooled;
use crate::sql::names::text::{self, TextFile, TextOptions, TextTable};
use crate::sql::syntax::file_functions::is_call;

/// The name of the standard input.
pub(super) const STDIN: &str = "-";

/// The bytes of a path that are written as `%XX` in its address.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

fn kind_of(name: &str) -> Option<Kind> {
    let lower = name.to_ascii_lowercase();
    let uncompressed = [".gz", ".gzip", ".zst", ".zstd", ".bz2", ".lz4"]
        .iter()
        .find_map(|end| lower.strip_suffix(end));
    if lower.ends_with(".zip") {
        return Some(Kind::Text);
    }
    let (_, ending) = uncompressed.unwrap_or(&lower).rsplit_once('.')?;
    Some(match ending {
        "csv" | "tsv" | "tab" | "txt" | "json" | "jsonl" | "ndjson" => Kind::Text,
        "parquet" | "pq" | "arrow" | "arrows" | "feather" | "ipc" if uncompressed.is_some() => {
            Kind::Compressed
        }
        "parquet" | "pq" => Kind::Parquet,
        "arrow" | "arrows" | "feather" | "ipc" => Kind::Arrow,
        _ => return None,
    })
}

/// Whether a name means the files in a directory.
fn is_directory(name: &str) -> bool {
    name.len() > 1 && name.ends_with('/')
}

/// The kind of the files in a directory, which all have the same.
fn kind_in(name: &str) -> Result<Kind> {
    let mut first: Option<(Kind, TextFile)> = None;
    for file in expand(name)? {
        let path = file.path.to_string_lossy();
        let kind = kind_of(&path).ok_or_else(|| {
            Error::InvalidInput(format!(
                "{path} does not say by its name what it is; if the files of {name} are CSV, read \
                 them with read_csv('{name}')"
            ))
        })?;
        match &first {
            Some((known, other)) if *known != kind => {
                return Err(Error::InvalidInput(format!(
                    "the files of {name} have several formats, or are compressed in part, such as \
                     {} and {path}; name those that are meant, as in '{name}*.csv'",
                    other.path.display()
                )));
            }
            Some(_) => {}
            None => first = Some((kind, file)),
        }
    }
    first.map(|(kind, _)| kind).ok_or_else(|| Error::NotFound(format!("no file in {name}")))
}

/// Whether a name means a file (or the standard input), which may not exist.
pub(crate) fn is_file(name: &str) -> bool {
    name == STDIN || is_call(name) || is_directory(name) || kind_of(name).is_some()
}

/// Whether a file may take long to open as a table: it is one of many, compressed, or a text that
/// is parsed for its types.
pub(in crate::sql) fn is_slow_to_open(name: &str) -> bool {
    const MOST_BYTES: u64 = 4 << 20;
    let is_large = || std::fs::metadata(name).map_or(true, |found| found.len() > MOST_BYTES);
    match kind_of(name) {
        None => is_call(name) || is_directory(name),
        Some(Kind::Parquet | Kind::Arrow) => name.contains(['*', '?', '[']),
        Some(Kind::Text) => is_large(),
        Some(Kind::Compressed) => true,
    }
}

/// Opens `name` as a table if it is the name of a file, or a pattern for such names. What a program
/// has fed stands in the place of the standard input.
pub(crate) async fn open(
    name: &str,
    state: &SessionState,
    note: &mut (dyn FnMut(String) + Send),
    fed: impl FnOnce() -> Option<Input>,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let (threads, memory) = (state.config().target_partitions(), foreign::memory_limit(state));
    let Some(FileCall { kind, names, options }) = request(name)? else {
        refuse_pipe(name)?;
        return Ok(None);
    };
    let mut spooled = Spooled::default();
    let (kind, paths, names) = if reads_stdin(&names)? {
        let fed = fed();
        if fed.is_none() && std::io::stdin().is_terminal() {
            let what = "the standard input is a terminal; pipe rows in, or name a file";
            return Err(Error::InvalidInput(what.into()));
        }
        let opened = text::open_input(fed.unwrap_or_else(Input::stdin), &options)?;
        let Some(kind) = foreign_kind(&opened) else {
            let table = TextTable::of_stdin(opened, options, memory, note)?;
            return Ok(Some(Arc::new(table)));
        };
        (kind, vec![spooled.add(opened, state)?], Vec::new())
    } else {
        let mut files = Vec::with_capacity(names.len());
        for name in &names {
            files.extend(expand(name)?);
        }
        let is_plain = files.iter().all(|file| file.member.is_none());
        let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        match kind {
            Kind::Text => {
                let table = TextTable::open(&files, options, threads, memory, note)?;
                return Ok(Some(Arc::new(table)));
            }
            Kind::Parquet if is_plain => (foreign::Kind::Parquet, paths.clone(), paths),
            Kind::Arrow if is_plain => (foreign::Kind::Arrow, paths.clone(), paths),
            _ => {
                let (kind, unpacked) = decompressed(&files, &mut spooled, state)?;
                (kind, unpacked, paths)
            }
        }
    };
    let name = if is_stdin(name) { "standard input" } else { name };
    match listed(kind, &paths, (&names, &options), state).await {
        Ok(table) => Ok(Some(spooled.keep_with(table))),
        Err(error) => Err(with_file_name(name, spooled.renamed(error.into(), name))),
    }
}

/// Compressed files, and those in archives, as they are when unpacked. They all have one format.
fn decompressed(
    files: &[TextFile],
    spooled: &mut Spooled,
    state: &SessionState,
) -> Result<(foreign::Kind, Vec<PathBuf>)> {
    let (mut kind, mut plain) = (None, Vec::with_capacity(files.len()));
    for file in files {
        let opened = file.input().open()?;
        match (foreign_kind(&opened), kind) {
            (Some(found), None) => kind = Some(found),
            (found, known) if found.is_some() && found == known => {}
            _ => {
                let what = "is not Parquet or Arrow like the others, by what is compressed in it";
                return Err(Error::InvalidInput(format!("{}: {what}", file.path.display())));
            }
        }
        plain.push(spooled.add(opened, state)?);
    }
    let none = || Error::NotFound("there is no file to read".into());
    Ok((kind.ok_or_else(none)?, plain))
}

fn foreign_kind(opened: &Opened) -> Option<foreign::Kind> {
    match opened.format {
        Format::Parquet => Some(foreign::Kind::Parquet),
        Format::Arrow => Some(foreign::Kind::Arrow),
        Format::Csv | Format::Tsv | Format::Json => None,
    }
}

/// A table over Parquet or Arrow files, with the columns of the paths that they were named by.
async fn listed(
    kind: foreign::Kind,
    paths: &[PathBuf],
    (names, options): (&[PathBuf], &TextOptions),
    state: &SessionState,
) -> Result<Arc<dyn TableProvider>, DataFusionError> {
    let urls = paths
        .iter()
        .map(|path| ListingTableUrl::parse(url(&absolute(path)?)))
        .collect::<Result<Vec<_>, _>>()?;
    let format = Arc::new(ForeignFormat::new(kind));
    let listing = ListingOptions::new(Arc::clone(&format) as _).with_file_extension("");
    let mut schemas = Vec::with_capacity(urls.len());
    for url in &urls {
        schemas.push(listing.infer_schema(state, url).await?.as_ref().clone());
    }
    let table = |urls,
                 schemas: &[Schema],
                 names: &[PathBuf],
                 schema|
     -> Result<Arc<dyn TableProvider>, DataFusionError> {
        let config = ListingTableConfig::new_with_multi_paths(urls);
        let config = config.with_listing_options(listing.clone()).with_schema(Arc::new(schema));
        let (files, format) = (ListingTable::try_new(config)?, Arc::clone(&format));
        let table = foreign::with_path_columns(files, format, schemas, names, options)?;
        if kind == foreign::Kind::Arrow { without_dictionaries(table) } else { Ok(table) }
    };
    if let Ok(schema) = merged(&schemas) {
        return table(urls, &schemas, names, schema);
    }
    let mut tables = Vec::new();
    for group in mixed::groups(&schemas) {
        let of_group = among(&schemas, &group);
        let (urls, names) = (among(&urls, &group), among(names, &group));
        let first = group.first().and_then(|at| paths.get(*at));
        let first = first.map_or(Path::new(""), PathBuf::as_path);
        tables.push((table(urls, &of_group, &names, merged(&of_group)?)?, first));
    }
    mixed::united(&tables)
}

fn among<T: Clone>(all: &[T], places: &[usize]) -> Vec<T> {
    places.iter().filter_map(|at| all.get(*at).cloned()).collect()
}

/// The columns of all files. One that some of them lack is null there.
fn merged(schemas: &[Schema]) -> Result<Schema, DataFusionError> {
    let merged = Schema::try_merge(schemas.iter().cloned())?;
    let lacks = |name: &String| schemas.iter().any(|schema| schema.index_of(name).is_err());
    let fields = merged.fields().iter().map(|field| {
        let nullable = field.is_nullable() || lacks(field.name());
        field.as_ref().clone().with_nullable(nullable)
    });
    Ok(Schema::new_with_metadata(fields.collect::<Vec<_>>(), merged.metadata().clone()))
}

/// What a name asks for: a call, a file or pattern by its extension, or the standard input.
fn request(name: &str) -> Result<Option<FileCall>> {
    let call = FileCall::parse(name)?;
    let kind = match name {
        STDIN => Some(Kind::Text),
        _ if call.is_none() && is_directory(name) => Some(kind_in(name)?),
        _ => kind_of(name),
    };
    Ok(call.or_else(|| {
        let names = vec![name.to_owned()];
        kind.map(|kind| FileCall { kind, names, options: TextOptions::default() })
    }))
}

/// Whether a name means the standard input, alone or in a call.
pub(in crate::sql) fn is_stdin(name: &str) -> bool {
    let names =
        |call: Option<FileCall>| call.is_some_and(|call| call.names.contains(&STDIN.into()));
    name == STDIN || is_call(name) && FileCall::parse(name).is_ok_and(names)
}

fn reads_stdin(names: &[String]) -> Result<bool> {
    match names {
        [only] if only == STDIN => Ok(true),
        names if names.iter().any(|name| name == STDIN) => Err(Error::Unsupported(
            "the standard input is read alone, and not in a list with files".into(),
        )),
        _ => Ok(false),
    }
}

/// Casts dictionary columns of a table to their value type. The dictionaries of an Arrow file may
/// contain nulls, which DataFusion (55.2) turns into empty texts when it casts to views.
fn without_dictionaries(
    table: Arc<dyn TableProvider>,
) -> Result<Arc<dyn TableProvider>, DataFusionError> {
    let schema = table.schema();
    let is_coded = |data_type: &DataType| matches!(data_type, DataType::Dictionary(..));
    if !schema.fields().iter().any(|field| is_coded(field.data_type())) {
        return Ok(table);
    }
    let column = |name: &String| Expr::Column(Column::from_name(name));
    let exprs = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Dictionary(_, value) => {
            cast(column(field.name()), value.as_ref().clone()).alias(field.name())
        }
        _ => column(field.name()),
    });
    let plan = LogicalPlanBuilder::scan("file", provider_as_source(table), None)?
        .project(exprs)?
        .build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// The files that a name, a directory or a pattern stands for, sorted by name; at least one.
fn expand(name: &str) -> Result<Vec<TextFile>> {
    let file = |path: &Path, member| TextFile { path: path.to_owned(), member };
    if let Some(members) = zip::members(Path::new(name))? {
        let path = |member: Member| {
            let path = member.path().to_owned();
            file(&path, Some(member))
        };
        return Ok(members.into_iter().map(path).collect());
    }
    match look_up(Path::new(name))? {
        Some(found) if found.is_file() => return Ok(vec![file(Path::new(name), None)]),
        Some(found) if found.is_dir() => {
            let inside = files_in(Path::new(name))?;
            return Ok(inside.iter().map(TextFile::of).collect());
        }
        _ => {}
    }
    refuse_pipe(name)?;
    let missing = |what: &str| Err(Error::NotFound(format!("no file {name}{what}")));
    if !name.contains(['*', '?', '[']) {
        return missing("");
    }
    let pattern = glob::glob(name)
        .map_err(|error| Error::InvalidInput(format!("pattern {name}: {error}")))?;
    let mut files = Vec::new();
    for path in pattern {
        let path = path.map_err(|error| {
            let path = error.path().to_path_buf();
            Error::io(path, error.into())
        })?;
        if path.is_file() {
            files.push(file(&path, None));
        }
    }
    if files.is_empty() { missing(" matches the pattern") } else { Ok(files) }
}

/// Refuses a pipe or a device, such as a shell's `<(…)`: a table may be read several times.
fn refuse_pipe(name: &str) -> Result<()> {
    if !name.contains('/') && kind_of(name).is_none() {
        return Ok(());
    }
    // A name that cannot be looked up is that of no file.
    match look_up(Path::new(name)).ok().flatten() {
        Some(found) if !found.is_file() && !found.is_dir() => Err(Error::Unsupported(format!(
            "{name} is a pipe or a device, and a query reads files, or one pipe as its standard \
             input: `… | sty query STORE \"SELECT … FROM '-'\"`"
        ))),
        _ => Ok(()),
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_path(path)
}

/// The URL of a file, with all special characters escaped.
fn url(path: &Path) -> String {
    format!("file://{}", percent_encode(path.as_os_str().as_encoded_bytes(), ESCAPED))
}

fn with_file_name(name: &str, error: Error) -> Error {
    match error {
        // The guard has named the one file among those of a pattern.
        Error::InvalidInput(what) if !what.contains(": cannot be read as ") => {
            Error::InvalidInput(format!("{name}: {what}"))
        }
        other => other,
    }
}
