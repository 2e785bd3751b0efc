//! The functions that rules of planning put into plans. No statement can name them, but a machine
//! that reads a plan looks them up by their names.

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF, Volatility};

use crate::sql::functions::bounds::MostBytes;
use crate::sql::functions::{concatenation, patterns, percentiles, tallies};
use crate::sql::rules::opaque;
use crate::sql::types::times::{WRITE_OUT, WRITE_OUT_LOCAL, WRITE_OUT_TIME};
use crate::sql::types::uuids::cast_function;
use crate::sql::types::{
    decimals, intervals, nested_keys, nested_order, nested_zeros, rounding, zeros,
};

/// All scalar ones, for a session whose statements may use this much memory.
pub(in crate::sql) fn hidden(memory: u64) -> impl Iterator<Item = ScalarUDF> {
    let all = [
        rounding::function(),
        decimals::double_function(),
        decimals::single_function(),
        zeros::one_nan(),
        percentiles::between(),
        nested_zeros::function(),
        nested_keys::function(),
        nested_order::function(),
        // It hides an expression from the rules of planning, and these have run before a plan is
        // sent: nobody looks at its volatility any more.
        opaque::function(Volatility::Immutable, true),
        patterns::checked(),
        concatenation::function(MostBytes::new(memory)),
        WRITE_OUT.clone(),
        WRITE_OUT_LOCAL.clone(),
        WRITE_OUT_TIME.clone(),
        cast_function(false),
        cast_function(true),
    ];
    all.into_iter().chain(intervals::functions::all())
}

/// All aggregates among them.
pub(in crate::sql) fn hidden_aggregates() -> [Arc<AggregateUDF>; 2] {
    [Arc::clone(percentiles::several()), Arc::clone(tallies::quantiles_function())]
}
