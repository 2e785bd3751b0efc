//! The work of sessions: their threads, and how to stop it.
//!
//! | module | what it has |
//! | --- | --- |
//! | `cancel` | how to stop what a session is doing |
//! | `crews` | the threads that an engine lends |
//! | `workers` | those that a session has borrowed |
//! | `handle` | what plans know of the session that they work for |

pub(in crate::sql) mod cancel;
pub(in crate::sql) mod crews;
pub(in crate::sql) mod handle;
pub(in crate::sql) mod workers;
