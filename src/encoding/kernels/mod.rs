//! Loops that need `unsafe`, for speed or because of what they call, each behind a safe function.

pub(crate) mod bitpack;
pub(crate) mod dispatch;
pub(crate) mod find_byte;
pub(crate) mod fsst;
pub(crate) mod lanes;
pub(crate) mod occurrences;
pub(crate) mod two_sum;
pub(crate) mod views;
