//! Rewrites frames of windows that DataFusion refuses or computes wrongly.
//!
//! Where this stands on the road of a query: an analyzer rule before types are coerced, after
//! `syntax::frames` has written frames out. For a frame in `RANGE`, DataFusion (55.2) wants to know
//! the distance between two keys. Bytes and times of day have none, and most frames do not need it:
//! the same frame in `GROUPS` only asks which rows are peers. And a bound that is some distance
//! from the key may be out of the range of the key's type. DataFusion then takes the edge of the
//! partition for the bound, with the nulls that are there; as a decimal, the bound is a number like
//! others. Nor does it look at what the distance is: `7 PRECEDING` of a date is seven months, and
//! of a text the text '7'. Here a distance is an interval between times, a number of days between
//! dates and a number between numbers, and anything else is refused. Functions that collect values
//! get the account of what rows are given (`functions::collected`), for which the frame must be
//! known.

use std::sync::Arc;

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ScalarValue, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, Projection, Window, WindowFrame, WindowFrameBound,
    WindowFrameUnits, cast,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::convert::type_name;
use crate::sql::functions::aggregates::count_collected;
use crate::sql::walks::{any_node, rewrite_expressions, rewrite_plan, rewrite_up};

#[derive(Debug)]
pub(in crate::sql) struct FramesOfPeers;

impl AnalyzerRule for FramesOfPeers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_node(&plan, |node| matches!(node, LogicalPlan::Window(_))) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            let framed = rewrite_expressions(node, |expr, schema| {
                rewrite_up(expr, |expr| with_frame(expr, schema))
            })?;
            framed.transform_data(without_twins)
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "frames_of_peers"
    }
}

/// Computes windows that have become the same once: `7` and `INTERVAL 7 DAYS` are one distance.
/// DataFusion would move what is common out of the windows, where none can be computed.
fn without_twins(node: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(window) = node else { return Ok(Transformed::no(node)) };
    let mut kept: Vec<Expr> = Vec::new();
    let mut places = Vec::new();
    for expr in &window.window_expr {
        let same = |one: &Expr| one.clone().unalias() == expr.clone().unalias();
        places.push(kept.iter().position(same).unwrap_or_else(|| {
            kept.push(expr.clone());
            kept.len() - 1
        }));
    }
    if kept.len() == places.len() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let before = window.input.schema().fields().len();
    let once = LogicalPlan::Window(Window::try_new(kept, Arc::clone(&window.input))?);
    let column = |at: usize| Expr::Column(Column::from(once.schema().qualified_field(at)));
    let of_windows = window.schema.fields().iter().skip(before).zip(places);
    let columns = (0..before).map(column).chain(
        of_windows.map(|(field, place)| column(before + place).alias(field.name().as_str())),
    );
    let columns = columns.collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(once))?)))
}

fn with_frame(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let Expr::WindowFunction(mut window) = expr else { return Ok(Transformed::no(expr)) };
    let key = window.params.order_by.first().and_then(|key| key.expr.get_type(schema).ok());
    let changed = match key {
        Some(key) => {
            use_groups(&mut window.params, &key) || read_distances(&mut window.params, &key)?
        }
        None => false,
    };
    let counted = count_collected(&mut window);
    Ok(Transformed::new_transformed(Expr::WindowFunction(window), changed || counted))
}

/// Puts the frame in GROUPS, if none of its bounds needs the distance between keys. Returns whether
/// it did.
fn use_groups(window: &mut WindowFunctionParams, key: &DataType) -> bool {
    let frame = &window.window_frame;
    let fixed = is_fixed(&frame.start_bound) && is_fixed(&frame.end_bound);
    if frame.units != WindowFrameUnits::Range || !fixed || !has_no_distance(key) {
        return false;
    }
    let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
    window.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    true
}

/// Gives the bounds of a RANGE that are some distance from the key a type that goes with it.
/// Returns whether something has changed.
fn read_distances(window: &mut WindowFunctionParams, key: &DataType) -> DataFusionResult<bool> {
    let key = match key {
        DataType::Dictionary(_, values) => values.as_ref(),
        key => key,
    };
    let frame = &mut window.window_frame;
    let moves = !is_fixed(&frame.start_bound) || !is_fixed(&frame.end_bound);
    // DataFusion says what is wrong with several keys.
    let [order] = window.order_by.as_mut_slice() else { return Ok(false) };
    if frame.units != WindowFrameUnits::Range || !moves {
        return Ok(false);
    }
    let bounds = [&mut frame.start_bound, &mut frame.end_bound];
    match key {
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
            for bound in bounds {
                if let Some(distance) = distance_mut(bound) {
                    *distance = as_interval(distance, key)?;
                }
            }
            Ok(true)
        }
        key if key.is_numeric() => {
            let mut digits = 0;
            for distance in bounds.into_iter().filter_map(distance_mut) {
                digits = digits.max(digits_of_fraction(distance)?);
            }
            Ok(widen_key(&mut order.expr, key, digits))
        }
        DataType::Interval(_) | DataType::Duration(_) | DataType::Null => Ok(false),
        _ => plan_err!(
            "RANGE with a distance takes numbers, dates or timestamps in its ORDER BY, not {}; \
             ROWS and GROUPS count rows and different values",
            type_name(key)
        ),
    }
}

/// What a bound is away from the key, if it is some distance. It is still text, as in the
/// statement.
fn distance_mut(bound: &mut WindowFrameBound) -> Option<&mut ScalarValue> {
    match bound {
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            matches!(distance, ScalarValue::Utf8(Some(_))).then_some(distance)
        }
        WindowFrameBound::CurrentRow => None,
    }
}

/// A distance between times. A number is one of days between dates.
fn as_interval(distance: &ScalarValue, key: &DataType) -> DataFusionResult<ScalarValue> {
    let Some(Some(text)) = distance.try_as_str() else { return Ok(distance.clone()) };
    let is_date = matches!(key, DataType::Date32 | DataType::Date64);
    let text = match text.parse::<f64>() {
        Ok(_) if is_date && text.parse::<u64>().is_ok() => format!("{text} days"),
        Ok(_) => {
            return plan_err!(
                "RANGE of times takes an interval as distance, not {text}: \
                 RANGE BETWEEN INTERVAL '7 days' PRECEDING AND CURRENT ROW"
            );
        }
        Err(_) => text.to_owned(),
    };
    let unit = DataType::Interval(IntervalUnit::MonthDayNano);
    let interval = ScalarValue::try_from_string(in_months(&text), &unit)?;
    match interval {
        ScalarValue::IntervalMonthDayNano(Some(length))
            if length.months < 0 || length.days < 0 || length.nanoseconds < 0 =>
        {
            plan_err!("the distance of a RANGE is not negative, as '{text}' is")
        }
        interval => Ok(interval),
    }
}

/// An interval of whole quarters as one of months.
fn in_months(text: &str) -> String {
    let quarters = text.split_once(' ').and_then(|(number, unit)| {
        let is_quarter = ["quarter", "quarters"].iter().any(|one| one.eq_ignore_ascii_case(unit));
        number.parse::<i32>().ok()?.checked_mul(3).filter(|_| is_quarter)
    });
    quarters.map_or_else(|| text.to_owned(), |months| format!("{months} months"))
}

/// How many digits a distance between numbers has behind its point. One with an exponent is left to
/// DataFusion, as one without such digits is.
fn digits_of_fraction(distance: &ScalarValue) -> DataFusionResult<u8> {
    let Some(Some(text)) = distance.try_as_str() else { return Ok(0) };
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 => {
            let digits = text.split_once('.').map_or("", |(_, digits)| digits);
            let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
            let digits = digits.trim_end_matches('0').len();
            Ok(u8::try_from(digits).unwrap_or(u8::MAX) * u8::from(is_plain))
        }
        Ok(_) => plan_err!("the distance of a RANGE is not negative, as {text} is"),
        Err(_) => plan_err!(
            "RANGE of numbers takes a number as distance, not '{text}': \
             RANGE BETWEEN 7 PRECEDING AND CURRENT ROW"
        ),
    }
}

/// Makes an integer or decimal key a decimal that holds the bounds: the key plus a distance of so
/// many digits behind the point. Returns whether it did.
fn widen_key(key: &mut Expr, of: &DataType, digits: u8) -> bool {
    let (whole, scale) = match of {
        of if of.is_integer() => (MOST_OF_INTEGERS, 0),
        DataType::Decimal128(precision, scale) => match u8::try_from(*scale) {
            Ok(scale) if digits > scale => (precision.saturating_sub(scale), scale),
            _ => return false,
        },
        _ => return false,
    };
    let scale = digits.max(scale);
    if scale.saturating_add(whole) > DECIMAL128_MAX_PRECISION {
        return false;
    }
    let wide = DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale as i8);
    *key = cast(std::mem::take(key), wide);
    true
}

/// How many digits an integer has at most.
const MOST_OF_INTEGERS: u8 = 20;

/// Whether a bound is the current row or unbounded.
fn is_fixed(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            distance.is_null()
        }
    }
}

fn has_no_distance(key: &DataType) -> bool {
    key.is_binary()
        || matches!(key, DataType::Time32(_) | DataType::Time64(_) | DataType::FixedSizeBinary(_))
}
