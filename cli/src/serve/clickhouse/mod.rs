//! What ClickHouse's clients read and send: names of types, formats of answers, bodies of INSERT,
//! and compressed blocks around either. No module here knows HTTP.
//!
//! | module | holds |
//! | --- | --- |
//! | `types` | ClickHouse's types, their names, and the Arrow types that they are |
//! | `columns` | the columns of a batch in ClickHouse's types |
//! | `text` `escape` | how a value is spelled in the text formats |
//! | `formats` | the formats of answers: batches → bytes |
//! | `rows_in` | the formats of INSERT: bytes → batches; values of parameters |
//! | `blocks` | ClickHouse's compressed blocks, both ways |

pub(crate) mod blocks;
mod columns;
mod escape;
pub(crate) mod formats;
mod refusals;
mod revision;
pub(crate) mod rows_in;
mod text;
pub(crate) mod types;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
