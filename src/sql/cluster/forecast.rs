//! What a load over several machines would begin with: `sty ingest --cluster --dry-run`.

use super::loads::ClusterLoad;
use crate::error::Result;
use crate::ingest::load::LoadOptions;
use crate::ingest::sources::Input;
use crate::store::{Snapshot, TableOptions};

impl ClusterLoad {
    /// What a load would begin with: the table as it is, without its rows, if there is one; the
    /// inputs that would be loaded first; and what is said of a stopped load that this one would
    /// finish. Nothing is stored.
    pub fn foresee(
        &mut self,
        inputs: Vec<Input>,
        options: TableOptions,
        load_options: &LoadOptions,
    ) -> Result<(Option<Snapshot>, Vec<Input>, Option<String>)> {
        self.only_looks = true;
        let (round, _, inputs) = self.begin_round(inputs, options, load_options)?;
        let is_there = round.table.generation()?.is_some();
        let table = is_there.then(|| round.table.snapshot()).transpose()?;
        Ok((table, inputs, round.finishes))
    }
}
