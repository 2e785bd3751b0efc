//! `GROUP BY … LIMIT n` without an order: any n groups will do. They are chosen in the first rows,
//! and conditions on their keys leave the rows of all others out before these are grouped.
//!
//! Where this stands on the road of a query: `run` adds the conditions to those of the fragment,
//! after `prune` and before `group`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType as ArrowType;
use hashbrown::HashSet;

use super::context::Context;
use super::group::{GroupOutput, groups};
use super::open::Survivors;
use super::words::{is_words, to_words};
use super::{Condition, Fragment};
use crate::error::{Error, Result};
use crate::expr::{Expression, Function, Operand, Predicate, Traits};
use crate::model::{Column, Scalar};

/// The most groups that are chosen before the others are grouped.
const SOME: usize = 1024;
/// They are looked for in one block of this many.
const SAMPLE: usize = 16;

/// Conditions that keep all rows of at least n groups and drop those of most others. There are none
/// if the query asks for other groups than any n, or the first blocks have fewer than n.
pub(super) fn conditions(
    fragment: &Fragment,
    keys: &[Expression],
    survivors: &mut Survivors,
    context: &Context<'_>,
) -> Result<Vec<Condition>> {
    let Some(first) = fragment.first_groups() else { return Ok(Vec::new()) };
    if !first.order.is_empty() || first.limit > SOME || survivors.blocks.len() < SAMPLE {
        return Ok(Vec::new());
    }
    let before = context.recorder.mark();
    let sample = survivors.blocks.len() / SAMPLE;
    let rest = survivors.blocks.split_off(sample);
    let found = some_keys(fragment, keys, first.limit, survivors, context);
    survivors.blocks.extend(rest);
    context.recorder.go_back(before);
    let Found::Keys(found) = found? else { return Ok(Vec::new()) };
    let conditions = keys.iter().zip(&found);
    Ok(conditions.filter_map(|(key, values)| among(key, values, &fragment.columns)).collect())
}

/// What a sample of the rows says of the groups.
enum Found {
    /// The keys of some groups, a column for each key.
    Keys(Vec<ArrayRef>),
    /// The sample has fewer groups than are wanted.
    TooFew,
    /// The whole table can have few groups only, which cost little.
    Cheap,
}

/// Keys from the first block, or else from the whole sample.
fn some_keys(
    fragment: &Fragment,
    keys: &[Expression],
    limit: usize,
    survivors: &mut Survivors,
    context: &Context<'_>,
) -> Result<Found> {
    let rest = survivors.blocks.split_off(1.min(survivors.blocks.len()));
    let mut found = keys_of(fragment, keys, limit, survivors, context);
    survivors.blocks.extend(rest);
    if let Ok(Found::TooFew) = found
        && survivors.blocks.len() > 1
    {
        found = keys_of(fragment, keys, limit, survivors, context);
    }
    found
}

fn keys_of(
    fragment: &Fragment,
    keys: &[Expression],
    limit: usize,
    survivors: &Survivors,
    context: &Context<'_>,
) -> Result<Found> {
    let mut output = groups(fragment, fragment.first_groups(), keys, &[], survivors, context)?;
    if matches!(output, GroupOutput::Slots(_)) {
        return Ok(Found::Cheap);
    }
    while let Some(batches) = output.next()? {
        let enough = batches
            .into_iter()
            .find(|columns| columns.first().is_some_and(|column| column.len() >= limit));
        if let Some(columns) = enough {
            let keys = columns.iter().map(|column| column.slice(0, limit)).collect();
            return Ok(Found::Keys(keys));
        }
    }
    Ok(Found::TooFew)
}

/// That a key is one of some values; `None` if its type has no such test.
fn among(key: &Expression, values: &ArrayRef, columns: &[Column]) -> Option<Condition> {
    let set = match values.data_type() {
        data_type if is_words(data_type) => {
            let words = to_words(values)?;
            let valid = (0..values.len()).filter(|row| values.is_valid(*row));
            Members::Words(valid.filter_map(|row| words.get(row).copied()).collect())
        }
        ArrowType::Utf8View => {
            let texts = values.as_string_view().iter().flatten();
            Members::Texts(texts.map(Into::into).collect())
        }
        _ => return None,
    };
    let column = key.as_column().and_then(|at| columns.get(at));
    let with_null = values.null_count() > 0;
    let predicate = column.map_or(Predicate::Unknown, |column| {
        let operand = Operand::of(column);
        let is_among = Predicate::In { operand, values: set.scalars() };
        match with_null {
            true => Predicate::Or(vec![is_among, Predicate::IsNull(column.id)]),
            false => is_among,
        }
    });
    let expression = Expression {
        inputs: key.inputs.clone(),
        data_type: ArrowType::Boolean,
        text: format!("{} of some groups", key.text).into(),
        traits: Traits::default(),
        choice: None,
        function: Some(Arc::new(Among { key: key.clone(), set, with_null })),
    };
    Some(Condition::new(expression, predicate))
}

/// Whether a key is one of some values.
#[derive(Debug)]
struct Among {
    key: Expression,
    set: Members,
    /// Null is one of them.
    with_null: bool,
}

#[derive(Debug)]
enum Members {
    Words(HashSet<i64>),
    Texts(HashSet<Box<str>>),
}

impl Members {
    fn scalars(&self) -> Vec<Scalar> {
        match self {
            Members::Words(words) => words.iter().map(|word| Scalar::Int((*word).into())).collect(),
            Members::Texts(texts) => {
                texts.iter().map(|text| Scalar::Bytes(text.as_bytes().into())).collect()
            }
        }
    }
}

impl Function for Among {
    fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let keys = self.key.evaluate(inputs, rows)?;
        let passes = |row: usize, is_member: bool| match keys.is_valid(row) {
            true => is_member,
            false => self.with_null,
        };
        let passing: BooleanArray = match &self.set {
            Members::Words(set) => {
                let words = to_words(&keys).ok_or_else(wrong_type_error)?;
                let members = words.iter().enumerate();
                members.map(|(row, word)| Some(passes(row, set.contains(word)))).collect()
            }
            Members::Texts(set) => {
                let texts = keys.as_string_view_opt().ok_or_else(wrong_type_error)?;
                let members = texts.iter().enumerate();
                let is_member = |text: Option<&str>| text.is_some_and(|text| set.contains(text));
                members.map(|(row, text)| Some(passes(row, is_member(text)))).collect()
            }
        };
        Ok(Arc::new(passing))
    }
}

fn wrong_type_error() -> Error {
    Error::InvalidInput("a key whose values are not of the type of those that were chosen".into())
}
