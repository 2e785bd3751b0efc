//! The only memory mapping of the project, what happens when a mapped file is cut, and a bounded
//! cache of mappings.
//!
//! Mapped bytes are untrusted for two reasons: they may be damaged, and another process may change
//! them while they are read. We write data files once and never change them, so only other programs
//! can do that. Decoders are memory-safe on any bytes; their safety does not depend on checksums or
//! on reading the same byte twice.
//!
//! **A file that is cut, or whose disk fails, while it is mapped** raises SIGBUS at the next touch
//! of a page that is gone. Jumping out of a signal handler is not sound in Rust, asking before each
//! touch whether the page is there slows scans down, and `pread` costs a copy. So with its first
//! mapping this module installs a handler for SIGBUS. If the address lies in one of our mappings,
//! it notes the damage beside the mapping, puts zeros in place of the rest of the mapping, and
//! returns: the reader goes on with zeros. Whoever has used mapped bytes then calls
//! [`Mapped::check`], an atomic load, before anybody sees what came of them, and gets
//! `Error::Corrupt` with the file and the offset. The page in which a file ends after a cut is
//! filled with zeros by the system without a signal; checksums find that at the first touch, and
//! [`Mapped::check_length`] after a query.
//!
//! **What a program gets that embeds the library**: the handler is the process's own, as all signal
//! handlers are. A signal for any other address goes to the handler that was installed before, or
//! has the default effect. A program that installs its own after the first query and does not call
//! the previous one ends with SIGBUS when a file is cut, as without us. A program that wants no
//! handler opens its stores with [`Io::Read`] and only queries them: what rewrites segments maps
//! them.
//!
//! **Reading instead of mapping** ([`Io::Read`], and by itself where the file system has no
//! mappings): each range is read with `pread` when it is first asked for, and kept until the file
//! is let go, which the cache does when half of the memory limit is taken; its bytes count against
//! the limit.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use arrow_buffer::{Buffer, MutableBuffer};
use memmap2::Mmap;

use crate::budget::{Budget, Charge};
use crate::error::{Error, IoResult, Result};

/// Files of up to this many bytes are copied instead of mapped: that takes no longer than mapping
/// them and touching their pages, and on Linux a process may have only 65,530 mappings.
const MAX_COPIED: u64 = 16 << 10;
/// Watches of a chunk, and chunks: as many as a process may have mappings.
const WATCHES: usize = 1024;
const CHUNKS: usize = 64;

/// How data files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// Through mappings, for which a handler of SIGBUS is installed; by reading where the file
    /// system has no mappings.
    #[default]
    Mmap,
    /// By `pread` into memory, which counts against the memory limit.
    Read,
}

/// The bytes of a whole file.
pub enum Mapped {
    /// A mapping of the file.
    Real(Mapping),
    /// A copy in memory, aligned like a mapping, for small files and for the simulated disk.
    Memory(Buffer),
    /// A file that is read range by range.
    Read(Parts),
}

/// A mapping, watched for damage.
pub struct Mapping {
    map: Mmap,
    watch: &'static Watch,
    path: PathBuf,
    inode: u64,
}

/// Ranges of a file, read when they are first asked for.
pub struct Parts {
    path: PathBuf,
    length: usize,
    /// Kept open if the file cannot be mapped; a file that is read by choice is opened again.
    file: Option<File>,
    known: Mutex<HashMap<(usize, usize), (Buffer, Charge)>>,
}

impl Mapped {
    /// Maps an open file, copies a small one, or reads it where it cannot be mapped.
    #[expect(clippy::disallowed_methods, reason = "the one mapping")]
    pub(super) fn from_file(path: &Path, file: File, io: Io) -> Result<Mapped> {
        let metadata = file.metadata().with_path(path)?;
        let length = metadata.len();
        if length <= MAX_COPIED {
            return Ok(Mapped::Memory(read_range(path, &file, 0, length as usize)?));
        }
        let parts = |file| Parts {
            path: path.to_path_buf(),
            length: usize::try_from(length).unwrap_or(usize::MAX),
            file,
            known: Mutex::default(),
        };
        if io == Io::Read {
            return Ok(Mapped::Read(parts(None)));
        }
        // SAFETY: memmap2 requires that the file is not changed while it is mapped, since the bytes
        // are seen as `&[u8]`. Mapped files are immutable by the format: they are written once
        // under a new uuid, and only ever removed (which keeps mappings intact). In case another
        // process writes into one, no reader relies on bytes staying the same: lengths and offsets
        // are read from the mapping once, by value, and checked; decoders are memory-safe on any
        // bytes. Where a page is gone, the handler of SIGBUS puts zeros in its place.
        let mapped = unsafe { Mmap::map(&file) };
        let watched = mapped.ok().and_then(|map| Some((Watch::start(&map)?, map)));
        let Some((watch, map)) = watched else { return Ok(Mapped::Read(parts(Some(file)))) };
        let (path, inode) = (path.to_path_buf(), metadata.ino());
        Ok(Mapped::Real(Mapping { map, watch, path, inode }))
    }

    /// A copy of `bytes`, aligned to at least 64 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Mapped {
        let mut buffer = MutableBuffer::with_capacity(bytes.len());
        buffer.extend_from_slice(bytes);
        Mapped::Memory(buffer.into())
    }

    /// Bytes of the file when it was opened.
    pub fn len(&self) -> usize {
        match self {
            Mapped::Real(mapping) => mapping.map.len(),
            Mapped::Memory(bytes) => bytes.len(),
            Mapped::Read(parts) => parts.length,
        }
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A range of the bytes. What must be read for it is charged to `budget`.
    pub(crate) fn bytes(&self, range: Range<usize>, budget: &Budget) -> Result<&[u8]> {
        let found = match self {
            Mapped::Real(mapping) => mapping.map.get(range.clone()),
            Mapped::Memory(bytes) => bytes.get(range.clone()),
            Mapped::Read(parts) if range.start <= range.end && range.end <= parts.length => {
                return parts.bytes(range, budget);
            }
            Mapped::Read(_) => None,
        };
        found.ok_or_else(|| {
            let what = format!("{} bytes are wanted of a file of {}", range.len(), self.len());
            Error::corrupt(range.start as u64, what)
        })
    }

    /// Fails if a page of the mapping no longer had a file behind it when it was read: the bytes
    /// may have been zeros. Call it after reading mapped bytes and before using what was computed.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Mapped::Real(mapping) => mapping.watch.check(),
            Mapped::Memory(_) | Mapped::Read(_) => Ok(()),
        }
    }

    /// [`Mapped::check`], and refuses a file that is shorter than when it was mapped. A file that
    /// has been removed keeps its bytes.
    pub(crate) fn check_length(&self) -> Result<()> {
        self.check()?;
        let Mapped::Real(mapping) = self else { return Ok(()) };
        match std::fs::metadata(&mapping.path) {
            Ok(now) if now.ino() == mapping.inode && now.len() < mapping.map.len() as u64 => {
                Err(cut_error(now.len() as usize))
            }
            _ => Ok(()),
        }
    }

    /// Tells the operating system not to read ahead, because readers call [`Mapped::prefetch`].
    /// Otherwise a page fault reads as much around it as the device's read-ahead is set to: 128 KiB
    /// on most machines, 8 MiB on some. This is only a hint.
    pub fn disable_read_ahead(&self) {
        if let Mapped::Real(mapping) = self {
            let _ = mapping.map.advise(memmap2::Advice::Random);
        }
    }

    /// Asks the operating system to read a range, without waiting for it. This is only a hint, and
    /// errors are ignored. It costs about 40 ns per page that is already in the page cache.
    pub fn prefetch(&self, offset: usize, length: usize) {
        if let Mapped::Real(Mapping { map, .. }) = self
            && offset.checked_add(length).is_some_and(|end| end <= map.len())
        {
            let _ = map.advise_range(memmap2::Advice::WillNeed, offset, length);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.watch.stop();
    }
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapped({} bytes)", self.len())
    }
}

impl Parts {
    fn bytes(&self, range: Range<usize>, budget: &Budget) -> Result<&[u8]> {
        let key = (range.start, range.end);
        let known = self.known().get(&key).map(as_slice);
        let bytes = match known {
            Some(known) => known,
            // Not under the lock: threads read different ranges at the same time.
            None => {
                let read = self.read(range, budget)?;
                as_slice(self.known().entry(key).or_insert(read))
            }
        };
        // SAFETY: the bytes are on the heap and do not move with their entry; entries are never
        // changed or removed before `self` is dropped, whose lifetime the slice has.
        Ok(unsafe { &*bytes })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(usize, usize), (Buffer, Charge)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, range: Range<usize>, budget: &Budget) -> Result<(Buffer, Charge)> {
        let charge = budget.charge(range.len())?;
        let opened;
        let file = match &self.file {
            Some(file) => file,
            None => {
                opened = File::open(&self.path).map_err(|error| match error.kind() {
                    ErrorKind::NotFound => {
                        Error::corrupt(0, "it was removed while it was read").in_file(&self.path, 0)
                    }
                    _ => Error::Io { path: self.path.clone(), source: error },
                })?;
                &opened
            }
        };
        Ok((read_range(&self.path, file, range.start, range.len())?, charge))
    }
}

fn as_slice((bytes, _): &(Buffer, Charge)) -> *const [u8] {
    bytes.as_slice()
}

/// Reads bytes of a file into memory aligned to at least 64 bytes.
fn read_range(path: &Path, file: &File, start: usize, length: usize) -> Result<Buffer> {
    let mut bytes = MutableBuffer::from_len_zeroed(length);
    match file.read_exact_at(&mut bytes, start as u64) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            let now = file.metadata().map_or(start as u64, |metadata| metadata.len());
            Err(cut_error(now as usize).in_file(path, 0))
        }
        read => read.with_path(path).map(|()| bytes.into()),
    }
}

fn cut_error(at: usize) -> Error {
    let what = "the file ends here, or its disk fails here, which was not so when it was opened: \
                another program cut it, or the disk is damaged";
    Error::corrupt(at as u64, what)
}

/// Where a mapping is, and whether a page of it was gone. The handler of SIGBUS finds it by the
/// address, so it is never freed; it is used again for later mappings.
struct Watch {
    /// The first address; 0 while there is no mapping.
    start: AtomicUsize,
    end: AtomicUsize,
    /// The offset of the first page that was gone; [`INTACT`] if none was.
    damaged: AtomicUsize,
}

const INTACT: usize = usize::MAX;

static WATCHED: [OnceLock<Box<[Watch]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
/// Watches without a mapping, and how many chunks there are.
static UNUSED: Mutex<(Vec<&'static Watch>, usize)> = Mutex::new((Vec::new(), 0));

impl Watch {
    /// Watches a mapping; `None` if there are too many.
    fn start(map: &Mmap) -> Option<&'static Watch> {
        install_handler();
        let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.0.is_empty() {
            let chunk = WATCHED.get(unused.1)?.get_or_init(|| {
                let new = |_| Watch {
                    start: AtomicUsize::new(0),
                    end: AtomicUsize::new(0),
                    damaged: AtomicUsize::new(INTACT),
                };
                (0..WATCHES).map(new).collect()
            });
            unused.0.extend(chunk.iter());
            unused.1 += 1;
        }
        let watch = unused.0.pop()?;
        let start = map.as_ptr() as usize;
        watch.damaged.store(INTACT, Ordering::Relaxed);
        // Who sees this end finds that the mapping before it is gone.
        fence(Ordering::Release);
        watch.end.store(start + map.len(), Ordering::Relaxed);
        watch.start.store(start, Ordering::Release);
        Some(watch)
    }

    /// The mapping is about to go.
    fn stop(&'static self) {
        self.start.store(0, Ordering::Release);
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).0.push(self);
    }

    fn check(&self) -> Result<()> {
        // The mark is set before the zeros are there, so who has read zeros sees it.
        fence(Ordering::Acquire);
        match self.damaged.load(Ordering::Relaxed) {
            INTACT => Ok(()),
            at => Err(cut_error(at)),
        }
    }

    /// The watch of the mapping in which an address lies.
    fn of(address: usize) -> Option<(&'static Watch, Range<usize>)> {
        let chunks = WATCHED.iter().map_while(OnceLock::get);
        chunks.flat_map(|chunk| chunk.iter()).find_map(|watch| {
            let start = watch.start.load(Ordering::Acquire);
            let range = start..watch.end.load(Ordering::Relaxed);
            // If the watch was given to another mapping in between, its end is of that one.
            fence(Ordering::Acquire);
            let same = watch.start.load(Ordering::Relaxed) == start;
            (start > 0 && same && range.contains(&address)).then_some((watch, range))
        })
    }
}

/// Bytes of a page, from when the handler is installed.
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// What SIGBUS did before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

fn install_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the structures are plain data for which zeros are valid, and the calls get valid
        // pointers to them. The handler calls nothing that is not safe in a signal handler: atomic
        // loads and stores, `mmap`, and what was installed before.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE);
            PAGE.store(usize::try_from(page).unwrap_or(4096).max(1), Ordering::Relaxed);
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_bus_error;
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) == 0 {
                let _ = PREVIOUS.set(before);
                libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
            }
        }
    });
}

/// The handler of SIGBUS.
extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes a valid pointer. A code above 0 says that the signal is a fault,
    // and then there is an address.
    let fault = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr() as usize) };
    if !fault.is_some_and(put_zeros) {
        forward(signal, info, context, fault.is_some());
    }
}

/// Replaces the rest of the mapping in which an address lies by zeros; false if it is not ours.
fn put_zeros(address: usize) -> bool {
    let Some((watch, range)) = Watch::of(address) else { return false };
    let page = PAGE.load(Ordering::Relaxed).max(1);
    let from = address / page * page;
    watch.damaged.fetch_min(from.saturating_sub(range.start), Ordering::SeqCst);
    // SAFETY: the addresses from the page to the end belong to a mapping of ours. It cannot be
    // unmapped now, because the thread that faulted still holds a reference to it. It stays
    // readable. Its bytes may change, as those of any mapped file may when the file changes.
    let zeros = unsafe {
        libc::mmap(
            from as *mut c_void,
            range.end - from,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    zeros != libc::MAP_FAILED
}

/// Does what SIGBUS did before, for a fault or for a signal that was sent.
fn forward(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, fault: bool) {
    let before = PREVIOUS.get().map(|action| (action.sa_sigaction, action.sa_flags));
    // SAFETY: a handler that was installed before has the form that its flags say, and gets what
    // the system passed to us. Without one, the default takes effect when the instruction that
    // faulted is run again, or when this handler returns and the signal is raised again. `signal`
    // and `raise` are safe in a signal handler.
    unsafe {
        match before {
            Some((libc::SIG_IGN, _)) if !fault => {}
            None | Some((libc::SIG_DFL | libc::SIG_IGN, _)) => {
                libc::signal(signal, libc::SIG_DFL);
                if !fault {
                    libc::raise(signal);
                }
            }
            Some((handler, flags)) if flags & libc::SA_SIGINFO != 0 => {
                let call: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(handler);
                call(signal, info, context);
            }
            Some((handler, _)) => {
                let call: extern "C" fn(c_int) = std::mem::transmute(handler);
                call(signal);
            }
        }
    }
}

#[cfg(test)]
#[path = "mapped_tests.rs"]
mod tests;
