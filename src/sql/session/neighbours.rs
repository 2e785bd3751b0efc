//! Functions that other systems have and DataFusion lacks, or has with other types, for a session.

use datafusion::execution::FunctionRegistry;
use datafusion::prelude::SessionContext;

use crate::sql::functions::ages;
use crate::sql::functions::bars;
use crate::sql::functions::bits;
use crate::sql::functions::by_type;
use crate::sql::functions::current_settings;
use crate::sql::functions::differences;
use crate::sql::functions::extracts;
use crate::sql::functions::formats;
use crate::sql::functions::greatest;
use crate::sql::functions::in_doubles;
use crate::sql::functions::json_out;
use crate::sql::functions::list_aggregates;
use crate::sql::functions::list_sets;
use crate::sql::functions::maps;
use crate::sql::functions::places;
use crate::sql::functions::powers;
use crate::sql::functions::printf;
use crate::sql::functions::tallies;
use crate::sql::functions::unordered;
use crate::sql::functions::whole_numbers;
use crate::sql::types::list_texts;

/// Registers them.
pub(super) fn register(context: &SessionContext) {
    context.register_udf(ages::function());
    context.register_udf(bars::function());
    bits::functions().for_each(|function| context.register_udf(function));
    by_type::functions().for_each(|function| context.register_udf(function));
    context.register_udf(current_settings::function());
    differences::functions().for_each(|function| context.register_udf(function));
    extracts::functions().into_iter().for_each(|function| context.register_udf(function));
    formats::functions().for_each(|function| context.register_udf(function));
    greatest::functions().for_each(|function| context.register_udf(function));
    in_doubles::functions().for_each(|function| context.register_udf(function));
    json_out::functions().for_each(|function| context.register_udf(function));
    places::functions().for_each(|function| context.register_udf(function));
    printf::functions().for_each(|function| context.register_udf(function));
    powers::functions().for_each(|function| context.register_udaf(function));
    tallies::functions().for_each(|function| context.register_udaf(function));
    context.register_udf(unordered::function());
    whole_numbers::functions().for_each(|function| context.register_udf(function));
    let of_lists = list_aggregates::functions(|name| context.udaf(name).ok());
    of_lists.into_iter().for_each(|function| context.register_udf(function));
    list_sets::functions().for_each(|function| context.register_udf(function));
    list_texts::functions().for_each(|function| context.register_udf(function));
    context.register_udf(maps::function());
}
