//! Which rules a plan goes through, and in what order.
//!
//! Where this stands on the road of a query: a session is made with these lists. Rules of ours
//! stand among DataFusion's or in place of one, by its name.

use std::sync::Arc;

use crate::sql::plan::semi_joins::EachKeyOnce;
use crate::sql::rules::decorrelate::Decorrelate;
use crate::sql::rules::dependencies::{ForgetDependencies, MISLED, OwnKeys};
use crate::sql::rules::empty_groups::AboveEmptyGroups;
use crate::sql::rules::filter_projections::SelectAboveFilters;
use crate::sql::rules::frames::FramesOfPeers;
use crate::sql::rules::kept_limits::KeepLimits;
use crate::sql::rules::lists::UniteLists;
use crate::sql::rules::literal_sides::{self, LiteralsRight};
use crate::sql::rules::null_joins::UnlessNullsAreEqual;
use crate::sql::rules::null_keys::TypedNullKeys;
use crate::sql::rules::null_rows::ForgetAtNullRows;
use crate::sql::rules::opaque::HideFromRules;
use crate::sql::rules::orders::SortWhatIsNot;
use crate::sql::rules::pushdown::PositionalFilterPushdown;
use crate::sql::rules::resting::Resting;
use crate::sql::rules::set_operations::CountEqualRows;
use crate::sql::rules::top_keys::TopKOfExactKeys;
use crate::sql::rules::using::UsingBoth;
use crate::sql::types::decimals::{ExactNumbers, NumbersBesideDecimals, UserCasts};
use crate::sql::types::integer_means::ExactMeans;
use crate::sql::types::intervals::Intervals;
use crate::sql::types::rounding::{MarkCasts, RoundCasts};
use crate::sql::types::times::Times;
use crate::sql::types::zeros::{BothZeros, OneZero};
use crate::sql::types::zones::LocalTimes;
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPhase;

/// DataFusion's, and what makes subqueries such that its logical rules answer them rightly.
pub(in crate::sql) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let before: [Arc<dyn AnalyzerRule + Send + Sync>; 8] = [
        Arc::new(OwnKeys),
        Arc::new(UsingBoth),
        Arc::new(FramesOfPeers),
        Arc::new(Intervals),
        Arc::new(MarkCasts),
        Arc::new(NumbersBesideDecimals),
        Arc::new(Times),
        Arc::new(UserCasts),
    ];
    let mut rules: Vec<_> = before.into_iter().chain(Analyzer::new().rules).collect();
    rules.push(Arc::new(RoundCasts));
    rules.push(Arc::new(ExactNumbers));
    rules.push(Arc::new(ExactMeans));
    rules.push(Arc::new(UniteLists));
    rules.push(Arc::new(CountEqualRows));
    rules.push(Arc::new(OneZero));
    rules.push(Arc::new(LocalTimes));
    rules.push(Arc::new(Decorrelate));
    rules.push(Arc::new(TypedNullKeys));
    rules.push(Arc::new(HideFromRules));
    rules
}

/// DataFusion's and that of zeros, but for the one that hides count(DISTINCT …) from `lower`, which
/// applies it to what it leaves.
pub(in crate::sql) fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let rules = Optimizer::new().rules.into_iter();
    let rules =
        rules.map(UnlessNullsAreEqual::around).map(AboveEmptyGroups::around).map(Resting::around);
    let mut rules: Vec<_> = rules.collect();
    // Of the second, `decorrelate` leaves nothing.
    let left_out = ["single_distinct_aggregation_to_group_by", "rewrite_set_comparison"];
    rules.retain(|rule| !left_out.contains(&rule.name()));
    for misled in MISLED {
        let place = rules.iter().position(|rule| rule.name() == misled).unwrap_or(rules.len());
        rules.insert(place, Arc::new(ForgetDependencies));
    }
    let place = rules
        .iter()
        .position(|rule| rule.name() == literal_sides::BEFORE)
        .map_or(0, |before| before + 1);
    rules.insert(place, Arc::new(LiteralsRight));
    rules.push(Arc::new(EachKeyOnce));
    // Last: literals have the type of their column by then.
    rules.push(Arc::new(BothZeros));
    rules
}

/// DataFusion's, with filters pushed down by position in place of by name.
pub(in crate::sql) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    for rule in &mut rules {
        match rule.name() {
            "FilterPushdown" => {
                *rule = Arc::new(PositionalFilterPushdown(FilterPushdownPhase::Pre))
            }
            "EnsureRequirements" => *rule = Arc::new(KeepLimits(Arc::clone(rule))),
            "LimitAggregation" => *rule = Arc::new(TopKOfExactKeys(Arc::clone(rule))),
            "FilterPushdown(Post)" => {
                *rule = Arc::new(PositionalFilterPushdown(FilterPushdownPhase::Post))
            }
            _ => {}
        }
    }
    let before = |rules: &[Arc<dyn PhysicalOptimizerRule + Send + Sync>], name: &str| {
        rules.iter().position(|rule| rule.name() == name).unwrap_or(rules.len())
    };
    rules.insert(before(&rules, "EnsureRequirements"), Arc::new(ForgetAtNullRows));
    let last = rules.iter().rposition(|rule| rule.name() == "ProjectionPushdown");
    rules.insert(last.unwrap_or(rules.len()), Arc::new(SelectAboveFilters));
    rules.insert(before(&rules, "SanityCheckPlan"), Arc::new(SortWhatIsNot));
    rules
}
