//! `sty serve`: many clients of one store.
//!
//! A connection is a task; a statement has a thread of its own while it runs, and borrows the
//! threads of the engine. `admission` lets statements begin, `running` knows those that run,
//! `reply` carries an answer from its thread to its connection.
//!
//! | module | what it has |
//! | --- | --- |
//! | `users` | who may do what |
//! | `admission` | which statements may begin |
//! | `finished` | statements that have ended, for the query log |
//! | `running` | the statements that run, and how to end one |
//! | `sessions` | the sessions of clients |
//! | `reply` | from the thread of a statement to its connection |
//! | `body` | bodies of requests and of replies |
//! | `metrics` | counters |
//! | `cancels` | how a client of PostgreSQL ends what another connection runs |
//! | `server` | what all connections share |
//! | `query_log` | a table of the statements that have ended |
//! | `clickhouse` | ClickHouse's formats: answers to bytes, bytes to rows |
//! | `http` | ClickHouse's HTTP interface |
//! | `postgres` | PostgreSQL's protocol |
//! | `flight` | Arrow Flight SQL |
//! | `listen` | connections, TLS, and the end |

pub(crate) mod users;
pub(crate) mod admission;
mod finished;
pub(crate) mod running;
pub(crate) mod sessions;
mod reply;
mod body;
pub(crate) mod metrics;
pub(crate) mod cancels;
pub(crate) mod server;
pub(crate) mod query_log;
mod clickhouse;
mod http;
mod postgres;
mod flight;
pub(crate) mod listen;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
