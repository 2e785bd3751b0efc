//! An order of joins as a plan: which side is the hash table, which columns go on.

use std::sync::Arc;

use arrow_schema::{FieldRef, Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, internal_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, HashJoinExecBuilder, NestedLoopJoinExecBuilder, PartitionMode,
};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::graph::{Attached, Attachment, Filter, Graph, Place, Set, renumber};
use super::search::{Subtree, Tree};
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::scan::ScanExec;

type Plan = Arc<dyn ExecutionPlan>;
type Keys = Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>;

/// A hash table of so many rows is made in no time.
pub(super) const SMALL: f64 = 100_000.0;

/// A part of the plan, with what its columns are.
struct Part {
    plan: Plan,
    places: Vec<Place>,
    rows: f64,
    /// Rows of the table whose scan hears of the keys that a join with this part finds.
    scanned: f64,
    set: Set,
}

impl Part {
    /// Whether it is better looked up in the hash table of another part, which leaves `rows` of the
    /// joined rows, although it has fewer rows: its scan then reads less of a much larger table.
    fn is_worth_filtering(&self, by: &Part, rows: f64) -> bool {
        self.scanned > 4.0 * by.scanned
            && by.rows <= SMALL.max(self.scanned / 50.0)
            && rows < 0.8 * self.rows
    }

    fn position(&self, place: Place) -> DataFusionResult<usize> {
        let found = self.places.iter().position(|known| *known == place);
        found.ok_or_else(|| internal_datafusion_err!("a reordered join lacks column {place:?}"))
    }

    fn column(&self, place: Place) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
        let (at, schema) = (self.position(place)?, self.plan.schema());
        Ok(Arc::new(Column::new(schema.field(at).name(), at)))
    }
}

/// How joins are made.
pub(super) struct Builder<'a> {
    pub(super) graph: &'a Graph,
    /// The columns of the answer.
    pub(super) outputs: &'a [Place],
    pub(super) partitions: usize,
    /// Of no more rows, one hash table is built for all threads.
    pub(super) small: f64,
}

impl Builder<'_> {
    /// The plan of an order, with the columns of the answer under their names.
    pub(super) fn plan(&self, order: &Subtree, schema: &SchemaRef) -> DataFusionResult<Plan> {
        let part = self.part(order)?;
        let names = schema.fields().iter().map(|field| field.name().clone());
        let same = part.places == self.outputs
            && part
                .plan
                .schema()
                .fields()
                .iter()
                .zip(schema.fields())
                .all(|(a, b)| a.name() == b.name());
        if same {
            return Ok(part.plan);
        }
        let exprs = self
            .outputs
            .iter()
            .zip(names)
            .map(|(place, alias)| Ok(ProjectionExpr { expr: part.column(*place)?, alias }));
        let exprs = exprs.collect::<DataFusionResult<Vec<_>>>()?;
        Ok(Arc::new(ProjectionExec::try_new(exprs, part.plan)?))
    }

    fn part(&self, order: &Subtree) -> DataFusionResult<Part> {
        match &order.tree {
            Tree::Relation(at) => self.relation(*at, order.rows),
            Tree::Join(sides) => {
                let (one, other) = (self.part(&sides.0)?, self.part(&sides.1)?);
                self.join(one, other, order.rows)
            }
        }
    }

    fn relation(&self, at: usize, rows: f64) -> DataFusionResult<Part> {
        let relation = self.graph.relations.get(at);
        let relation =
            relation.ok_or_else(|| internal_datafusion_err!("an order names relation {at}"))?;
        let columns = relation.plan.schema().fields().len();
        let places: Vec<Place> =
            (0..columns).map(|column| Place { relation: at, column }).collect();
        let mut part = Part {
            plan: Arc::clone(&relation.plan),
            places,
            rows,
            scanned: scanned(&relation.plan),
            set: 1 << at,
        };
        for filter in self.graph.filters.iter().filter(|filter| filter.relations == part.set) {
            let places: Vec<usize> = filter
                .places
                .iter()
                .map(|(place, _)| part.position(*place))
                .collect::<DataFusionResult<_>>()?;
            let schema = part.plan.schema();
            let column = |at: usize| {
                let at = *places.get(at)?;
                Some(Column::new(schema.fields().get(at)?.name(), at))
            };
            let expr = renumber(&filter.expr, column)?;
            part.plan = Arc::new(FilterExec::try_new(expr, part.plan)?);
        }
        Ok(part)
    }

    fn join(&self, one: Part, other: Part, rows: f64) -> DataFusionResult<Part> {
        for (a, b) in [(&one, &other), (&other, &one)] {
            if a.set.is_power_of_two()
                && let Some(relation) = self.graph.relations.get(a.set.trailing_zeros() as usize)
                && let Some(attached) = &relation.attached
            {
                return self.attach(b, a, attached, rows);
            }
        }
        let (small, large) = if one.rows <= other.rows { (one, other) } else { (other, one) };
        let (left, right) = match small.is_worth_filtering(&large, rows) {
            true => (large, small),
            false => (small, large),
        };
        let mut on = Keys::new();
        for class in &self.graph.classes {
            let inside =
                |part: &Part| class.places.iter().find(|p| p.bit() & part.set != 0).copied();
            if let (Some(l), Some(r)) = (inside(&left), inside(&right)) {
                on.push((left.column(l)?, right.column(r)?));
            }
        }
        let set = left.set | right.set;
        let due = |filter: &&Filter| {
            let inside = |part: Set| filter.relations & !part == 0;
            inside(set) && !inside(left.set) && !inside(right.set)
        };
        let filters: Vec<&Filter> = self.graph.filters.iter().filter(due).collect();
        self.made(left, right, on, &filters, JoinType::Inner, rows)
    }

    /// Joins an attached relation to what its condition needs.
    fn attach(
        &self,
        kept: &Part,
        inner: &Part,
        attached: &Attachment,
        rows: f64,
    ) -> DataFusionResult<Part> {
        let is_outer = attached.kind == Attached::Outer;
        let kept_left =
            kept.rows <= inner.rows && (is_outer || !kept.is_worth_filtering(inner, rows));
        let mut on = Keys::new();
        for (here, there) in &attached.keys {
            let (here, there) = (kept.column(*here)?, inner.column(*there)?);
            on.push(if kept_left { (here, there) } else { (there, here) });
        }
        let join_type = match (attached.kind, kept_left) {
            (Attached::Outer, true) => JoinType::Left,
            (Attached::Outer, false) => JoinType::Right,
            (Attached::Semi, true) => JoinType::LeftSemi,
            (Attached::Semi, false) => JoinType::RightSemi,
            (Attached::Anti, true) => JoinType::LeftAnti,
            (Attached::Anti, false) => JoinType::RightAnti,
        };
        let filters: Vec<&Filter> = attached.filters.iter().collect();
        let copy = |part: &Part| Part {
            plan: Arc::clone(&part.plan),
            places: part.places.clone(),
            ..*part
        };
        let (left, right) =
            if kept_left { (copy(kept), copy(inner)) } else { (copy(inner), copy(kept)) };
        self.made(left, right, on, &filters, join_type, rows)
    }

    /// A join whose left side is the hash table.
    fn made(
        &self,
        left: Part,
        right: Part,
        on: Keys,
        filters: &[&Filter],
        join_type: JoinType,
        rows: f64,
    ) -> DataFusionResult<Part> {
        let filter = joined_filter(filters, &left, &right)?;
        let built = read_by_one(left.plan);
        let (set, scanned) = (left.set | right.set, right.scanned);
        let places = match join_type {
            JoinType::LeftSemi | JoinType::LeftAnti => left.places.clone(),
            JoinType::RightSemi | JoinType::RightAnti => right.places.clone(),
            _ => [left.places.as_slice(), &right.places].concat(),
        };
        let kept: Vec<usize> = (0..places.len())
            .filter(|at| places.get(*at).is_some_and(|place| self.is_needed(*place, set)))
            .collect();
        let projection = (kept.len() < places.len()).then(|| kept.clone());
        let cut: Vec<Place> = kept.iter().filter_map(|at| places.get(*at).copied()).collect();
        if on.is_empty() && filter.is_none() {
            let plan: Plan = Arc::new(CrossJoinExec::new(built, right.plan));
            return Ok(Part { plan, places, rows, scanned, set });
        }
        let plan: Plan = match on.is_empty() {
            true => Arc::new(
                NestedLoopJoinExecBuilder::new(built, right.plan, join_type)
                    .with_filter(filter)
                    .with_projection(projection)
                    .build()?,
            ),
            false => Arc::new(
                HashJoinExecBuilder::new(built, right.plan, on, join_type)
                    .with_filter(filter)
                    .with_projection(projection)
                    .with_partition_mode(self.mode(left.rows, right.rows))
                    .build()?,
            ),
        };
        Ok(Part { plan, places: cut, rows, scanned, set })
    }

    /// Whether anything above the join of a set reads a column.
    fn is_needed(&self, place: Place, set: Set) -> bool {
        let is_left = |relations: Set| relations & !set != 0;
        let reads = |filter: &Filter| filter.places.iter().any(|(known, _)| *known == place);
        let attached = |at: usize| {
            let attachment = self.graph.relations.get(at).and_then(|r| r.attached.as_ref());
            attachment.is_some_and(|attached| {
                attached.keys.iter().any(|(here, _)| *here == place)
                    || attached.filters.iter().any(reads)
            })
        };
        let mut classes = self.graph.classes.iter();
        let mut filters = self.graph.filters.iter();
        self.outputs.contains(&place)
            || classes.any(|class| {
                let first = class.places.iter().find(|known| known.bit() & set != 0);
                is_left(class.relations) && first == Some(&place)
            })
            || filters.any(|filter| is_left(filter.relations) && reads(filter))
            || (0..self.graph.relations.len()).any(|at| set & (1 << at) == 0 && attached(at))
    }

    /// One hash table for all threads is built by one of them; a table for each needs both sides
    /// divided by their keys first, which costs about half as much a row as building.
    fn mode(&self, build: f64, probe: f64) -> PartitionMode {
        let others = self.partitions.saturating_sub(1) as f64;
        match build <= self.small || build * 2.0 * others <= build + probe {
            true => PartitionMode::CollectLeft,
            false => PartitionMode::Partitioned,
        }
    }
}

/// A small table that becomes a hash table, which one thread makes, read by that thread.
fn read_by_one(plan: Plan) -> Plan {
    match plan.downcast_ref::<ScanExec>() {
        Some(scan) if scan.table_rows() as f64 <= SMALL => Arc::new(scan.in_one_partition()),
        _ => plan,
    }
}

/// Rows of the table whose scan a filter on the rows of a plan may reach.
fn scanned(plan: &Plan) -> f64 {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return scan.table_rows() as f64;
    }
    if let Some(fragment) = plan.downcast_ref::<FragmentExec>() {
        return fragment.table_rows() as f64;
    }
    let passes = plan.is::<HashJoinExec>()
        || plan.is::<AggregateExec>()
        || plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>();
    // Of a join, the right side.
    plan.children().last().filter(|_| passes).map_or(0.0, |input| scanned(input))
}

/// The conditions of a join as DataFusion has them.
fn joined_filter(
    filters: &[&Filter],
    left: &Part,
    right: &Part,
) -> DataFusionResult<Option<JoinFilter>> {
    let (mut indices, mut fields, mut all) = (Vec::new(), Vec::new(), None);
    for filter in filters {
        let mut numbers = Vec::new();
        for (place, field) in &filter.places {
            let (side, part) = match place.bit() & left.set != 0 {
                true => (JoinSide::Left, left),
                false => (JoinSide::Right, right),
            };
            let column = ColumnIndex { index: part.position(*place)?, side };
            let known = indices.iter().position(|known| *known == column);
            numbers.push(known.unwrap_or_else(|| {
                indices.push(column);
                fields.push(Arc::clone(field));
                indices.len() - 1
            }));
        }
        let column = |at: usize| {
            let field: &FieldRef = fields.get(*numbers.get(at)?)?;
            Some(Column::new(field.name(), *numbers.get(at)?))
        };
        let expr = renumber(&filter.expr, column)?;
        all = Some(match all {
            Some(all) => {
                Arc::new(BinaryExpr::new(all, Operator::And, expr)) as Arc<dyn PhysicalExpr>
            }
            None => expr,
        });
    }
    Ok(all.map(|expr| JoinFilter::new(expr, indices, Arc::new(Schema::new(fields)))))
}
