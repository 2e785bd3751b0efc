//! `ASOF JOIN`: each row with the last one of the other side that is not later.
//!
//! Where this stands on the road of a query: `plan::asof` puts the node into a plan. Both sides
//! come divided by the keys that are equal, in the order of these and of their times, so that one
//! pass over both finds the pairs (`merge`), in little memory.

mod exec;
mod merge;
mod node;
mod order;

pub(in crate::sql) use self::node::AsofNode;
pub(in crate::sql) use self::order::Match;
