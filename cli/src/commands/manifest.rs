//! `sty manifest`: shows the manifest of a table to people and programs.

use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use stylobate::Snapshot;
use stylobate::internal::block::Bound;
use stylobate::internal::manifest::LoadedSource;
use stylobate::internal::store::ColumnStats;

use crate::args::output::OutputArgs;
use crate::args::table::TableArg;
use crate::context::Context;
use crate::errors::Failure;
use crate::output::Output;
use crate::reports::{show_amplification, sort_by};
use crate::units::{show_count, show_counted, show_name, show_size};

/// Show the manifest of a table: generations, segments, loaded files
///
/// Without --format, a summary for people. As JSON, everything: one object, with an entry for each
/// segment.
///
/// Examples:
///   sty manifest db/trips
///   sty manifest db/trips --format json | jq '.segments[].rows'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ManifestArgs {
    #[command(flatten)]
    table: TableArg,
    /// A generation that is kept [default: the current one]
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,
    /// How it looks
    #[arg(long, value_enum, default_value_t)]
    format: ManifestFormat,
    #[command(flatten)]
    output: OutputArgs,
}

/// `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ManifestFormat {
    /// A summary for people
    #[default]
    Text,
    /// All of it
    Json,
}

/// Runs `sty manifest`.
pub(crate) fn run(args: &ManifestArgs, context: &Context) -> Result<(), Failure> {
    let snapshot = args.table.path.snapshot(args.generation, context)?;
    let generations = args.table.path.open(context)?.generations()?;
    let text = match args.format {
        ManifestFormat::Text => summary(&snapshot, &generations)?,
        ManifestFormat::Json => {
            let document = document(&snapshot, &generations)?;
            serde_json::to_string_pretty(&document)
                .map_err(|error| Failure::failed(error.to_string()))?
                + "\n"
        }
    };
    let mut output = Output::open(args.output.output.as_deref(), args.output.force)?;
    if let Err(error) = output.write_all(text.as_bytes()) {
        return Err(output.failure(&error));
    }
    output.commit()
}

fn summary(snapshot: &Snapshot, generations: &[u64]) -> Result<String, Failure> {
    let root = snapshot.root();
    let segments = snapshot.segments()?;
    let bytes: u64 = segments.iter().map(|segment| segment.length).sum();
    let kept: Vec<String> = generations.iter().map(u64::to_string).collect();
    let mut lines = vec![
        format!(
            "table {}, generation {}; kept: {}",
            snapshot.table_name(),
            root.generation,
            kept.join(", ")
        ),
        format!(
            "{} in {}, {} in {}; profile {}",
            show_counted(root.rows, "row"),
            show_counted(segments.len() as u64, "segment"),
            show_size(bytes),
            show_counted(root.chunks.len() as u64, "chunk"),
            root.options.profile
        ),
    ];
    if root.write_volume.loaded > 0 {
        let (loaded, written) =
            (show_size(root.write_volume.loaded), show_size(root.write_volume.written));
        lines.push(format!(
            "{loaded} loaded, {written} written{}",
            show_amplification(&root.write_volume)
        ));
    }
    let arrangement = &root.arrangement;
    if !arrangement.partition_by.is_empty() {
        let keys: Vec<String> = arrangement
            .partition_by
            .iter()
            .map(|key| format!("{} AS {}", key.expression, key.name))
            .collect();
        lines.push(format!("partitioned by {}", keys.join(", ")));
    }
    if !arrangement.sort_by.is_empty() {
        lines.push(format!("segments sorted by {}", sort_by(root).join(", ")));
    }
    let sources = snapshot.sources()?;
    if !sources.is_empty() {
        let unfinished = sources.iter().filter(|source| !source.done).count();
        let unfinished = if unfinished > 0 {
            format!(", {} not to the end", show_count(unfinished as u64))
        } else {
            String::new()
        };
        lines.push(format!("{} loaded{unfinished}", show_counted(sources.len() as u64, "source")));
    }
    for column in snapshot.schema().columns() {
        let required = if column.nullable { "" } else { " not null" };
        lines
            .push(format!("  {} {}{required} (id {})", column.name, column.data_type, column.id.0));
    }
    Ok(lines.iter().map(|line| format!("{}\n", show_name(line))).collect())
}

fn document(snapshot: &Snapshot, generations: &[u64]) -> Result<Value, Failure> {
    let root = snapshot.root();
    let columns = snapshot.schema().columns();
    let mut known = Vec::with_capacity(columns.len());
    for column in columns {
        known.push(snapshot.column_stats(column.id)?);
    }
    let entries = snapshot.segments()?;
    let segments = entries.iter().enumerate().map(|(at, segment)| {
        let stats = columns.iter().zip(&known).filter_map(|(column, known)| {
            Some((column.name.to_string(), statistics(known.get(at)?.as_ref()?)))
        });
        json!({
            "file": snapshot.path(segment).strip_prefix(snapshot.dir().path()).ok(),
            "offset": segment.offset,
            "bytes": segment.length,
            "partition": &*segment.partition,
            "uuid": hex(&segment.uuid),
            "rows": segment.rows,
            "columns": stats.collect::<Map<String, Value>>(),
        })
    });
    let partition_by = root.arrangement.partition_by.iter().map(|key| {
        json!({
            "name": &*key.name,
            "expression": &*key.expression,
            "type": key.data_type.to_string(),
        })
    });
    Ok(json!({
        "table": snapshot.table_name(),
        "id": hex(&root.table),
        "generation": root.generation,
        "generations": generations,
        "committed_ms": root.history.committed,
        "keep_ms": root.history.keep,
        "rows": root.rows,
        "bytes_loaded": root.write_volume.loaded,
        "bytes_written": root.write_volume.written,
        "write_amplification": root.write_volume.amplification(),
        "block_rows": root.options.block_rows,
        "segment_rows": root.options.segment_rows,
        "profile": root.options.profile.to_string(),
        "columns": columns.iter().map(|column| json!({
            "id": column.id.0,
            "name": &*column.name,
            "type": column.data_type.to_string(),
            "nullable": column.nullable,
        })).collect::<Vec<_>>(),
        "partition_by": partition_by.collect::<Vec<_>>(),
        "sort_by": sort_by(root),
        "chunks": root.chunks.iter().map(|chunk| json!({
            "id": hex(&chunk.id),
            "bytes": chunk.length,
            "segments": chunk.segments,
            "rows": chunk.rows,
            "first_partition": &*chunk.first_partition,
            "last_partition": &*chunk.last_partition,
        })).collect::<Vec<_>>(),
        "segments": segments.collect::<Vec<_>>(),
        "sources": snapshot.sources()?.iter().map(source).collect::<Vec<_>>(),
    }))
}

fn statistics(known: &ColumnStats) -> Value {
    let bound = |bound: &Option<Bound>| {
        bound
            .as_ref()
            .map(|bound| json!({"value": bound.value.show(&known.data_type), "exact": bound.exact}))
    };
    json!({
        "type": known.data_type.to_string(),
        "nulls": known.stats.nulls,
        "min": bound(&known.stats.min),
        "max": bound(&known.stats.max),
        "distinct_at_most": known.stats.distinct,
        "ascending": known.stats.order.ascending,
        "descending": known.stats.order.descending,
    })
}

fn source(source: &LoadedSource) -> Value {
    json!({
        "path": &*source.path,
        "bytes": source.size,
        "modified_ns": source.modified,
        "hash": source.hash.map(|hash| hex(&hash)),
        "rows": source.rows,
        "rejected": source.rejected,
        "generation": source.generation,
        "done": source.done,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
