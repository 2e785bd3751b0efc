//! What `sty`, the tests, the fuzz targets and the benchmarks use beside the front door, by folder.
//! Any release may change or remove it.

/// Blocks: statistics and the reader.
pub mod block {
    pub use crate::block::{Bound, Reader, Stats};
}

/// The parser of integers, and its twin.
pub mod bytes {
    pub use crate::bytes::{Cursor, Writer};
}

/// Mapped bytes, and the usual limit of memory.
pub mod disk {
    pub use crate::budget::{Budget, Charge};
    pub use crate::disk::Mapped;
    pub use crate::disk::memory::default_limit;
    pub use crate::disk::temporary::without_path;
}

/// Operations on a stored table.
pub mod maintain {
    pub use crate::maintain::check_files;
}

/// Encodings, with a module for each kind of stream.
pub mod encoding {
    pub use crate::encoding::{Encoding, Options, Sink, Source, Word};

    /// Streams of booleans.
    pub mod bools {
        pub use crate::encoding::bools::{Bools, encode};
    }
    /// Streams of floats.
    pub mod floats {
        pub use crate::encoding::floats::{Float, Floats, encode};
    }
    /// Streams of integers.
    pub mod ints {
        pub use crate::encoding::ints::{Ints, encode};
    }
    /// Streams of strings.
    pub mod strings {
        pub use crate::encoding::strings::{Strings, StringsOut, encode};
    }
    /// Streams of 128-bit integers.
    pub mod wide {
        pub use crate::encoding::wide::{Wide, encode};
    }
}

/// Expressions and predicates.
pub mod expr {
    pub use crate::expr::{Comparison, Expression, Function, Operand, Predicate, Traits};
}

/// Steps of a load.
pub mod ingest {
    pub use crate::ingest::columns::{SegmentBuilder, SegmentLimits, match_columns};
    pub use crate::ingest::load::rejected_before;
    pub use crate::ingest::partition::{Compile, Partitions, partition_keys};
    pub use crate::ingest::sources::arrow::ArrowBatches;
    pub use crate::ingest::text::interval::spelled as interval;
    pub use crate::ingest::unpublished::remove_unpublished;
    pub use crate::ingest::whole::{read_whole, same_rows};

    /// CSV, chunk by chunk.
    pub mod csv {
        pub use crate::ingest::sources::csv::{
            CsvChunk, CsvChunks, CsvSchema, INFER_ROWS, infer, parse_chunk, parse_good_rows,
        };
    }
    /// JSON, chunk by chunk.
    pub mod json {
        pub use crate::ingest::sources::json::{
            JsonChunk, JsonChunks, JsonOptions, JsonSchema, infer, parse_rows,
        };
    }
}

/// Files of a manifest.
pub mod manifest {
    pub use crate::manifest::codec::{read_current, write_current};
    pub use crate::manifest::ledger::parse_file as parse_ledger;
    pub use crate::manifest::{Chunk, ChunkRef, LedgerRef, LoadedSource, Root};
}

/// What a table or column has beside its schema.
pub mod model {
    pub use crate::model::fields::interval_texts;
    pub use crate::model::{Arrangement, PartitionKey, Physical, Scalar, SortKey};
}

/// The executor.
pub mod query {
    pub use crate::query::stats::{Counters, Form, Statistic, Step};
    pub use crate::query::{
        Aggregate, AggregateFunction, Condition, Context, Fragment, GroupLimits, Output, Recorder,
        run,
    };
}

/// Segments: the writer, the reader and the parts of a segment.
pub mod segment {
    pub use crate::segment::footer::TAIL_BYTES;
    pub use crate::segment::writer::{InputColumn, SegmentInput, encode};
    pub use crate::segment::{BlockPlace, Column, ColumnRecord, EncodedSegment, Footer, Segment};
}

/// How far a statement is, and what it has done.
#[cfg(feature = "sql")]
pub mod sql {
    pub use crate::sql::{
        DryRun, KnownColumn, KnownFunction, NodeWork, Operator, PlannedChange, Statistics,
        StoreOperator, TableForecast,
    };
    pub use crate::sql::{
        Lexeme, LexemeKind, is_complete, items_of_array, lexemes, text_of_literal,
    };
    pub use crate::sql::{ReadSoFar, StatementProgress};
}

/// Commits, segment by segment.
pub mod store {
    pub use crate::store::outside::check_outside_tables;
    pub use crate::store::{
        Changes, ColumnStats, DataFile, DataFiles, Edit, NewSegment, SegmentEntry, check_name,
        commits_ended, forbid_commits, remove_uncommitted,
    };
}
