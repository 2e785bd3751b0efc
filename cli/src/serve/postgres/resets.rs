//! RESET ALL and DISCARD return a connection to its initial state, so that a pool can hand it to
//! another user.

use super::backend::{Backend, Stop};
use super::errors::PgError;
use super::output::Output;
use super::own::Discarded;
use super::replies::{self, Status};

impl Backend {
    /// Gives all settings the values with which the connection has begun.
    pub(super) fn reset_settings(&mut self, out: &mut Output) -> Result<(), Stop> {
        self.session.reset_settings()?;
        self.settings.reset();
        for (name, value) in self.settings.all_reported() {
            replies::parameter(name, value, &mut out.bytes);
        }
        Ok(())
    }

    /// Forgets what the connection has made for itself.
    pub(super) fn discard(&mut self, what: Discarded, out: &mut Output) -> Result<(), Stop> {
        match what {
            Discarded::All => {
                if self.block.status != Status::Idle {
                    let what = "DISCARD ALL is for a connection without a block";
                    return Err(PgError::of("25001", what).hint("COMMIT or ROLLBACK first").into());
                }
                // A new session starts without the old one's temporary views, prepared statements,
                // attached stores and settings.
                let session = self.server.sessions.open(&self.user, false);
                let session = session.map_err(|failure| PgError::of_statement(&failure, None))?;
                self.forget(None);
                self.portals.clear();
                self.session = session;
                self.reset_settings(out)
            }
            Discarded::Temporary => {
                self.session.drop_temporary();
                Ok(())
            }
            Discarded::Nothing(_) => Ok(()),
        }
    }
}
