//! Random expressions that mean the same in SQLite and here: integers that stay small, three-valued
//! logic, texts.

use super::super::differential::random::Random;

/// The texts that values are taken from.
pub(super) const TEXTS: [&str; 7] = ["", "a", "b", "ab", "ba", "abc", "zz"];

/// The kind of an expression's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Text,
    Truth,
    /// An average, which is compared, but not computed with.
    Real,
}

/// A relation in FROM.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    /// The table or the common table expression.
    pub(super) name: String,
    pub(super) alias: String,
    pub(super) columns: Vec<(String, Kind)>,
}

/// The columns that one SELECT can see.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) relations: Vec<Relation>,
    /// In expressions over groups, the grouping expressions.
    pub(super) keys: Option<Vec<(String, Kind)>>,
    /// Whether subqueries may read it.
    pub(super) open: bool,
}

/// Makes expressions and statements.
pub(super) struct Maker<'a> {
    pub(super) r: &'a mut Random,
    pub(super) tables: &'a [Relation],
    /// Common table expressions.
    pub(super) named: Vec<Relation>,
    /// From the outermost SELECT inwards.
    pub(super) scopes: Vec<Scope>,
    pub(super) aliases: usize,
    /// Subqueries that may still be made.
    pub(super) subqueries: usize,
    /// The depth of nested subqueries.
    pub(super) nested: usize,
    /// Whether columns are always named with their tables, because an output column may have the
    /// name of a table's column.
    pub(super) qualified: bool,
    /// The value and source of a scalar subquery, for others that differ only in their filter.
    pub(super) twin: Option<Twin>,
}

/// A SELECT of one row, without its WHERE.
#[derive(Clone, Debug)]
pub(super) struct Twin {
    pub(super) kind: Kind,
    pub(super) value: String,
    pub(super) from: String,
    pub(super) relations: Vec<Relation>,
}

const COMPARISONS: [&str; 7] = ["=", "=", "<>", "<", "<=", ">", ">="];

impl Maker<'_> {
    pub(super) fn expression(&mut self, kind: Kind, depth: usize) -> String {
        match kind {
            Kind::Integer => self.integer(depth),
            Kind::Text => self.text(depth),
            Kind::Truth => self.truth(depth),
            Kind::Real => self.aggregate(Kind::Real),
        }
    }

    /// A column, a key of a group, an aggregate or a constant.
    pub(super) fn leaf(&mut self, kind: Kind) -> String {
        let Some(inner) = self.scopes.last() else { return self.constant(kind) };
        let grouped = inner.keys.is_some();
        if self.r.chance(10) {
            return self.constant(kind);
        }
        let outer: Vec<usize> =
            (0..self.scopes.len() - 1).filter(|at| self.scopes[*at].open).collect();
        if !outer.is_empty() && self.r.chance(if self.nested > 0 { 25 } else { 0 }) {
            let at = self.r.choose(&outer);
            if let Some(column) = self.column(at, kind) {
                return column;
            }
        }
        if grouped && kind != Kind::Truth && self.r.chance(60) {
            return self.aggregate(kind);
        }
        match self.column(self.scopes.len() - 1, kind) {
            Some(column) => column,
            None if grouped && kind != Kind::Truth => self.aggregate(kind),
            None => self.constant(kind),
        }
    }

    /// A column of a scope, named without its table where that is unambiguous.
    fn column(&mut self, at: usize, kind: Kind) -> Option<String> {
        let scope = &self.scopes[at];
        if let Some(keys) = &scope.keys {
            let fit: Vec<String> = keys
                .iter()
                .filter(|(_, found)| *found == kind)
                .map(|(text, _)| text.clone())
                .collect();
            return (!fit.is_empty()).then(|| self.r.choose(&fit));
        }
        let mut fit = Vec::new();
        for relation in &scope.relations {
            let columns = relation.columns.iter().filter(|(_, found)| *found == kind);
            fit.extend(columns.map(|(name, _)| (relation.alias.clone(), name.clone())));
        }
        if fit.is_empty() {
            return None;
        }
        let (alias, name) = self.r.choose(&fit);
        let seen = self
            .scopes
            .iter()
            .flat_map(|scope| &scope.relations)
            .flat_map(|relation| &relation.columns);
        let alone = seen.filter(|(other, _)| *other == name).count() == 1;
        let short = alone && self.scopes[at].open && !self.qualified;
        Some(if short && self.r.chance(40) { name } else { format!("{alias}.{name}") })
    }

    fn constant(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Integer | Kind::Real => match self.r.below(12) {
                0 => "NULL".into(),
                1 => "CAST(NULL AS BIGINT)".into(),
                2 => format!("(- {})", self.r.below(6)),
                _ => self.r.below(8).to_string(),
            },
            Kind::Text => match self.r.below(10) {
                0 => "NULL".into(),
                _ => format!("'{}'", self.r.pick(&TEXTS)),
            },
            Kind::Truth => self.r.pick(&["(1 = 1)", "(1 = 0)", "(NULL = 1)"]).to_owned(),
        }
    }

    /// An aggregate of the innermost scope.
    fn aggregate(&mut self, kind: Kind) -> String {
        let Some(scope) = self.scopes.last_mut() else { return self.constant(kind) };
        let keys = scope.keys.take();
        let subqueries = std::mem::take(&mut self.subqueries);
        let nested = std::mem::take(&mut self.nested);
        let qualified = std::mem::replace(&mut self.qualified, true);
        let distinct = if self.r.chance(20) { "DISTINCT " } else { "" };
        let text = match (kind, self.r.below(9)) {
            (Kind::Real, _) => format!("avg({distinct}{})", self.integer(1)),
            (Kind::Text, _) => format!("{}({})", self.r.pick(&["min", "max"]), self.text(1)),
            (_, 0 | 1) => "count(*)".into(),
            (_, 2) => {
                let operand = self.r.choose(&[Kind::Integer, Kind::Text]);
                format!("count({distinct}{})", self.expression(operand, 1))
            }
            (_, 3 | 4) => format!("sum({distinct}{})", self.integer(1)),
            (_, 5) => format!("sum(CASE WHEN {} THEN 1 ELSE 0 END)", self.truth(1)),
            _ => format!("{}({})", self.r.pick(&["min", "max"]), self.integer(1)),
        };
        let text = if self.r.chance(15) {
            format!("{text} FILTER (WHERE {})", self.truth(1))
        } else {
            text
        };
        self.subqueries = subqueries;
        self.nested = nested;
        self.qualified = qualified;
        if let Some(scope) = self.scopes.last_mut() {
            scope.keys = keys;
        }
        text
    }

    pub(super) fn integer(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.leaf(Kind::Integer);
        }
        let d = depth - 1;
        match self.r.below(26) {
            0..=7 => self.leaf(Kind::Integer),
            8..=10 => {
                let op = self.r.pick(&["+", "-"]);
                format!("({} {op} {})", self.integer(d), self.integer(d))
            }
            11 => format!("({} * {})", self.leaf(Kind::Integer), self.leaf(Kind::Integer)),
            12 => {
                let (op, by) = (self.r.pick(&["/", "%"]), 2 + self.r.below(4));
                format!("({} {op} {by})", self.integer(d))
            }
            13 => {
                let op = self.r.pick(&["/", "%"]);
                format!("({} {op} nullif({}, 0))", self.integer(d), self.leaf(Kind::Integer))
            }
            14 => format!("(- {})", self.integer(d)),
            15 => format!("abs({})", self.integer(d)),
            16 | 17 => format!("coalesce({}, {})", self.integer(d), self.integer(d)),
            18 => format!("nullif({}, {})", self.integer(d), self.integer(d)),
            19 => format!("length({})", self.text(d)),
            20 | 21 => self.case(Kind::Integer, d),
            22 => format!("CASE WHEN {} THEN 1 ELSE 0 END", self.truth(d)),
            _ => self.scalar_or_leaf(Kind::Integer),
        }
    }

    pub(super) fn text(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.leaf(Kind::Text);
        }
        let d = depth - 1;
        match self.r.below(16) {
            0..=7 => self.leaf(Kind::Text),
            8 | 9 => format!("({} || {})", self.text(d), self.text(d)),
            10 => format!("{}({})", self.r.pick(&["upper", "lower"]), self.text(d)),
            11 => format!("substr({}, {}, {})", self.text(d), 1 + self.r.below(3), self.r.below(3)),
            12 => format!("coalesce({}, {})", self.text(d), self.text(d)),
            13 | 14 => self.case(Kind::Text, d),
            _ => self.scalar_or_leaf(Kind::Text),
        }
    }

    fn scalar_or_leaf(&mut self, kind: Kind) -> String {
        match self.may_nest() {
            true => self.scalar(kind),
            false => self.leaf(kind),
        }
    }

    pub(super) fn may_nest(&mut self) -> bool {
        let may = self.subqueries > 0 && self.nested < 2;
        self.subqueries -= usize::from(may);
        may
    }

    fn case(&mut self, kind: Kind, d: usize) -> String {
        let mut text = "CASE".to_owned();
        let simple = self.r.chance(35);
        if simple {
            text += &format!(" {}", self.integer(d));
        }
        for _ in 0..1 + self.r.below(2) {
            let when = if simple { self.integer(d) } else { self.truth(d) };
            text += &format!(" WHEN {when} THEN {}", self.expression(kind, d));
        }
        if self.r.chance(65) {
            text += &format!(" ELSE {}", self.expression(kind, d));
        }
        text + " END"
    }

    pub(super) fn truth(&mut self, depth: usize) -> String {
        let d = depth.saturating_sub(1);
        match self.r.below(if depth == 0 { 8 } else { 26 }) {
            0..=2 => self.comparison(Kind::Integer, d),
            3 => self.comparison(Kind::Text, d),
            4 => {
                let operand = self.r.choose(&[Kind::Integer, Kind::Integer, Kind::Text]);
                let not = self.r.pick(&["", "NOT "]);
                format!("({} IS {not}NULL)", self.expression(operand, d))
            }
            5 => self.listed(d),
            6 => {
                let not = self.r.pick(&["", "", "NOT "]);
                format!(
                    "({} {not}BETWEEN {} AND {})",
                    self.integer(d),
                    self.integer(d),
                    self.integer(d)
                )
            }
            7 => self.leaf(Kind::Truth),
            8..=10 => format!("({} AND {})", self.truth(d), self.truth(d)),
            11..=13 => format!("({} OR {})", self.truth(d), self.truth(d)),
            14..=16 => format!("(NOT {})", self.truth(d)),
            17 => {
                let is = self.r.pick(&[
                    "IS NULL",
                    "IS NOT NULL",
                    "IS TRUE",
                    "IS NOT TRUE",
                    "IS FALSE",
                    "IS NOT FALSE",
                ]);
                format!("({} {is})", self.truth(d))
            }
            18 => {
                let not = self.r.pick(&["", "NOT "]);
                format!("({} IS {not}DISTINCT FROM {})", self.integer(d), self.integer(d))
            }
            19 => {
                let (not, like) =
                    (self.r.pick(&["", "NOT "]), self.r.pick(&["a%", "%b", "%", "_", "_b%", ""]));
                format!("({} {not}LIKE '{like}')", self.text(d))
            }
            20 => self.case(Kind::Truth, d),
            _ if self.may_nest() => self.membership(),
            _ => self.comparison(Kind::Integer, d),
        }
    }

    fn comparison(&mut self, kind: Kind, depth: usize) -> String {
        let op = self.r.pick(&COMPARISONS);
        let grouped = self.scopes.last().is_some_and(|scope| scope.keys.is_some());
        if grouped && kind == Kind::Integer && self.r.chance(15) {
            return format!(
                "({} {op} {})",
                self.expression(Kind::Real, 0),
                self.expression(kind, depth)
            );
        }
        format!("({} {op} {})", self.expression(kind, depth), self.expression(kind, depth))
    }

    fn listed(&mut self, depth: usize) -> String {
        let kind = self.r.choose(&[Kind::Integer, Kind::Integer, Kind::Text]);
        let not = self.r.pick(&["", "NOT "]);
        let values: Vec<String> =
            (0..1 + self.r.below(4))
                .map(|_| {
                    if self.r.chance(85) {
                        self.constant(kind)
                    } else {
                        self.expression(kind, depth)
                    }
                })
                .collect();
        format!("({} {not}IN ({}))", self.expression(kind, depth), values.join(", "))
    }

    /// Conditions joined by AND, as people write them.
    pub(super) fn conjuncts(&mut self, depth: usize) -> String {
        let one = |maker: &mut Self| match maker.r.below(12) {
            0 => {
                let not = maker.r.pick(&["", "NOT "]);
                format!("{} IS {not}DISTINCT FROM {}", maker.integer(0), maker.integer(0))
            }
            1 | 2 if maker.may_nest() => maker.membership(),
            _ => maker.truth(depth),
        };
        let count = self.r.choose(&[1, 1, 1, 2, 2, 3]);
        (0..count).map(|_| one(self)).collect::<Vec<_>>().join(" AND ")
    }

    /// IN, NOT IN or EXISTS of a subquery.
    fn membership(&mut self) -> String {
        let not = self.r.pick(&["", "NOT "]);
        if self.r.chance(35) {
            let query = self.inside(|maker| maker.rows(&[Kind::Integer], 1));
            return format!("({not}EXISTS ({query}))");
        }
        let kind = self.r.choose(&[Kind::Integer, Kind::Integer, Kind::Text]);
        let value = self.expression(kind, 1);
        let query = self.inside(|maker| maker.rows(&[kind], 1));
        format!("({value} {not}IN ({query}))")
    }

    /// A scalar subquery, which has at most one row.
    fn scalar(&mut self, kind: Kind) -> String {
        let query = self.inside(|maker| maker.one_row(kind));
        format!("({query})")
    }

    fn inside(&mut self, make: impl FnOnce(&mut Self) -> String) -> String {
        self.nested += 1;
        let query = make(self);
        self.nested -= 1;
        query
    }
}
