//! The FROM clause: tables, subqueries over them, and joins of every kind.

use stylobate::DataType;

use super::expressions::{Maker, NamedQuery};
use super::subqueries::are_alike;
use super::tables::Column;

/// The number of row pairs that a join may look at.
const MOST_PAIRS: usize = 60_000;

/// A part of a FROM, and the columns that it brings into scope.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) sql: String,
    pub(crate) columns: Vec<Column>,
    /// The approximate number.
    rows: usize,
    /// Whether it is not a join.
    leaf: bool,
}

impl Source {
    fn side(&self) -> String {
        if self.leaf { self.sql.clone() } else { format!("({})", self.sql) }
    }
}

/// The kind of a join after its sides are swapped.
fn commuted(kind: &'static str) -> &'static str {
    match kind {
        "LEFT JOIN" => "RIGHT JOIN",
        "RIGHT JOIN" => "LEFT JOIN",
        "LEFT SEMI JOIN" => "RIGHT SEMI JOIN",
        "LEFT ANTI JOIN" => "RIGHT ANTI JOIN",
        same => same,
    }
}

impl Maker<'_> {
    fn alias(&mut self, letter: &str) -> String {
        self.named += 1;
        format!("{letter}{}", self.named)
    }

    /// A column as it is seen under an alias.
    fn seen(&self, alias: &str, column: &Column) -> Column {
        let name = self.given(alias, &column.bare);
        Column { name: format!("{alias}.{name}"), ..column.clone() }
    }

    /// The name of a column in the subquery of an alias.
    fn given(&self, alias: &str, bare: &str) -> String {
        if self.spelling.renamed { format!("{alias}_{bare}") } else { bare.to_owned() }
    }

    /// A table under a new alias.
    pub(crate) fn leaf_of(&mut self, table: usize, letter: &str) -> (String, Vec<Column>) {
        let alias = self.alias(letter);
        let table = &self.tables[table];
        let columns = table.columns.iter().map(|column| self.seen(&alias, column)).collect();
        if !self.spelling.renamed {
            return (format!("{} AS {alias}", table.name), columns);
        }
        let items: Vec<String> = table
            .columns
            .iter()
            .map(|c| format!("{} AS {}", c.bare, self.given(&alias, &c.bare)))
            .collect();
        (format!("(SELECT {} FROM {}) AS {alias}", items.join(", "), table.name), columns)
    }

    /// Joins of several tables or subqueries.
    pub(crate) fn source(&mut self, leaves: usize) -> Source {
        if leaves <= 1 {
            return self.leaf();
        }
        let right = if leaves > 2 && self.r.chance(25) { 2 } else { 1 };
        let (left, right) = (self.source(leaves - right), self.source(right));
        self.join(left, right)
    }

    fn leaf(&mut self) -> Source {
        if let Some(named) = self.with.clone().filter(|_| self.r.chance(60)) {
            let alias = self.alias("x");
            let columns: Vec<Column> =
                named.columns.iter().map(|column| self.seen(&alias, column)).collect();
            let inner = if self.spelling.inlined { format!("({})", named.sql) } else { named.name };
            let items: Vec<String> = columns
                .iter()
                .map(|c| format!("z.{} AS {}", c.bare, self.given(&alias, &c.bare)))
                .collect();
            let sql = match self.spelling.renamed {
                true => format!("(SELECT {} FROM {inner} AS z) AS {alias}", items.join(", ")),
                false => format!("{inner} AS {alias}"),
            };
            return Source { sql, columns, rows: named.rows, leaf: true };
        }
        let table = self.r.below(self.tables.len());
        if self.r.chance(60) {
            let (sql, columns) = self.leaf_of(table, "x");
            return Source { sql, columns, rows: self.tables[table].rows(), leaf: true };
        }
        let alias = self.alias("x");
        let (sql, columns) = self.derived(table, &alias);
        let columns = columns.iter().map(|column| self.seen(&alias, column)).collect();
        Source {
            sql: format!("({sql}) AS {alias}"),
            columns,
            rows: self.tables[table].rows(),
            leaf: true,
        }
    }

    /// A query for a WITH.
    pub(crate) fn named_query(&mut self) -> NamedQuery {
        let table = self.r.below(self.tables.len());
        let spelling = std::mem::take(&mut self.spelling);
        let (sql, columns) = self.derived(table, "w");
        self.spelling = spelling;
        NamedQuery { name: "w".into(), sql, columns, rows: self.tables[table].rows() }
    }

    /// A subquery over a table: filtered, grouped, distinct, united, or its first rows.
    fn derived(&mut self, table: usize, alias: &str) -> (String, Vec<Column>) {
        let (inner, all) = self.leaf_of(table, "z");
        let mut columns: Vec<Column> = Vec::new();
        for column in &all {
            if self.r.chance(if columns.is_empty() { 80 } else { 60 }) {
                columns.push(column.clone());
            }
        }
        if columns.is_empty() {
            columns.push(all[0].clone());
        }
        let items = |maker: &Self, sql_of: &dyn Fn(usize, &Column) -> String| -> String {
            let items = columns.iter().enumerate();
            let items = items
                .map(|(at, c)| format!("{} AS {}", sql_of(at, c), maker.given(alias, &c.bare)));
            items.collect::<Vec<_>>().join(", ")
        };
        let plainly = items(self, &|_, column| column.name.clone());
        let outer = std::mem::replace(&mut self.columns, all.clone());
        let asks = std::mem::take(&mut self.asks);
        let (filter, other) = (self.condition(1), self.condition(1));
        let by: Vec<String> = (1..=columns.len()).map(|at| at.to_string()).collect();
        let sql = match self.r.below(6) {
            0 | 1 => format!("SELECT {plainly} FROM {inner} WHERE {filter}"),
            2 => {
                let grouped = items(self, &|at, c| match at {
                    0 => c.name.clone(),
                    _ if c.data_type == DataType::Bool => format!("bool_or({})", c.name),
                    _ => format!("max⟨{}⟩", c.name),
                });
                let having = if self.r.chance(50) { " HAVING count(*) > 0" } else { "" };
                format!("SELECT {grouped} FROM {inner} GROUP BY {}{having}", columns[0].name)
            }
            3 => format!("SELECT DISTINCT {plainly} FROM {inner}"),
            4 => format!(
                "SELECT {plainly} FROM {inner} WHERE {filter} UNION ALL SELECT {plainly} FROM \
                 {inner} WHERE {other}"
            ),
            _ => {
                let limit = 1 + self.r.below(12);
                format!("SELECT {plainly} FROM {inner} ORDER BY {} LIMIT {limit}", by.join(", "))
            }
        };
        (self.columns, self.asks) = (outer, asks);
        (sql, columns)
    }

    fn join(&mut self, left: Source, right: Source) -> Source {
        let mut columns = left.columns.clone();
        columns.extend(right.columns.iter().cloned());
        let kind = self.r.pick(&[
            "JOIN",
            "JOIN",
            "JOIN",
            "LEFT JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
            "CROSS JOIN",
            "LEFT SEMI JOIN",
            "LEFT ANTI JOIN",
        ]);
        let pairs = left.rows.max(1) * right.rows.max(1);
        if let Some(source) = self.by_names(&left, &right, kind, pairs) {
            return source;
        }
        let on = match kind {
            "CROSS JOIN" if pairs <= MOST_PAIRS / 10 => None,
            _ => self.on(&left.columns, &right.columns, pairs <= MOST_PAIRS / 10),
        };
        let (kind, on) = match on {
            Some(on) if kind == "CROSS JOIN" => ("JOIN", format!(" ON {on}")),
            Some(on) => (kind, format!(" ON {on}")),
            None if pairs <= MOST_PAIRS / 10 => ("CROSS JOIN", String::new()),
            // There would be too many rows, and no column to join them by.
            None => return left,
        };
        let rows = if on.is_empty() { pairs } else { (pairs / 4).max(left.rows).max(right.rows) };
        if rows > MOST_PAIRS {
            return left;
        }
        let sql = match self.spelling.commuted {
            true => format!("{} {} {}{on}", right.side(), commuted(kind), left.side()),
            false => format!("{} {kind} {}{on}", left.sql, right.side()),
        };
        let one_side = kind.contains("SEMI") || kind.contains("ANTI");
        Source { sql, columns: if one_side { left.columns } else { columns }, rows, leaf: false }
    }

    /// A join by USING or NATURAL, if the names allow it.
    fn by_names(
        &mut self,
        left: &Source,
        right: &Source,
        kind: &'static str,
        pairs: usize,
    ) -> Option<Source> {
        let wanted = self.r.chance(15) && left.leaf && right.leaf && pairs <= MOST_PAIRS;
        if !wanted || kind.contains("SEMI") || kind.contains("ANTI") || kind.contains("CROSS") {
            return None;
        }
        let mut common = Vec::new();
        for a in &left.columns {
            if let Some(b) = right.columns.iter().find(|b| b.bare == a.bare) {
                if !are_alike(&a.data_type, &b.data_type) {
                    return None;
                }
                common.push((a, b));
            }
        }
        let natural = self.r.chance(50);
        if !natural {
            common.truncate(1 + self.r.below(2));
        }
        if common.is_empty() {
            return None;
        }
        let mut columns = left.columns.clone();
        columns.extend(right.columns.iter().cloned());
        for (a, b) in &common {
            // Named without a table, the column has the value of the side that has a row.
            let alone =
                left.columns.iter().chain(&right.columns).filter(|c| c.bare == a.bare).count() == 2;
            if alone && a.data_type == b.data_type && self.r.chance(30) {
                let name = match self.spelling.renamed {
                    true => format!("coalesce({}, {})", a.name, b.name),
                    false => a.bare.clone(),
                };
                columns.push(Column { name, ..(*a).clone() });
            }
        }
        let names: Vec<&str> = common.iter().map(|(a, _)| a.bare.as_str()).collect();
        let equal: Vec<String> =
            common.iter().map(|(a, b)| format!("{} = {}", a.name, b.name)).collect();
        let (first, second, kind) = match self.spelling.commuted {
            true => (right, left, commuted(kind)),
            false => (left, right, kind),
        };
        let sql = match (self.spelling.renamed, natural) {
            (true, _) => format!("{} {kind} {} ON {}", first.sql, second.sql, equal.join(" AND ")),
            (false, true) => format!("{} NATURAL {kind} {}", first.sql, second.sql),
            (false, false) => {
                format!("{} {kind} {} USING ({})", first.sql, second.sql, names.join(", "))
            }
        };
        Some(Source { sql, columns, rows: (pairs / 4).max(left.rows).max(right.rows), leaf: false })
    }

    /// The condition of a join: mostly an equality, and perhaps more.
    fn on(&mut self, left: &[Column], right: &[Column], any: bool) -> Option<String> {
        let mut parts = Vec::new();
        for _ in 0..self.r.choose(&[1, 1, 1, 2, 2, if any { 0 } else { 1 }]) {
            let Some((a, b)) = self.pair(left, right) else { continue };
            let operator = if self.r.chance(90) { "=" } else { "IS NOT DISTINCT FROM" };
            let (a, b) = if self.r.chance(50) { (a, b) } else { (b, a) };
            parts.push(format!("({} {operator} {})", a.name, b.name));
        }
        if parts.is_empty() && !any {
            return None;
        }
        let all = left.iter().chain(right).cloned().collect();
        let outer = std::mem::replace(&mut self.columns, all);
        let asks = std::mem::take(&mut self.asks);
        if let Some((a, b)) = self.pair(left, right).filter(|_| self.r.chance(20)) {
            parts.push(format!("{} {} {}", a.name, self.operator(), b.name));
        }
        if parts.is_empty() || self.r.chance(25) {
            parts.push(format!("({})", self.condition(1)));
        }
        (self.columns, self.asks) = (outer, asks);
        let or = any && self.r.chance(10);
        Some(parts.join(if or { " OR " } else { " AND " }))
    }

    /// Two columns that can be compared, with the same name if there are such.
    fn pair(&mut self, left: &[Column], right: &[Column]) -> Option<(Column, Column)> {
        let a = &left[self.r.below(left.len())];
        let fitting: Vec<&Column> =
            right.iter().filter(|b| are_alike(&a.data_type, &b.data_type)).collect();
        let same: Vec<&Column> = fitting.iter().copied().filter(|b| b.bare == a.bare).collect();
        let candidates = if same.is_empty() || self.r.chance(30) { fitting } else { same };
        if candidates.is_empty() {
            None
        } else {
            Some((a.clone(), self.r.choose(&candidates).clone()))
        }
    }
}
