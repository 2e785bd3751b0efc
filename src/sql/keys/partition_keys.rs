//! What a filter tells about partition keys. It may contain the expressions that a table is
//! partitioned by, or name values of their column, from which the keys' values follow.
//!
//! The result is a predicate over key numbers of its own, beside the predicate over columns, and is
//! judged once for each partition by the values in its path (`query::prune::partitions`).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef};
use arrow_schema::{Field, Schema as ArrowSchema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column as Name, DFSchema};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::scalar::ScalarValue;

use crate::block::Bound;
use crate::expr::{Function, Operand, Predicate};
use crate::model::{Column, ColumnId, DataType, PartitionKey, Scalar, Schema};
use crate::query::prune::partitions::{key_column, one};
use crate::sql::convert::{KeyOperand, to_key_predicate};
use crate::sql::functions::concatenation::as_operators;
use crate::sql::keys::expressions::SqlExpressions;
use crate::sql::walks::rewrite_up;

/// The greatest depth to which filters are searched.
const MAX_DEPTH: usize = 64;
/// Values of a filter of more bytes are not put into expressions, which a manifest could make
/// hundreds of times as long.
const MAX_VALUE_BYTES: usize = 256 << 10;

/// The partition keys of a table whose expressions can be compiled.
#[derive(Debug, Default)]
pub(crate) struct PartitionKeys(Vec<Key>);

#[derive(Debug)]
struct Key {
    /// The expression as a filter over the table's columns has it, without the table's name.
    operand: KeyOperand,
    /// Its position among the keys.
    #[cfg(feature = "cluster")]
    number: usize,
    /// Whether its values have the type, and so the texts, that they had in all versions.
    #[cfg(feature = "cluster")]
    is_as_ever: bool,
    /// The only column that the expression reads.
    column: Option<Column>,
    /// The function of it; `None` stands for the column itself.
    function: Option<Arc<dyn Function>>,
}

impl PartitionKeys {
    /// The keys of a table with these columns.
    pub(crate) fn new(keys: &[PartitionKey], schema: &Schema) -> Self {
        static EXPRESSIONS: OnceLock<SqlExpressions> = OnceLock::new();
        let compile = |(number, key): (usize, &PartitionKey)| {
            Key::new(number, key, schema, EXPRESSIONS.get_or_init(SqlExpressions::default))
        };
        PartitionKeys(keys.iter().enumerate().filter_map(compile).collect())
    }

    /// The keys that read one column, and whose values are written in one way: their positions, the
    /// column, and the expression, in which the column has no name.
    #[cfg(feature = "cluster")]
    pub(crate) fn of_one_column(&self) -> impl Iterator<Item = (usize, &Column, Expr)> {
        self.0.iter().filter(|key| key.is_as_ever).filter_map(|key| {
            let column = key.column.as_ref()?;
            let unnamed = |expr| {
                Ok(match expr {
                    Expr::Column(_) => Transformed::yes(Expr::Column(Name::new_unqualified(""))),
                    expr => Transformed::no(expr),
                })
            };
            let expression = key.operand.expression.clone().transform(unnamed).ok()?.data;
            Some((key.number, column, expression))
        })
    }

    /// The predicate over the keys that follows from a filter; opaque if there is none.
    pub(crate) fn predicate(&self, filter: &Expr) -> Predicate {
        if self.0.is_empty() {
            return Predicate::Unknown;
        }
        let operands: Vec<&KeyOperand> = self.0.iter().map(|key| &key.operand).collect();
        let written = |part| Ok(Transformed::yes(as_operators(part)));
        let direct = match rewrite_up(filter.clone(), written) {
            Ok(written) => to_key_predicate(&written.data, &operands),
            Err(_) => Predicate::Unknown,
        };
        let implied = self
            .0
            .iter()
            .filter(|key| key.function_of_one().is_some())
            .map(|key| key.implied(filter, 0));
        let parts = std::iter::once(direct).chain(implied).filter(|part| !part.is_opaque());
        match parts.collect::<Vec<_>>() {
            none if none.is_empty() => Predicate::Unknown,
            parts => Predicate::And(parts),
        }
    }
}

impl Key {
    fn new(
        number: usize,
        key: &PartitionKey,
        schema: &Schema,
        expressions: &SqlExpressions,
    ) -> Option<Key> {
        let known: HashMap<ColumnId, &Column> = match key.columns.len() {
            0 => HashMap::new(),
            _ => schema.columns().iter().map(|column| (column.id, column)).collect(),
        };
        let find = |id| known.get(&id).copied();
        let columns: Vec<(&Arc<str>, &Column)> =
            key.columns.iter().map(|(name, id)| Some((name, find(*id)?))).collect::<Option<_>>()?;
        let field = |(name, column): &(&Arc<str>, &Column)| {
            Field::new(&***name, column.data_type.to_arrow(), true)
        };
        let known = ArrowSchema::new(columns.iter().map(field).collect::<Vec<_>>());
        let (expression, compiled) =
            expressions.simplified(&key.expression, &DFSchema::try_from(known).ok()?).ok()?;
        // The columns may have been renamed since.
        let renamed = expression.transform(|expr| {
            Ok(match &expr {
                Expr::Column(name) => {
                    match columns.iter().find(|(known, _)| ***known == *name.name) {
                        Some((_, column)) => {
                            Transformed::yes(Expr::Column(Name::new_unqualified(&*column.name)))
                        }
                        None => Transformed::no(expr),
                    }
                }
                _ => Transformed::no(expr),
            })
        });
        let data_type = DataType::from_arrow(&compiled.data_type)?;
        // The key may come from a version in which timestamps had another unit, so that its numbers
        // cannot be compared.
        if matches!(data_type, DataType::Timestamp { .. } | DataType::Time { .. })
            && data_type != key.data_type
        {
            return None;
        }
        #[cfg(feature = "cluster")]
        let is_as_ever =
            data_type == key.data_type || data_type.is_integer() && key.data_type.is_integer();
        let operand = Operand { column: key_column(number), data_type };
        let column = match columns.as_slice() {
            [(_, column)] => Some((*column).clone()),
            _ => None,
        };
        Some(Key {
            operand: KeyOperand { expression: renamed.ok()?.data, operand },
            #[cfg(feature = "cluster")]
            number,
            #[cfg(feature = "cluster")]
            is_as_ever,
            column,
            function: compiled.function,
        })
    }

    /// The function of the only column.
    fn function_of_one(&self) -> Option<(&Column, &Arc<dyn Function>)> {
        self.column.as_ref().zip(self.function.as_ref())
    }

    /// The predicate over the key that follows if a filter, which must be true of a row, names the
    /// values of its column.
    fn implied(&self, filter: &Expr, depth: usize) -> Predicate {
        if depth > MAX_DEPTH {
            return Predicate::Unknown;
        }
        match filter {
            Expr::Alias(alias) => self.implied(&alias.expr, depth + 1),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let both = || vec![self.implied(left, depth + 1), self.implied(right, depth + 1)];
                match (op, left.as_ref(), right.as_ref()) {
                    (Operator::And, ..) => Predicate::And(both()),
                    (Operator::Or, ..) => Predicate::Or(both()),
                    (Operator::Eq, Expr::Column(name), Expr::Literal(value, _))
                    | (Operator::Eq, Expr::Literal(value, _), Expr::Column(name)) => {
                        self.for_values(name, std::iter::once(value))
                    }
                    _ => Predicate::Unknown,
                }
            }
            Expr::InList(InList { expr, list, negated: false }) => {
                let values = list.iter().map(|item| match item {
                    Expr::Literal(value, _) => Some(value),
                    _ => None,
                });
                match (expr.as_ref(), values.collect::<Option<Vec<_>>>()) {
                    (Expr::Column(name), Some(values)) => self.for_values(name, values.into_iter()),
                    _ => Predicate::Unknown,
                }
            }
            _ => Predicate::Unknown,
        }
    }

    /// The keys of rows in which the column has one of these values; a null matches no row.
    fn for_values<'v>(
        &self,
        name: &Name,
        values: impl Iterator<Item = &'v ScalarValue>,
    ) -> Predicate {
        let found = self.function_of_one().filter(|(column, _)| *column.name == *name.name);
        let for_column = |(column, function): (&Column, &Arc<dyn Function>)| -> Option<Predicate> {
            let values: Vec<ScalarValue> =
                values.filter(|value| !value.is_null()).cloned().collect();
            if values.is_empty() {
                return None;
            }
            let rows = values.len();
            let array: ArrayRef = ScalarValue::iter_to_array(values).ok()?;
            if array.get_array_memory_size() > MAX_VALUE_BYTES {
                return None;
            }
            let array = arrow_cast::cast(&array, &column.data_type.to_arrow()).ok()?;
            // A value that does not convert to the column's type would become null.
            if array.logical_null_count() > 0 {
                return None;
            }
            // A function may give two results for the two zeros, which are equal.
            let is_zero = |row| {
                let minimum = one(&array, row, &column.data_type).ok().and_then(|stats| stats.min);
                matches!(minimum, Some(Bound { value: Scalar::Float(v), .. }) if v == 0.0)
            };
            if (0..rows).any(is_zero) {
                return None;
            }
            let keys = function.evaluate(&[array], rows).ok()?;
            let data_type = &self.operand.operand.data_type;
            let keys = arrow_cast::cast(&keys, &data_type.to_arrow()).ok()?;
            let (mut values, mut null) = (Vec::with_capacity(rows), false);
            for row in 0..rows {
                let stats = one(&keys, row, data_type).ok()?;
                match stats.min {
                    _ if stats.nulls > 0 => null = true,
                    Some(bound) if bound.exact => values.push(bound.value),
                    _ => return None,
                }
            }
            let found = Predicate::In { operand: self.operand.operand.clone(), values };
            Some(match null {
                true => Predicate::Or(vec![found, Predicate::IsNull(self.operand.operand.column)]),
                false => found,
            })
        };
        found.and_then(for_column).unwrap_or(Predicate::Unknown)
    }
}
