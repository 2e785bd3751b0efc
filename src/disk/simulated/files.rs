//! The calls of a file system: files, names, syncs and locks.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::SimulatedDisk;
use super::image::{Change, Inode, Node, State, missing};
use crate::disk::{Disk, DiskFile, Entry, Io, Lock, LockMode, LockedFile, Mapped, real};
use crate::error::Result;

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

    fn map(&self, path: &Path, _: Io) -> Result<Mapped> {
        Ok(Mapped::from_bytes(&self.read(path, u64::MAX)?))
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
            if state.live.get(from) == Some(&Node::Dir) {
                if state.live.contains_key(to) {
                    return Err(ErrorKind::DirectoryNotEmpty.into());
                }
                state.change(from, Change::Exchange(from.to_path_buf(), to.to_path_buf()));
                return Ok(());
            }
            let inode = state.file(from)?;
            state.change(
                from,
                Change::Rename(from.to_path_buf(), to.to_path_buf(), Node::File(inode)),
            );
            Ok(())
        })
    }

    fn exchange(&self, one: &Path, other: &Path) -> Result<bool> {
        self.call(one, |state| {
            if !state.exchanges {
                return Ok(false);
            }
            if [one, other].iter().any(|dir| state.live.get(*dir) != Some(&Node::Dir)) {
                return Err(missing());
            }
            state.change(one, Change::Exchange(one.to_path_buf(), other.to_path_buf()));
            Ok(true)
        })
    }

    fn check_writable(&self, path: &Path) -> Result<()> {
        self.call(path, |_| Ok(()))
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
        let synced = self.call(path, |state| {
            let number = state.file(path)?;
            state.inode(number)?.sync();
            Ok(())
        });
        if synced.is_err() {
            let mut state = self.lock();
            if let Ok(number) = state.file(path) {
                state.inodes.entry(number).and_modify(Inode::fail_sync);
            }
        }
        synced
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.call(dir, |state| {
            if state.live.get(dir) != Some(&Node::Dir) {
                return Err(missing());
            }
            state.sync_names(|synced| synced == dir);
            Ok(())
        })
    }

    fn sync_fs(&self, dir: &Path) -> Result<bool> {
        self.call(dir, |state| {
            state.sync_names(|_| true);
            for inode in state.inodes.values_mut() {
                inode.sync();
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
        // If the call failed after its effect, the lock is dropped here, as an operating system
        // drops it with the descriptor.
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
            // A failed write may have written a part.
            let _ = self.append(&mut self.disk.lock(), &bytes[..bytes.len() / 2]);
        }
        result
    }

    fn sync(&mut self) -> Result<()> {
        let synced = self.disk.call(&self.path, |state| {
            self.append(state, &[])?;
            state.inode(self.inode)?.sync();
            Ok(())
        });
        if synced.is_err() {
            self.disk.lock().inodes.entry(self.inode).and_modify(Inode::fail_sync);
        }
        synced
    }
}

impl LockedFile for SimulatedLock {
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
