//! Grouping: rows → numbers of groups.
//!
//! Where this stands on the road of a query: after `filter` has selected rows, this folder gives each the number of its
//! group, and `aggregate` adds its values there. How is chosen once for a query, from dictionaries and zone maps:
//!
//! | keys | way | file |
//! | --- | --- | --- |
//! | all have codes, and the product of their domains is small | the codes, as digits of one number, are the group | `direct` |
//! | all have codes that fit 64 bits | a hash table of such numbers | `hashed` |
//! | anything | a hash table of the keys as bytes | `rows` |
//!
//! Codes mean the same in every segment (`coding`), so that the states of threads are merged slot by slot.

mod code_map;
pub(crate) mod coding;
pub(crate) mod direct;
pub(crate) mod hashed;
pub(crate) mod rows;

pub(crate) use code_map::{CodeMap, CodeMaps};
