//! The tables of a cluster among the names of a session.

use std::sync::Arc;

use super::catalog::Tables;
use crate::error::Result;
#[cfg(feature = "cluster")]
use crate::sql::run::settings::Settings;
use crate::sql::run::table::StoreTable;
#[cfg(feature = "cluster")]
use crate::store::check_name;

impl Tables {
    /// Whether names may mean tables of a cluster.
    pub(crate) fn has_cluster(&self) -> bool {
        #[cfg(feature = "cluster")]
        let has = self.cluster.get().is_some();
        #[cfg(not(feature = "cluster"))]
        let has = false;
        has
    }

    /// The table of a cluster that `name` means, if the session has one.
    #[cfg(feature = "cluster")]
    pub(super) async fn in_cluster(&self, name: &str) -> Result<Option<Arc<StoreTable>>> {
        let Some(cluster) = self.cluster.get().filter(|_| check_name(name).is_ok()) else {
            return Ok(None);
        };
        let partial =
            self.state().is_some_and(|it| Settings::of(it.config_options()).partial_answers);
        let (found, notes) = (cluster.find)(partial, name.to_owned()).await;
        // What a session may not see is not there, whatever the machines say of it.
        if !self.may_see(name) {
            return Ok(None);
        }
        notes.into_iter().for_each(|note| self.note(note));
        Ok(found?.filter(|table| self.may_see(table.snapshot().table_name())))
    }

    /// Whether the session may know a table of this name, which may be that of an older generation.
    #[cfg(feature = "cluster")]
    fn may_see(&self, name: &str) -> bool {
        let name = name.rsplit_once('@').map_or(name, |(table, _)| table);
        self.own.as_ref().is_none_or(|own| own.is_visible(name))
    }

    #[cfg(not(feature = "cluster"))]
    pub(super) async fn in_cluster(&self, _: &str) -> Result<Option<Arc<StoreTable>>> {
        Ok(None)
    }

    /// A table of the session's own store, for other machines.
    #[cfg(feature = "cluster")]
    pub(crate) fn own_table(&self, name: &str) -> Result<Option<Arc<StoreTable>>> {
        self.stored(name)
    }

    /// The nodes of the cluster, as messages list them.
    pub(in crate::sql) fn cluster_nodes(&self) -> Option<&str> {
        #[cfg(feature = "cluster")]
        let nodes = self.cluster.get().map(|cluster| cluster.nodes.as_str());
        #[cfg(not(feature = "cluster"))]
        let nodes = None;
        nodes
    }

    /// The names of the cluster's tables that the session may know.
    #[cfg(feature = "cluster")]
    pub(super) fn cluster_names(&self) -> Vec<String> {
        let names = self.cluster.get().map(|cluster| (cluster.names)());
        let names = names.unwrap_or_default().into_iter();
        names.filter(|name| self.may_see(name)).collect()
    }

    #[cfg(not(feature = "cluster"))]
    pub(super) fn cluster_names(&self) -> Vec<String> {
        Vec::new()
    }
}
