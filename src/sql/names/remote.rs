//! How the names of a session find tables of other machines.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::error::Result;
use crate::sql::run::table::StoreTable;

/// The tables of a cluster.
pub(crate) struct InCluster {
    /// Lists their names.
    pub(crate) names: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// The names of its nodes, as messages list them.
    pub(crate) nodes: String,
    pub(crate) find: FindInCluster,
}

/// Finds a table of a cluster. Some machines may be left out if the first argument says so, with
/// notes.
pub(crate) type FindInCluster = Box<
    dyn Fn(bool, String) -> BoxFuture<'static, (Result<Option<Arc<StoreTable>>>, Vec<String>)>
        + Send
        + Sync,
>;
