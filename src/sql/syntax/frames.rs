//! Writes out what windows leave implicit: the default frame, which is `RANGE` from the first row
//! to the peers of the current one if there is an ORDER BY, bounds of frames that are computed
//! (`1 + 1 PRECEDING`) or are intervals (`INTERVAL 7 DAYS PRECEDING`), and the order in which an
//! aggregate takes the rows of a whole partition.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) takes `ROWS` as the
//! default frame if it believes that no rows are peers, and for some aggregates it is wrong (see
//! `rules::dependencies`). A QUALIFY without a window of its own it refuses; here it gets one that
//! is always true if the SELECT list has a window.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, DuplicateTreatment, Expr as SqlExpr, FunctionArgumentClause,
    FunctionArguments, Ident, Interval, NamedWindowDefinition, NamedWindowExpr, Select, SelectItem,
    Statement, UnaryOperator, Value, ValueWithSpan, Visit, VisitorMut,
    WindowFrame as SqlWindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

use crate::sql::syntax::{folded, show};
use crate::sql::walks::{visit_expressions, visit_mut};

/// Writes out the frames of all windows.
pub(in crate::sql) fn write_out(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut Frames);
}

struct Frames;

impl VisitorMut for Frames {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for NamedWindowDefinition(_, window) in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = window {
                complete_frame(window);
            }
        }
        if let Some(condition) = &mut select.qualify
            && !has_window(condition)
            && has_window(&select.projection)
            && !names_window(condition, &select.projection)
            && let Some(always) = show::parsed_expr("row_number() OVER () > 0")
        {
            let own = std::mem::replace(condition, always.clone());
            let (left, right) = (Box::new(SqlExpr::Nested(own.into())), Box::new(always));
            *condition = SqlExpr::BinaryOp { left, op: BinaryOperator::And, right };
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        if let SqlExpr::Function(function) = expr
            && let Some(WindowType::WindowSpec(window)) = &mut function.over
        {
            order_whole(&mut function.args, window);
            complete_frame(window);
        }
        ControlFlow::Continue(())
    }
}

/// `array_agg(x ORDER BY y) OVER (PARTITION BY g)` as a window of all rows in that order.
/// DataFusion (55.2) takes no ORDER BY of an aggregate there.
fn order_whole(args: &mut FunctionArguments, window: &mut WindowSpec) {
    let FunctionArguments::List(list) = args else { return };
    let is_whole = match &window.window_frame {
        None => window.order_by.is_empty(),
        Some(frame) => {
            let ends = (&frame.start_bound, &frame.end_bound);
            matches!(
                ends,
                (WindowFrameBound::Preceding(None), Some(WindowFrameBound::Following(None)))
            )
        }
    };
    let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    if !is_whole || is_distinct {
        return;
    }
    let is_order =
        |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    let Some(at) = list.clauses.iter().position(is_order) else { return };
    if let FunctionArgumentClause::OrderBy(order) = list.clauses.remove(at) {
        window.order_by = order;
        window.window_frame = Some(SqlWindowFrame {
            units: WindowFrameUnits::Rows,
            start_bound: WindowFrameBound::Preceding(None),
            end_bound: Some(WindowFrameBound::Following(None)),
        });
    }
}

/// Whether a window function is called, subqueries included.
fn has_window(tree: &impl Visit) -> bool {
    let is_window = |expr: &SqlExpr| matches!(expr, SqlExpr::Function(call) if call.over.is_some());
    visit_expressions(tree, |expr| match is_window(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Whether a condition names a column of the SELECT list that is computed by a window.
fn names_window(condition: &SqlExpr, items: &[SelectItem]) -> bool {
    let is_window = |name: &Ident| {
        items.iter().any(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } => {
                folded(alias) == folded(name) && has_window(expr)
            }
            _ => false,
        })
    };
    visit_expressions(condition, |part| match part {
        SqlExpr::Identifier(name) if is_window(name) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Computes a bound of integers, and writes an interval as one text: `INTERVAL '7 DAYS'`, which is
/// all that DataFusion reads.
fn compute(bound: &mut WindowFrameBound) {
    let (WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset))) =
        bound
    else {
        return;
    };
    if matches!(**offset, SqlExpr::Value(_)) {
        return;
    }
    if let Some(text) = interval_text(offset) {
        **offset = SqlExpr::Interval(Interval {
            value: Box::new(SqlExpr::value(Value::SingleQuotedString(text))),
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        });
        return;
    }
    if let Some(number) = integer(offset).filter(|number| *number >= 0) {
        **offset = SqlExpr::value(Value::Number(number.to_string(), false));
    }
}

/// An interval as a text, if it is a constant.
fn interval_text(expr: &SqlExpr) -> Option<String> {
    match expr {
        SqlExpr::Interval(Interval { value, leading_field, last_field: None, .. }) => {
            let number = match value.as_ref() {
                SqlExpr::Value(ValueWithSpan {
                    value: Value::SingleQuotedString(text) | Value::Number(text, _),
                    ..
                }) => text.trim().to_owned(),
                computed => integer(computed)?.to_string(),
            };
            Some(match leading_field {
                Some(unit) => format!("{number} {unit}"),
                None => number,
            })
        }
        SqlExpr::Cast { expr, data_type: DataType::Interval { .. }, .. } => match expr.as_ref() {
            SqlExpr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
                Some(text.trim().to_owned())
            }
            _ => None,
        },
        SqlExpr::Nested(inner) => interval_text(inner),
        // `standard` has made this of `INTERVAL (3 + 4) DAY`.
        SqlExpr::BinaryOp { left, op: BinaryOperator::Multiply, right } => {
            let times = integer(left)?;
            let text = interval_text(right)?;
            let (number, unit) = text.split_once(' ')?;
            Some(format!("{} {unit}", number.parse::<i64>().ok()?.checked_mul(times)?))
        }
        _ => None,
    }
}

fn integer(expr: &SqlExpr) -> Option<i64> {
    match expr {
        SqlExpr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            digits.parse().ok()
        }
        SqlExpr::Nested(inner) => integer(inner),
        SqlExpr::UnaryOp { op: UnaryOperator::Minus, expr } => integer(expr)?.checked_neg(),
        SqlExpr::BinaryOp { left, op, right } => {
            let (left, right) = (integer(left)?, integer(right)?);
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                _ => None,
            }
        }
        _ => None,
    }
}

fn complete_frame(window: &mut WindowSpec) {
    if !window.order_by.is_empty() && window.window_frame.is_none() {
        window.window_frame = Some(SqlWindowFrame::default());
    }
    if let Some(frame) = &mut window.window_frame {
        compute(&mut frame.start_bound);
        if let Some(end) = &mut frame.end_bound {
            compute(end);
        }
    }
}
