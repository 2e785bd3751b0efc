//! Arrow Flight SQL, as the drivers of ADBC and JDBC speak it: batches of Arrow over HTTP/2.
//!
//! A connection (`connection`) is a task, and so is each call of it. `interceptor` finds who calls,
//! and `service` hands each call to what answers it. A statement waits for its turn and runs on a
//! thread (`work`), from which messages go to the call. Clients learn what an answer is before it
//! is made (`queries`); rows that they send (`received`) are stored as they come.
//!
//! | module | what it has |
//! | --- | --- |
//! | `errors` | failures and their codes |
//! | `tickets` | what a client brings for an answer |
//! | `types`, `messages` | batches as they are sent |
//! | `description` | what a statement takes and gives |
//! | `tokens`, `prepared`, `divided` | what is kept between calls |
//! | `call`, `authentication`, `work` | a call, who has made it, and the statement that it runs |
//! | `statements`, `parameters` | placeholders, and what they stand for |
//! | `received` | rows that a client sends |
//! | `updates`, `queries` | statements without an answer, and with one |
//! | `keys`, `info`, `type_info`, `metadata` | what clients ask about a server |
//! | `ingest` | rows into a table |
//! | `actions`, `service` | calls |
//! | `node` | what other machines of a cluster ask |
//! | `interceptor`, `connection` | what each call passes first, and its connection |

mod errors;
mod tickets;
mod types;
mod messages;
mod tokens;
mod description;
mod prepared;
mod divided;
mod call;
mod authentication;
mod work;
mod statements;
mod parameters;
mod received;
mod updates;
mod queries;
mod keys;
mod info;
mod type_info;
mod metadata;
mod ingest;
mod actions;
#[cfg(feature = "cluster")]
mod node;
mod service;
mod interceptor;
mod connection;

pub(super) use self::call::Shared;
pub(super) use self::connection::connection;
