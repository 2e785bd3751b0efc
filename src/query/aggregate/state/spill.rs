//! States that move: to partitions, to temporary files, and back.

use super::{Kind, State};
use crate::bytes::{Cursor, Writer};
use crate::error::Result;
use crate::query::aggregate::columns::{gather, read_words, write_words};
use crate::query::aggregate::extremes::Extremes;
use crate::query::aggregate::float_sum::FloatSums;
use crate::query::aggregate::moments::Moments;

impl State {
    /// Appends some groups of another state, settled, as groups of their own, to so many that there
    /// are.
    pub(crate) fn append(&mut self, other: &State, groups: usize, at: &[u32]) {
        if self.missing.is_some() || other.missing.is_some() {
            let missing = self.missing.get_or_insert_with(|| vec![0; groups]);
            match &other.missing {
                Some(more) => gather(missing, more, at),
                None => missing.resize(missing.len() + at.len(), 0),
            }
        }
        match (&mut self.kind, &other.kind) {
            (Kind::Words(slots), Kind::Words(more))
            | (Kind::Extreme { best: slots, .. }, Kind::Extreme { best: more, .. }) => {
                gather(slots, more, at)
            }
            (Kind::Wide(slots), Kind::Wide(more)) | (Kind::Mean(slots), Kind::Mean(more)) => {
                gather(slots, more, at)
            }
            (Kind::Floats { sums, .. }, Kind::Floats { sums: more, .. }) => sums.append(more, at),
            (Kind::Distinct(counts), Kind::Distinct(more)) => gather(counts, more, at),
            (Kind::Moments { moments, .. }, Kind::Moments { moments: more, .. }) => {
                moments.append(more, at)
            }
            (Kind::ExtremeRow { best, .. }, Kind::ExtremeRow { best: more, .. }) => {
                best.append(more, at)
            }
            _ => {}
        }
    }

    /// Writes all groups, settled, for [`State::read`].
    pub(crate) fn write(&self, out: &mut Writer) {
        out.u8(u8::from(self.missing.is_some()));
        if let Some(missing) = &self.missing {
            write_words(missing, out);
        }
        match &self.kind {
            Kind::Count => {}
            Kind::Words(slots) | Kind::Extreme { best: slots, .. } => write_words(slots, out),
            Kind::Distinct(counts) => write_words(counts, out),
            Kind::Moments { moments, .. } => moments.write(out),
            Kind::Wide(sums) | Kind::Mean(sums) => write_words(sums, out),
            Kind::Floats { sums, .. } => sums.write(out),
            Kind::ExtremeRow { best, .. } => best.write(out),
        }
    }

    /// Reads so many groups into an empty state.
    pub(crate) fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        self.missing = if from.u8()? > 0 { Some(read_words(groups, from)?) } else { None };
        match &mut self.kind {
            Kind::Count => {}
            Kind::Words(slots) | Kind::Extreme { best: slots, .. } => {
                *slots = read_words(groups, from)?
            }
            Kind::Distinct(counts) => *counts = read_words(groups, from)?,
            Kind::Moments { moments, .. } => *moments = Moments::read(groups, from)?,
            Kind::Wide(sums) | Kind::Mean(sums) => *sums = read_words(groups, from)?,
            Kind::Floats { sums, .. } => *sums = FloatSums::read(groups, from)?,
            Kind::ExtremeRow { best, .. } => *best = Extremes::read(groups, from)?,
        }
        Ok(())
    }
}
