//! Relations between the answers to statements, which hold for any engine: a condition is true,
//! false or unknown for each row, and selects the same rows wherever it is written.

use arrow_array::{Array, RecordBatch};
use arrow_select::concat::concat_batches;

use super::compare::compare;
use super::engines::{Answer, PANIC};
use super::expressions::Maker;
use super::random::Random;
use super::spelling::Spelling;
use super::statements::Statement;
use super::tables::Database;

/// Related statements.
#[derive(Clone, Debug)]
pub(crate) struct Relation {
    /// All rows.
    pub(crate) whole: Statement,
    /// The rows for which a condition is true, false and unknown.
    pub(crate) parts: [String; 3],
    /// The number of rows for which it is true, counted in two ways.
    pub(crate) counts: [String; 2],
}

/// A relation over some of the tables.
pub(crate) fn generate(seed: u64, number: u64, database: &Database) -> Relation {
    let r = &mut Random::for_item(!seed, number);
    let maker = &mut Maker::new(r, &database.tables, Spelling::default());
    let with = maker.begin();
    maker.relation(&with)
}

impl Maker<'_> {
    fn relation(&mut self, with: &str) -> Relation {
        let items = self.some_columns(1, 3);
        let start = format!("SELECT {} FROM {}", Self::named_items(&items), self.from);
        self.asks = if self.is_large() { 0 } else { 2 };
        let p = self.condition(2);
        let from = &self.from;
        let said = |sql: String| with.to_owned() + &sql.replace('⟨', "(").replace('⟩', ")");
        let whole = Statement { zeros_are_one: true, ..Statement::plain(said(start.clone())) };
        let parts = [
            format!("{start} WHERE {p}"),
            format!("{start} WHERE NOT ({p})"),
            format!("{start} WHERE ({p}) IS NULL"),
        ];
        let counts = [
            format!("SELECT count(*) AS c FROM {from} WHERE {p}"),
            format!("SELECT coalesce(sum(CASE WHEN {p} THEN 1 ELSE 0 END), 0) AS c FROM {from}"),
        ];
        Relation { whole, parts: parts.map(&said), counts: counts.map(&said) }
    }
}

impl Relation {
    /// Checks the relation. An error proves nothing, unless it is one that no statement may have.
    pub(crate) fn check(&self, ask: &dyn Fn(&str) -> Answer) -> Result<bool, String> {
        let answers: Vec<Answer> = [&self.whole.sql]
            .into_iter()
            .chain(&self.parts)
            .chain(&self.counts)
            .map(|sql| ask(sql))
            .collect();
        if let Some(at) =
            answers.iter().position(|answer| answer.as_ref().is_err_and(|e| e.contains(PANIC)))
        {
            return Err(format!("a panic in number {at} of\n{self:#?}"));
        }
        let batches: Vec<Option<RecordBatch>> = answers.into_iter().map(Result::ok).collect();
        let [whole, parts @ .., count, sum] = batches.as_slice() else { return Ok(false) };
        let mut known = false;
        if let (Some(whole), Some(parts)) =
            (whole, parts.iter().cloned().collect::<Option<Vec<_>>>())
        {
            let sizes: Vec<usize> = parts.iter().map(RecordBatch::num_rows).collect();
            let united =
                concat_batches(&whole.schema(), &parts).map_err(|error| error.to_string())?;
            compare(&self.whole, whole, &united, &|_| None).map_err(|what| {
                format!("all rows, and those of three parts {sizes:?}: {what}\n{:#?}", self.parts)
            })?;
            known = true;
        }
        if let (Some(count), Some(sum)) = (count, sum) {
            let (count, sum) = (count.column(0), sum.column(0));
            if count.to_data() != sum.to_data() {
                return Err(format!("counts differ: {count:?} and {sum:?}\n{:#?}", self.counts));
            }
        }
        Ok(known)
    }
}
