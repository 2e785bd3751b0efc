//! The loops whose speed or whose callees need `unsafe`, each behind a safe function.

pub(crate) mod bitpack;
pub(crate) mod dispatch;
pub(crate) mod fsst;
pub(crate) mod find_byte;
pub(crate) mod lanes;
pub(crate) mod occurrences;
pub(crate) mod two_sum;
