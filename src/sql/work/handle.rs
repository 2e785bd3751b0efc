//! What plans know of the session that they work for.
//!
//! Rules, functions and operators are those of an engine, which many sessions share. What is a
//! session's own travels with its options: how it is stopped, its threads, and what has ended its
//! statement.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::config_err;
use datafusion::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::Result as DataFusionResult;

use super::cancel::Canceller;
use super::workers::Workers;

/// A handle on a session, among its options.
#[derive(Clone, Debug)]
pub(in crate::sql) struct SessionHandle(pub(in crate::sql) Arc<OfSession>);

/// What is a session's own.
#[derive(Debug)]
pub(in crate::sql) struct OfSession {
    pub(in crate::sql) canceller: Canceller,
    pub(in crate::sql) workers: Arc<Workers>,
    pub(in crate::sql) widest: Widest,
    /// Where fragments spill.
    pub(in crate::sql) temp_dir: PathBuf,
}

impl SessionHandle {
    /// The session to which options belong.
    pub(in crate::sql) fn of(options: &ConfigOptions) -> Option<&Arc<OfSession>> {
        options.extensions.get::<SessionHandle>().map(|handle| &handle.0)
    }
}

/// The bytes of the widest row that ended a statement.
#[derive(Debug, Default)]
pub(in crate::sql) struct Widest(AtomicUsize);

impl Widest {
    /// Notes that a statement ends because rows have this many bytes.
    pub(in crate::sql) fn note(&self, bytes: usize) {
        self.0.fetch_max(bytes, Ordering::Relaxed);
    }

    /// The widest row since this was asked last, if one was too wide.
    pub(in crate::sql) fn take(&self) -> Option<usize> {
        Some(self.0.swap(0, Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }
}

impl ConfigExtension for SessionHandle {
    const PREFIX: &'static str = "sty_session";
}

impl ExtensionOptions for SessionHandle {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> DataFusionResult<()> {
        config_err!("there is no setting {}.{key}", SessionHandle::PREFIX)
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}
