//! A generation that was made elsewhere, put in force as it is: how the copy of a table on another
//! machine becomes the same.

use std::collections::HashSet;

use super::{TableWriter, open_segment};
use crate::disk::{Io, durable};
use crate::error::Result;
use crate::manifest::recover::Scope;
use crate::manifest::{Id, LoadedSource, Root, commit, recover};

impl TableWriter {
    /// Writes a file of the manifest: a part of the ledger, or a chunk. One that is there belongs
    /// to a generation that is kept, and is the same.
    pub(crate) fn put_manifest_file(&self, id: Id, is_ledger: bool, bytes: &[u8]) -> Result<()> {
        let path = if is_ledger { self.dir.ledger(&id) } else { self.dir.chunk(&id) };
        match self.disk.exists(&path)? {
            true => Ok(()),
            false => durable::write_new(&*self.disk, &path, bytes),
        }
    }

    /// Whether a data file is there: then it belongs to a generation that is kept, and is the same.
    pub(crate) fn has_data_file(&self, partition: &str, id: Id) -> Result<bool> {
        self.disk.exists(&self.dir.data_file(partition, &id))
    }

    /// Refuses a generation whose manifest is not here as a whole, or whose segments are not what
    /// it says: those in `new` files are looked at.
    pub(crate) fn check_arrived(&self, root: &Root, new: &HashSet<Id>) -> Result<()> {
        commit::sources(&*self.disk, &self.dir, root)?;
        for reference in &root.chunks {
            let in_chunk =
                |error: crate::error::Error| error.in_file(self.dir.chunk(&reference.id), 0);
            let chunk = commit::open(&*self.disk, &self.dir, reference)?;
            chunk.verify(reference).map_err(in_chunk)?;
            let mut segments = Vec::new();
            chunk.append_segments(&mut segments).map_err(in_chunk)?;
            for entry in segments.iter().filter(|entry| new.contains(&entry.file)) {
                let path = self.dir.data_file(&entry.partition, &entry.file);
                let mapped = self.disk.map(&path, Io::Mmap)?.into();
                open_segment(entry, mapped, path, self.budget.clone())?;
            }
        }
        Ok(())
    }

    /// Puts a generation in force, whose files are here. The one before is kept as long as the
    /// generation says, from when that was committed where it was made.
    pub(crate) fn adopt(&mut self, root: Root) -> Result<()> {
        self.check_known()?;
        let _running = self.begin_commit()?;
        if self.base.is_none() && root.generation > 1 {
            recover::mark_creating_as(&*self.disk, &self.dir, root.generation)?;
        }
        commit::put_root(&*self.disk, &self.dir, &root)?;
        self.options = root.options;
        self.end_commit(root);
        self.strays = true;
        let keep = self.base.as_ref().map_or(0, |root| root.history.keep);
        // Best effort, as after any commit.
        let _ = self.sweep(Scope::Everything, keep);
        Ok(())
    }

    /// Says that the segments of the table are not here: new ones are not merged with them. The
    /// next commit has this entry in the ledger, too.
    pub(crate) fn leave_segments_out(&mut self, entry: LoadedSource) {
        self.elsewhere = Some(entry);
    }
}
