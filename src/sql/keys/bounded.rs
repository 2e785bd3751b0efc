//! Bounds what an expression of a manifest takes to be simplified and evaluated.
//!
//! Simplifying writes some parts twice (`coalesce(a, b)` becomes a CASE that names `a` twice), so
//! that what is nested doubles with each level: [`parts`] says how many there will be. Evaluating
//! concatenates, so that a batch of texts may become hundreds of times as large: rows are evaluated
//! as few at a time as it takes to keep the results small, and others can stop it in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::ArrayRef;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::Expr;

use crate::error::{Error, Result};
use crate::expr::Function;
use crate::sql::convert::{in_parts, is_text, text_bytes};
use crate::sql::walks::{visit_children, visit_parts};

/// The most bytes that may be made of one row, unless it has a quarter of them itself.
const ROW_BYTES: usize = 64 << 20;
/// The assumed bytes of a number, or of the text of one.
const NUMBER_BYTES: usize = 64;
/// How much longer a date may be than its format.
const FORMAT_GROWTH: usize = 32;

/// How many parts an expression has once those are written twice that simplifying repeats.
pub(super) fn parts(expression: &Expr) -> u64 {
    let of = |part: &Expr| parts(part);
    let all = |parts: &[Expr], times: u64| {
        parts.iter().fold(1, |sum: u64, part| sum.saturating_add(times.saturating_mul(of(part))))
    };
    match expression {
        Expr::ScalarFunction(call) => {
            let repeats = matches!(call.name(), "coalesce" | "nvl" | "nvl2" | "nullif");
            all(&call.args, if repeats { 2 } else { 1 })
        }
        Expr::Between(between) => {
            let ends = of(&between.low).saturating_add(of(&between.high));
            of(&between.expr).saturating_mul(2).saturating_add(ends)
        }
        // A short list becomes comparisons.
        Expr::InList(list) => {
            let times = list.list.len().clamp(1, 4) as u64;
            of(&list.expr).saturating_mul(times).saturating_add(all(&list.list, 1))
        }
        other => {
            let mut sum: u64 = 1;
            visit_children(other, |part| sum = sum.saturating_add(of(part)));
            sum
        }
    }
}

/// A function of an expression, evaluated over as few rows at a time as its results need.
#[derive(Debug)]
pub(super) struct Bounded {
    inner: Arc<dyn Function>,
    /// How often the expression names texts.
    texts: usize,
    /// Bytes that it makes of a row beside them.
    constant: usize,
    cancelled: Arc<AtomicBool>,
}

impl Bounded {
    /// Bounds the function of an expression over columns.
    pub(super) fn new(
        inner: Arc<dyn Function>,
        expression: &Expr,
        schema: &DFSchema,
        cancelled: Arc<AtomicBool>,
    ) -> Bounded {
        let (mut texts, mut constant) = (0, 0);
        visit_parts(expression, |part| {
            constant += NUMBER_BYTES;
            match part {
                Expr::Column(name) => {
                    let found = schema.as_arrow().field_with_name(&name.name);
                    texts += usize::from(found.is_ok_and(|field| is_text(field.data_type())));
                }
                Expr::Literal(value, _) => constant += value.size() * FORMAT_GROWTH,
                Expr::ScalarFunction(call) if call.name() == "concat_ws" => {
                    let separator = call.args.first().map(|argument| match argument {
                        Expr::Literal(value, _) => value.size(),
                        _ => 0,
                    });
                    constant += separator.unwrap_or(0) * call.args.len();
                }
                _ => {}
            }
            TreeNodeRecursion::Continue
        });
        Bounded { inner, texts, constant, cancelled }
    }

    /// About the bytes that are made of some rows.
    fn bytes(&self, inputs: &[ArrayRef], rows: usize) -> usize {
        self.texts
            .saturating_mul(text_bytes(inputs))
            .saturating_add(self.constant.saturating_mul(rows))
    }

    fn evaluate_part(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let most = ROW_BYTES.max(text_bytes(inputs).saturating_mul(4));
        let bytes = self.bytes(inputs, rows);
        if bytes > most {
            return Err(Error::LimitExceeded(format!(
                "an expression that the table is partitioned by would make {bytes} bytes of a \
                 row; at most {most} are allowed"
            )));
        }
        self.inner.evaluate(inputs, rows)
    }
}

impl Function for Bounded {
    fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let bytes = |inputs: &[ArrayRef], rows| self.bytes(inputs, rows);
        in_parts(inputs, rows, usize::MAX, &bytes, &|inputs, rows| self.evaluate_part(inputs, rows))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_schema::DataType;

    use super::*;
    use crate::expr::Expression;
    use crate::ingest::partition::Compile;
    use crate::model::Schema;
    use crate::sql::keys::expressions::SqlExpressions;

    fn compile(expression: &str, cancelled: Arc<AtomicBool>) -> Expression {
        let columns = [("s", "utf8".parse().unwrap()), ("n", "int64".parse().unwrap())];
        let schema = Schema::from_names(columns).unwrap();
        let expressions = SqlExpressions::stopped_by(cancelled);
        expressions.compile(expression, schema.columns()).unwrap()
    }

    /// `concat(s, s, …)` of this many.
    fn many(count: usize) -> String {
        format!("length(concat({}))", vec!["s"; count].join(", "))
    }

    #[test]
    fn rows_are_evaluated_in_parts_that_stay_small() {
        let text = "x".repeat(20_000);
        let rows = 1000;
        let texts = StringArray::from_iter_values((0..rows).map(|at| &text[..at * 20]));
        let texts = arrow_cast::cast(&texts, &DataType::Utf8View).unwrap();
        // All at once, the texts would be 4 GB.
        let lengths = compile(&many(400), Arc::default()).evaluate(&[texts], rows).unwrap();
        let lengths = arrow_cast::cast(&lengths, &DataType::Int32).unwrap();
        let expected: Vec<i32> = (0..rows as i32).map(|at| at * 20 * 400).collect();
        assert_eq!(lengths.as_primitive::<Int32Type>().values(), &expected[..]);
    }

    #[test]
    fn a_row_that_would_become_hundreds_of_times_as_long_is_refused() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)]));
        let text = arrow_cast::cast(&text, &DataType::Utf8View).unwrap();
        let refusal = compile(&many(400), Arc::default())
            .evaluate(std::slice::from_ref(&text), 1)
            .unwrap_err();
        assert!(matches!(refusal, Error::LimitExceeded(_)), "{refusal}");
        compile(&many(40), Arc::default()).evaluate(&[text], 1).unwrap();
    }

    #[test]
    fn it_stops_between_parts() {
        let cancelled = Arc::new(AtomicBool::new(false));
        let compiled = compile(&many(40), Arc::clone(&cancelled));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x"; 10]));
        let text = arrow_cast::cast(&text, &DataType::Utf8View).unwrap();
        compiled.evaluate(std::slice::from_ref(&text), 10).unwrap();
        cancelled.store(true, Ordering::Relaxed);
        assert!(matches!(compiled.evaluate(&[text], 10), Err(Error::Cancelled)));
    }
}
