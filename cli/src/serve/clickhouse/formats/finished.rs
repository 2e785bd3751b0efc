//! What some formats say behind the rows.

/// What there is to say about an answer when it is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Finished {
    /// The number of rows of the answer.
    pub(crate) rows: u64,
    /// How long the statement took.
    pub(crate) seconds: f64,
    /// The number of rows that were read for it.
    pub(crate) rows_read: u64,
    /// The number of bytes that were read for it.
    pub(crate) bytes_read: u64,
}
