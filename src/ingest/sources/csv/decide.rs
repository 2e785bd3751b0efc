//! Decides types, layouts and words for null of the columns: by their samples, by the table and the
//! inputs before this one, and by the options.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::chunks::CsvChunk;
use super::column::ColumnBuilder;
use super::first_rows::{for_tiles, sample};
use super::guess::Guess;
use super::options::CsvOptions;
use super::sample::{ColumnSample, Decision, Doubt, WordSet, has_both_orders, null_words, words};
use super::schema::CsvSchema;
use crate::error::{Error, Result};
use crate::ingest::sources::supported::no_such_column;
use crate::ingest::text::layout::{DateOrder, Layout, in_order, layouts};
use crate::model::DataType;

/// Decides all columns, whose names are known, and notes what was guessed.
pub(super) fn decide_columns(
    schema: &mut CsvSchema,
    options: &CsvOptions,
    chunk: &CsvChunk,
    samples: &[ColumnSample],
) -> Result<()> {
    let mut decisions = Vec::with_capacity(samples.len());
    let orders: HashMap<&str, DateOrder> =
        options.prior_orders.iter().map(|(name, order)| (name.as_str(), *order)).collect();
    for (at, sample) in samples.iter().enumerate() {
        let Some(column) = schema.columns.get(at) else { break };
        let before = orders.get(&*column.name).copied().filter(|_| options.date_order.is_none());
        if let (Some(before), Some(own)) = (before, sample.order())
            && before != own
        {
            return Err(other_order(schema, at, before));
        }
        decisions.push(sample.decide(options.date_order.or(before)));
    }
    for (at, decision) in decisions.iter().enumerate() {
        apply(schema, at, decision);
    }
    let rows = FirstRows {
        rows: sample(schema, chunk, schema.data_start(chunk)?, options.infer_rows)?,
        options,
    };
    rows.prefer_prior(schema, samples, &mut decisions)?;
    fix_types(schema, options)?;
    rows.read_fixed(schema, samples, &mut decisions)?;
    if options.skip_initial_space.is_none() {
        note_blanks(schema, samples);
    }
    note_decisions(schema, options, &decisions);
    Ok(())
}

/// The rows that columns are inferred from.
struct FirstRows<'a> {
    rows: (Cow<'a, CsvChunk>, usize),
    options: &'a CsvOptions,
}

impl FirstRows<'_> {
    /// Whether all values of a column are of this type, with words for null besides.
    fn fit(
        &self,
        schema: &CsvSchema,
        at: usize,
        data_type: &DataType,
        layout: Layout,
        words: WordSet,
    ) -> Result<bool> {
        let layout = if layout == Layout::Plain { schema.layout_of_numbers() } else { layout };
        let rules = schema.rules_with(words);
        let rules = rules.as_deref().unwrap_or(&schema.rules);
        let mut trial = ColumnBuilder::new(data_type, false).laid_out(layout);
        let (mut fits, (rows, from)) = (true, &self.rows);
        for_tiles(schema, rows, *from, self.options.infer_rows, |tile| {
            fits = fits && trial.push(tile, at, rules).is_ok();
        })?;
        Ok(fits)
    }

    /// Uses the table's type if the whole sample parses as it, or if the rows that do not are left
    /// out.
    fn prefer_prior(
        &self,
        schema: &mut CsvSchema,
        samples: &[ColumnSample],
        decisions: &mut [Decision],
    ) -> Result<()> {
        let priors: HashMap<&str, &DataType> =
            self.options.prior.iter().map(|(name, t)| (name.as_str(), t)).collect();
        let fixed: HashSet<&str> =
            self.options.schema.iter().map(|(name, _)| name.as_str()).collect();
        for (at, (sample, decision)) in samples.iter().zip(decisions).enumerate() {
            let Some(column) = schema.columns.get(at) else { break };
            let prior =
                priors.get(&*column.name).copied().filter(|_| !fixed.contains(&*column.name));
            if prior == Some(&DataType::Utf8) {
                decision.doubt = None; // a date in it is no date
            }
            let Some(prior) =
                prior.filter(|prior| **prior != DataType::Null && **prior != column.data_type)
            else {
                continue;
            };
            let layout = self.layout(schema, at, sample, decision, prior)?;
            let words = null_words(sample.words(), prior);
            let fits = self.fit(schema, at, prior, layout, words)?;
            // A value that is not a UUID is an error, which names its line.
            let kept = fits
                || *prior == DataType::Uuid
                || schema.skip_bad_rows && prior.join(&decision.data_type).is_none();
            if kept {
                decision.data_type = prior.clone();
                (decision.layout, decision.words) = (layout, words);
                apply(schema, at, decision);
            }
        }
        Ok(())
    }

    /// Finds out how the values of columns are written whose type the user has named, and which
    /// words in them are null.
    fn read_fixed(
        &self,
        schema: &mut CsvSchema,
        samples: &[ColumnSample],
        decisions: &mut [Decision],
    ) -> Result<()> {
        for (at, (sample, decision)) in samples.iter().zip(decisions).enumerate() {
            let Some(column) = schema.columns.get(at).filter(|column| column.fixed) else {
                continue;
            };
            let data_type = column.data_type.clone();
            let epoch = self.options.epochs.iter().find(|(name, _)| **name == *column.name);
            let layout = match epoch {
                Some((_, unit)) => Layout::Epoch(*unit),
                // All words for booleans are read where the user has named the type.
                None if data_type == DataType::Bool => Layout::Plain,
                None => self.layout(schema, at, sample, decision, &data_type)?,
            };
            let words = null_words(sample.words(), &data_type);
            let doubt = decision.doubt.filter(|_| data_type != DataType::Utf8);
            *decision = Decision { data_type, layout, words, doubt, ..*decision };
            apply(schema, at, decision);
        }
        Ok(())
    }

    /// The layout of the values of a column that is to have this type.
    fn layout(
        &self,
        schema: &CsvSchema,
        at: usize,
        sample: &ColumnSample,
        decision: &Decision,
        data_type: &DataType,
    ) -> Result<Layout> {
        if *data_type == DataType::Utf8 || decision.data_type != DataType::Utf8 {
            let is_text = *data_type == DataType::Utf8;
            return Ok(if is_text { Layout::Plain } else { decision.layout });
        }
        // What has two readings, or but one of two words, has been taken for text.
        let set = sample.layouts_of(data_type);
        let set = decision.order.map_or(set, |order| in_order(set, order));
        let layout = layouts(set).next().unwrap_or_default();
        if has_both_orders(set) && layout != Layout::DayFirst(b'.') {
            return Err(day_or_month(schema, at));
        }
        Ok(layout)
    }
}

/// Puts a decision into the schema.
fn apply(schema: &mut CsvSchema, at: usize, decision: &Decision) {
    let rules = schema.rules_with(decision.words);
    if let Some(column) = schema.columns.get_mut(at) {
        column.data_type.clone_from(&decision.data_type);
        (column.layout, column.rules) = (decision.layout, rules);
    }
}

/// Sets the types that the user has named.
pub(super) fn fix_types(schema: &mut CsvSchema, options: &CsvOptions) -> Result<()> {
    for (name, data_type) in &options.schema {
        match schema.columns.iter_mut().find(|column| *column.name == **name) {
            Some(column) => (column.data_type, column.fixed) = (data_type.clone(), true),
            None if options.external_columns.contains(name) => {}
            None => return Err(no_such_column(&schema.file, name, schema.names())),
        }
    }
    Ok(())
}

/// Notes columns of text in which blanks after the delimiters seem to be meant for the eye.
fn note_blanks(schema: &mut CsvSchema, samples: &[ColumnSample]) {
    let columns = schema.columns.iter().zip(samples);
    let begin_blank = columns.filter(|(column, sample)| {
        column.data_type == DataType::Utf8 && sample.has_blanks_before()
    });
    let names: Vec<String> = begin_blank.map(|(column, _)| column.name.to_string()).collect();
    if !names.is_empty() {
        schema.guesses.push(Guess::BlanksBefore(names));
    }
}

/// Notes what the values of the columns do not prove.
fn note_decisions(schema: &mut CsvSchema, options: &CsvOptions, decisions: &[Decision]) {
    let names = |is_one: &dyn Fn(&Decision) -> bool| -> Vec<String> {
        let each = schema.columns.iter().zip(decisions);
        each.filter(|(_, decision)| is_one(decision)).map(|(c, _)| c.name.to_string()).collect()
    };
    let mut guesses = Vec::new();
    let set = decisions.iter().fold(0, |set, decision| set | decision.words);
    if set != 0 {
        guesses.push(Guess::Nulls(words(set).collect(), names(&|decision| decision.words != 0)));
    }
    let is_text = |decision: &Decision| decision.data_type == DataType::Utf8;
    let unknown = names(&|decision| decision.doubt == Some(Doubt::DayOrMonth) && is_text(decision));
    if !unknown.is_empty() {
        guesses.push(Guess::DayOrMonth(unknown));
    }
    for order in [DateOrder::DayFirst, DateOrder::MonthFirst] {
        let decided = names(&|decision| {
            decision.doubt == Some(Doubt::DayOrMonthDecided)
                && decision.layout.order() == Some(order)
        });
        if !decided.is_empty() && options.date_order.is_none() {
            guesses.push(Guess::Order(order, decided));
        }
    }
    let known: HashSet<&str> = [&options.prior, &options.schema]
        .into_iter()
        .flatten()
        .filter(|(_, data_type)| *data_type == DataType::Bool)
        .map(|(name, _)| name.as_str())
        .collect();
    for pair in [["no", "yes"], ["f", "t"]] {
        let mut columns = names(&|decision| decision.layout == Layout::Booleans(pair));
        columns.retain(|name| !known.contains(name.as_str()));
        if !columns.is_empty() {
            guesses.push(Guess::Booleans(pair, columns));
        }
    }
    schema.guesses.extend(guesses);
}

#[cold]
fn day_or_month(schema: &CsvSchema, at: usize) -> Error {
    let name = schema.columns.get(at).map_or("", |column| &*column.name);
    Error::InvalidInput(format!(
        "{}: column '{name}': its dates may have the day or the month first; say --date-order dmy \
         or --date-order mdy",
        schema.file.display()
    ))
}

#[cold]
fn other_order(schema: &CsvSchema, at: usize, before: DateOrder) -> Error {
    let name = schema.columns.get(at).map_or("", |column| &*column.name);
    let (own, before) = match before {
        DateOrder::DayFirst => ("month", "day"),
        DateOrder::MonthFirst => ("day", "month"),
    };
    Error::InvalidInput(format!(
        "{}: column '{name}': its dates have the {own} first, and those of the inputs before it \
         the {before}; load it by itself",
        schema.file.display()
    ))
}
