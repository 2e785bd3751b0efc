//! A fragment: the part of a query over one table that runs in our own code.
//!
//! Where this stands on the road of a query: `sql/plan/lower` makes fragments of logical plans;
//! `query` runs them over a snapshot and gives Arrow batches back. Nothing here knows where a
//! fragment came from.

use std::fmt;
#[cfg(feature = "sql")]
use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, SchemaRef};
#[cfg(feature = "cluster")]
use arrow_schema::{Field, Schema};

use crate::expr::{Expression, Predicate};
#[cfg(feature = "sql")]
use crate::expr::{Function, Sample, Traits};
use crate::model::Column;

/// One table: filter, then group and aggregate, or the first rows of an order.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// The columns that anything in the fragment reads; expressions name them by position here.
    pub columns: Vec<Column>,
    /// All of them must be true of a row.
    pub conditions: Vec<Condition>,
    /// What is made of the rows.
    pub output: Output,
    /// Names and types of the answer.
    pub schema: SchemaRef,
    /// Whether groups come out as their states, in one column behind the keys, in place of their
    /// aggregates: other machines have more rows of the same groups.
    pub states: bool,
}

/// What a walk over a table reads: some columns of the rows that meet all conditions.
#[derive(Clone, Debug)]
pub(crate) struct RowSource<'a> {
    /// Expressions name them by position here.
    pub(crate) columns: &'a [Column],
    pub(crate) conditions: &'a [Condition],
    /// Columns that are read of every row that passes, some of them more than once.
    pub(crate) read_by_row: Vec<usize>,
}

/// The name of the column of states.
#[cfg(feature = "cluster")]
const STATES: &str = "states";

impl Fragment {
    /// The same fragment, which gives the states of groups for other machines to merge: of all, or
    /// of those that may be among the first ones. `None` if it has no groups, or counts distinct
    /// values: their states cannot be merged.
    #[cfg(feature = "cluster")]
    pub(crate) fn with_states(&self) -> Option<Fragment> {
        let Output::Aggregate { keys, aggregates, .. } = &self.output else { return None };
        if aggregates.iter().any(|aggregate| aggregate.distinct) {
            return None;
        }
        let states = Arc::new(Field::new(STATES, ArrowType::LargeBinary, false));
        let fields = self.schema.fields().iter().take(keys.len()).cloned().chain([states]);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let first = self.first_groups().and_then(|first| first.by_all_keys(keys.len()));
        let (keys, aggregates) = (keys.clone(), aggregates.clone());
        let output = Output::Aggregate { keys, aggregates, first };
        Some(Fragment { output, schema, states: true, ..self.clone() })
    }

    /// The groups that are wanted of an aggregate; `None` for all.
    pub(crate) fn first_groups(&self) -> Option<&FirstGroups> {
        match &self.output {
            Output::Aggregate { first, .. } => first.as_ref(),
            Output::Top { .. } => None,
        }
    }

    /// The rows that it reads.
    pub(crate) fn row_source(&self) -> RowSource<'_> {
        RowSource {
            columns: &self.columns,
            conditions: &self.conditions,
            read_by_row: self.output.read_by_row().collect(),
        }
    }
}

/// A condition on single rows.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The condition as a boolean; null counts as false.
    pub expression: Expression,
    /// What zone maps and kernels on encoded data can judge of it; exactly the condition unless it
    /// contains [`Predicate::Unknown`].
    pub predicate: Predicate,
    /// What follows from it for the partition keys of the table, by
    /// `prune::partitions::key_column`.
    pub partitions: Predicate,
}

impl Condition {
    /// A condition that says nothing of partitions.
    pub fn new(expression: Expression, predicate: Predicate) -> Self {
        Condition { expression, predicate, partitions: Predicate::Unknown }
    }

    /// That a row is one of a sample.
    #[cfg(feature = "sql")]
    pub(crate) fn sampled(sample: &Arc<Sample>) -> Self {
        let expression = Expression {
            inputs: Vec::new(),
            function: Some(Arc::clone(sample) as Arc<dyn Function>),
            data_type: ArrowType::Boolean,
            traits: Traits::default(),
            choice: None,
            text: sample.text().into(),
        };
        Condition::new(expression, Predicate::Sampled(Arc::clone(sample)))
    }
}

/// What a fragment makes of the rows that pass.
#[derive(Clone, Debug)]
pub enum Output {
    /// A row for each distinct combination of the keys: the keys, then the aggregates. Without
    /// keys, one row.
    Aggregate {
        /// What to group by.
        keys: Vec<Expression>,
        /// What to compute of each group.
        aggregates: Vec<Aggregate>,
        /// The groups that are wanted; `None` for all. More may come out, in any order.
        first: Option<FirstGroups>,
    },
    /// The first `limit` rows in some order, without the first `skip` of them.
    Top {
        /// The most significant first.
        order: Vec<OrderBy>,
        /// How many rows, with those that are skipped.
        limit: usize,
        /// How many rows do not come out.
        skip: usize,
        /// The columns of the answer.
        expressions: Vec<Expression>,
    },
}

impl Output {
    /// Columns that are read of every row that passes, some of them more than once. The first rows
    /// of an order come back for their other columns.
    pub(crate) fn read_by_row(&self) -> impl Iterator<Item = usize> {
        let inputs: Vec<usize> = match self {
            Output::Aggregate { keys, aggregates, .. } => {
                let inputs = aggregates.iter().flat_map(Aggregate::expressions);
                keys.iter()
                    .chain(inputs)
                    .flat_map(|expression| expression.inputs.iter().copied())
                    .collect()
            }
            Output::Top { order, .. } => {
                order.iter().flat_map(|by| by.expression.inputs.iter().copied()).collect()
            }
        };
        inputs.into_iter()
    }
}

/// The most first groups that are held until all groups were seen.
pub(crate) const MOST_FIRST: usize = 1 << 14;

/// The first groups of an order.
#[derive(Clone, Debug)]
pub struct FirstGroups {
    /// The most significant column first; any groups will do without one.
    pub order: Vec<ByColumn>,
    /// How many groups.
    pub limit: usize,
}

#[cfg(feature = "cluster")]
impl FirstGroups {
    /// An order of all `keys` keys of groups that has these groups first. `None` if it goes by
    /// aggregates, which are known once all rows of a group were seen, or the groups are many.
    /// Those that are first on all machines together are among the first of each machine that has
    /// rows of them.
    pub(crate) fn by_all_keys(&self, keys: usize) -> Option<FirstGroups> {
        let is_chosen = (1..=MOST_FIRST).contains(&self.limit);
        if !is_chosen || self.order.iter().any(|by| by.column >= keys) {
            return None;
        }
        let mut order = self.order.clone();
        for column in 0..keys {
            if order.iter().all(|by| by.column != column) {
                order.push(ByColumn { column, descending: false, nulls_first: false });
            }
        }
        Some(FirstGroups { order, limit: self.limit })
    }
}

/// A column of the answer as a key of an order.
#[derive(Clone, Copy, Debug)]
pub struct ByColumn {
    /// Its position among the keys and then the aggregates.
    pub column: usize,
    /// The greatest first.
    pub descending: bool,
    /// Nulls before all values.
    pub nulls_first: bool,
}

/// An aggregate of a group.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Which one.
    pub function: AggregateFunction,
    /// Of what; `None` for `count(*)`.
    pub input: Option<Expression>,
    /// Only rows for which this boolean is true.
    pub filter: Option<Expression>,
    /// Of the distinct values. Only counts are, and without a filter: what a filter leaves out is
    /// null among the values.
    pub distinct: bool,
    /// What tells the row of [`AggregateFunction::Picked`]; `None` for its place in the table.
    pub order: Option<OrderBy>,
    /// The type of the answer.
    pub data_type: ArrowType,
    /// How EXPLAIN shows it.
    pub text: Box<str>,
}

impl Aggregate {
    /// `count(*)`.
    pub(crate) fn rows() -> Self {
        Aggregate {
            function: AggregateFunction::Count,
            input: None,
            filter: None,
            distinct: false,
            order: None,
            data_type: ArrowType::Int64,
            text: "count(*)".into(),
        }
    }

    /// What it reads of a row.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let order = self.order.as_ref().map(|by| &by.expression);
        self.input.iter().chain(&self.filter).chain(order)
    }

    /// Whether it is a value of one row.
    pub(crate) fn is_picked(&self) -> bool {
        matches!(self.function, AggregateFunction::Picked { .. })
    }
}

/// The aggregate functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// Rows, or values that are not null.
    Count,
    /// Wrapping for integers; null of nothing.
    Sum,
    /// The mean as a float; null of nothing.
    Average,
    /// By total order; null of nothing.
    Min,
    /// By total order; null of nothing.
    Max,
    /// The mean square distance from the mean: of the values, or with `sample` of what they were
    /// drawn from. Null of nothing, and of one value of a sample.
    Variance {
        /// Divided by one less than there are values.
        sample: bool,
    },
    /// The root of the variance.
    Deviation {
        /// As for the variance.
        sample: bool,
    },
    /// The value of the first row of an order, among equal ones of the first row of the table; null
    /// of nothing.
    Picked {
        /// Rows whose value is null do not count.
        ignore_nulls: bool,
        /// Rows whose key of the order is null do not count.
        ignore_null_keys: bool,
        /// Among equal rows, the last one of the table.
        last: bool,
    },
}

/// A key of an order.
#[derive(Clone, Debug)]
pub struct OrderBy {
    /// What is compared.
    pub expression: Expression,
    /// The greatest first.
    pub descending: bool,
    /// Nulls before all values.
    pub nulls_first: bool,
}

impl fmt::Display for OrderBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&direction(&self.expression.text, self.descending, self.nulls_first))
    }
}

/// A key of an order, as SQL writes it.
pub(crate) fn direction(key: &str, descending: bool, nulls_first: bool) -> String {
    let direction = if descending { "DESC" } else { "ASC" };
    let nulls = if nulls_first { "FIRST" } else { "LAST" };
    format!("{key} {direction} NULLS {nulls}")
}
