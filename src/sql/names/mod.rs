//! What the names in a statement mean: tables and views of the store and of attached ones, views
//! and parameters of the session, files.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(in crate::sql) mod parameters;
pub(in crate::sql) mod stored;
#[cfg(feature = "cluster")]
pub(in crate::sql) mod remote;
pub(in crate::sql) mod catalog;
pub(in crate::sql) mod attached;
pub(in crate::sql) mod meaning;
mod missing;
mod foreign;
mod mixed;
pub(in crate::sql) mod text;
mod file_calls;
mod spooled;
pub(in crate::sql) mod files;
pub(in crate::sql) mod views;
mod view_names;
mod visible;
mod in_cluster;

/// Names under which the information schema shows a store's tables.
pub(in crate::sql) const CATALOG: &str = "stylobate";
pub(in crate::sql) const SCHEMA: &str = "public";

/// Locks a mutex whose value stays usable after a panic elsewhere.
pub(in crate::sql) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
