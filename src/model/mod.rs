//! The logical parts of a table: data types and their lattice, the schema with its permanent column
//! ids, the arrangement of rows, and single values.
//!
//! All later folders use these terms. Bitmaps are Arrow's (`arrow_buffer::BooleanBuffer`).

pub(crate) mod arrangement;
pub(crate) mod data_type;
pub(crate) mod fields;
pub(crate) mod interval;
pub(crate) mod scalar;
pub(crate) mod schema;
pub(crate) mod stored;
pub(crate) mod type_names;
pub(crate) mod uuid;

pub use arrangement::{Arrangement, PartitionKey, SortKey};
pub(crate) use data_type::WordWidth;
pub use data_type::{DataType, Physical, TimeUnit};
pub use scalar::Scalar;
pub use schema::{Column, ColumnId, Schema};
