//! Grouping: rows → numbers of groups.
//!
//! Where this stands on the road of a query: after `filter` has selected rows, this folder gives
//! each the number of its group, and `aggregate` adds its values there. `strategy` chooses how,
//! once for a query, from dictionaries and zone maps:
//!
//! | keys | strategy | file |
//! | --- | --- | --- |
//! | all have codes, and the product of their domains is small | the codes, as digits of one number, are the group | `mixed_radix`, `slots` |
//! | all are numbers, or texts, that fit 128 bits together | a hash table of such numbers | `packed`, `texts`, `worker` |
//! | anything | a hash table of the keys as bytes | `key_encoder`, `worker` |
//!
//! Codes mean the same in every segment (`coding`), so that the states of threads are merged slot
//! by slot.
//!
//! Where distinct values of groups are counted, `sets` has the pairs of a group and a value beside
//! the groups: as bits (`bits`) where both have few codes, else in hash tables (`pair`), and adds
//! the counts to the groups at the end.
//!
//! Hash tables stay small. What they cannot hold moves to radix partitions:
//!
//! ```text
//! slice ─► keys ─► table of a thread ─(full)─► partitions of the thread ─(memory short)─► temporary file
//!              └──(rows hardly group)────────►       │                                        │
//!                                       all threads' partitions, one by one ◄─────────────────┘
//!                                                    └─► table of a partition ─► columns of the answer
//! ```

mod bits;
pub(crate) mod coding;
mod first;
mod grouping;
mod index;
mod interner;
mod key_column;
mod key_encoder;
mod keys;
mod mixed_radix;
#[cfg(feature = "sql")]
mod numbers;
mod output;
mod packed;
mod pair;
mod partitions;
mod sets;
mod slots;
mod spill;
mod strategy;
mod table;
mod texts;
mod worker;

pub(crate) use grouping::groups;
pub(crate) use interner::Interner;
#[cfg(feature = "sql")]
pub(crate) use key_column::{Bytes, KeyColumn};
#[cfg(feature = "sql")]
pub(crate) use numbers::{GroupNumbers, SliceNumbers};
pub(crate) use output::GroupOutput;
#[cfg(feature = "cluster")]
pub(crate) use {
    key_encoder::{KeyEncoder, KeyScratch},
    output::{PartitionOutput, gather},
    pair::TableKeys,
    spill::Spill,
    table::Part,
    worker::Hashed,
};
