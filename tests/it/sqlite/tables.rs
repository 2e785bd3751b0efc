//! SQLite's statements as ours, and its rows in tables of several segments.

use std::collections::{BTreeMap, HashMap};

use crate::both::Both;

/// The number of commits in which the rows of a table are stored.
const COMMITS: usize = 5;

/// The outcome of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// It is about something that our tables do not have: indices, triggers.
    Skipped,
    Refused(String),
}

/// The store in which the statements of a file run.
pub(super) struct Tables {
    pub(super) both: Both,
    /// The tables that were created, with their statements.
    made: HashMap<String, String>,
    /// Rows that are not stored yet, by the text before their VALUES.
    waiting: BTreeMap<String, Vec<String>>,
    /// All rows of tables that were only filled by such statements.
    known: HashMap<String, Vec<String>>,
}

impl Tables {
    pub(super) fn over(both: Both) -> Tables {
        Tables { both, made: HashMap::new(), waiting: BTreeMap::new(), known: HashMap::new() }
    }

    /// Runs a statement, or puts it off until a query needs it.
    pub(super) fn run(&mut self, sql: &str) -> Outcome {
        let words: Vec<String> =
            sql.split([' ', '\n', '(']).take(4).map(str::to_ascii_uppercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["CREATE" | "DROP", "INDEX" | "UNIQUE" | "TRIGGER", ..]
            | ["REINDEX" | "REPLACE", ..] => Outcome::Skipped,
            ["INSERT", "INTO", ..] => self.insert(sql),
            ["CREATE", "TABLE", ..] => self.create(sql),
            ["DROP", "TABLE", ..] => self.empty(sql),
            ["CREATE" | "DROP", "VIEW", ..] => self.at_once(|both| drop_rows(both.change(sql))),
            [_, second, third, ..] => {
                let table = if *second == "FROM" { third } else { second };
                self.known.remove(&table.to_ascii_lowercase());
                self.at_once(|both| drop_rows(both.change(sql)))
            }
            _ => self.at_once(|both| drop_rows(both.change(sql))),
        }
    }

    fn at_once(&mut self, run: impl FnOnce(&Both) -> Result<(), String>) -> Outcome {
        match self.store().and_then(|()| run(&self.both)) {
            Ok(()) => Outcome::Done,
            Err(what) => Outcome::Refused(what),
        }
    }

    /// Tables are not dropped. They are emptied, and filled again.
    fn empty(&mut self, sql: &str) -> Outcome {
        let name = sql.split_whitespace().nth(2).unwrap_or_default().to_owned();
        self.known.remove(&name);
        self.at_once(|both| drop_rows(both.change(&format!("DELETE FROM {name}"))))
    }

    fn create(&mut self, sql: &str) -> Outcome {
        let name: String = sql
            .split_whitespace()
            .nth(2)
            .unwrap_or_default()
            .chars()
            .take_while(|c| *c != '(')
            .collect();
        self.known.insert(name.clone(), Vec::new());
        // Keys are not enforced here; a FLOAT has 8 bytes in SQLite.
        let ours =
            sql.replace(" PRIMARY KEY", "").replace(" UNIQUE", "").replace("FLOAT", "DOUBLE");
        if self.made.get(&name) == Some(&ours) {
            return Outcome::Done;
        }
        let outcome = self.at_once(|both| drop_rows(both.change(&ours)));
        self.made.insert(name, ours);
        outcome
    }

    fn insert(&mut self, sql: &str) -> Outcome {
        if let Some((into, rows)) = sql.split_once("VALUES") {
            let into = into.trim();
            let table = into.split_whitespace().nth(2).unwrap_or_default();
            match self.known.get_mut(table) {
                Some(known) => known.push(rows.to_owned()),
                // The statement does not name all columns, or not in their order.
                None => drop(self.known.remove(table.split('(').next().unwrap_or_default())),
            }
            self.waiting.entry(into.to_owned()).or_default().push(rows.to_owned());
            return Outcome::Done;
        }
        let words: Vec<&str> = sql.split_whitespace().collect();
        if let [_, _, table, "SELECT", "*", "FROM", from] = words.as_slice()
            && let Some(rows) = self.known.get(*from).cloned()
        {
            self.waiting
                .entry(format!("INSERT INTO {table}"))
                .or_default()
                .extend(rows.iter().cloned());
            if let Some(known) = self.known.get_mut(*table) {
                known.extend(rows);
            }
            return Outcome::Done;
        }
        if let Some(table) = words.get(2) {
            self.known.remove(*table);
        }
        self.at_once(|both| drop_rows(both.change(sql)))
    }

    /// Stores the waiting rows, those of each table in several commits.
    pub(super) fn store(&mut self) -> Result<(), String> {
        for (into, rows) in std::mem::take(&mut self.waiting) {
            for some in rows.chunks(rows.len().div_ceil(COMMITS)) {
                drop_rows(self.both.change(&format!("{into} VALUES {}", some.join(", "))))?;
            }
        }
        Ok(())
    }
}

fn drop_rows(answer: crate::both::Answer) -> Result<(), String> {
    answer.map(drop)
}
