//! On which machine the rows of a leaf are, by the values of one of its columns.
//!
//! Rows that agree in the column of a partition key are in partitions of one value of the key. If
//! each machine has all partitions of its values, rows of equal columns are on one machine: those
//! of another table too, if it is partitioned by the same expression and its partitions are on the
//! same machines.

use std::sync::Arc;

use datafusion::logical_expr::Expr;

use crate::model::{Column, DataType};
use crate::sql::run::parts::Places;
use crate::sql::run::table::StoreTable;

/// Where rows are by the values of a column.
#[derive(Clone, Debug)]
pub(in crate::sql) struct Home {
    /// The position of the column among those of the operator.
    pub(in crate::sql) column: usize,
    by: Arc<By>,
}

#[derive(Debug)]
struct By {
    /// The key, as an expression of a column without a name.
    key: Expr,
    column_type: DataType,
    key_type: DataType,
    places: Arc<Places>,
}

impl Home {
    /// Where the rows of a table are, by the columns that an operator reads of it.
    pub(in crate::sql) fn of<'a>(
        table: &StoreTable,
        columns: impl Iterator<Item = Option<&'a str>> + Clone,
    ) -> Arc<[Home]> {
        let arrangement = &table.snapshot().root().arrangement;
        let home = |(number, of, key): (usize, &Column, Expr)| {
            let name = Some(&*of.name);
            let column = columns.clone().position(|column| column == name)?;
            let places = Arc::clone(table.places().get(number)?.as_ref()?);
            let key_type = arrangement.partition_by.get(number)?.data_type.clone();
            let column_type = of.data_type.clone();
            // Zeros of two signs are equal, and may be in two partitions.
            let is_float = matches!(column_type, DataType::Float32 | DataType::Float64);
            let by = Arc::new(By { key, column_type, key_type, places });
            (!is_float).then_some(Home { column, by })
        };
        table.partition_keys().of_one_column().filter_map(home).collect()
    }

    /// The same rows in an operator that has the column elsewhere.
    pub(in crate::sql) fn at(&self, column: usize) -> Home {
        Home { column, by: Arc::clone(&self.by) }
    }

    /// Whether rows of equal values are on the same machine, if parts of the same numbers are.
    pub(in crate::sql) fn agrees(&self, other: &Home) -> bool {
        let (one, two) = (&*self.by, &*other.by);
        let is_there = |(value, part): (&Option<Vec<u8>>, &usize)| {
            two.places.get(value).is_none_or(|other| other == part)
        };
        one.key == two.key
            && (&one.column_type, &one.key_type) == (&two.column_type, &two.key_type)
            && one.places.iter().all(is_there)
    }
}
