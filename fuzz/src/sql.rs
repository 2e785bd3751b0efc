//! Any text, or any sequence of words of SQL, as statements on a stored table: some rows or an
//! error, and an end soon after they are cancelled.

use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use stylobate::{Parameters, Session, SessionOptions, Store};
use tempfile::TempDir;

use super::{store, words};

/// How long a text may take before it is cancelled.
const TIME: Duration = Duration::from_millis(300);
/// Batches of rows that are taken of an answer.
const BATCHES: usize = 4;

fn tables() -> &'static TempDir {
    static TABLES: OnceLock<TempDir> = OnceLock::new();
    TABLES.get_or_init(|| {
        ignore_panics_of_datafusion();
        let directory = tempfile::tempdir().unwrap();
        store::create(&directory.path().join("db"));
        directory
    })
}

/// A panic within DataFusion becomes an error of the statement (`Workers::run`), and is no finding
/// here: libFuzzer's hook, which aborts, does not see it. Tests have no such hook.
fn ignore_panics_of_datafusion() {
    if cfg!(fuzzing) {
        let abort = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let theirs = panic.location().is_some_and(|place| {
                ["/datafusion-", "/sqlparser-"].iter().any(|name| place.file().contains(name))
            });
            if !theirs {
                abort(panic);
            }
        }));
    }
}

/// The target.
pub fn run(bytes: &[u8]) {
    let Some(text) = words::text(bytes) else { return };
    let options = SessionOptions {
        threads: Some(2),
        memory_limit: Some(64 << 20),
        read_only: true,
        no_files: true,
        ..SessionOptions::default()
    };
    // Of its own, because statements may change settings.
    let session = Session::open(&Store::open(tables().path().join("db")), &options).unwrap();
    let canceller = session.canceller();
    let (done, is_done) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if is_done.recv_timeout(TIME) == Err(RecvTimeoutError::Timeout) {
                canceller.cancel();
            }
        });
        let outcome = session.run(&text, &Parameters::default(), |stream| {
            stream.take(BATCHES).try_for_each(|batch| batch.map(drop))
        });
        drop(done);
        if let Err(error) = outcome {
            let failed = error.to_string().contains("the query engine failed");
            assert!(cfg!(fuzzing) || !failed, "{text}: {error}");
        }
    });
}
