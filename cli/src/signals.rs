//! Ctrl-C: the first sets a flag that long work looks at once per block, the second ends the
//! process at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::errors::Failure;
use crate::exit::Exit;

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the handlers on first use and gives the flag that they set; commands hand it to the
/// library.
pub(crate) fn cancellation() -> Arc<AtomicBool> {
    let install = || {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order, the first signal finds the flag unset and passes on to setting it.
            // Without a handler the signal's default ends the process, which is what a second
            // Ctrl-C does anyway.
            let status = i32::from(Exit::Interrupted as u8);
            let _ =
                signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&flag));
            let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
        }
        flag
    };
    Arc::clone(FLAG.get_or_init(install))
}

/// An error as soon as Ctrl-C was pressed; to be asked between batches.
pub(crate) fn check() -> Result<(), Failure> {
    match FLAG.get() {
        Some(flag) if flag.load(Ordering::Relaxed) => Err(Failure::interrupted()),
        _ => Ok(()),
    }
}
