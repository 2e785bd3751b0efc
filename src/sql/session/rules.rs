//! Which rules a plan goes through, and in what order.
//!
//! Where this stands on the road of a query: a session is made with these lists. Our rules are
//! inserted among DataFusion's, or replace the one of a given name.

use std::sync::Arc;

use crate::sql::functions::bounds::MostBytes;
use crate::sql::functions::concatenation;
use crate::sql::functions::formats::to_char_function;
use crate::sql::plan::asof::AsofJoins;
use crate::sql::plan::distinct_on::first_of_distinct_on;
use crate::sql::plan::first_rows::FirstRowsOfGroups;
use crate::sql::plan::grouping_sets::GroupByAllKeysFirst;
use crate::sql::plan::join_order::JoinOrder;
use crate::sql::plan::pushdown::PositionalFilterPushdown;
use crate::sql::plan::samples::Samples;
use crate::sql::plan::semi_joins::each_key_once;
use crate::sql::rules::chosen_rows::ChooseRowsFirst;
use crate::sql::rules::computed_limits::ComputedLimits;
use crate::sql::rules::concatenations::CountConcatenations;
use crate::sql::rules::decorrelate::{Decorrelate, no_idle_lateral};
use crate::sql::rules::dependencies::{self, MISLED, OwnKeys};
use crate::sql::rules::empty_groups::keep_above_empty_groups;
use crate::sql::rules::empty_sorts::limit_empty_rows;
use crate::sql::rules::filter_projections::SelectAboveFilters;
use crate::sql::rules::frames::FramesOfPeers;
use crate::sql::rules::inner_orders::InnerOrders;
use crate::sql::rules::kept_limits::keep_limits;
use crate::sql::rules::large_limits::SpillLargeLimits;
use crate::sql::rules::last_branches::keep_places_in_unions;
use crate::sql::rules::lists::UniteLists;
use crate::sql::rules::literal_sides::{self, literals_right};
use crate::sql::rules::null_joins::keep_null_equal_joins;
use crate::sql::rules::null_keys::TypedNullKeys;
use crate::sql::rules::null_rows::ForgetAtNullRows;
use crate::sql::rules::opaque::HideFromRules;
use crate::sql::rules::orders::SortUnsortedInputs;
use crate::sql::rules::outer_joins::inner_where_padded_rows_go;
use crate::sql::rules::patterns::{BoundPatterns, refuse_long};
use crate::sql::rules::set_keys::NamedSetKeys;
use crate::sql::rules::set_operations::CountEqualRows;
use crate::sql::rules::set_types::TypesOfUnions;
use crate::sql::rules::skipped::{skip_idle, skip_mere_reads};
use crate::sql::rules::top_keys::limit_exact_keys;
use crate::sql::rules::totals::TotalsOfPassingGroups;
use crate::sql::rules::window_keys::compute_keys_below_windows;
use crate::sql::rules::wrapped::{LogicalRule, PhysicalRule, each_node, stoppable, whole_plan};
use crate::sql::run::join_conditions::TestConditionsAbove;
use crate::sql::run::not_in::SortForNotIn;
use crate::sql::run::running_windows::RunWindows;
use crate::sql::run::shared::ShowSharedParts;
use crate::sql::run::sort::SortExternally;
use crate::sql::run::stops::StopJoins;
use crate::sql::run::waiting_joins::WaitForNone;
use crate::sql::run::whole_partitions::PartitionByPartition;
use crate::sql::types::decimals::{ExactNumbers, NearestFloats, NumbersBesideDecimals, UserCasts};
use crate::sql::types::integer_means::ExactMeans;
use crate::sql::types::intervals::Intervals;
use crate::sql::types::outer_columns::OuterColumns;
use crate::sql::types::rounding::{MarkCasts, RoundCasts};
use crate::sql::types::times::{CoarserUnits, FinestUnits, MeansOfTimes, Times, TimestampTexts};
use crate::sql::types::uuids::Uuids;
use crate::sql::types::zeros::{OneZero, both_zeros};
use crate::sql::types::zones::LocalTimes;
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPhase;

/// DataFusion's analyzer rules, with ours before and after them. Statements may use `memory` bytes.
pub(in crate::sql) fn analyzer_rules(most: MostBytes) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let before: [Arc<dyn AnalyzerRule + Send + Sync>; 16] = [
        Arc::new(InnerOrders),
        Arc::new(NamedSetKeys),
        Arc::new(Samples),
        Arc::new(OwnKeys),
        Arc::new(TypesOfUnions),
        Arc::new(FinestUnits),
        Arc::new(ComputedLimits),
        Arc::new(MeansOfTimes),
        Arc::new(TotalsOfPassingGroups),
        Arc::new(FramesOfPeers),
        Arc::new(Uuids),
        Arc::new(Intervals),
        Arc::new(MarkCasts),
        Arc::new(NumbersBesideDecimals),
        Arc::new(Times),
        Arc::new(UserCasts),
    ];
    // GROUPING() finds its arguments among the keys as they are written, so before any rule of ours
    // rewrites them.
    let (first, rest): (Vec<_>, Vec<_>) = Analyzer::new()
        .rules
        .into_iter()
        .partition(|rule| rule.name() == "resolve_grouping_function");
    let mut rules: Vec<_> = first.into_iter().chain(before).chain(rest).collect();
    rules.push(Arc::new(OuterColumns));
    rules.push(Arc::new(RoundCasts));
    rules.push(Arc::new(CoarserUnits));
    rules.push(Arc::new(TimestampTexts(Arc::new(to_char_function()))));
    rules.push(Arc::new(ExactNumbers));
    rules.push(Arc::new(ExactMeans));
    rules.push(Arc::new(NearestFloats));
    rules.push(Arc::new(UniteLists));
    rules.push(Arc::new(CountEqualRows));
    rules.push(Arc::new(OneZero));
    rules.push(Arc::new(LocalTimes));
    rules.push(Arc::new(AsofJoins));
    rules.push(Arc::new(Decorrelate));
    rules.push(Arc::new(TypedNullKeys));
    rules.push(Arc::new(HideFromRules));
    rules.push(Arc::new(BoundPatterns));
    rules.push(Arc::new(CountConcatenations(Arc::new(concatenation::function(most)))));
    rules
}

/// DataFusion's logical rules and ours, without the one that hides count(DISTINCT …) from `lower`,
/// which applies that rule itself to what it leaves. Planning ends before the next one once
/// the session is cancelled.
pub(in crate::sql) fn logical_rules() -> Vec<LogicalRule> {
    let rules = Optimizer::new().rules.into_iter();
    let rules = rules.map(keep_null_equal_joins).map(keep_above_empty_groups);
    let rules = rules.map(keep_places_in_unions).map(skip_idle);
    let mut rules: Vec<_> = rules.collect();
    // `decorrelate` has done the work of the second one.
    let left_out = ["single_distinct_aggregation_to_group_by", "rewrite_set_comparison"];
    rules.retain(|rule| !left_out.contains(&rule.name()));
    let distinct = rules.iter().position(|rule| rule.name() == "replace_distinct_aggregate");
    let first = each_node("first_of_distinct_on", first_of_distinct_on);
    rules.insert(distinct.unwrap_or(0), first);
    for misled in MISLED {
        let place = rules.iter().position(|rule| rule.name() == misled).unwrap_or(rules.len());
        rules.insert(place, whole_plan("forget_dependencies", dependencies::forget));
    }
    let place = rules
        .iter()
        .position(|rule| rule.name() == literal_sides::RUNS_AFTER)
        .map_or(0, |before| before + 1);
    rules.insert(place, each_node("literals_right", literals_right));
    let lateral = rules.iter().position(|rule| rule.name() == "decorrelate_lateral_join");
    let idle = each_node("no_idle_lateral", no_idle_lateral);
    rules.insert(lateral.map_or(0, |at| at + 1), idle);
    let outer = rules.iter().position(|rule| rule.name() == "eliminate_outer_join");
    let padded = whole_plan("inner_where_padded_rows_go", inner_where_padded_rows_go);
    rules.insert(outer.map_or(0, |at| at + 1), padded);
    rules.push(each_node("limit_empty_rows", limit_empty_rows));
    rules.push(each_node("each_key_once", each_key_once));
    rules.push(each_node("compute_keys_below_windows", compute_keys_below_windows));
    // One of the last: by now, literals have the type of their column.
    rules.push(each_node("both_zeros", both_zeros));
    rules.push(whole_plan("refuse_long_patterns", refuse_long));
    rules.into_iter().map(stoppable).collect()
}

/// DataFusion's physical rules and ours, with filters pushed down by position instead of by name.
/// Statements may use `memory` bytes, and end when they are cancelled.
pub(in crate::sql) fn physical_rules(memory: u64) -> Vec<PhysicalRule> {
    let mut rules = PhysicalOptimizer::new().rules;
    for rule in &mut rules {
        match rule.name() {
            "FilterPushdown" => {
                *rule = Arc::new(PositionalFilterPushdown(FilterPushdownPhase::Pre))
            }
            "join_selection" => *rule = Arc::new(JoinOrder(Arc::clone(rule))),
            "EnsureRequirements" => *rule = skip_mere_reads(keep_limits(Arc::clone(rule))),
            "LimitAggregation" => *rule = limit_exact_keys(Arc::clone(rule)),
            "FilterPushdown(Post)" => {
                *rule = Arc::new(PositionalFilterPushdown(FilterPushdownPhase::Post))
            }
            _ => {}
        }
    }
    let before = |rules: &[PhysicalRule], name: &str| {
        rules.iter().position(|rule| rule.name() == name).unwrap_or(rules.len())
    };
    rules.insert(0, Arc::new(TestConditionsAbove));
    rules.insert(1, Arc::new(SortForNotIn));
    rules.insert(before(&rules, "EnsureRequirements"), Arc::new(GroupByAllKeysFirst));
    rules.insert(before(&rules, "EnsureRequirements"), Arc::new(ForgetAtNullRows));
    rules.insert(before(&rules, "EnsureRequirements"), Arc::new(ChooseRowsFirst));
    rules.insert(before(&rules, "EnsureRequirements"), Arc::new(FirstRowsOfGroups));
    let last = rules.iter().rposition(|rule| rule.name() == "ProjectionPushdown");
    rules.insert(last.unwrap_or(rules.len()), Arc::new(SelectAboveFilters));
    // Before the filters that a sort with a limit hands down are.
    let handed_down = before(&rules, "PositionalFilterPushdown(Post)");
    rules.insert(handed_down, Arc::new(SpillLargeLimits { memory }));
    rules.insert(before(&rules, "SanityCheckPlan"), Arc::new(SortUnsortedInputs));
    rules.insert(before(&rules, "SanityCheckPlan"), Arc::new(PartitionByPartition));
    rules.insert(before(&rules, "SanityCheckPlan"), Arc::new(SortExternally));
    rules.insert(before(&rules, "SanityCheckPlan"), Arc::new(RunWindows));
    rules.push(Arc::new(ShowSharedParts));
    rules.push(Arc::new(WaitForNone));
    rules.push(Arc::new(StopJoins));
    rules
}
