//! A tree of joins as a graph: relations, and the conditions between them.
//!
//! Columns are followed by position, never by name. What must keep its place becomes a relation as
//! a whole: full joins, mark joins, joins in which nulls are equal, computed projections other than
//! casts, and joins with conditions that might fail for rows which the join has not seen.
//!
//! The inner side of an outer, semi or anti join becomes an *attached* relation: it is joined to
//! any set that has the relations which its condition names. That is right as long as nothing else
//! reads its columns: `(A ⟕ C) ⋈ B` is `(A ⋈ B) ⟕ C`, and the same holds for semi and anti joins
//! and among them. Where something does, the outer join becomes a relation.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::fallible::might_fail;
use crate::sql::run::scan::ScanExec;

type Plan = Arc<dyn ExecutionPlan>;

/// Relations as bits.
pub(super) type Set = u64;

/// The most relations of a graph.
const MAX_RELATIONS: usize = 40;

/// A column of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) relation: usize,
    pub(super) column: usize,
}

impl Place {
    pub(super) fn bit(self) -> Set {
        1 << self.relation
    }
}

/// How an attached relation is joined, the others being the left side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attached {
    Outer,
    Semi,
    Anti,
}

/// An input of the joins.
#[derive(Debug)]
pub(super) struct Relation {
    pub(super) plan: Plan,
    pub(super) attached: Option<Attachment>,
}

/// By what a relation is attached.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) kind: Attached,
    /// Columns of the others, each with the equal one of this relation.
    pub(super) keys: Vec<(Place, Place)>,
    pub(super) filters: Vec<Filter>,
    /// The others that keys and filters name.
    pub(super) needs: Set,
}

/// A condition beside the keys.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    /// Its columns are numbers in `places`.
    pub(super) expr: Arc<dyn PhysicalExpr>,
    pub(super) places: Vec<(Place, FieldRef)>,
    pub(super) relations: Set,
}

/// Columns that are equal in every row of the answer.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) places: Vec<Place>,
    data_type: DataType,
    /// The relations that have one.
    pub(super) relations: Set,
}

/// The graph of a tree of joins.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) relations: Vec<Relation>,
    pub(super) classes: Vec<Class>,
    pub(super) filters: Vec<Filter>,
    /// Nodes that become relations as a whole, since others read what they attach.
    whole: Vec<Plan>,
    /// The joins that attached relations come from.
    attached_by: Vec<(usize, Plan)>,
}

/// Why a tree has no graph yet.
enum Refused {
    /// Something reads a column of this attached relation.
    Read(usize),
    /// This node must be a relation as a whole.
    Apart(Plan),
    Unusual,
}

type Found<T> = std::result::Result<T, Refused>;

/// The graph of the joins at the top of a plan, and which columns make its output; `None` if there
/// is no join.
pub(super) fn graph(plan: &Plan) -> Option<(Graph, Vec<Place>)> {
    if !is_join(plan) {
        return None;
    }
    let mut whole = Vec::new();
    loop {
        let mut graph = Graph { whole: std::mem::take(&mut whole), ..Graph::default() };
        match graph.add(plan) {
            Ok(outputs) if graph.relations.len() > 1 => return Some((graph, outputs)),
            Err(Refused::Read(attached)) => {
                let (_, join) = graph.attached_by.iter().find(|(known, _)| *known == attached)?;
                whole = graph.whole;
                whole.push(Arc::clone(join));
            }
            Err(Refused::Apart(node)) => {
                whole = graph.whole;
                whole.push(node);
            }
            Ok(_) | Err(Refused::Unusual) => return None,
        }
    }
}

pub(super) fn is_join(plan: &Plan) -> bool {
    plan.is::<HashJoinExec>() || plan.is::<CrossJoinExec>() || plan.is::<NestedLoopJoinExec>()
}

impl Graph {
    pub(super) fn all(&self) -> Set {
        (1 << self.relations.len()) - 1
    }

    /// Adds what a plan joins; which columns make its output.
    fn add(&mut self, plan: &Plan) -> Found<Vec<Place>> {
        if plan.fetch().is_some() || self.whole.iter().any(|whole| Arc::ptr_eq(whole, plan)) {
            return self.relation(plan, None);
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>()
            && (is_join(projection.input()) || projection.input().is::<ProjectionExec>())
            && is_plain(projection)
        {
            let below = self.add(projection.input())?;
            let place = |projected: &ProjectionExpr| match index(&projected.expr) {
                Some(at) => at_place(&below, at),
                None => self.computed(projected, &below, plan),
            };
            return projection.expr().iter().map(place).collect();
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return self.hash_join(plan, join);
        }
        if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
            let mut outputs = self.add(join.left())?;
            outputs.extend(self.add(join.right())?);
            return Ok(outputs);
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            if *join.join_type() != JoinType::Inner
                || join.filter().is_some_and(|f| keeps_place(f, join.left(), join.right()))
            {
                return self.relation(plan, None);
            }
            let (left, right) = (self.add(join.left())?, self.add(join.right())?);
            for filter in join.filter().map_or(Ok(Vec::new()), |f| filters(f, &left, &right))? {
                self.inner_filter(filter)?;
            }
            let outputs = [left, right].concat();
            return projected(outputs, join.projection().as_deref());
        }
        self.relation(plan, None)
    }

    /// A column that a projection computes from another: the relation computes it.
    fn computed(
        &mut self,
        projected: &ProjectionExpr,
        below: &[Place],
        node: &Plan,
    ) -> Found<Place> {
        let read = cast_column(&projected.expr).ok_or(Refused::Unusual)?;
        let read = at_place(below, read.index())?;
        let relation = self.relations.get_mut(read.relation).ok_or(Refused::Unusual)?;
        if relation.attached.is_some() {
            return Err(Refused::Apart(Arc::clone(node)));
        }
        let schema = relation.plan.schema();
        let column = |at: usize| {
            let name = schema.fields().get(at).map_or("", |field| field.name());
            Column::new(name, at)
        };
        let kept = (0..schema.fields().len()).map(|at| ProjectionExpr {
            alias: column(at).name().to_owned(),
            expr: Arc::new(column(at)),
        });
        let mut exprs: Vec<ProjectionExpr> = kept.collect();
        let expr = renumber(&projected.expr, |_| Some(column(read.column)));
        let expr = expr.map_err(|_| Refused::Unusual)?;
        exprs.push(ProjectionExpr { expr, alias: projected.alias.clone() });
        let place = Place { relation: read.relation, column: exprs.len() - 1 };
        let computed = ProjectionExec::try_new(exprs, Arc::clone(&relation.plan));
        relation.plan = Arc::new(computed.map_err(|_| Refused::Unusual)?);
        Ok(place)
    }

    fn relation(&mut self, plan: &Plan, attached: Option<Attachment>) -> Found<Vec<Place>> {
        let relation = self.relations.len();
        if relation == MAX_RELATIONS {
            return Err(Refused::Unusual);
        }
        self.relations.push(Relation { plan: Arc::clone(plan), attached });
        let columns = plan.schema().fields().len();
        Ok((0..columns).map(|column| Place { relation, column }).collect())
    }

    fn hash_join(&mut self, plan: &Plan, join: &HashJoinExec) -> Found<Vec<Place>> {
        let keys: Option<Vec<(usize, usize)>> =
            join.on().iter().map(|(left, right)| Some((index(left)?, index(right)?))).collect();
        let keeps_place = join.null_aware
            || join.null_equality() != NullEquality::NullEqualsNothing
            || join.filter().is_some_and(|f| keeps_place(f, join.left(), join.right()));
        let Some(keys) = keys.filter(|_| !keeps_place) else {
            return self.relation(plan, None);
        };
        let attached = match join.join_type() {
            JoinType::Inner => None,
            JoinType::Left => Some((Attached::Outer, JoinSide::Left)),
            JoinType::Right => Some((Attached::Outer, JoinSide::Right)),
            JoinType::LeftSemi => Some((Attached::Semi, JoinSide::Left)),
            JoinType::RightSemi => Some((Attached::Semi, JoinSide::Right)),
            JoinType::LeftAnti => Some((Attached::Anti, JoinSide::Left)),
            JoinType::RightAnti => Some((Attached::Anti, JoinSide::Right)),
            JoinType::Full | JoinType::LeftMark | JoinType::RightMark => {
                return self.relation(plan, None);
            }
        };
        let outputs = match attached {
            None => {
                let (left, right) = (self.add(join.left())?, self.add(join.right())?);
                for (l, r) in keys {
                    let (of_left, of_right) = (join.left().schema(), join.right().schema());
                    let data_type = of_left.field(l).data_type();
                    if data_type != of_right.field(r).data_type() {
                        return Err(Refused::Unusual);
                    }
                    self.equal(at_place(&left, l)?, at_place(&right, r)?, data_type)?;
                }
                for filter in join.filter().map_or(Ok(Vec::new()), |f| filters(f, &left, &right))? {
                    self.inner_filter(filter)?;
                }
                [left, right].concat()
            }
            Some((kind, side)) => self.attach(plan, join, &keys, kind, side)?,
        };
        projected(outputs, join.projection.as_deref())
    }

    /// Adds a join that keeps the rows of one side; its columns before any projection.
    fn attach(
        &mut self,
        plan: &Plan,
        join: &HashJoinExec,
        keys: &[(usize, usize)],
        kind: Attached,
        side: JoinSide,
    ) -> Found<Vec<Place>> {
        let is_left = side == JoinSide::Left;
        let (kept, other) =
            if is_left { (join.left(), join.right()) } else { (join.right(), join.left()) };
        let kept = self.add(kept)?;
        let inner = self.relation(other, None)?;
        let (left, right) = if is_left { (&kept, &inner) } else { (&inner, &kept) };
        let pair = |(l, r): &(usize, usize)| {
            let (here, there) = if is_left { (*l, *r) } else { (*r, *l) };
            Ok((at_place(&kept, here)?, at_place(&inner, there)?))
        };
        let keys = keys.iter().map(pair).collect::<Found<Vec<_>>>()?;
        let filters = join.filter().map_or(Ok(Vec::new()), |f| filters(f, left, right))?;
        let this: Set = 1 << (self.relations.len() - 1);
        let read = keys.iter().fold(0, |set, (here, _)| set | here.bit());
        let needs = filters.iter().fold(read, |set, filter| set | filter.relations) & !this;
        self.unattached(needs)?;
        // A condition on the inner side alone needs a relation to be joined to.
        if needs == 0 {
            return Err(Refused::Unusual);
        }
        let relation = self.relations.len() - 1;
        self.attached_by.push((relation, Arc::clone(plan)));
        if let Some(relation) = self.relations.last_mut() {
            relation.attached = Some(Attachment { kind, keys, filters, needs });
        }
        Ok(match kind {
            Attached::Outer => [left.clone(), right.clone()].concat(),
            Attached::Semi | Attached::Anti => kept,
        })
    }

    /// Refuses where some of the relations are attached.
    fn unattached(&self, set: Set) -> Found<()> {
        let attached = |(at, relation): (usize, &Relation)| {
            (set & (1 << at) != 0 && relation.attached.is_some()).then_some(at)
        };
        match self.relations.iter().enumerate().find_map(attached) {
            Some(at) => Err(Refused::Read(at)),
            None => Ok(()),
        }
    }

    fn inner_filter(&mut self, filter: Filter) -> Found<()> {
        self.unattached(filter.relations)?;
        self.filters.push(filter);
        Ok(())
    }

    /// Notes that two columns are equal. What is equal to the same column is equal, but for floats,
    /// whose zeros and NaN have several forms.
    fn equal(&mut self, a: Place, b: Place, data_type: &DataType) -> Found<()> {
        self.unattached(a.bit() | b.bit())?;
        let class = |place: Place| {
            let has =
                |class: &Class| class.places.contains(&place) && class.data_type == *data_type;
            self.classes.iter().position(has).filter(|_| !data_type.is_floating())
        };
        let new = |places: Vec<Place>| Class {
            relations: places.iter().fold(0, |set, place| set | place.bit()),
            places,
            data_type: data_type.clone(),
        };
        let (of_a, of_b) = (class(a), class(b));
        if of_a.is_some() && of_a == of_b {
            return Ok(());
        }
        let places =
            |class: Option<usize>, place: Place| match class.and_then(|at| self.classes.get(at)) {
                Some(class) => class.places.clone(),
                None => vec![place],
            };
        let (of_a_places, of_b_places) = (places(of_a, a), places(of_b, b));
        let relations = |places: &[Place]| places.iter().fold(0, |set, place| set | place.bit());
        // A class has one column of a relation.
        if relations(&of_a_places) & relations(&of_b_places) != 0 {
            self.classes.push(new(vec![a, b]));
            return Ok(());
        }
        let united = new([of_a_places, of_b_places].concat());
        let mut gone: Vec<usize> = [of_a, of_b].into_iter().flatten().collect();
        gone.sort_unstable();
        gone.into_iter().rev().for_each(|at| drop(self.classes.remove(at)));
        self.classes.push(united);
        Ok(())
    }
}

/// Whether a projection computes nothing but casts that never fail, as those of keys of a join.
fn is_plain(projection: &ProjectionExec) -> bool {
    let schema = projection.input().schema();
    projection.expr().iter().all(|projected| {
        let is_cast = || {
            cast_column(&projected.expr).is_some()
                && !might_fail(&projected.expr, &schema, &|_| None)
        };
        index(&projected.expr).is_some() || is_cast()
    })
}

/// The column that an expression casts.
fn cast_column(expr: &Arc<dyn PhysicalExpr>) -> Option<&Column> {
    expr.downcast_ref::<CastExpr>()?.expr().downcast_ref::<Column>()
}

fn index(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

fn at_place(places: &[Place], at: usize) -> Found<Place> {
    places.get(at).copied().ok_or(Refused::Unusual)
}

fn projected(outputs: Vec<Place>, kept: Option<&[usize]>) -> Found<Vec<Place>> {
    match kept {
        Some(kept) => kept.iter().map(|at| at_place(&outputs, *at)).collect(),
        None => Ok(outputs),
    }
}

/// Whether a join with this condition must see the rows that it sees, and no others.
fn keeps_place(filter: &JoinFilter, left: &Plan, right: &Plan) -> bool {
    let bounds = |at: usize| {
        let column = filter.column_indices().get(at)?;
        bounds(if column.side == JoinSide::Left { left } else { right }, column.index)
    };
    might_fail(filter.expression(), filter.schema(), &bounds)
}

/// Between what values those of a column are that comes from a stored table.
fn bounds(plan: &Plan, at: usize) -> Option<(ScalarValue, ScalarValue)> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return scan.bounds(at);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return bounds(projection.input(), index(&projection.expr().get(at)?.expr)?);
    }
    let (left, right, join_type, kept) = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        (join.left(), join.right(), *join.join_type(), join.projection.as_deref())
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        (join.left(), join.right(), *join.join_type(), join.projection().as_deref())
    } else {
        let join = plan.downcast_ref::<CrossJoinExec>()?;
        (join.left(), join.right(), JoinType::Inner, None)
    };
    let (_, origins) = build_join_schema(&left.schema(), &right.schema(), &join_type);
    let origin = origins.get(kept.map_or(Some(at), |kept| kept.get(at).copied())?)?;
    match origin.side {
        JoinSide::Left => bounds(left, origin.index),
        JoinSide::Right => bounds(right, origin.index),
        JoinSide::None => None,
    }
}

/// The parts of a join's condition.
fn filters(filter: &JoinFilter, left: &[Place], right: &[Place]) -> Found<Vec<Filter>> {
    let place = |at: usize| {
        let column = filter.column_indices().get(at).ok_or(Refused::Unusual)?;
        let side = if column.side == JoinSide::Left { left } else { right };
        let field = filter.schema().fields().get(at).ok_or(Refused::Unusual)?;
        Ok((at_place(side, column.index)?, Arc::clone(field)))
    };
    let all = (0..filter.column_indices().len()).map(place).collect::<Found<Vec<_>>>()?;
    let part = |part: &Arc<dyn PhysicalExpr>| {
        let (mut used, mut places) = (Vec::new(), Vec::new());
        let renumbered = renumber(part, |at| {
            let name = filter.schema().fields().get(at)?.name();
            let known = used.iter().position(|known| *known == at);
            let number = known.unwrap_or_else(|| {
                used.push(at);
                used.len() - 1
            });
            Some(Column::new(name, number))
        });
        for at in &used {
            places.push(all.get(*at).cloned().ok_or(Refused::Unusual)?);
        }
        let relations = places.iter().fold(0, |set, (place, _)| set | place.bit());
        if relations == 0 {
            return Err(Refused::Unusual);
        }
        let expr = renumbered.map_err(|_| Refused::Unusual)?;
        Ok(Filter { expr, places, relations })
    };
    split_conjunction(filter.expression()).into_iter().map(part).collect()
}

/// Replaces columns by others; those for which there is none stay.
pub(super) fn renumber(
    expr: &Arc<dyn PhysicalExpr>,
    mut other: impl FnMut(usize) -> Option<Column>,
) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
    let other: &mut dyn FnMut(usize) -> Option<Column> = &mut other;
    let done = Arc::clone(expr).transform_up(|part| {
        let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
        let Some(column) = other(column.index()) else { return Ok(Transformed::no(part)) };
        Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>))
    })?;
    Ok(done.data)
}
