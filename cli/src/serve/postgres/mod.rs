//! PostgreSQL's protocol, version 3.0, as its clients speak it.
//!
//! A connection (`connection`) is a task. It lets the client in, and hands its messages in batches
//! to a thread, on which the rest happens (`backend`): a statement is read (`own`, or the library
//! behind `compat`), described and bound (`portals`), run and answered (`run`, `copy`). Each
//! statement is a commit of its own, also between BEGIN and COMMIT; what it reads there is in
//! `isolation`.
//!
//! | module | what it has |
//! | --- | --- |
//! | `errors` | failures and their codes |
//! | `messages`, `replies` | what a client sends, and what a server sends |
//! | `scram` | how a client proves that it knows its password |
//! | `oids`, `types`, `columns`, `text`, `binary` | values of answers |
//! | `parameters`, `numerics`, `uuids` | values of parameters |
//! | `words`, `settings`, `own`, `tags` | statements as these clients write them |
//! | `known`, `catalogs`, `type_rows` | what a connection is, PostgreSQL's catalogs and types |
//! | `relations`, `information_schema`, `catalog` | the rows of the catalogs |
//! | `marks`, `calls`, `casts`, `compat` | our words for theirs, and for functions about the server |
//! | `output` | from the thread of a statement to its connection |
//! | `portals`, `backend`, `isolation`, `run`, `cursors` | the thread of a statement |
//! | `savepoints`, `set_config`, `resets` | what its statements change of the connection |
//! | `copy`, `copy_rows`, `copy_binary`, `copy_header` | COPY, on that thread |
//! | `connection` | the task of a connection |

mod errors;
mod oids;
mod types;
mod messages;
mod replies;
mod scram;
mod columns;
mod text;
mod binary;
mod numerics;
mod uuids;
mod parameters;
mod words;
mod settings;
mod own;
mod known;
mod catalogs;
mod type_rows;
mod relations;
mod information_schema;
mod catalog;
mod marks;
mod calls;
mod casts;
mod compat;
mod tags;
mod output;
mod portals;
mod backend;
mod isolation;
mod run;
mod cursors;
mod resets;
mod savepoints;
mod set_config;
mod copy_rows;
mod copy_binary;
mod copy_header;
mod copy;
mod connection;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;

pub(crate) use self::connection::{connection, refuse};
