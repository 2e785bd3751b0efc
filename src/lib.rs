//! Stylobate: a disk-backed, memory-mapped columnar store.
//!
//! A [`Store`] is a directory of tables. A [`Table`] keeps its rows as immutable segments of
//! compressed columns, mapped into memory and read in place, so that it may be larger than memory.
//! One writer at a time loads rows and commits a new generation; any number of readers hold a
//! [`Snapshot`] of one generation and never wait.
//!
//! # Example
//!
//! Make a store, load a table, query it, read batches. `examples/embed.rs` is longer.
//!
//! ```
//! # #[cfg(not(feature = "sql"))]
//! # fn main() {}
//! # #[cfg(feature = "sql")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use arrow_array::{RecordBatch, cast::AsArray, types::Float64Type};
//! use stylobate::{
//!     Input, LoadOptions, Parameters, Schema, Session, SessionOptions, Store, TableOptions, load,
//! };
//!
//! let directory = tempfile::tempdir()?;
//! let store = Store::open(directory.path().join("db"));
//!
//! // A new table takes its columns and their types from the first rows.
//! let csv = "city,fare\nBern,12.5\nBasel,9.0\nBern,7.25\n";
//! let input = Input::reader("trips.csv", Box::new(csv.as_bytes()));
//! let writer = store.table("trips")?.writer(Some((Schema::default(), TableOptions::default())))?;
//! let report = load(writer, vec![input], &LoadOptions::default())?;
//! assert_eq!(report.rows_stored, 3);
//!
//! // An answer is an iterator of Arrow batches.
//! let session = Session::open(&store, &SessionOptions::default())?;
//! let mut parameters = Parameters::default();
//! parameters.add("city=Bern")?;
//! let mut answer: Vec<RecordBatch> = Vec::new();
//! session.run("SELECT sum(fare) FROM trips WHERE city = $city", &parameters, |batches| {
//!     for batch in batches {
//!         answer.push(batch?);
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(answer[0].column(0).as_primitive::<Float64Type>().value(0), 19.75);
//! # Ok(())
//! # }
//! ```
//!
//! # Tour
//!
//! - **Open**: [`Store::open`] names a directory, [`Store::table`] a table in it.
//!   [`Table::snapshot`] holds a generation for reading, [`Table::writer`] locks the table for a
//!   load, and makes it if it is new.
//! - **Load**: [`load`] reads CSV, JSON, Arrow and Parquet from an [`Input`]; [`load_batches`]
//!   takes batches from memory. Both commit once, at the end, unless [`LoadOptions`] say otherwise,
//!   and say in a [`LoadReport`] what they did.
//! - **Query** (feature `sql`): a [`Session`] runs DataFusion's SQL over the tables of a store.
//!   INSERT, CREATE TABLE … AS, UPDATE and DELETE commit before they return. A [`Canceller`] stops
//!   a session from another thread.
//! - **Read without SQL**: [`blocks`] lists the blocks of a snapshot, [`read_block`] decodes one,
//!   on any thread.
//! - **Maintain**: [`compact`] merges segments and sorts them anew, [`alter`] changes columns,
//!   [`cast`] their types, [`drop_partitions`] removes partitions, [`verify`] checks every byte and
//!   every claim.
//!
//! Everything fails with [`Error`], whose kinds tell damaged files from wrong input.
//!
//! # Signals and memory
//!
//! Data files are mapped. With the first mapping, the library installs a handler of SIGBUS for the
//! process: a file that another program cuts, or whose disk fails, while it is mapped becomes
//! `Error::Corrupt` instead of the end of the process. Signals for other addresses go to the
//! handler that was there before. Queries of a store opened [`Store::with_io`] and [`Io::Read`] map
//! nothing and install nothing; what rewrites segments (`compact`, DELETE, UPDATE, sorted ingest)
//! maps them. What is decoded of stored data counts against a limit before it is allocated: that of
//! [`Store::with_memory_limit`], or the session's.
//!
//! # The bytes
//!
//! ```text
//! db/                            a store
//!   trips/                       a table
//!     CURRENT                    names the generation in force: replaced atomically
//!     manifest/                  its root: the schema, and a list of chunks;
//!       …7.root  ….chunk         chunks: the segments, and the statistics of their columns
//!     data/
//!       ….sty                    one segment or more, each of up to 2²⁰ rows:
//!
//! ┌────────────────────────────┬────────────────────────────┬─────────┬────────┬──────┐
//! │ column                     │ column                     │ records │ footer │ tail │
//! │ dictionary  block  block … │ dictionary  block  block … │         │        │      │
//! └────────────────────────────┴────────────────────────────┴─────────┴────────┴──────┘
//!               │
//!               65,536 values under the smallest encoding, with a checksum;
//!               minimum, maximum, sum and nulls stand in the column's record
//! ```
//!
//! `format-spec/` defines every byte, `ARCHITECTURE.md` is the map of the code.
//!
//! # Features
//!
//! `sql` (on by default) is the session, and with it DataFusion; `parquet` (on by default) is
//! Parquet input. Without both, the library reads and writes tables, and compiles in a minute.

#![cfg_attr(
    not(feature = "sql"),
    allow(
        dead_code,
        unused_imports,
        reason = "the executor and parts of what it reads are called by SQL only"
    )
)]
// The modules, in the order in which a byte travels from a file of rows to a segment and back to
// an answer; each imports only from those before it.
mod error; // the twelve kinds of failure
mod limits; // every maximum that a reader believes
mod bytes; // checked little-endian cursor and writer
mod budget; // memory that stored bytes unfold to, counted before it is allocated
mod disk; // the only folder that touches the operating system
mod model; // data types, schema, scalars
mod encoding; // values <-> bytes
mod block; // framed, checksummed, measured
mod segment; // all columns of up to 2^20 rows in one run of bytes
mod manifest; // generations: which segments there are
mod store; // tables, snapshots, the writer, views
mod expr; // predicates free of any engine's types
mod ingest; // rows in: sources, column builders, the pipeline
mod query; // the executor: pruning, filters, groups, orders
mod maintain; // compaction, deletion, partitions
#[cfg(feature = "sql")]
mod sql; // DataFusion, which nothing else knows
#[doc(hidden)]
pub mod internal; // what `sty`, tests, fuzz targets and benchmarks use beside the names below

// Failure.
pub use error::{Error, Result};

// Stores, tables, and their columns.
pub use disk::{Io, LockWait, WaitNotice};
pub use encoding::Profile;
pub use model::{Column, ColumnId, DataType, Schema, TimeUnit};
pub use store::{Snapshot, Store, Table, TableOptions, TableWriter};

// Rows in.
pub use ingest::arrange::{Arrange, SortBy};
pub use ingest::foresee::{LoadForecast, would_load};
pub use ingest::load::{
    InputReport, LoadOptions, LoadProgress, LoadReport, NewColumn, load, load_batches,
};
pub use ingest::rejects::{OnError, Reject};
pub use ingest::resume::{ChangedInput, CommitEvery, IfLoaded};
pub use ingest::selection::Select;
pub use ingest::sources::csv::Guess;
pub use ingest::sources::{CsvOptions, Input, TextEncoding, expand};
pub use ingest::text::layout::DateOrder;
pub use ingest::text::number_format::NumberFormat;

// SQL.
#[cfg(feature = "sql")]
pub use sql::CopyTarget;
#[cfg(feature = "sql")]
pub use sql::{
    BatchStream, Canceller, Described, DividedAnswer, Engine, Parameters, ReadSoFar, Session,
    SessionOptions, SqlExpressions, SqlSelect, Statement, StatementMemory, StatementProgress,
};
#[cfg(feature = "cluster")]
pub use sql::{
    ClusterDescription, ClusterLoad, ClusterRound, Copied, Moved, Node, NodeService, NodeStored,
    OfNodes, PlacedTable, Placement, TableOnNode, cluster_partitions, cluster_tables, copy_table,
    move_partition,
};

// Rows out without SQL, and maintenance.
pub use maintain::{Alteration, CompactForecast, CompactOptions, CompactReport, Partition};
pub use maintain::{BlockPlace, blocks, read_block};
pub use maintain::{Cast, CastOptions, CastReport, cast, would_cast};
pub use maintain::{
    Damage, DamageKind, VerifyOptions, VerifyReport, skip_damaged, verify, verify_kept, verify_with,
};
pub use maintain::{Lost, RepairOptions, RepairReport, Rewritten, repair};
pub use maintain::{alter, compact, drop_partitions, drop_table, partitions};
pub use maintain::{would_alter, would_compact, would_drop};
pub use manifest::WriteVolume;
pub use store::{Commit, Freed};

#[cfg(target_endian = "big")]
compile_error!(
    "the format is little-endian and read in place; big-endian machines are not supported"
);
