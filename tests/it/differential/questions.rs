//! Conditions with subqueries: IN, EXISTS, ANY, ALL and scalar ones, alone or in need of the row
//! outside. Many are over one table, and differ in their filter alone.

use stylobate::model::DataType;

use super::expressions::{Maker, is_moment, is_number};
use super::tables::Column;

/// What can be compared with each other.
pub(crate) fn are_alike(a: &DataType, b: &DataType) -> bool {
    let time = |t: &DataType| matches!(t, DataType::Time { .. });
    a == b || is_number(a) && is_number(b) || is_moment(a) && is_moment(b) || time(a) && time(b)
}

/// A subquery without what it selects.
struct Asked {
    /// From FROM on.
    rest: String,
    /// Its WHERE.
    filter: String,
    /// A column of its table.
    column: Column,
    /// Whether it names a column of the row outside.
    correlated: bool,
}

impl Asked {
    /// What it selects, where more is true.
    fn select(&self, what: &str, more: &str) -> String {
        let Asked { rest, filter, .. } = self;
        let and = if more.is_empty() { "" } else { " AND " };
        format!("(SELECT {what} {rest} WHERE {filter}{and}{more})")
    }
}

impl Maker<'_> {
    /// A condition with a subquery.
    pub(crate) fn question(&mut self) -> String {
        let asked = self.asked(25);
        let not = self.r.chance(40);
        match self.r.below(10) {
            0 | 1 => self.exists(&asked, not),
            2..=5 => self.is_in(&asked, not),
            6 => self.compared_with_all(&asked),
            _ => {
                let operand = self.alike(&asked.column);
                format!("{operand} {} {}", self.operator(), self.scalar_of(&asked))
            }
        }
    }

    /// A subquery of one value.
    pub(crate) fn scalar(&mut self) -> String {
        let asked = self.asked(15);
        self.scalar_of(&asked)
    }

    /// A table and what of it counts; in so many of a hundred cases that depends on the row
    /// outside.
    fn asked(&mut self, correlated: usize) -> Asked {
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
        // Seldom one in another.
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
        Asked { rest: format!("FROM {sql}"), filter, column, correlated }
    }

    /// A column of a subquery that equals one of the row outside.
    fn link(&mut self, inner: &[Column]) -> Option<String> {
        let own = &inner[self.r.below(inner.len())];
        let other = self.outside(|t| are_alike(t, &own.data_type))?;
        Some(format!("{} = {other}", own.name))
    }

    /// A column of the row outside as a subquery can say it, in which a name without a table is the
    /// subquery's own.
    fn outside(&mut self, wanted: impl Fn(&DataType) -> bool) -> Option<String> {
        let name = self.name(wanted)?;
        // A merged column of USING in the other spelling, where it could not be told from the
        // subquery's own.
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
        let value = self.r.of_these(&column.samples);
        if self.r.chance(15) {
            return value;
        }
        self.outside(|t| are_alike(t, &column.data_type)).unwrap_or(value)
    }

    fn exists(&mut self, asked: &Asked, not: bool) -> String {
        if self.spelling.plain && !asked.correlated {
            return format!("({} {} 0)", asked.select("count(*)", ""), if not { "=" } else { ">" });
        }
        format!("{}EXISTS {}", if not { "NOT " } else { "" }, asked.select("1", ""))
    }

    fn is_in(&mut self, asked: &Asked, not: bool) -> String {
        let (operand, column) = (self.alike(&asked.column), &asked.column.name);
        let not = if not { "NOT " } else { "" };
        if self.spelling.plain {
            return format!("({not}{})", any(asked, &format!("{column} = {operand}")));
        }
        format!("{operand} {not}IN {}", asked.select(column, ""))
    }

    fn compared_with_all(&mut self, asked: &Asked) -> String {
        let (operand, column) = (self.alike(&asked.column), &asked.column.name);
        let (operator, all) = (self.operator(), self.r.chance(50));
        if self.spelling.plain {
            let compared = format!("{operand} {operator} {column}");
            // All are, unless any is not.
            return if all {
                format!("(NOT {})", any(asked, &format!("NOT ({compared})")))
            } else {
                any(asked, &compared)
            };
        }
        format!(
            "{operand} {operator} {} {}",
            if all { "ALL" } else { "ANY" },
            asked.select(column, "")
        )
    }

    fn scalar_of(&mut self, asked: &Asked) -> String {
        let column = &asked.column.name;
        let float = matches!(asked.column.data_type, DataType::Float32 | DataType::Float64);
        // By group, and that is what a correlated one becomes, DataFusion's min and max of NaN
        // depend on the order of rows.
        let function = match asked.correlated && float {
            true => "count",
            false => self.r.pick(&["min", "max", "max", "count"]),
        };
        let call = format!("{function}({column})");
        if asked.correlated {
            return asked.select(&call, "");
        }
        if self.r.chance(30) {
            return match self.spelling.plain {
                true => asked.select(&format!("min({column})"), ""),
                false => asked.select(column, "TRUE ORDER BY 1 ASC NULLS LAST LIMIT 1"),
            };
        }
        if self.spelling.plain {
            return format!("(SELECT {call} FILTER (WHERE {}) {})", asked.filter, asked.rest);
        }
        asked.select(&call, "")
    }
}

/// Whether a condition is true for any row of a subquery: unknown where it is unknown for some and
/// true for none.
fn any(asked: &Asked, condition: &str) -> String {
    format!(
        "(CASE WHEN EXISTS {} THEN TRUE WHEN EXISTS {} THEN CAST(NULL AS BOOLEAN) ELSE FALSE END)",
        asked.select("1", &format!("({condition})")),
        asked.select("1", &format!("({condition}) IS NULL"))
    )
}
