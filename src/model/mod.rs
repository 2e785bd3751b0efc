//! The logical parts of a table: data types and their lattice, the schema with its permanent column
//! ids, the arrangement of rows, and single values.
//!
//! All later folders use these terms. Bitmaps are Arrow's (`arrow_buffer::BooleanBuffer`).

pub mod arrangement;
pub mod data_type;
pub mod scalar;
pub mod schema;
pub mod stored;

pub use arrangement::{Arrangement, PartitionKey, SortKey};
pub use data_type::{DataType, Physical, TimeUnit, WordWidth};
pub use scalar::Scalar;
pub use schema::{Column, ColumnId, Schema};
