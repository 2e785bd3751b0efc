//! A file system in memory that fails or loses power at a call that a test chooses.
//!
//! It keeps two images. Running code sees the *live* one. The *durable* one has what certainly
//! survives a power loss: synced bytes, under names whose directory was synced. Bytes whose sync
//! failed once are never made durable by another. Everything else
//! (unsynced bytes, names created, renamed or removed since) may survive or not, independently and
//! in any order: [`PowerLoss`] decides. This is deliberately harsher than any real file system.
//!
//! `image.rs` has the two images, `files.rs` the calls on them.

mod files;
mod image;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::image::{Node, State};
use crate::error::{Error, IoResult, Result};

/// A file system in memory; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

/// Which calls fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// The first call that fails, counted from 1 since [`SimulatedDisk::set_fault`].
    pub at: u64,
    /// Whether all later calls fail too (a crash), or only this one (a disk that is full for a
    /// moment).
    pub forever: bool,
    /// Whether the failing call has its effect nevertheless.
    pub after_effect: bool,
}

/// What happens to everything that was not synced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PowerLoss {
    /// All of it is lost.
    Nothing,
    /// All of it survives.
    Everything,
    /// This seed decides whether each name and each file's bytes survive. Bytes may also survive in
    /// part: up to some place, as zeros, or torn, with any of the sectors that were written, as
    /// they reach the medium in any order.
    Some(u64),
}

impl SimulatedDisk {
    /// An empty file system with one durable directory `root`.
    pub(crate) fn new(root: &Path) -> Self {
        let mut state = State::default();
        for dir in root.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
            state.live.insert(dir.to_path_buf(), Node::Dir);
        }
        state.durable = state.live.clone();
        state.exchanges = true;
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Arms a fault (or none), and counts calls from zero again.
    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        let mut state = self.lock();
        state.fault = fault;
        state.calls = 0;
    }

    /// Calls since [`SimulatedDisk::set_fault`].
    pub(crate) fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Loses power and boots again: open files and locks are gone, and `outcome` decides what
    /// survives.
    pub(crate) fn lose_power(&self, outcome: PowerLoss) {
        self.lock().lose_power(outcome);
    }

    /// A copy that changes by itself.
    pub(crate) fn fork(&self) -> Self {
        SimulatedDisk { state: Arc::new(Mutex::new(self.lock().clone())) }
    }

    /// Denies every look at a path and what is below it, as missing permissions do.
    pub(crate) fn deny(&self, path: Option<&Path>) {
        self.lock().denied = path.map(Path::to_path_buf);
    }

    /// Makes it a file system that cannot exchange directories.
    pub(crate) fn without_exchange(&self) {
        self.lock().exchanges = false;
    }

    /// Every file's path and bytes in the live image.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.lock();
        let bytes = |node: &Node| match node {
            Node::File(inode) => state.inodes.get(inode).map(|i| i.live.clone()),
            Node::Dir => None,
        };
        state.live.iter().filter_map(|(path, node)| Some((path.clone(), bytes(node)?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes one call, which fails if the fault says so.
    fn call<T>(&self, path: &Path, act: impl FnOnce(&mut State) -> io::Result<T>) -> Result<T> {
        let mut state = self.lock();
        if state.denied.as_ref().is_some_and(|denied| path.starts_with(denied)) {
            return Err(Error::io(path, io::ErrorKind::PermissionDenied.into()));
        }
        state.calls += 1;
        let calls = state.calls;
        let hit = state.fault.filter(|f| calls == f.at || (f.forever && calls > f.at));
        let injected =
            || Error::io(path, io::Error::other(format!("injected fault at call {calls}")));
        match hit {
            Some(fault) if !fault.after_effect || calls > fault.at => Err(injected()),
            Some(_) => {
                let _ = act(&mut state);
                Err(injected())
            }
            None => act(&mut state).with_path(path),
        }
    }
}
