//! Files of SQLite's sqllogictest, record by record.

/// A statement or query of a file.
#[derive(Clone, Debug)]
pub(super) struct Record<'a> {
    /// The line where it begins, counted from 1.
    pub(super) line: usize,
    pub(super) sql: String,
    pub(super) kind: Kind<'a>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind<'a> {
    /// A statement, and whether it should succeed.
    Statement {
        succeeds: bool,
    },
    Query(Query<'a>),
}

/// How the answer to a query is written in the file.
#[derive(Clone, Debug)]
pub(super) struct Query<'a> {
    /// For each column: `I` for integers, `R` for reals, `T` for text.
    pub(super) letters: &'a str,
    pub(super) sort: Sort,
    pub(super) expected: Expected<'a>,
}

/// What is sorted before answers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Nothing,
    Rows,
    Values,
}

#[derive(Clone, Debug)]
pub(super) enum Expected<'a> {
    /// The values of all rows, one after the other.
    Values(Vec<&'a str>),
    /// The number of values, and the MD5 of all.
    Hash(usize, &'a str),
}

/// The records of a file that are meant for SQLite, in order.
pub(super) struct Records<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
}

impl<'a> Records<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Records { lines: text.lines().enumerate() }
    }

    /// The lines up to an empty one or `----`, and whether it was the latter.
    fn statement(&mut self) -> (String, bool) {
        let mut sql = String::new();
        for (_, line) in self.lines.by_ref() {
            match line {
                "" => return (sql, false),
                "----" => return (sql, true),
                _ if sql.is_empty() => sql.push_str(line),
                _ => sql.extend(["\n", line]),
            }
        }
        (sql, false)
    }

    fn expected(&mut self) -> Expected<'a> {
        let values: Vec<&str> =
            self.lines.by_ref().map(|(_, line)| line).take_while(|line| !line.is_empty()).collect();
        let hash = |line: &&'a str| {
            let (count, hash) = line.split_once(" values hashing to ")?;
            Some(Expected::Hash(count.parse().ok()?, hash))
        };
        match values.as_slice() {
            [line] => hash(line).unwrap_or(Expected::Values(values)),
            _ => Expected::Values(values),
        }
    }

    fn query(&mut self, words: &[&'a str]) -> (String, Kind<'a>) {
        let (sql, answered) = self.statement();
        let expected = if answered { self.expected() } else { Expected::Values(Vec::new()) };
        let sort = match words.get(2) {
            None | Some(&"nosort") => Sort::Nothing,
            Some(&"rowsort") => Sort::Rows,
            Some(&"valuesort") => Sort::Values,
            Some(other) => panic!("unknown sort mode {other}"),
        };
        (sql, Kind::Query(Query { letters: words[1], sort, expected }))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let mut ours = true;
        loop {
            let (at, line) = self.lines.next()?;
            let words: Vec<&str> =
                line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
            let (sql, kind) = match words.as_slice() {
                [] | ["hash-threshold", _] => continue,
                ["onlyif", engine] => {
                    ours &= *engine == "sqlite";
                    continue;
                }
                ["skipif", engine] => {
                    ours &= *engine != "sqlite";
                    continue;
                }
                ["halt"] if ours => return None,
                ["halt"] => {
                    ours = true;
                    continue;
                }
                ["statement", how] => {
                    let succeeds = *how == "ok";
                    (self.statement().0, Kind::Statement { succeeds })
                }
                ["query", ..] => self.query(&words),
                other => panic!("line {}: {other:?} begins no record", at + 1),
            };
            if std::mem::replace(&mut ours, true) {
                return Some(Record { line: at + 1, sql, kind });
            }
        }
    }
}

#[test]
fn records_are_read_as_sqlite_reads_them() {
    let text = "hash-threshold 8\n\n# a comment\nstatement ok\nCREATE TABLE t(\n  a INTEGER)\n\n\
        onlyif mysql # DIV\n\
                query I rowsort label-1\nSELECT 5 DIV 2\n----\n2\n\nskipif mysql # not compatible\n\
                query IT rowsort label-1\nSELECT a,\n  b FROM t\n----\n1\nx\n\n\
                query R\nSELECT 1\n----\n9 values hashing to 0a\n\nquery I\nSELECT a FROM t WHERE \
                a > 1\n----\n\n\
                onlyif sqlite\nstatement error\nSELECT\n\nonlyif mssql\nhalt\n\nhalt\n\nstatement \
                ok\nnever\n";
    let records: Vec<Record<'_>> = Records::new(text).collect();
    let sql: Vec<&str> = records.iter().map(|record| record.sql.as_str()).collect();
    let expected = [
        "CREATE TABLE t(\n  a INTEGER)",
        "SELECT a,\n  b FROM t",
        "SELECT 1",
        "SELECT a FROM t WHERE a > 1",
        "SELECT",
    ];
    assert_eq!(sql, expected);
    assert_eq!(records.iter().map(|record| record.line).collect::<Vec<_>>(), [4, 15, 22, 27, 32]);
    let kinds: Vec<String> = records.iter().map(|record| format!("{:?}", record.kind)).collect();
    assert!(
        kinds[1].contains(r#"letters: "IT", sort: Rows, expected: Values(["1", "x"])"#),
        "{}",
        kinds[1]
    );
    assert!(kinds[2].contains(r#"sort: Nothing, expected: Hash(9, "0a")"#), "{}", kinds[2]);
    assert!(kinds[3].contains("Values([])"), "{}", kinds[3]);
    assert!(kinds[4].contains("succeeds: false"), "{}", kinds[4]);
}
