//! Filtering on encoded data: which rows of a slice pass.
//!
//! Where this stands on the road of a query: `scan` has left the blocks in which rows may match; here each condition is
//! judged once more by the block's zone map (often it holds for all rows), then in the cheapest form that it has:
//!
//! 1. a range of dictionary codes or of whole numbers, compared in the narrowest word that holds them;
//! 2. a set of dictionary codes, after the condition was evaluated once for each value of the dictionary;
//! 3. the condition itself over decoded columns, for the rows that the others have left.

mod decimals;
mod marks;
mod range;

use arrow_array::Array;

use self::decimals::DecimalRange;
pub(crate) use self::marks::Marks;
use self::range::WordRange;
use super::Condition;
use super::aggregate::truth;
use super::prune::Verdict;
use super::scan::{OpenBlock, Slice};
use crate::error::Result;
use crate::expr::Predicate;
use crate::model::Column;

/// Conditions over columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter<'a> {
    pub(crate) conditions: &'a [Condition],
    /// The columns that expressions name by position.
    pub(crate) columns: &'a [Column],
}

/// A condition on the codes of a segment's dictionary.
#[derive(Clone, Debug)]
pub(crate) enum OnCodes {
    /// It is not on a column with a dictionary, or cannot be evaluated for all of its values.
    No,
    /// True for the codes from one to another.
    Range(u32, u32),
    /// True for the codes whose place holds 1.
    Set(Box<[u8]>),
}

/// One condition in the form that a block allows.
#[derive(Debug)]
enum Form<'f> {
    Codes { at: usize, low: u32, high: u32 },
    Words { at: usize, range: WordRange },
    Decimals { at: usize, range: DecimalRange },
    CodeSet { at: usize, set: &'f [u8] },
    General(&'f Condition),
}

/// A condition that rows of a block have to pass.
#[derive(Debug)]
struct Test<'f> {
    /// Which of the fragment's conditions.
    number: usize,
    form: Form<'f>,
}

/// The tests that rows of a block have to pass; none if all do.
#[derive(Debug)]
pub(crate) struct Tests<'f> {
    tests: Vec<Test<'f>>,
}

impl<'f> Filter<'f> {
    /// What rows of a block have to pass, in the order that `marks` have found to be quickest; `None` if none can.
    pub(crate) fn tests(&self, block: &OpenBlock<'f>, marks: &Marks) -> Result<Option<Tests<'f>>> {
        let mut tests = Vec::new();
        for (number, condition) in self.conditions.iter().enumerate() {
            match block.judge(&condition.predicate) {
                Verdict::Never => return Ok(None),
                Verdict::Always => continue,
                Verdict::Maybe => {}
            }
            match self.form(number, condition, block)? {
                Some(form) => tests.push(Test { number, form }),
                None => return Ok(None),
            }
        }
        if tests.len() > 1 {
            let rank = |test: &Test<'_>| Ok((test.form.cost(block)? / marks.dropped(test.number), test.number));
            let ranks = tests.iter().map(rank).collect::<Result<Vec<(f64, usize)>>>()?;
            let rank_of =
                |test: &Test<'_>| ranks.iter().find(|(_, number)| *number == test.number).map_or(0.0, |r| r.0);
            tests.sort_by(|a, b| rank_of(a).total_cmp(&rank_of(b)));
        }
        Ok(Some(Tests { tests }))
    }

    fn form(&self, number: usize, condition: &'f Condition, block: &OpenBlock<'f>) -> Result<Option<Form<'f>>> {
        let Some(at) = condition.expression.only_input() else { return Ok(Some(Form::General(condition))) };
        match self.on_codes(number, condition, at, block)? {
            OnCodes::Range(low, high) if low > high => return Ok(None),
            OnCodes::Range(low, high) => return Ok(Some(Form::Codes { at, low: *low, high: *high })),
            OnCodes::Set(set) => return Ok(Some(Form::CodeSet { at, set })),
            OnCodes::No => {}
        }
        let range = self.columns.get(at).and_then(|column| Form::range(&condition.predicate, column, at, block));
        Ok(Some(range.unwrap_or(Form::General(condition))))
    }

    fn on_codes(
        &self,
        number: usize,
        condition: &Condition,
        at: usize,
        block: &OpenBlock<'f>,
    ) -> Result<&'f OnCodes> {
        static NO: OnCodes = OnCodes::No;
        let Some(slot) = block.segment.on_codes.get(number) else { return Ok(&NO) };
        if let Some(known) = slot.get() {
            return Ok(known);
        }
        let found = self.judge_codes(condition, at, block)?;
        Ok(slot.get_or_init(|| found))
    }

    fn judge_codes(&self, condition: &Condition, at: usize, block: &OpenBlock<'_>) -> Result<OnCodes> {
        let (Some(stored), Some(column)) = (block.stored(at), self.columns.get(at)) else { return Ok(OnCodes::No) };
        let Some(dictionary) = stored.dictionary()? else { return Ok(OnCodes::No) };
        // As many values as rows: those of the rows that are left are fewer.
        if dictionary.len() as u64 > block.segment.segment.rows() / 2 {
            return Ok(OnCodes::No);
        }
        let Ok(values) = arrow_cast::cast(dictionary, &column.data_type.to_arrow()) else { return Ok(OnCodes::No) };
        // An error may be due to a value that no row has, or none of those that the other conditions leave.
        let Ok(outcomes) = condition.expression.evaluate(&[values], dictionary.len()) else {
            return Ok(OnCodes::No);
        };
        let holds = truth(&outcomes);
        let mut codes = holds.valid_indices();
        let Some(first) = codes.next() else { return Ok(OnCodes::Range(1, 0)) };
        let last = codes.last().unwrap_or(first);
        if last - first + 1 == holds.len() - holds.null_count() {
            return Ok(OnCodes::Range(first as u32, last as u32));
        }
        Ok(OnCodes::Set(holds.iter().map(u8::from).collect()))
    }
}

impl Form<'_> {
    /// A predicate as a range of numbers, if it is one on this column of a block.
    fn range(predicate: &Predicate, column: &Column, at: usize, block: &OpenBlock<'_>) -> Option<Self> {
        if let Some(range) = WordRange::of(predicate, column, at, block) {
            return Some(Form::Words { at, range });
        }
        if let Some((low, high)) = range::codes(predicate, column, at, block) {
            return Some(Form::Codes { at, low, high });
        }
        DecimalRange::of(predicate, column, at, block).map(|range| Form::Decimals { at, range })
    }

    /// What the test costs for all rows, about: 1 for a comparison of bytes.
    fn cost(&self, block: &OpenBlock<'_>) -> Result<f64> {
        let (at, range) = match self {
            // What may fail is asked in the order in which it was written.
            Form::General(_) => return Ok(f64::INFINITY),
            Form::CodeSet { .. } => return Ok(4.0),
            Form::Codes { at, low, high } => {
                let values = block.stored(*at).and_then(|c| c.record().dictionary).map_or(0, |d| d.values);
                let range = WordRange { base: 0, span: values.into(), low: (*low).into(), high: (*high).into() };
                (*at, range)
            }
            Form::Words { at, range } => (*at, *range),
            Form::Decimals { at, range } => (*at, range.range),
        };
        Ok(range.cost(block.column(at)?))
    }
}

/// Leaves only rows selected for which a predicate on a column is true, where it is a range of numbers and no rows were
/// left out before; else the slice stays as it is.
pub(crate) fn narrow(
    predicate: &Predicate,
    column: &Column,
    at: usize,
    slice: &mut Slice<'_, '_>,
    marks: &mut Marks,
) -> Result<()> {
    if slice.selected.is_some() {
        return Ok(());
    }
    match Form::range(predicate, column, at, slice.block) {
        Some(form) => Tests { tests: vec![Test { number: 0, form }] }.apply(slice, marks),
        None => Ok(()),
    }
}

impl Tests<'_> {
    /// Leaves the rows of a slice that pass selected.
    pub(crate) fn apply(&self, slice: &mut Slice<'_, '_>, marks: &mut Marks) -> Result<()> {
        marks.clear();
        let mut left = slice.len();
        for Test { number, form } in &self.tests {
            match form {
                Form::Codes { at, low, high } => marks.codes(slice, *at, *low, *high)?,
                Form::Words { at, range } => marks.words(slice, *at, range)?,
                Form::Decimals { at, range } => marks.decimals(slice, *at, range)?,
                Form::CodeSet { at, set } => marks.code_set(slice, *at, set)?,
                Form::General(_) => continue,
            }
            let before = std::mem::replace(&mut left, marks.left(slice.len()));
            marks.tested(*number, before, left);
            if left == 0 {
                slice.select(Vec::new());
                return Ok(());
            }
        }
        if let Some(rows) = marks.rows() {
            slice.select(rows);
        }
        for Test { number, form } in &self.tests {
            let Form::General(condition) = form else { continue };
            if slice.len() == 0 {
                break;
            }
            let holds = truth(&slice.evaluate(&condition.expression)?);
            marks.tested(*number, holds.len(), holds.len() - holds.null_count());
            if holds.null_count() == 0 {
                continue;
            }
            let rows = match &slice.selected {
                None => holds.valid_indices().map(|row| row as u32).collect(),
                Some(selected) => holds.valid_indices().filter_map(|i| selected.get(i).copied()).collect(),
            };
            slice.select(rows);
        }
        Ok(())
    }

    /// Whether every row passes.
    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }
}
