//! Lowers filters to predicates. A predicate is exactly the filter, or contains
//! [`Predicate::Unknown`] for what has no counterpart: `query::prune` judges it by statistics, and
//! where it is exact, `query::filter` runs it on encoded data in place of the expression.

use arrow_schema::DataType as ArrowType;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::{InList, Like, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use datafusion::scalar::ScalarValue;

use super::scalar::to_scalar;
use crate::expr::{Comparison, Operand, Outcome, Pattern, Predicate};
use crate::model::{DataType, Scalar, Schema};
use crate::query::prune::widens;

/// How deep a filter is searched.
const MAX_DEPTH: usize = 64;

/// Lowers a filter over a table of this schema.
pub(crate) fn to_predicate(filter: &Expr, schema: &Schema) -> Predicate {
    Lowering { columns: Columns::Stored(schema) }.predicate(filter, 0)
}

/// A key expression, and the operand that stands for it in predicates.
#[derive(Clone, Debug)]
pub(crate) struct KeyOperand {
    /// The columns in it are without the name of their table.
    pub(crate) expression: Expr,
    pub(crate) operand: Operand,
}

/// Lowers a filter to what it says about these key expressions.
pub(crate) fn to_key_predicate(filter: &Expr, keys: &[&KeyOperand]) -> Predicate {
    Lowering { columns: Columns::Keys(keys) }.predicate(filter, 0)
}

struct Lowering<'a> {
    columns: Columns<'a>,
}

/// What the operands of predicates are found among.
enum Columns<'a> {
    Stored(&'a Schema),
    Keys(&'a [&'a KeyOperand]),
}

impl Columns<'_> {
    fn find(&self, expr: &Expr) -> Option<Operand> {
        match (self, expr) {
            (Columns::Stored(schema), Expr::Column(name)) => {
                let column = schema.columns().get(schema.position(&name.name)?)?;
                Some(Operand::of(column))
            }
            (Columns::Stored(_), _) | (Columns::Keys(_), Expr::Literal(..)) => None,
            (Columns::Keys(keys), expr) => {
                let plain = unqualified(expr)?;
                keys.iter().find(|key| key.expression == plain).map(|key| key.operand.clone())
            }
        }
    }
}

/// An expression without the names of tables.
fn unqualified(expr: &Expr) -> Option<Expr> {
    let plain = expr.clone().transform(|expr| {
        Ok(match expr {
            Expr::Column(name) => {
                Transformed::yes(Expr::Column(Column::new_unqualified(name.name)))
            }
            other => Transformed::no(other),
        })
    });
    plain.ok().map(|plain| plain.data)
}

/// A literal: null, or a value in a type.
enum Constant {
    Null,
    Value(Scalar, DataType),
}

fn not(predicate: Predicate) -> Predicate {
    Predicate::Not(Box::new(predicate))
}

impl Lowering<'_> {
    fn predicate(&self, expr: &Expr, depth: usize) -> Predicate {
        if depth > MAX_DEPTH {
            return Predicate::Unknown;
        }
        let inner = |inner: &Expr| self.predicate(inner, depth + 1);
        let is = |operand: &Expr, outcome| Predicate::Is(Box::new(inner(operand)), outcome);
        match expr {
            Expr::Alias(alias) => inner(&alias.expr),
            Expr::Literal(value, _) => constant_outcome(value),
            Expr::Column(_) => match self.operand(expr) {
                Some(operand) if operand.data_type == DataType::Bool => Predicate::Compare {
                    operand,
                    comparison: Comparison::Equal,
                    value: Scalar::Int(1),
                },
                _ => Predicate::Unknown,
            },
            Expr::Not(operand) => not(inner(operand)),
            Expr::IsNull(operand) => self.is_null(operand),
            Expr::IsNotNull(operand) => not(self.is_null(operand)),
            Expr::IsTrue(operand) => is(operand, Outcome::True),
            Expr::IsFalse(operand) => is(operand, Outcome::False),
            Expr::IsUnknown(operand) => is(operand, Outcome::Null),
            Expr::IsNotTrue(operand) => not(is(operand, Outcome::True)),
            Expr::IsNotFalse(operand) => not(is(operand, Outcome::False)),
            Expr::IsNotUnknown(operand) => not(is(operand, Outcome::Null)),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                Predicate::And(vec![inner(left), inner(right)])
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                Predicate::Or(vec![inner(left), inner(right)])
            }
            Expr::BinaryExpr(binary) => self.binary(binary),
            Expr::Between(between) => self.between(between),
            Expr::InList(list) => self.in_list(list),
            Expr::Like(like) => self.like(like),
            Expr::ScalarFunction(function) => self.function(function),
            _ => Predicate::Unknown,
        }
    }

    /// A column, or a cast of one that loses nothing.
    fn operand(&self, expr: &Expr) -> Option<Operand> {
        if let Some(found) = self.columns.find(expr) {
            return Some(found);
        }
        match expr {
            Expr::Alias(alias) => self.operand(&alias.expr),
            Expr::Cast(cast) => {
                let operand = self.operand(&cast.expr)?;
                // Stored as floats of 32 bits, they lose digits all the same.
                if *cast.field.data_type() == ArrowType::Float16 {
                    return None;
                }
                let data_type = DataType::from_arrow(cast.field.data_type())?;
                widens(&operand.data_type, &data_type).then_some(Operand { data_type, ..operand })
            }
            _ => None,
        }
    }

    fn is_null(&self, expr: &Expr) -> Predicate {
        self.operand(expr).map_or(Predicate::Unknown, |operand| Predicate::IsNull(operand.column))
    }

    fn binary(&self, binary: &BinaryExpr) -> Predicate {
        let (operand, constant, flipped) =
            match (self.operand(&binary.left), self.operand(&binary.right)) {
                (Some(operand), None) => (operand, constant(&binary.right), false),
                (None, Some(operand)) => (operand, constant(&binary.left), true),
                _ => return Predicate::Unknown,
            };
        let Some(constant) = constant else { return Predicate::Unknown };
        match binary.op {
            Operator::IsDistinctFrom => not(not_distinct(operand, constant)),
            Operator::IsNotDistinctFrom => not_distinct(operand, constant),
            op => match comparison(op) {
                Some(comparison) if flipped => compare(operand, comparison.flipped(), constant),
                Some(comparison) => compare(operand, comparison, constant),
                None => Predicate::Unknown,
            },
        }
    }

    fn between(&self, between: &Between) -> Predicate {
        let Some(operand) = self.operand(&between.expr) else { return Predicate::Unknown };
        let side = |comparison, bound: &Expr| match constant(bound) {
            Some(constant) => compare(operand.clone(), comparison, constant),
            None => Predicate::Unknown,
        };
        let both = Predicate::And(vec![
            side(Comparison::GreaterOrEqual, &between.low),
            side(Comparison::LessOrEqual, &between.high),
        ]);
        if between.negated { not(both) } else { both }
    }

    fn in_list(&self, list: &InList) -> Predicate {
        let Some(operand) = self.operand(&list.expr) else { return Predicate::Unknown };
        let (mut values, mut null) = (Vec::with_capacity(list.list.len()), false);
        for item in &list.list {
            match constant(item) {
                Some(Constant::Null) => null = true,
                Some(Constant::Value(value, data_type)) if data_type == operand.data_type => {
                    values.push(value)
                }
                _ => return Predicate::Unknown,
            }
        }
        let found = Predicate::In { operand, values };
        let found = if null {
            Predicate::Or(vec![found, Predicate::Constant(Outcome::Null)])
        } else {
            found
        };
        if list.negated { not(found) } else { found }
    }

    /// LIKE without an escape. A pattern without a wildcard is a comparison.
    fn like(&self, like: &Like) -> Predicate {
        let (Some(operand), Some(Constant::Value(Scalar::Bytes(pattern), _))) =
            (self.operand(&like.expr), constant(&like.pattern))
        else {
            return Predicate::Unknown;
        };
        // With an escape it is not certain which characters are wildcards.
        if like.case_insensitive || like.escape_char.is_some() || pattern.contains(&b'\\') {
            return Predicate::Unknown;
        }
        if operand.data_type != DataType::Utf8 {
            return Predicate::Unknown;
        }
        let found = match pattern.iter().any(|byte| matches!(byte, b'%' | b'_')) {
            false => Predicate::Compare {
                operand,
                comparison: Comparison::Equal,
                value: Scalar::Bytes(pattern),
            },
            true => Predicate::Like { operand, pattern: Pattern::like(&pattern) },
        };
        if like.negated { not(found) } else { found }
    }

    fn function(&self, function: &ScalarFunction) -> Predicate {
        let [text, prefix] = function.args.as_slice() else { return Predicate::Unknown };
        match (function.name(), self.operand(text), constant(prefix)) {
            ("starts_with", Some(operand), Some(Constant::Value(Scalar::Bytes(prefix), _)))
                if operand.data_type == DataType::Utf8 =>
            {
                Predicate::Like { operand, pattern: Pattern::starts_with(&prefix) }
            }
            _ => Predicate::Unknown,
        }
    }
}

fn constant(expr: &Expr) -> Option<Constant> {
    match expr {
        Expr::Alias(alias) => constant(&alias.expr),
        Expr::Literal(value, _) if value.is_null() => Some(Constant::Null),
        Expr::Literal(value, _) => {
            to_scalar(value).map(|(value, data_type)| Constant::Value(value, data_type))
        }
        _ => None,
    }
}

fn constant_outcome(value: &ScalarValue) -> Predicate {
    match value {
        ScalarValue::Boolean(Some(true)) => Predicate::Constant(Outcome::True),
        ScalarValue::Boolean(Some(false)) => Predicate::Constant(Outcome::False),
        ScalarValue::Boolean(None) | ScalarValue::Null => Predicate::Constant(Outcome::Null),
        _ => Predicate::Unknown,
    }
}

fn comparison(op: Operator) -> Option<Comparison> {
    Some(match op {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn compare(operand: Operand, comparison: Comparison, constant: Constant) -> Predicate {
    match constant {
        Constant::Null => Predicate::Constant(Outcome::Null),
        Constant::Value(value, data_type) if data_type == operand.data_type => {
            Predicate::Compare { operand, comparison, value }
        }
        Constant::Value(..) => Predicate::Unknown,
    }
}

/// `IS NOT DISTINCT FROM`: like `=`, but null is a value.
fn not_distinct(operand: Operand, constant: Constant) -> Predicate {
    match constant {
        Constant::Null => Predicate::IsNull(operand.column),
        constant => {
            Predicate::Is(Box::new(compare(operand, Comparison::Equal, constant)), Outcome::True)
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{cast, col, lit};

    use super::*;
    use crate::model::ColumnId;

    fn schema() -> Schema {
        Schema::from_names([
            ("a", DataType::Int32),
            ("t", DataType::Utf8),
            ("f", DataType::Float32),
        ])
        .unwrap()
    }

    #[test]
    fn lowers_what_zone_maps_can_evaluate() {
        let lower = |expr: Expr| to_predicate(&expr, &schema());
        let operand = |column, data_type| Operand { column: ColumnId(column), data_type };
        assert_eq!(
            lower(lit(5_i32).lt(col("a"))),
            Predicate::Compare {
                operand: operand(0, DataType::Int32),
                comparison: Comparison::Greater,
                value: Scalar::Int(5)
            }
        );
        let wide = cast(col("f"), datafusion::arrow::datatypes::DataType::Float64);
        assert_eq!(
            lower(wide.eq(lit(0.1_f64))),
            Predicate::Compare {
                operand: operand(2, DataType::Float64),
                comparison: Comparison::Equal,
                value: Scalar::Float(0.1)
            }
        );
        let like = |text: &str| Predicate::Like {
            operand: operand(1, DataType::Utf8),
            pattern: Pattern::like(text.as_bytes()),
        };
        assert_eq!(lower(col("t").like(lit("ab%"))), like("ab%"));
        assert_eq!(lower(col("t").not_like(lit("_b%"))), not(like("_b%")));
        assert_eq!(lower(col("t").ilike(lit("ab%"))), Predicate::Unknown);
        // Different types, lossy casts, and comparisons between columns are left alone.
        assert_eq!(lower(col("a").eq(lit(5_i64))), Predicate::Unknown);
        let narrow = cast(col("a"), datafusion::arrow::datatypes::DataType::Int8);
        assert_eq!(lower(narrow.eq(lit(5_i8))), Predicate::Unknown);
        assert_eq!(lower(col("a").eq(col("a"))), Predicate::Unknown);
        assert_eq!(
            lower(col("a").in_list(vec![lit(1_i32), lit(ScalarValue::Int32(None))], true)),
            not(Predicate::Or(vec![
                Predicate::In {
                    operand: operand(0, DataType::Int32),
                    values: vec![Scalar::Int(1)]
                },
                Predicate::Constant(Outcome::Null)
            ]))
        );
    }
}
