//! A file system in memory that fails or loses power where a test wants it.
//!
//! It keeps two images. The *live* one is what running code sees. The *durable* one is what a power
//! loss leaves for certain: bytes that were synced, under names whose directory was synced. What
//! lies between (unsynced bytes, names created, renamed or removed since) may survive or not, each
//! for itself and in any order: [`PowerLoss`] chooses. That is harsher than any real file system,
//! on purpose.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, Entry, Held, Lock, LockMode, Mapped, real};
use crate::error::{Error, Result};

/// A file system in memory; clones share it.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

/// Which calls fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The first call that fails, counted from 1 since [`SimulatedDisk::set_fault`].
    pub at: u64,
    /// Whether all later calls fail too (a machine going down), or this one alone (a disk that is
    /// full for a moment).
    pub forever: bool,
    /// Whether the failing call has had its effect all the same.
    pub after_effect: bool,
}

/// What becomes of everything that was not synced.
#[derive(Clone, Copy, Debug)]
pub enum PowerLoss {
    /// All of it is lost.
    Nothing,
    /// All of it survives.
    Everything,
    /// Each name and each file's bytes survive or not by this seed; bytes also in part, or as
    /// zeros.
    Some(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Dir,
    File(u64),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    shared: usize,
    exclusive: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Add(PathBuf, Node),
    Drop(PathBuf),
    Rename(PathBuf, PathBuf, Node),
}

type Names = BTreeMap<PathBuf, Node>;

#[derive(Debug, Default)]
struct State {
    inodes: HashMap<u64, Inode>,
    next_inode: u64,
    live: Names,
    durable: Names,
    /// Changes of names that no sync has covered yet, with their directory, oldest first.
    pending: Vec<(PathBuf, Change)>,
    calls: u64,
    fault: Option<Fault>,
    /// Counts power losses: handles from before are dead.
    epoch: u64,
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    path: PathBuf,
    inode: u64,
    epoch: u64,
}

#[derive(Debug)]
struct SimulatedLock {
    disk: SimulatedDisk,
    path: PathBuf,
    inode: u64,
    epoch: u64,
    exclusive: bool,
}

impl SimulatedDisk {
    /// An empty file system with the one durable directory `root`.
    pub fn new(root: &Path) -> Self {
        let mut state = State::default();
        for dir in root.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
            state.live.insert(dir.to_path_buf(), Node::Dir);
        }
        state.durable = state.live.clone();
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Arms a fault (or none), and counts calls from zero again.
    pub fn set_fault(&self, fault: Option<Fault>) {
        let mut state = self.lock();
        state.fault = fault;
        state.calls = 0;
    }

    /// Calls since [`SimulatedDisk::set_fault`].
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Cuts the power and boots again: open files and locks are gone, and `outcome` decides what
    /// survived.
    pub fn lose_power(&self, outcome: PowerLoss) {
        self.lock().lose_power(outcome);
    }

    /// Every file's path and bytes as seen now.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
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

    /// One call, which the armed fault may hit.
    fn call<T>(&self, path: &Path, act: impl FnOnce(&mut State) -> io::Result<T>) -> Result<T> {
        let mut state = self.lock();
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
            None => act(&mut state).map_err(|source| Error::io(path, source)),
        }
    }
}

fn missing() -> io::Error {
    io::Error::from(ErrorKind::NotFound)
}

fn parent(path: &Path) -> PathBuf {
    super::durable::parent(path).to_path_buf()
}

impl State {
    fn file(&self, path: &Path) -> io::Result<u64> {
        match self.live.get(path) {
            Some(Node::File(inode)) => Ok(*inode),
            Some(Node::Dir) => Err(ErrorKind::IsADirectory.into()),
            None => Err(missing()),
        }
    }

    fn inode(&mut self, number: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&number).ok_or_else(missing)
    }

    fn change(&mut self, path: &Path, change: Change) {
        apply(&mut self.live, &change);
        self.pending.push((parent(path), change));
    }

    fn create(&mut self, path: &Path) -> io::Result<u64> {
        if self.live.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if self.live.get(&parent(path)) != Some(&Node::Dir) {
            return Err(missing());
        }
        self.next_inode += 1;
        let inode = self.next_inode;
        self.inodes.insert(inode, Inode::default());
        self.change(path, Change::Add(path.to_path_buf(), Node::File(inode)));
        Ok(inode)
    }

    fn children<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a Node)> {
        self.live.iter().filter(move |(path, _)| path.parent() == Some(dir))
    }

    fn sync_names(&mut self, of: impl Fn(&Path) -> bool) {
        for (dir, change) in std::mem::take(&mut self.pending) {
            if of(&dir) {
                apply(&mut self.durable, &change);
            } else {
                self.pending.push((dir, change));
            }
        }
    }

    fn lose_power(&mut self, outcome: PowerLoss) {
        let mut random = match outcome {
            PowerLoss::Some(seed) => seed,
            _ => 0,
        };
        for (_, change) in std::mem::take(&mut self.pending) {
            let survives = match outcome {
                PowerLoss::Nothing => false,
                PowerLoss::Everything => true,
                PowerLoss::Some(_) => next(&mut random).is_multiple_of(2),
            };
            if survives {
                apply(&mut self.durable, &change);
            }
        }
        let mut names = Names::new();
        for (path, node) in std::mem::take(&mut self.durable) {
            // Sorted, so that a directory comes before what is in it.
            if path.parent().is_none_or(|dir| dir.as_os_str().is_empty() || names.contains_key(dir))
            {
                names.insert(path, node);
            }
        }
        let mut numbers: Vec<u64> = self.inodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            if let Some(inode) = self.inodes.get_mut(&number) {
                inode.lose_power(outcome, &mut random);
            }
        }
        self.live = names.clone();
        self.durable = names;
        self.fault = None;
        self.calls = 0;
        self.epoch += 1;
    }
}

impl Inode {
    fn lose_power(&mut self, outcome: PowerLoss, random: &mut u64) {
        let left = match outcome {
            PowerLoss::Nothing => self.durable.clone(),
            PowerLoss::Everything => self.live.clone(),
            PowerLoss::Some(_) if self.live == self.durable => self.live.clone(),
            PowerLoss::Some(_) => match next(random) % 4 {
                0 => self.durable.clone(),
                1 => self.live.clone(),
                2 => {
                    let longest = self.live.len() as u64 + 1;
                    let cut = (next(random) % longest) as usize;
                    self.live[..cut].to_vec()
                }
                _ => vec![0; self.live.len()],
            },
        };
        *self = Inode { live: left.clone(), durable: left, shared: 0, exclusive: false };
    }
}

fn apply(names: &mut Names, change: &Change) {
    match change {
        Change::Add(path, node) => {
            names.insert(path.clone(), *node);
        }
        Change::Drop(path) => {
            names.remove(path);
        }
        Change::Rename(from, to, node) => {
            names.remove(from);
            names.insert(to.clone(), *node);
        }
    }
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Disk for SimulatedDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        let (inode, epoch) = self.call(path, |state| Ok((state.create(path)?, state.epoch)))?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), path: path.to_path_buf(), inode, epoch }))
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        let bytes = self.call(path, |state| {
            let inode = state.file(path)?;
            Ok(state.inode(inode)?.live.clone())
        })?;
        if bytes.len() as u64 > limit {
            return Err(real::too_long(path, bytes.len() as u64, limit));
        }
        Ok(bytes)
    }

    fn map(&self, path: &Path) -> Result<Mapped> {
        Ok(Mapped::of_bytes(&self.read(path, u64::MAX)?))
    }

    fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        self.call(dir, |state| {
            if state.live.get(dir) != Some(&Node::Dir) {
                return Err(missing());
            }
            let entry = |(path, node): (&PathBuf, &Node)| {
                let name = path.file_name()?.to_str()?.to_owned();
                Some(Entry { name, is_dir: *node == Node::Dir })
            };
            Ok(state.children(dir).filter_map(entry).collect())
        })
    }

    fn len(&self, path: &Path) -> Result<u64> {
        self.call(path, |state| {
            let inode = state.file(path)?;
            Ok(state.inode(inode)?.live.len() as u64)
        })
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.call(path, |state| Ok(state.live.contains_key(path)))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(from, |state| {
            let inode = state.file(from)?;
            state.change(
                from,
                Change::Rename(from.to_path_buf(), to.to_path_buf(), Node::File(inode)),
            );
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.call(path, |state| {
            state.file(path)?;
            state.change(path, Change::Drop(path.to_path_buf()));
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.call(path, |state| {
            if state.live.get(path) != Some(&Node::Dir) {
                return Err(missing());
            }
            if state.children(path).next().is_some() {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            state.change(path, Change::Drop(path.to_path_buf()));
            Ok(())
        })
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.call(path, |state| {
            let mut dirs: Vec<&Path> =
                path.ancestors().filter(|dir| !dir.as_os_str().is_empty()).collect();
            dirs.reverse();
            for dir in dirs {
                match state.live.get(dir) {
                    Some(Node::Dir) => {}
                    Some(Node::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                    None => state.change(dir, Change::Add(dir.to_path_buf(), Node::Dir)),
                }
            }
            Ok(())
        })
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        self.call(path, |state| {
            let number = state.file(path)?;
            let inode = state.inode(number)?;
            inode.durable.clone_from(&inode.live);
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.call(dir, |state| {
            if state.live.get(dir) != Some(&Node::Dir) {
                return Err(missing());
            }
            state.sync_names(|of| of == dir);
            Ok(())
        })
    }

    fn sync_fs(&self, dir: &Path) -> Result<bool> {
        self.call(dir, |state| {
            state.sync_names(|_| true);
            for inode in state.inodes.values_mut() {
                inode.durable.clone_from(&inode.live);
            }
            Ok(true)
        })
    }

    fn try_lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>> {
        let exclusive = mode != LockMode::Shared;
        let mut found_free = None;
        let taken = self.call(path, |state| {
            let number = match state.file(path) {
                Err(error) if error.kind() == ErrorKind::NotFound && mode == LockMode::Create => {
                    state.create(path)?
                }
                found => found?,
            };
            let epoch = state.epoch;
            let inode = state.inode(number)?;
            if inode.exclusive || (exclusive && inode.shared > 0) {
                return Ok(None);
            }
            if exclusive {
                inode.exclusive = true;
            } else {
                inode.shared += 1;
            }
            found_free = Some((number, epoch));
            Ok(found_free)
        });
        // Also where the call failed after its effect: then the lock is dropped here, as an
        // operating system drops it with the descriptor.
        let lock = found_free.map(|(inode, epoch)| SimulatedLock {
            disk: self.clone(),
            path: path.to_path_buf(),
            inode,
            epoch,
            exclusive,
        });
        taken.map(|_| lock.map(|lock| Box::new(lock) as Lock))
    }
}

impl SimulatedFile {
    fn append(&self, state: &mut State, bytes: &[u8]) -> io::Result<()> {
        if state.epoch != self.epoch {
            return Err(io::Error::other("opened before the power loss"));
        }
        state.inode(self.inode)?.live.extend_from_slice(bytes);
        Ok(())
    }
}

impl DiskFile for SimulatedFile {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let result = self.disk.call(&self.path, |state| self.append(state, bytes));
        if result.is_err() {
            // A write that fails may have written a part.
            let _ = self.append(&mut self.disk.lock(), &bytes[..bytes.len() / 2]);
        }
        result
    }

    fn sync(&mut self) -> Result<()> {
        self.disk.call(&self.path, |state| {
            self.append(state, &[])?;
            let inode = state.inode(self.inode)?;
            inode.durable.clone_from(&inode.live);
            Ok(())
        })
    }
}

impl Held for SimulatedLock {
    fn is_linked(&self) -> Result<bool> {
        self.disk.call(&self.path, |state| {
            Ok(state.live.values().any(|node| *node == Node::File(self.inode)))
        })
    }

    fn describe(&self, contents: &[u8]) -> Result<()> {
        self.disk.call(&self.path, |state| {
            if state.epoch == self.epoch {
                state.inode(self.inode)?.live = contents.to_vec();
            }
            Ok(())
        })
    }
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.disk.lock();
        if state.epoch == self.epoch
            && let Some(inode) = state.inodes.get_mut(&self.inode)
        {
            if self.exclusive {
                inode.exclusive = false;
            } else {
                inode.shared -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::durable;

    #[test]
    fn only_what_was_synced_survives_for_certain() {
        let disk = SimulatedDisk::new(Path::new("/s"));
        let (a, b) = (Path::new("/s/a"), Path::new("/s/b"));
        durable::write_new(&disk, a, b"synced, but nameless").unwrap();
        disk.lose_power(PowerLoss::Nothing);
        assert!(!disk.exists(a).unwrap());
        disk.create(a).unwrap().write_all(b"named, but not synced").unwrap();
        disk.sync_dir(Path::new("/s")).unwrap();
        disk.lose_power(PowerLoss::Nothing);
        assert_eq!(disk.read(a, 99).unwrap(), b"");
        durable::replace(&disk, b, b"both").unwrap();
        disk.create_dir_all(Path::new("/s/d/e")).unwrap();
        disk.sync_dir(Path::new("/s/d")).unwrap();
        disk.lose_power(PowerLoss::Nothing);
        assert_eq!(disk.read(b, 99).unwrap(), b"both");
        assert!(!disk.exists(Path::new("/s/d/e")).unwrap(), "its parent was not durable");
    }

    #[test]
    fn replace_is_atomic_at_every_call() {
        for at in 1..10 {
            for seed in 0..20 {
                for after_effect in [false, true] {
                    let disk = SimulatedDisk::new(Path::new("/s"));
                    let path = Path::new("/s/CURRENT");
                    durable::replace(&disk, path, b"old").unwrap();
                    disk.set_fault(Some(Fault { at, forever: true, after_effect }));
                    let reported = durable::replace(&disk, path, b"new!").is_ok();
                    disk.lose_power(PowerLoss::Some(seed));
                    let found = disk.read(path, 99).unwrap();
                    assert!(
                        found == b"new!" || (found == b"old" && !reported),
                        "call {at} seed {seed}: {found:?}"
                    );
                }
            }
        }
    }
}
