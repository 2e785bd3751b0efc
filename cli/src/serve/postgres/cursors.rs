//! Cursors: portals that DECLARE makes of a query, and from which FETCH and MOVE take rows.
//!
//! Where this stands on the road of a statement: beside `run`. A cursor reads the tables as they
//! are at its DECLARE, which plans the query and starts it; rows come with the first FETCH.

use std::sync::Arc;

use super::backend::{Backend, Stop, check_count, no_portal};
use super::errors::{PgError, not_a_query};
use super::output::Output;
use super::portals::{Portal, Prepared, State};
use super::replies::Status;
use super::run::{Advanced, Opened};

impl Backend {
    /// Makes a portal of a query, and starts that.
    pub(super) fn declare(
        &mut self,
        name: &str,
        is_held: bool,
        query: &Arc<Prepared>,
        portal: &Portal,
        out: &mut Output,
    ) -> Result<(), Stop> {
        if !is_held && self.block.status == Status::Idle {
            let what = "a cursor lives in a block, and none is open";
            return Err(PgError::of("25P01", what).hint("BEGIN, or WITH HOLD").into());
        }
        if self.portals.contains_key(name) {
            let what = format!("there is a cursor of the name '{name}'");
            return Err(PgError::of("42P03", what).into());
        }
        check_count(self.portals.len())?;
        let mut cursor = Portal::without_parameters(Arc::clone(query));
        cursor.parameters = portal.parameters.clone();
        cursor.is_held = is_held;
        let mut running = self.begin(&query.sql);
        let opened = match self.open(&mut cursor, &running, out) {
            Ok(Opened::Rows(rows)) => Ok(rows),
            Ok(Opened::Change(_)) => Err(not_a_query().into()),
            Err(stop) => Err(stop),
        };
        self.hand_on_notes(&running, out);
        running.tell_failure(&opened);
        cursor.state = State::Runs(opened?);
        running.goes_on_later();
        self.portals.insert(name.to_owned(), cursor);
        Ok(())
    }

    /// Sends or counts rows of a cursor; returns how many.
    pub(super) fn fetch(
        &mut self,
        name: &str,
        rows: usize,
        sends: bool,
        portal: &Portal,
        out: &mut Output,
    ) -> Result<u64, Stop> {
        let mut cursor = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        if sends && portal.describes_rows {
            let columns = cursor.columns(&self.session)?;
            portal.describe(columns.as_deref(), &mut out.bytes);
        }
        // The client may ask for the rest in the forms of the cursor itself.
        let formats = cursor.take_formats(portal);
        let advanced = self.advance(&mut cursor, rows, sends, out);
        cursor.give_formats(formats);
        let count = match advanced? {
            Advanced::Rows { count, .. } => count,
            Advanced::Change(_) => 0,
        };
        self.portals.insert(name.to_owned(), cursor);
        Ok(count)
    }
}
