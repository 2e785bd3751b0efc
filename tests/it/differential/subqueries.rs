//! Conditions with subqueries: IN, EXISTS, ANY, ALL and scalar ones, correlated or not. Many read
//! the same table and differ only in their filter.

use stylobate::DataType;

use super::expressions::{Maker, is_moment, is_number};
use super::tables::Column;

/// Whether values of two types can be compared.
pub(crate) fn are_alike(a: &DataType, b: &DataType) -> bool {
    let time = |t: &DataType| matches!(t, DataType::Time { .. });
    a == b || is_number(a) && is_number(b) || is_moment(a) && is_moment(b) || time(a) && time(b)
}

/// A subquery without its SELECT list.
struct Source {
    /// The text from FROM on.
    rest: String,
    /// Its WHERE.
    filter: String,
    /// A column of its table.
    column: Column,
    /// Whether it reads a column of the outer row.
    correlated: bool,
}

impl Source {
    /// The subquery with a SELECT list and a further condition.
    fn select(&self, what: &str, more: &str) -> String {
        let Source { rest, filter, .. } = self;
        let and = if more.is_empty() { "" } else { " AND " };
        format!("(SELECT {what} {rest} WHERE {filter}{and}{more})")
    }
}

impl Maker<'_> {
    /// A condition with a subquery.
    pub(crate) fn subquery_condition(&mut self) -> String {
        let source = self.subquery_source(25);
        let not = self.r.chance(40);
        match self.r.below(10) {
            0 | 1 => self.exists(&source, not),
            2..=5 => self.is_in(&source, not),
            6 => self.compared_with_all(&source),
            _ => {
                let operand = self.alike(&source.column);
                format!("{operand} {} {}", self.operator(), self.scalar_of(&source))
            }
        }
    }

    /// A scalar subquery.
    pub(crate) fn scalar(&mut self) -> String {
        let source = self.subquery_source(15);
        self.scalar_of(&source)
    }

    /// A table with a filter, which reads the outer row in `correlated` of a hundred cases.
    fn subquery_source(&mut self, correlated: usize) -> Source {
        let again = self.asked.take().filter(|_| self.r.chance(60));
        let (table, bare) = again.unwrap_or_else(|| {
            let table = self.r.below(self.tables.len());
            let columns = &self.tables[table].columns;
            (table, columns[self.r.below(columns.len())].bare.clone())
        });
        let (sql, columns) = self.leaf_of(table, "q");
        let column =
            columns.iter().find(|column| column.bare == bare).unwrap_or(&columns[0]).clone();
        let outer = std::mem::replace(&mut self.columns, columns);
        let asks = std::mem::take(&mut self.asks);
        // Subqueries are rarely nested.
        self.asks = usize::from(asks > 0 && self.r.chance(15));
        let mut filter =
            if self.r.chance(80) { format!("({})", self.condition(1)) } else { "TRUE".into() };
        self.asks = asks.saturating_sub(1);
        let inner = std::mem::replace(&mut self.columns, outer);
        let correlated = self.r.chance(correlated)
            && self.link(&inner).is_some_and(|link| {
                filter += &format!(" AND {link}");
                true
            });
        self.asked = Some((table, bare));
        Source { rest: format!("FROM {sql}"), filter, column, correlated }
    }

    /// An equality of a column of a subquery and one of the outer row.
    fn link(&mut self, inner: &[Column]) -> Option<String> {
        let own = &inner[self.r.below(inner.len())];
        let other = self.outside(|t| are_alike(t, &own.data_type))?;
        Some(format!("{} = {other}", own.name))
    }

    /// A column of the outer row as a subquery can name it, where a name without a table is the
    /// subquery's own.
    fn outside(&mut self, wanted: impl Fn(&DataType) -> bool) -> Option<String> {
        let name = self.name(wanted)?;
        // In the other spelling it may be a merged column of USING, which could not be told from
        // the subquery's own.
        if name.starts_with("coalesce(") {
            return None;
        }
        let mut named = self
            .tables
            .iter()
            .filter(|table| table.columns.iter().any(|column| column.name == name));
        match (named.next(), self.tables) {
            (None, _) => Some(name),
            (Some(table), [_]) => Some(format!("{}.{name}", table.name)),
            _ => None,
        }
    }

    /// What can be compared with a column: another, or one of its values.
    fn alike(&mut self, column: &Column) -> String {
        let value = self.r.choose(&column.samples);
        if self.r.chance(15) {
            return value;
        }
        self.outside(|t| are_alike(t, &column.data_type)).unwrap_or(value)
    }

    fn exists(&mut self, source: &Source, not: bool) -> String {
        if self.spelling.plain && !source.correlated {
            return format!(
                "({} {} 0)",
                source.select("count(*)", ""),
                if not { "=" } else { ">" }
            );
        }
        format!("{}EXISTS {}", if not { "NOT " } else { "" }, source.select("1", ""))
    }

    fn is_in(&mut self, source: &Source, not: bool) -> String {
        let (operand, column) = (self.alike(&source.column), &source.column.name);
        let not = if not { "NOT " } else { "" };
        if self.spelling.plain {
            return format!("({not}{})", any(source, &format!("{column} = {operand}")));
        }
        format!("{operand} {not}IN {}", source.select(column, ""))
    }

    fn compared_with_all(&mut self, source: &Source) -> String {
        let (operand, column) = (self.alike(&source.column), &source.column.name);
        let (operator, all) = (self.operator(), self.r.chance(50));
        if self.spelling.plain {
            let compared = format!("{operand} {operator} {column}");
            // ALL is the negation of ANY of the opposite.
            return if all {
                format!("(NOT {})", any(source, &format!("NOT ({compared})")))
            } else {
                any(source, &compared)
            };
        }
        format!(
            "{operand} {operator} {} {}",
            if all { "ALL" } else { "ANY" },
            source.select(column, "")
        )
    }

    fn scalar_of(&mut self, source: &Source) -> String {
        let column = &source.column.name;
        let float = matches!(source.column.data_type, DataType::Float32 | DataType::Float64);
        // Correlated subqueries are computed by group, where DataFusion's min and max of NaN depend
        // on the order of rows.
        let function = match source.correlated && float {
            true => "count",
            false => self.r.pick(&["min", "max", "max", "count"]),
        };
        let call = format!("{function}({column})");
        if source.correlated {
            return source.select(&call, "");
        }
        if self.r.chance(30) {
            return match self.spelling.plain {
                true => source.select(&format!("min({column})"), ""),
                false => source.select(column, "TRUE ORDER BY 1 ASC NULLS LAST LIMIT 1"),
            };
        }
        if self.spelling.plain {
            return format!("(SELECT {call} FILTER (WHERE {}) {})", source.filter, source.rest);
        }
        source.select(&call, "")
    }
}

/// Whether a condition is true for any row of a subquery: unknown if it is unknown for some and
/// true for none.
fn any(source: &Source, condition: &str) -> String {
    format!(
        "(CASE WHEN EXISTS {} THEN TRUE WHEN EXISTS {} THEN CAST(NULL AS BOOLEAN) ELSE FALSE END)",
        source.select("1", &format!("({condition})")),
        source.select("1", &format!("({condition}) IS NULL"))
    )
}
