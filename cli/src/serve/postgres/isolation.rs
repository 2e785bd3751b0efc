//! How a block is isolated from what others commit while it is open.
//!
//! Where this stands on the road of a statement: in front of it. At READ COMMITTED each statement
//! reads what was committed before it. From REPEATABLE READ on, each table is read at one
//! generation from its first statement in the block to the last.

use super::backend::Backend;
use super::errors::PgError;
use super::output::Output;
use super::replies::{self, Status};

/// Whether a block of this level reads one generation of each table.
fn keeps_generations(level: &str) -> bool {
    matches!(level, "serializable" | "repeatable read")
}

impl Backend {
    /// Brings the session to the level of the block that is open, or to that of single statements.
    pub(super) fn isolate(&self) {
        let is_open = self.block.status != Status::Idle;
        let level = self.settings.get("transaction_isolation");
        self.session.keep_generations(is_open && keeps_generations(level));
    }

    /// Says of a level what it promises and what is not kept.
    pub(super) fn warn_of_isolation(&self, level: &str, out: &mut Output) {
        let level = level.to_ascii_lowercase();
        let (is, hint) = match level.as_str() {
            level if !keeps_generations(level) => return,
            _ if !self.session.can_keep_generations() => (
                "READ COMMITTED: each statement reads what was committed before it",
                "the tables of a cluster are read as its machines have them",
            ),
            "serializable" => (
                "REPEATABLE READ: each table is read as it was when the block first read it",
                "what two blocks have read of each other's tables is not compared",
            ),
            _ => return,
        };
        let what = format!("{} is taken as {is}", level.to_ascii_uppercase());
        replies::warning(&PgError::of("01000", what).hint(hint), &mut out.bytes);
    }
}
