//! The guard around readers of formats that are not ours: Parquet and Arrow IPC.
//!
//! The libraries for Arrow and Parquet trust part of their input: damaged bytes make them index
//! outside an array, overflow a sum, or allocate whatever a length field says. Ingest and SQL call
//! them only through this module. [`guarded`] turns a panic into an error and prints nothing on
//! stderr. An allocation that is too large would end the process, so lengths are checked first:
//! `thrift` and `parquet_checks` compare those of a Parquet file, and `arrow` those of a message,
//! with the size of the file and with [`most_bytes`].
//!
//! After a panic a reader is only dropped: the caller reads no more of that input.

use std::any::Any;
use std::cell::Cell;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use crate::error::{Error, Result};

/// What one batch, page or dictionary may take at least, whatever the memory limit.
const LEAST_BYTES: u64 = 256 << 20;

thread_local! {
    /// How many guarded sections this thread is in.
    static GUARDED: Cell<usize> = const { Cell::new(0) };
}

/// A guarded section of this thread, until it is dropped.
struct Section;

impl Section {
    fn enter() -> Self {
        GUARDED.set(GUARDED.get() + 1);
        Section
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        GUARDED.set(GUARDED.get().saturating_sub(1));
    }
}

/// What a reader said when it panicked.
#[derive(Debug)]
pub(crate) struct Panicked(pub(crate) String);

impl Panicked {
    /// The error for an input.
    pub(crate) fn into_error(self, name: impl Display, format: &str) -> Error {
        let damaged = || format!("{name}: cannot be read as {format}: it is damaged ({})", self.0);
        no_thread(&self.0).unwrap_or_else(|| Error::InvalidInput(damaged()))
    }
}

/// What the Parquet library says of a file, and what it may come from.
pub(crate) fn said(what: &str) -> String {
    let what = what.trim_start_matches("Parquet error: ");
    match what.contains("Corrupt footer") {
        true => format!("{what}; is the file complete?"),
        false => what.to_owned(),
    }
}

/// Runs code that may panic on damaged input.
pub(crate) fn guarded<T>(read: impl FnOnce() -> T) -> Result<T, Panicked> {
    silence();
    let section = Section::enter();
    let outcome = catch_unwind(AssertUnwindSafe(read));
    drop(section);
    outcome.map_err(|payload| Panicked(panic_message(&*payload)))
}

/// Like [`guarded`], for code that may fail otherwise, too.
pub(crate) fn guarded_read<T>(
    name: &Path,
    format: &str,
    read: impl FnOnce() -> Result<T>,
) -> Result<T> {
    guarded(read).map_err(|panicked| panicked.into_error(name.display(), format))?
}

/// The first line of a panic's message.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.and_then(|text| text.lines().next()).unwrap_or("it gave up").to_owned()
}

/// How tokio's panic begins where the system starts no thread.
const NO_THREAD: &str = "OS can't spawn worker thread";

/// The error of a panic because the system started no thread, if the message says that.
pub(crate) fn no_thread(message: &str) -> Option<Error> {
    let (_, why) = message.split_once(NO_THREAD)?;
    Some(Error::too_few_threads(why.trim_matches([':', ' ', '"'])))
}

/// The name of the threads on which statements run: a panic there is the error of its statement.
pub(crate) const WORKER: &str = "sty-worker";

/// Puts a panic hook before the process's own, once, that is silent within guarded sections, on
/// threads whose panics become errors, and about threads that the system does not start.
fn silence() {
    static HOOK: Once = Once::new();
    // The hook cannot be changed by a thread that is panicking already.
    if std::thread::panicking() {
        return;
    }
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let becomes_error = GUARDED.get() > 0 || std::thread::current().name() == Some(WORKER);
            if !becomes_error && !panic_message(info.payload()).starts_with(NO_THREAD) {
                before(info);
            }
        }));
    });
}

/// The most bytes that one batch, page or dictionary of an input may take under a memory limit.
pub(crate) fn most_bytes(memory_limit: u64) -> u64 {
    memory_limit.max(LEAST_BYTES)
}

/// The error for claims beyond [`most_bytes`].
#[cold]
pub(crate) fn too_large(name: impl Display, what: &str, bytes: u64, most: u64) -> Error {
    Error::LimitExceeded(format!(
        "{name}: {what} of {bytes} bytes does not fit into memory ({most} bytes); raise \
         --memory-limit, or write the file with smaller ones"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_errors() {
        let error = guarded_read::<()>(Path::new("x.arrow"), "Arrow IPC", || panic!("at {}", 7));
        let expected = "x.arrow: cannot be read as Arrow IPC: it is damaged (at 7)";
        assert_eq!(error.unwrap_err().to_string(), expected);
        let few = Panicked(format!("{NO_THREAD}: why")).into_error("x", "Parquet");
        assert!(matches!(&few, Error::LimitExceeded(what) if what.contains("threads: why;")));
        assert_eq!(GUARDED.get(), 0);
        let within = guarded(|| guarded(|| panic!("within")).map_err(|p| (p.0, GUARDED.get())));
        assert_eq!(within.unwrap(), Err::<(), _>(("within".to_owned(), 1)));
    }
}
