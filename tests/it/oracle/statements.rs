//! Random queries: joins of every kind, groups, set operations, common table expressions, windows.

use super::super::differential::random::Random;
use super::expressions::{Kind, Maker, Relation, Scope, Twin};

/// A query, and the order of its rows.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) body: String,
    /// ORDER BY, perhaps with LIMIT, or nothing.
    order: String,
}

impl Statement {
    pub(super) fn sql(&self) -> String {
        format!("{}{}", self.body, self.order)
    }

    pub(super) fn is_ordered(&self) -> bool {
        !self.order.is_empty()
    }
}

pub(super) fn generate(r: &mut Random, tables: &[Relation]) -> Statement {
    let subqueries = r.choose(&[0, 1, 1, 2, 3]);
    let mut maker = Maker {
        r,
        tables,
        named: Vec::new(),
        scopes: Vec::new(),
        aliases: 0,
        subqueries,
        nested: 0,
        qualified: false,
        twin: None,
    };
    let with = maker.with();
    let kinds: Vec<Kind> = (0..1 + maker.r.below(4))
        .map(|_| {
            maker.r.choose(&[Kind::Integer, Kind::Integer, Kind::Integer, Kind::Text, Kind::Truth])
        })
        .collect();
    let (body, width) = match maker.r.below(20) {
        0..=2 => (maker.set_operation(&kinds, 3), kinds.len()),
        3 | 4 => (maker.windowed(), 2),
        _ => (maker.rows(&kinds, 3), kinds.len()),
    };
    let body = body.replace('⟩', "");
    let order = if maker.r.chance(35) { maker.order_and_limit(width) } else { String::new() };
    Statement { body: format!("{with}{body}"), order }
}

impl Maker<'_> {
    fn new_alias(&mut self, letter: char) -> String {
        self.aliases += 1;
        format!("{letter}{}", self.aliases)
    }

    fn with(&mut self) -> String {
        let mut parts = Vec::new();
        let count = self.r.choose(&[0, 0, 0, 0, 0, 1, 1, 2]);
        for _ in 0..count {
            let name = self.new_alias('w');
            let (columns, query) = self.derived(2);
            parts.push(format!("{name} AS ({query})"));
            self.named.push(Relation { name: name.clone(), alias: name, columns });
        }
        if parts.is_empty() { String::new() } else { format!("WITH {} ", parts.join(", ")) }
    }

    /// A query with named columns; some names are those of tables' columns.
    pub(super) fn derived(&mut self, depth: usize) -> (Vec<(String, Kind)>, String) {
        let names = ["id", "k", "n", "s", "x", "y"];
        let first = self.r.below(names.len());
        let columns: Vec<(String, Kind)> = (0..1 + self.r.below(3))
            .map(|at| {
                let name = names[(first + at) % names.len()];
                let kind = if name == "s" { Kind::Text } else { Kind::Integer };
                (name.to_owned(), if name == "y" && self.r.chance(50) { Kind::Truth } else { kind })
            })
            .collect();
        let kinds: Vec<Kind> = columns.iter().map(|(_, kind)| *kind).collect();
        let scopes = std::mem::take(&mut self.scopes);
        let nested = std::mem::take(&mut self.nested);
        let query = if self.r.chance(12) {
            self.set_operation(&kinds, depth)
        } else {
            self.rows(&kinds, depth)
        };
        self.scopes = scopes;
        self.nested = nested;
        // The first SELECT names the columns.
        let mut named = query;
        for (at, (name, _)) in columns.iter().enumerate() {
            named = named.replacen(&format!(" AS c{at}⟩"), &format!(" AS {name}"), 1);
        }
        (columns, named.replace('⟩', ""))
    }

    /// A SELECT of columns of these kinds.
    pub(super) fn rows(&mut self, kinds: &[Kind], depth: usize) -> String {
        let sql = self.select(kinds, depth);
        if self.nested == 0 && self.scopes.is_empty() { sql } else { sql.replace('⟩', "") }
    }

    fn select(&mut self, kinds: &[Kind], depth: usize) -> String {
        let (from, relations) = self.from(depth);
        self.scopes.push(Scope { relations, keys: None, open: true });
        let filter = match self.r.below(10) {
            0..=3 => String::new(),
            _ => format!(" WHERE {}", self.conjuncts(depth.min(2))),
        };
        let grouped = self.r.chance(35);
        let mut tail = String::new();
        if grouped {
            let count = self.r.choose(&[0, 1, 1, 1, 2, 2]);
            let keys: Vec<(String, Kind)> = (0..count).filter_map(|_| self.key()).collect();
            let texts: Vec<&str> = keys.iter().map(|(text, _)| text.as_str()).collect();
            if !keys.is_empty() {
                tail = format!(" GROUP BY {}", texts.join(", "));
            }
            if let Some(scope) = self.scopes.last_mut() {
                scope.keys = Some(keys);
            }
        }
        let list: Vec<String> = kinds
            .iter()
            .enumerate()
            .map(|(at, kind)| format!("{} AS c{at}⟩", self.expression(*kind, depth.min(2))))
            .collect();
        // Without keys and without an aggregate, there would be no group.
        if grouped && tail.is_empty() && !list.iter().any(|item| has_aggregate(item)) {
            tail = " GROUP BY 1 + 0".to_owned();
        }
        if grouped && self.r.chance(20) {
            let qualified = std::mem::replace(&mut self.qualified, true);
            tail += &format!(" HAVING {}", self.truth(1));
            self.qualified = qualified;
        }
        self.scopes.pop();
        let distinct = if self.r.chance(12) { "DISTINCT " } else { "" };
        format!("SELECT {distinct}{}{from}{filter}{tail}", list.join(", "))
    }

    /// A grouping key: a column, or an expression of one.
    fn key(&mut self) -> Option<(String, Kind)> {
        let kind = self.r.choose(&[Kind::Integer, Kind::Integer, Kind::Text]);
        let subqueries = std::mem::take(&mut self.subqueries);
        let nested = std::mem::take(&mut self.nested);
        let qualified = std::mem::replace(&mut self.qualified, true);
        let depth = usize::from(self.r.chance(30));
        let text = self.expression(kind, depth);
        self.qualified = qualified;
        self.subqueries = subqueries;
        self.nested = nested;
        // A constant would be the number of a column, or not a key at all.
        text.contains('.').then_some((text, kind))
    }

    /// A query with at most one row.
    pub(super) fn one_row(&mut self, kind: Kind) -> String {
        if let Some(twin) = self.twin.clone().filter(|twin| twin.kind == kind && self.is_free(twin))
            && self.r.chance(50)
        {
            let filter = self.filtered(twin.relations);
            return format!("SELECT {}{}{filter}", twin.value, twin.from);
        }
        let (from, relations) = self.from(1);
        if self.r.chance(75) {
            self.scopes.push(Scope {
                relations: relations.clone(),
                keys: Some(Vec::new()),
                open: true,
            });
            let qualified = std::mem::replace(&mut self.qualified, true);
            let mut value = self.expression(kind, 1);
            self.qualified = qualified;
            self.scopes.pop();
            if !has_aggregate(&value) {
                value = if kind == Kind::Text { "min('a')".into() } else { "count(*)".into() };
            }
            let filter = self.filtered(relations.clone());
            self.twin = Some(Twin { kind, value: value.clone(), from: from.clone(), relations });
            return format!("SELECT {value}{from}{filter}");
        }
        let filter = self.filtered(relations.clone());
        self.scopes.push(Scope { relations, keys: None, open: true });
        let value = self.expression(kind, 1);
        self.scopes.pop();
        format!("SELECT {value}{from}{filter} ORDER BY 1 {} LIMIT 1", self.direction())
    }

    /// Whether nothing in scope has a name of the twin's, which may read columns of the scope where
    /// it was made.
    fn is_free(&self, twin: &Twin) -> bool {
        let taken = |relation: &Relation| {
            self.scopes
                .iter()
                .flat_map(|scope| &scope.relations)
                .any(|seen| seen.alias == relation.alias)
        };
        let plain = !twin.value.contains("SELECT") && !twin.from.contains("SELECT");
        plain
            && twin.relations.len() == 1
            && !twin.relations.iter().any(taken)
            && self.only_own(twin)
    }

    /// Whether the twin's value only reads columns of the twin's table.
    fn only_own(&self, twin: &Twin) -> bool {
        let own: Vec<String> =
            twin.relations.iter().map(|relation| format!("{}.", relation.alias)).collect();
        let own =
            own.iter().map(|prefix| twin.value.matches(prefix.as_str()).count()).sum::<usize>();
        own == twin.value.matches('.').count()
            && self.named.iter().all(|named| !twin.from.contains(&named.name))
    }

    fn filtered(&mut self, relations: Vec<Relation>) -> String {
        if self.r.chance(20) {
            return String::new();
        }
        self.scopes.push(Scope { relations, keys: None, open: true });
        let filter = format!(" WHERE {}", self.conjuncts(1));
        self.scopes.pop();
        filter
    }

    fn set_operation(&mut self, kinds: &[Kind], depth: usize) -> String {
        let operation = self.r.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
        let (left, right) = (self.rows(kinds, depth.min(2)), self.rows(kinds, depth.min(2)));
        // The left side gives the names.
        format!("{left} {operation} {}", right.replace('⟩', ""))
    }

    /// Windows over a table or a join, whose rows are identified by their `id`s.
    fn windowed(&mut self) -> String {
        let alias = self.new_alias('q');
        let table = self.tables[self.r.below(3)].clone();
        let scope = Relation { alias: alias.clone(), ..table.clone() };
        self.scopes.push(Scope { relations: vec![scope], keys: None, open: true });
        let (partition, by, value) = (self.integer(1), self.integer(1), self.integer(1));
        let (way, filter) = (self.direction(), self.truth(2));
        self.scopes.pop();
        let over = match self.r.below(4) {
            0 => format!("(PARTITION BY {partition})"),
            1 => format!("(ORDER BY {by} {way})"),
            2 => format!("(PARTITION BY {partition} ORDER BY {by} {way})"),
            _ => format!(
                "(PARTITION BY {partition} ORDER BY {by} {way}, {alias}.id ROWS BETWEEN 1 \
                 PRECEDING AND CURRENT ROW)"
            ),
        };
        let total = format!("(PARTITION BY {partition} ORDER BY {by} {way}, {alias}.id)");
        let call = match self.r.below(7) {
            0 => format!("row_number() OVER {total}"),
            1 if over.contains("ORDER") && !over.contains("ROWS") => {
                format!("{}() OVER {over}", self.r.pick(&["rank", "dense_rank"]))
            }
            2 => format!("{}({value}) OVER {total}", self.r.pick(&["lag", "lead"])),
            3 => format!("first_value({value}) OVER {total}"),
            _ => format!("{}({value}) OVER {over}", self.r.pick(&["sum", "count", "min", "max"])),
        };
        let inner = format!(
            "SELECT {alias}.id AS w0, {call} AS w1 FROM {} AS {alias} WHERE {filter}",
            table.name
        );
        match self.r.below(5) {
            0 => format!("SELECT w.w0, w.w1 FROM ({inner}) AS w WHERE w.w1 > 1"),
            1 => format!("SELECT w.w0, w.w1 FROM ({inner}) AS w WHERE w.w1 <= 2"),
            2 => format!("SELECT w.w0, w.w1 FROM ({inner}) AS w WHERE w.w1 = 1"),
            _ => format!("SELECT w.w0, w.w1 FROM ({inner}) AS w"),
        }
    }

    fn direction(&mut self) -> &'static str {
        self.r.pick(&["ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST"])
    }

    /// An order by all columns, so that only equal rows could change places.
    fn order_and_limit(&mut self, width: usize) -> String {
        let first = self.r.below(width);
        let by: Vec<String> = (0..width)
            .map(|at| format!("{} {}", (first + at) % width + 1, self.direction()))
            .collect();
        let limit = match self.r.below(3) {
            0 => String::new(),
            1 => format!(" LIMIT {}", self.r.below(6)),
            _ => format!(" LIMIT {} OFFSET {}", 1 + self.r.below(9), self.r.below(4)),
        };
        format!(" ORDER BY {}{limit}", by.join(", "))
    }
}

/// Whether a text has an aggregate outside of subqueries.
fn has_aggregate(text: &str) -> bool {
    let mut depth_of_subqueries = Vec::new();
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => {
                depth += 1;
                if text[at + 1..].starts_with("SELECT") {
                    depth_of_subqueries.push(depth);
                }
            }
            ')' => {
                if depth_of_subqueries.last() == Some(&depth) {
                    depth_of_subqueries.pop();
                }
                depth = depth.saturating_sub(1);
            }
            _ if depth_of_subqueries.is_empty() => {
                let calls = ["count(", "sum(", "min(", "max(", "avg("];
                if calls.iter().any(|call| text[at..].starts_with(call)) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}
