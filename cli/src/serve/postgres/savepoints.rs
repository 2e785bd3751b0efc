//! The savepoints of a block. Each statement is a commit of its own, so that going back to one only
//! ends the failure of the block; a name that was not given is refused nevertheless, because a
//! client that goes back to it believes something else.

use super::backend::{Backend, Stop, check_count};
use super::errors::PgError;
use super::output::Output;
use super::own::Own;
use super::replies::Status;

impl Backend {
    /// Makes a savepoint, forgets one with those that were made behind it, or goes back to one;
    /// returns the tag.
    pub(super) fn savepoint(&mut self, own: &Own, out: &mut Output) -> Result<&'static str, Stop> {
        if self.block.status == Status::Idle {
            let what = "savepoints are of a block, and none is open";
            return Err(PgError::of("25P01", what).into());
        }
        Ok(match own {
            Own::Release(name) => {
                let place = self.place_of(name)?;
                self.savepoints.truncate(place + 1);
                match self.savepoints.last_mut() {
                    Some((_, times)) if *times > 1 => *times -= 1,
                    _ => self.savepoints.truncate(place),
                }
                "RELEASE"
            }
            Own::RollbackTo(name) => {
                self.savepoints.truncate(self.place_of(name)? + 1);
                self.warn_of_written(out);
                self.block.status = Status::InBlock;
                "ROLLBACK"
            }
            Own::Savepoint(name) => {
                match self.savepoints.last_mut() {
                    Some((last, times)) if last == name => *times += 1,
                    _ => {
                        check_count(self.savepoints.len())?;
                        self.savepoints.push((name.clone(), 1));
                    }
                }
                "SAVEPOINT"
            }
            _ => "",
        })
    }

    /// The place of the last savepoint of a name.
    fn place_of(&self, name: &str) -> Result<usize, PgError> {
        let place = self.savepoints.iter().rposition(|(it, _)| it == name);
        place.ok_or_else(|| PgError::of("3B001", format!("there is no savepoint '{name}'")))
    }
}
