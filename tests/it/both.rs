//! A store in which every query runs twice: with the executor, and with DataFusion's operators
//! alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use arrow_array::RecordBatch;
use stylobate::{Parameters, Session, SessionOptions, Store};

/// An answer, or the message of the error.
pub(crate) type Answer = Result<Vec<RecordBatch>, String>;

/// Two sessions over one store.
pub(crate) struct Both {
    on: Session,
    off: Session,
}

impl Both {
    /// Opens sessions over the store at a path, which need not exist yet.
    pub(crate) fn open(store: &Path, threads: usize) -> Both {
        let options = SessionOptions {
            threads: Some(threads),
            memory_limit: Some(1 << 30),
            create: true,
            ..SessionOptions::default()
        };
        let open = || Session::open(&Store::open(store), &options).unwrap();
        let both = Both { on: open(), off: open() };
        ask(&both.off, "SET sty.native = off").unwrap();
        both
    }

    /// Runs a statement that changes something, once.
    pub(crate) fn change(&self, sql: &str) -> Answer {
        ask(&self.on, sql)
    }

    /// The answers to a statement with and without the executor.
    pub(crate) fn ask(&self, sql: &str) -> [Answer; 2] {
        [ask(&self.on, sql), ask(&self.off, sql)]
    }
}

fn ask(session: &Session, sql: &str) -> Answer {
    let asked = catch_unwind(AssertUnwindSafe(|| {
        let mut batches = Vec::new();
        let run = session.run(sql, &Parameters::default(), |stream| {
            batches = stream.collect::<stylobate::Result<Vec<_>>>()?;
            Ok(())
        });
        run.map(|()| batches).map_err(|error| error.to_string())
    }));
    asked.unwrap_or_else(|_| Err("panicked".into()))
}
