//! The FROM clause: tables, derived tables and common table expressions, in joins of every kind.

use super::expressions::{Kind, Maker, Relation, Scope};

impl Maker<'_> {
    /// The clause, and what it brings into scope.
    pub(super) fn from(&mut self, depth: usize) -> (String, Vec<Relation>) {
        let count = match depth {
            0 | 1 => self.r.choose(&[1, 1, 1, 2]),
            2 => self.r.choose(&[1, 1, 2, 2, 3]),
            _ => self.r.choose(&[1, 1, 2, 2, 2, 3, 3, 4]),
        };
        let (text, first) = self.factor(depth);
        if count > 1 && self.r.chance(30) {
            return self.listed_by_commas((text, first), count, depth);
        }
        let (mut text, mut relations) = (text, vec![first]);
        while relations.len() < count {
            let (factor, relation) = self.factor(depth);
            relations.push(relation);
            let join = self.r.pick(&[
                "JOIN",
                "INNER JOIN",
                "LEFT JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
            ]);
            text = match self.r.chance(4) {
                true => format!("{text} CROSS JOIN {factor}"),
                false => format!("{text} {join} {factor} ON {}", self.on(&relations)),
            };
        }
        (format!(" FROM {text}"), relations)
    }

    /// Tables separated by commas; the join condition, if any, is in WHERE.
    fn listed_by_commas(
        &mut self,
        (text, first): (String, Relation),
        count: usize,
        depth: usize,
    ) -> (String, Vec<Relation>) {
        let (mut texts, mut relations) = (vec![text], vec![first]);
        for _ in 1..count {
            let (text, relation) = self.factor(depth);
            texts.push(text);
            relations.push(relation);
        }
        (format!(" FROM {}", texts.join(", ")), relations)
    }

    fn factor(&mut self, depth: usize) -> (String, Relation) {
        let alias = {
            self.aliases += 1;
            format!("q{}", self.aliases)
        };
        match self.r.below(10) {
            0 | 1 if depth > 1 => {
                let (columns, query) = self.derived(depth - 1);
                (format!("({query}) AS {alias}"), Relation { name: alias.clone(), alias, columns })
            }
            2..=4 if !self.named.is_empty() => {
                let relation = self.r.choose(&self.named.clone());
                (format!("{} AS {alias}", relation.name), Relation { alias, ..relation })
            }
            _ => {
                let relation = self.r.choose(self.tables);
                (format!("{} AS {alias}", relation.name), Relation { alias, ..relation })
            }
        }
    }

    /// A condition that joins the last of several relations with those before it: mostly an
    /// equality of columns with the same name.
    fn on(&mut self, relations: &[Relation]) -> String {
        let Some((last, before)) = relations.split_last() else { return "(1 = 1)".into() };
        let mut equal = Vec::new();
        for relation in before {
            for (name, kind) in &relation.columns {
                let fits = |(other, other_kind): &&(String, Kind)| {
                    other_kind == kind && (other == name || *kind == Kind::Integer)
                };
                let columns = last.columns.iter().filter(fits);
                equal.extend(columns.map(|(other, _)| {
                    let twice = if other == name { 4 } else { 1 };
                    (twice, format!("({}.{name} = {}.{other})", relation.alias, last.alias))
                }));
            }
        }
        let weighted: Vec<String> = equal
            .into_iter()
            .flat_map(|(weight, text)| std::iter::repeat_n(text, weight))
            .collect();
        let scope = Scope { relations: relations.to_vec(), keys: None, open: false };
        self.scopes.push(scope);
        let subqueries = std::mem::take(&mut self.subqueries);
        let text = match self.r.below(10) {
            _ if weighted.is_empty() => self.truth(1),
            0 => self.truth(1),
            1 | 2 => format!("({} AND {})", self.r.choose(&weighted), self.truth(1)),
            3 => format!("({} AND {})", self.r.choose(&weighted), self.r.choose(&weighted)),
            _ => self.r.choose(&weighted),
        };
        self.subqueries = subqueries;
        self.scopes.pop();
        text
    }
}
