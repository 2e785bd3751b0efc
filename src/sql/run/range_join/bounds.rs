//! Which conditions of a join say that a value of one side is within a range of the other.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion::common::JoinSide;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::sql::functions::key_numbers::KeysAsNumbers;
use crate::sql::run::stops::unstoppable;

type Expr = Arc<dyn PhysicalExpr>;

/// A point of one side, and a range of the other that it is in, each over the rows of its side.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    pub(super) points_left: bool,
    pub(super) point: Expr,
    pub(super) low: Expr,
    pub(super) high: Expr,
    pub(super) data_type: DataType,
}

/// The first such range among the conditions of a join.
pub(super) fn find(filter: &JoinFilter, left: &Schema, right: &Schema) -> Option<Ranges> {
    let condition = unstoppable(filter.expression());
    if is_volatile(condition) {
        return None;
    }
    let ordered: Vec<[Expr; 2]> =
        split_conjunction(condition).into_iter().filter_map(|one| ordered(one)).collect();
    for [low, point] in &ordered {
        for [same, high] in &ordered {
            let sides = [low, point, high].map(|expr| side_of(expr, filter));
            let [Some(low_side), Some(point_side), Some(high_side)] = sides else { continue };
            if point != same || low_side != high_side || low_side == point_side {
                continue;
            }
            let types = [low, point, high].map(|expr| expr.data_type(filter.schema()).ok());
            let [Some(low_type), Some(data_type), Some(high_type)] = types else { continue };
            let are_alike = low_type == data_type && high_type == data_type;
            if !are_alike || KeysAsNumbers::ascending(&data_type).is_none() {
                continue;
            }
            let over = |expr: &Expr, side: JoinSide| {
                let schema = if side == JoinSide::Left { left } else { right };
                of_side(Arc::clone(expr), filter, schema).ok()
            };
            return Some(Ranges {
                points_left: point_side == JoinSide::Left,
                point: over(point, point_side)?,
                low: over(low, low_side)?,
                high: over(high, high_side)?,
                data_type,
            });
        }
    }
    None
}

/// The smaller and the greater side of a comparison.
fn ordered(condition: &Expr) -> Option<[Expr; 2]> {
    let compared = condition.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (Arc::clone(compared.left()), Arc::clone(compared.right()));
    match compared.op() {
        Operator::Lt | Operator::LtEq => Some([left, right]),
        Operator::Gt | Operator::GtEq => Some([right, left]),
        _ => None,
    }
}

/// The side that has all columns of an expression; `None` if neither side has.
fn side_of(expr: &Expr, filter: &JoinFilter) -> Option<JoinSide> {
    let sides = collect_columns(expr).into_iter();
    let mut sides = sides.map(|column| Some(filter.column_indices().get(column.index())?.side));
    let first = sides.next()??;
    (first != JoinSide::None && sides.all(|side| side == Some(first))).then_some(first)
}

/// An expression over the rows of its side.
fn of_side(expr: Expr, filter: &JoinFilter, schema: &Schema) -> DataFusionResult<Expr> {
    let over = |part: Expr| {
        let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
        let Some(known) = filter.column_indices().get(column.index()) else {
            return datafusion::common::internal_err!("a condition's column");
        };
        let name = schema.field(known.index).name();
        Ok(Transformed::yes(Arc::new(Column::new(name, known.index)) as Expr))
    };
    Ok(expr.transform_up(over)?.data)
}
