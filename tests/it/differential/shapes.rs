//! Statements beyond one GROUP BY or ORDER BY: windows, grouping sets, set operations, aggregates
//! side by side.
//!
//! Everything that depends on an order uses one that leaves only the order of equal rows open.

use stylobate::DataType;

use super::expressions::{Maker, is_number};
use super::statements::{Order, Statement};

/// Whether sums of a type are exact.
pub(super) fn is_exact(t: &DataType) -> bool {
    t.is_integer() || matches!(t, DataType::Decimal { precision, .. } if *precision < 30)
}

impl Maker<'_> {
    /// A `name` for each of several expressions.
    pub(crate) fn named_items(items: &[String]) -> String {
        let named = items.iter().enumerate().map(|(at, item)| format!("{item} AS x{at}"));
        named.collect::<Vec<_>>().join(", ")
    }

    /// Expressions, mostly columns; not too many rows for windows.
    pub(crate) fn some_columns(&mut self, least: usize, most: usize) -> Vec<String> {
        let count = least + self.r.below(most - least + 1);
        (0..count)
            .map(|_| match self.r.chance(75) {
                true => self.name(|_| true).unwrap_or_else(|| "1".into()),
                false => self.key(1),
            })
            .collect()
    }

    /// An order by all of x0 to x`count` except those before `from`.
    fn total_order(&mut self, from: usize, count: usize) -> String {
        let first = self.r.below(count);
        let keys = (0..count).map(|at| (first + at) % count).filter(|at| *at >= from);
        let keys: Vec<String> = keys.map(|at| format!("⟪x{at}⟫{}", self.direction())).collect();
        if keys.is_empty() { "x0".into() } else { keys.join(", ") }
    }

    pub(crate) fn windowed(&mut self) -> Statement {
        if self.r.chance(35) {
            return self.first_of_groups();
        }
        let items = self.some_columns(2, 4);
        let count = items.len();
        let exact = self.name(is_exact).unwrap_or_else(|| "1".into());
        let filter = self.filter(60);
        let windows = 1 + self.r.below(3);
        // Each window may take another of the equal rows for the first.
        let distinct = if windows > 1 || self.r.chance(50) { "DISTINCT " } else { "" };
        let inner = format!(
            "SELECT {distinct}{}, {exact} AS e FROM {}{filter}",
            Self::named_items(&items),
            self.from
        );
        let mut calls = Vec::new();
        for at in 0..windows {
            let call = self.window(count);
            calls.push(format!("{call} AS w{at}"));
        }
        let outer: Vec<String> = (0..count).map(|at| format!("x{at}")).collect();
        let mut sql =
            format!("SELECT {}, e, {} FROM ({inner}) AS s", outer.join(", "), calls.join(", "));
        if !distinct.is_empty() && self.r.chance(25) {
            sql += &format!(" QUALIFY {} <= {}", self.place(count), 1 + self.r.below(4));
        }
        Statement { zeros_are_one: true, ..Statement::plain(sql) }
    }

    /// The number of a row within its partition.
    fn place(&mut self, count: usize) -> String {
        let order = self.total_order(1, count) + ", e";
        format!("row_number() OVER (PARTITION BY ⟪x0⟫ ORDER BY {order})")
    }

    /// The first rows of each group, of distinct rows in an order that leaves nothing open.
    fn first_of_groups(&mut self) -> Statement {
        let items = self.some_columns(2, 4);
        let count = items.len();
        let exact = self.name(is_exact).unwrap_or_else(|| "1".into());
        let filter = self.filter(60);
        let (named, from) = (Self::named_items(&items), self.from.clone());
        let inner = format!("SELECT DISTINCT {named}, {exact} AS e FROM {from}{filter}");
        let by = if self.r.chance(80) { "PARTITION BY ⟪x0⟫ " } else { "" };
        let total = self.total_order(usize::from(!by.is_empty()), count) + ", e";
        let some = format!("⟪x{}⟫{}", self.r.below(count), self.direction());
        let number = match self.r.below(4) {
            0 | 1 => format!("row_number() OVER ({by}ORDER BY {total})"),
            2 => format!("rank() OVER ({by}ORDER BY {some})"),
            _ => format!("dense_rank() OVER ({by}ORDER BY {some})"),
        };
        // Beside it, perhaps a number over the same rows in another order, or what needs all rows.
        let other = match self.r.below(4) {
            0 => format!(", rank() OVER ({by}ORDER BY {total}) AS w1"),
            1 => format!(", {} AS w1", self.window(count)),
            _ => String::new(),
        };
        let limit = self.r.choose(&[0, 1, 1, 2, 3, 10, 100]);
        let bound = match self.r.below(6) {
            0 => format!("w0 < {limit}"),
            1 => format!("{limit} >= w0"),
            2 => format!("w0 = {limit}"),
            3 => format!("w0 BETWEEN 2 AND {limit} AND x1 IS NOT NULL"),
            4 => format!("w0 IN (1, {limit})"),
            _ => format!("w0 <= {limit}"),
        };
        let outer: Vec<String> = (0..count).map(|at| format!("x{at}")).collect();
        let also = if other.is_empty() { "" } else { ", w1" };
        let sql = format!(
            "SELECT {}, e, w0{also} FROM (SELECT s.*, {number} AS w0{other} FROM ({inner}) AS s) \
             AS n WHERE {bound}",
            outer.join(", ")
        );
        Statement { zeros_are_one: true, ..Statement::plain(sql) }
    }

    fn window(&mut self, count: usize) -> String {
        let partition = self.r.chance(60);
        let by = if partition { "PARTITION BY ⟪x0⟫ " } else { "" };
        let total = self.total_order(usize::from(partition), count) + ", e";
        let x = format!("x{}", self.r.below(count));
        match self.r.below(12) {
            0 | 1 => format!("row_number() OVER ({by}ORDER BY {total})"),
            2 => format!("rank() OVER ({by}ORDER BY ⟪{x}⟫{})", self.direction()),
            3 => format!("dense_rank() OVER ({by}ORDER BY ⟪{x}⟫{})", self.direction()),
            4 => format!(
                "{}({x}, {}) OVER ({by}ORDER BY {total})",
                self.r.pick(&["lag", "lead"]),
                1 + self.r.below(2)
            ),
            5 => {
                let function = self.r.pick(&["first_value", "last_value"]);
                format!("{function}({x}) OVER ({by}ORDER BY {total}{})", self.frame())
            }
            6 => format!("nth_value({x}, 2) OVER ({by}ORDER BY {total})"),
            7 => format!("count(*) OVER ({by})"),
            8 => format!("{}({x}) OVER ({by})", self.r.pick(&["min", "max", "count"])),
            9 => format!(
                "{}({x}) OVER ({by}ORDER BY {total}{})",
                self.r.pick(&["min", "max", "count"]),
                self.frame()
            ),
            10 => format!("sum(e) OVER ({by}ORDER BY ⟪{x}⟫{})", self.direction()),
            _ => format!("sum(e) OVER ({by}ORDER BY {total}{})", self.frame()),
        }
    }

    fn frame(&mut self) -> String {
        let (before, after) = (self.r.below(4), self.r.below(4));
        match self.r.below(4) {
            0 => String::new(),
            1 => format!(" ROWS BETWEEN {before} PRECEDING AND {after} FOLLOWING"),
            2 => format!(" ROWS BETWEEN UNBOUNDED PRECEDING AND {after} FOLLOWING"),
            _ => format!(" ROWS BETWEEN {before} PRECEDING AND UNBOUNDED FOLLOWING"),
        }
    }

    pub(crate) fn grouping_sets(&mut self) -> Statement {
        let items = self.some_columns(2, 3);
        let count = items.len();
        let (exact, any) = (self.name(is_exact).unwrap_or_else(|| "1".into()), self.ordered(0));
        let filter = self.filter(60);
        let inner = format!(
            "SELECT {}, {exact} AS e, {any} AS m FROM {}{filter}",
            Self::named_items(&items),
            self.from
        );
        let keys: Vec<String> = (0..count).map(|at| format!("x{at}")).collect();
        let sets = match self.r.below(5) {
            0 => format!("ROLLUP ({})", keys.join(", ")),
            1 => format!("CUBE ({})", keys.join(", ")),
            2 => format!("GROUPING SETS (({}), ({}), ())", keys.join(", "), keys[0]),
            3 => format!("GROUPING SETS (({}), ({}))", keys[0], keys[1]),
            _ => format!("GROUPING SETS (({}), (), ({}))", keys[1], keys[0]),
        };
        let calls = [
            "count(*)",
            "sum(e)",
            "count(e)",
            "count(e) FILTER (WHERE x1 IS NOT NULL)",
            "count(DISTINCT e)",
            "min⟨m⟩",
            "max⟨m⟩",
            "grouping(x0)",
        ];
        let calls: Vec<String> = (0..1 + self.r.below(3))
            .map(|at| format!("{} AS c{at}", self.r.pick(&calls)))
            .collect();
        let having = if self.r.chance(20) { " HAVING count(*) > 1" } else { "" };
        let sql = format!(
            "SELECT {}, {} FROM ({inner}) AS s GROUP BY {sets}{having}",
            keys.join(", "),
            calls.join(", ")
        );
        Statement::plain(sql)
    }

    pub(crate) fn distinct_on(&mut self) -> Statement {
        let items = self.some_columns(2, 4);
        let count = items.len();
        let filter = self.filter(50);
        let inner = format!("SELECT {} FROM {}{filter}", Self::named_items(&items), self.from);
        let on = 1 + self.r.below(count - 1);
        let keys: Vec<String> =
            (0..count).map(|at| format!("⟪x{at}⟫{}", self.direction())).collect();
        let names: Vec<String> = (0..count).map(|at| format!("⟪x{at}⟫ AS x{at}")).collect();
        let on: Vec<String> = (0..on).map(|at| format!("⟪x{at}⟫")).collect();
        let sql = format!(
            "SELECT DISTINCT ON ({}) {} FROM ({inner}) AS s ORDER BY {}",
            on.join(", "),
            names.join(", "),
            keys.join(", ")
        );
        Statement { zeros_are_one: true, ..Statement::plain(sql) }
    }

    /// Set operations between rows of the same tables, each with a filter of its own.
    pub(crate) fn set_operations(&mut self) -> Statement {
        let items = self.some_columns(1, 3);
        let count = items.len();
        let start = format!("SELECT {} FROM {}", Self::named_items(&items), self.from);
        let mut sql = start.clone() + &self.filter(80);
        for _ in 0..1 + self.r.below(3) {
            let operation = self.r.pick(&[
                "UNION",
                "UNION ALL",
                "INTERSECT",
                "INTERSECT ALL",
                "EXCEPT",
                "EXCEPT ALL",
            ]);
            let more = start.clone() + &self.filter(80);
            let (left, right) = if self.r.chance(50) { (sql, more) } else { (more, sql) };
            sql = match operation.strip_suffix(" ALL").filter(|operation| *operation != "UNION") {
                Some(operation) if self.spelling.plain => {
                    Self::counted(&left, operation, &right, count)
                }
                _ => format!("({left}) {operation} ({right})"),
            };
        }
        if self.r.chance(30) {
            let by: Vec<String> =
                (0..count).map(|at| format!("x{at}{}", self.direction())).collect();
            let limited =
                format!("SELECT * FROM ({sql}) AS s ORDER BY {}{}", by.join(", "), self.limit());
            return Statement {
                order: Order::Total,
                zeros_are_one: true,
                ..Statement::plain(limited)
            };
        }
        // Any of the equal rows may be kept.
        Statement { zeros_are_one: true, ..Statement::plain(sql) }
    }

    /// INTERSECT ALL and EXCEPT ALL, as sets of rows that are numbered among their equals.
    fn counted(left: &str, operation: &str, right: &str, count: usize) -> String {
        let names = (0..count).map(|at| format!("x{at}")).collect::<Vec<_>>().join(", ");
        let numbered = |sql: &str| {
            format!(
                "SELECT {names}, row_number() OVER (PARTITION BY {names} ORDER BY 1) AS number \
                 FROM ({sql}) AS s"
            )
        };
        format!("SELECT {names} FROM ({} {operation} {}) AS s", numbered(left), numbered(right))
    }

    /// Several aggregates of one kind, which differ in their filter or their argument.
    pub(crate) fn side_by_side(&mut self) -> Statement {
        let exact = self.name(is_exact).unwrap_or_else(|| "1".into());
        let (a, b) =
            (self.name(|_| true).unwrap_or_default(), self.name(|_| true).unwrap_or_default());
        let (x, number) = (self.ordered(0), self.name(is_number).unwrap_or_else(|| "1".into()));
        let (p, q) = (self.condition(1), self.condition(1));
        let all = [
            format!("max⟨{x}⟩ FILTER (WHERE {p})"),
            format!("max⟨{x}⟩"),
            format!("min⟨{x}⟩ FILTER (WHERE {q})"),
            format!("min⟨{number}⟩"),
            format!("count(DISTINCT ⟪{a}⟫)"),
            format!("count(DISTINCT ⟪{b}⟫)"),
            format!("count(DISTINCT ⟪{a}⟫) FILTER (WHERE {p})"),
            format!("count(*) FILTER (WHERE {q})"),
            format!("count(*) FILTER (WHERE {p})"),
            format!("sum({exact})"),
            format!("sum({exact} + 1)"),
            format!("sum({exact}) FILTER (WHERE {q})"),
            format!("sum(DISTINCT {exact})"),
            format!("median({exact})"),
            format!("median({exact}) FILTER (WHERE {p})"),
            format!("bool_and({p})"),
            format!("bool_or({q}) FILTER (WHERE {p})"),
        ];
        let calls: Vec<String> = (0..1 + self.r.below(5)).map(|_| self.r.choose(&all)).collect();
        let keys = self.r.choose(&[0, 0, 1, 1, 2]);
        let mut items: Vec<String> = (0..keys).map(|_| self.key(0)).collect();
        let by: Vec<String> = (1..=keys).map(|at| at.to_string()).collect();
        items.extend(calls);
        let group = if keys > 0 { format!(" GROUP BY {}", by.join(", ")) } else { String::new() };
        let having = if keys > 0 && self.r.chance(15) { " HAVING count(*) > 1" } else { "" };
        let filter = self.filter(60);
        let sql = format!(
            "SELECT {} FROM {}{filter}{group}{having}",
            Self::named_items(&items),
            self.from
        );
        Statement::plain(sql)
    }

    /// Several scalar subqueries in a SELECT list.
    pub(crate) fn scalars(&mut self) -> Statement {
        let count = 2 + self.r.below(3);
        let rows = self.r.chance(50);
        let outer = if rows { None } else { Some(std::mem::take(&mut self.columns)) };
        let mut items: Vec<String> = (0..count).map(|_| self.scalar()).collect();
        if let Some(outer) = outer {
            self.columns = outer;
            return Statement::plain(format!("SELECT {}", Self::named_items(&items)));
        }
        items.extend(self.some_columns(1, 2));
        let filter = self.filter(60);
        Statement::plain(format!("SELECT {} FROM {}{filter}", Self::named_items(&items), self.from))
    }
}
