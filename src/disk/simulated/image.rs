//! The live and the durable image, and what a power loss makes of them.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::{Fault, PowerLoss};
use crate::disk::durable;

/// The unit in which a disk writes, in bytes.
const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Dir,
    File(u64),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) live: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// Whether a sync of its bytes has failed. As on Linux, they then count as written, and a later
    /// sync succeeds without making them durable.
    pub(super) is_doomed: bool,
    pub(super) shared: usize,
    pub(super) exclusive: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Add(PathBuf, Node),
    Drop(PathBuf),
    Rename(PathBuf, PathBuf, Node),
    /// Two directories with the same parent swap names. One of them may be missing.
    Exchange(PathBuf, PathBuf),
}

pub(super) type Names = BTreeMap<PathBuf, Node>;

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) inodes: HashMap<u64, Inode>,
    next_inode: u64,
    pub(super) live: Names,
    pub(super) durable: Names,
    /// Changes of names that were not synced yet, with their directory, oldest first.
    pending: Vec<(PathBuf, Change)>,
    pub(super) calls: u64,
    pub(super) fault: Option<Fault>,
    /// What must not be looked at.
    pub(super) denied: Option<PathBuf>,
    /// Whether directories can be exchanged.
    pub(super) exchanges: bool,
    /// Counts power losses, which invalidate all open handles.
    pub(super) epoch: u64,
}

pub(super) fn missing() -> io::Error {
    io::Error::from(ErrorKind::NotFound)
}

fn parent(path: &Path) -> PathBuf {
    durable::parent(path).to_path_buf()
}

impl State {
    pub(super) fn file(&self, path: &Path) -> io::Result<u64> {
        match self.live.get(path) {
            Some(Node::File(inode)) => Ok(*inode),
            Some(Node::Dir) => Err(ErrorKind::IsADirectory.into()),
            None => Err(missing()),
        }
    }

    pub(super) fn inode(&mut self, number: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&number).ok_or_else(missing)
    }

    pub(super) fn change(&mut self, path: &Path, change: Change) {
        apply(&mut self.live, &change);
        self.pending.push((parent(path), change));
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<u64> {
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

    pub(super) fn children<'a>(
        &'a self,
        dir: &'a Path,
    ) -> impl Iterator<Item = (&'a PathBuf, &'a Node)> {
        self.live.iter().filter(move |(path, _)| path.parent() == Some(dir))
    }

    pub(super) fn sync_names(&mut self, is_synced: impl Fn(&Path) -> bool) {
        for (dir, change) in std::mem::take(&mut self.pending) {
            if is_synced(&dir) {
                apply(&mut self.durable, &change);
            } else {
                self.pending.push((dir, change));
            }
        }
    }

    pub(super) fn lose_power(&mut self, outcome: PowerLoss) {
        let mut random = match outcome {
            PowerLoss::Some(seed) => seed,
            _ => 0,
        };
        for (_, change) in std::mem::take(&mut self.pending) {
            let survives = match outcome {
                PowerLoss::Nothing => false,
                PowerLoss::Everything => true,
                PowerLoss::Some(_) => next_random(&mut random).is_multiple_of(2),
            };
            if survives {
                apply(&mut self.durable, &change);
            }
        }
        let mut names = Names::new();
        for (path, node) in std::mem::take(&mut self.durable) {
            // Paths are sorted, so that a directory comes before its entries.
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
    /// Makes the bytes durable, unless an earlier attempt failed.
    pub(super) fn sync(&mut self) {
        if !self.is_doomed {
            self.durable.clone_from(&self.live);
        }
    }

    /// A sync that fails.
    pub(super) fn fail_sync(&mut self) {
        self.is_doomed |= self.durable != self.live;
    }

    fn lose_power(&mut self, outcome: PowerLoss, random: &mut u64) {
        let left = match outcome {
            PowerLoss::Nothing => self.durable.clone(),
            PowerLoss::Everything => self.live.clone(),
            PowerLoss::Some(_) if self.live == self.durable => self.live.clone(),
            PowerLoss::Some(_) => match next_random(random) % 6 {
                0 => self.durable.clone(),
                1 => self.live.clone(),
                2 => {
                    let longest = self.live.len() as u64 + 1;
                    let cut = (next_random(random) % longest) as usize;
                    self.live[..cut].to_vec()
                }
                3 => vec![0; self.live.len()],
                kind => self.torn(kind == 5, random),
            },
        };
        *self = Inode { live: left.clone(), durable: left, ..Inode::default() };
    }

    /// Each sector by itself is as it was written or as it was before, which is zeros beyond the
    /// old end, or with `garbage` what another file had left there: writes reach the medium in any
    /// order.
    fn torn(&self, garbage: bool, random: &mut u64) -> Vec<u8> {
        let mut left = Vec::with_capacity(self.live.len());
        for (at, sector) in (0..).step_by(SECTOR).zip(self.live.chunks(SECTOR)) {
            if next_random(random).is_multiple_of(2) {
                left.extend_from_slice(sector);
                continue;
            }
            let fill = if garbage { next_random(random) as u8 } else { 0 };
            let old = self.durable.get(at..).unwrap_or_default().iter().copied();
            left.extend(old.chain(std::iter::repeat(fill)).take(sector.len()));
        }
        left
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
        Change::Exchange(one, other) => {
            let moved = |path: PathBuf| match (path.strip_prefix(one), path.strip_prefix(other)) {
                (Ok(rest), _) => other.join(rest),
                (_, Ok(rest)) => one.join(rest),
                _ => path,
            };
            let all = std::mem::take(names).into_iter();
            *names = all.map(|(path, node)| (moved(path), node)).collect();
        }
    }
}

/// SplitMix64.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
