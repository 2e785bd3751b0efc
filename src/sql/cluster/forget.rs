//! Loads that have stopped and are given up: `sty cluster forget`.

use std::sync::atomic::AtomicBool;

use super::loads::{ClusterLoad, GOES_ON};
use super::state::hear;
use super::stopped::{Stopped, entries, files, stopped};
use super::storing::check_all;
use crate::error::Result;
use crate::ingest::sources::counted::hasher;
use crate::maintain::transfer::root_for_others;
use crate::sql::convert::listed;
use crate::store::LoadedSource;

impl ClusterLoad {
    /// Gives up the loads that have stopped: the machines that lack their rows do not get them, and
    /// have their entries of the ledger all the same. Returns the files of each, and the machines.
    pub fn forget(&mut self) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        while let Some(Stopped { load, lacking, .. }) = stopped(&self.placing.nodes, &self.known) {
            let Some((root, sources)) = entries(&self.known, load) else { break };
            let files = listed(files(&sources).map(|source| &*source.path));
            let sources: Vec<LoadedSource> = sources.into_iter().cloned().collect();
            let after = root_for_others(root, sources);
            let transfers = self.transfers(&lacking, &after, &mut []);
            let none = |_: &_| std::iter::once(Ok(hasher().finish_128().to_le_bytes().to_vec()));
            let bytes = transfers.iter().map(none).collect();
            let never = AtomicBool::new(false);
            let generations = self.deliver(&lacking, &transfers, None, bytes, &never)?;
            check_all(&generations, GOES_ON)?;
            all.push((files, listed(lacking.iter().filter_map(|at| self.name(*at)))));
            self.known = hear(&self.nodes, &self.placing.nodes, &mut self.table)?;
        }
        Ok(all)
    }
}
