//! Ctrl-C, SIGTERM, and SIGHUP where it is not ignored. The first sets a flag that long work checks
//! once per block; a second one, a moment later, ends the process at once. A timeout that has
//! passed sets the same flag. Threads that have nothing to do but to notice it sleep until
//! something has happened.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};

use crate::errors::Failure;
use crate::exit::Exit;

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// How many signals and other events there were, and who waits for one more.
static EVENTS: Mutex<u64> = Mutex::new(0);
static EVENT: Condvar = Condvar::new();

/// Whether signals are events. If not, flags have to be looked at now and then.
static LISTENS: AtomicBool = AtomicBool::new(false);
const LOOK: Duration = Duration::from_millis(20);

/// Signals within this time are one: `timeout` sends its signal to the process and to its group.
const ONE_SIGNAL: Duration = Duration::from_millis(250);

/// What Ctrl-C sets where it does not end the process.
static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on, Ctrl-C only sets a flag, which [`take_interrupt`] reads: it ends a statement of a
/// shell, and not the shell. Other signals still end the process.
pub(crate) fn keep_session_on_interrupt() {
    let flag = Arc::new(AtomicBool::new(false));
    if signal_hook::flag::register(SIGINT, Arc::clone(&flag)).is_ok() {
        let _ = INTERRUPTED.set(flag);
    }
}

/// Whether Ctrl-C was pressed since the last call, where it does not end the process.
pub(crate) fn take_interrupt() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.swap(false, Ordering::Relaxed))
}

/// The flag that the signal handlers set, which are installed on first use. Commands hand it to the
/// library.
pub(crate) fn cancellation() -> Arc<AtomicBool> {
    let install = || {
        let flag = Arc::new(AtomicBool::new(false));
        // A file beyond `ulimit -f` is an error of the write, and does not end the process.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        let ending = match INTERRUPTED.get() {
            Some(_) => &[SIGTERM, SIGHUP][..],
            None => &[SIGINT, SIGTERM, SIGHUP],
        };
        // `nohup` has the end of the terminal ignored.
        let is_wanted = |signal: &i32| *signal != SIGHUP || !is_ignored(SIGHUP);
        let ending: Vec<i32> = ending.iter().copied().filter(is_wanted).collect();
        let listener = start_listener(true);
        for signal in &ending {
            if listener.is_err() {
                // Nobody else would end the process at the second signal.
                let exit = i32::from(Exit::Interrupted as u8);
                let condition = Arc::clone(&flag);
                let _ = signal_hook::flag::register_conditional_shutdown(*signal, exit, condition);
            }
            // If a handler cannot be installed, the signal's default ends the process, as a second
            // signal does anyway.
            let _ = signal_hook::flag::register(*signal, Arc::clone(&flag));
        }
        let mut listens = listener.and_then(|listener| announce_to(&listener, &ending));
        if INTERRUPTED.get().is_some() {
            let of_shell = || announce_to(&start_listener(false)?, &[SIGINT]);
            listens = listens.and_then(|()| of_shell());
        }
        LISTENS.store(listens.is_ok(), Ordering::Relaxed);
        flag
    };
    Arc::clone(FLAG.get_or_init(install))
}

/// Starts a thread that reads signals from the stream and announces them. With `they_end`, the
/// second signal ends the process at once.
fn start_listener(they_end: bool) -> io::Result<UnixStream> {
    let (mut reader, writer) = UnixStream::pair()?;
    let announce_signals = move || {
        let mut first: Option<Instant> = None;
        loop {
            match reader.read(&mut [0; 64]) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
            }
            if they_end && first.get_or_insert_with(Instant::now).elapsed() > ONE_SIGNAL {
                signal_hook::low_level::exit(i32::from(Exit::Interrupted as u8));
            }
            announce();
        }
    };
    std::thread::Builder::new().name("sty-signals".into()).spawn(announce_signals)?;
    Ok(writer)
}

/// From now on, these signals are events, after their flags are set.
fn announce_to(listener: &UnixStream, signals: &[i32]) -> io::Result<()> {
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, listener.try_clone()?)?;
    }
    Ok(())
}

fn count() -> MutexGuard<'static, u64> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of events so far.
pub(crate) fn events() -> u64 {
    *count()
}

/// Wakes those who wait for an event.
pub(crate) fn announce() {
    *count() += 1;
    EVENT.notify_all();
}

/// Waits until there are more events than `seen`, but no longer than `most`.
pub(crate) fn wait_for_event(seen: u64, most: Option<Duration>) {
    let look = Some(LOOK).filter(|_| !LISTENS.load(Ordering::Relaxed));
    let most = most.into_iter().chain(look).min();
    let is_none = |count: &mut u64| *count == seen;
    // A lock that is poisoned is no longer waited for.
    match most {
        Some(most) => drop(EVENT.wait_timeout_while(count(), most, is_none)),
        None => drop(EVENT.wait_while(count(), is_none)),
    }
}

/// Stops the process as Ctrl-Z does where no program reads keys one by one: until the user's shell
/// lets it go on.
#[cfg_attr(not(feature = "editor"), expect(dead_code, reason = "the editor reads keys"))]
pub(crate) fn suspend() {
    let _ = io::stderr().write_all(b"\n");
    // Without a shell that controls jobs, the system leaves it running.
    let _ = signal_hook::low_level::raise(SIGTSTP);
}

/// Whether the process was started with a signal ignored, by the line `SigIgn: 0000000000000001`.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Fails once Ctrl-C was pressed or the timeout has passed. Commands call it between batches.
pub(crate) fn check() -> Result<(), Failure> {
    match FLAG.get() {
        Some(flag) if flag.load(Ordering::Relaxed) => Err(Failure::stopped()),
        _ => Ok(()),
    }
}
