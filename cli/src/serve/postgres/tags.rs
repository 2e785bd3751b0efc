//! What a client is told when a statement has ended: what it was, and how many rows it had.

use super::words::Words;

/// The tag of a statement that gives rows.
pub(super) fn of_rows(sql: &str, rows: u64) -> String {
    match first(sql).as_str() {
        "SHOW" => "SHOW".to_owned(),
        "EXPLAIN" => "EXPLAIN".to_owned(),
        _ => format!("SELECT {rows}"),
    }
}

/// The tag of a statement that gives none; `rows` are those that it has stored, deleted or changed,
/// if it has.
pub(super) fn of_change(sql: &str, rows: Option<u64>) -> String {
    let mut words = Words::of(sql);
    let first = words.next().unwrap_or_default().to_ascii_uppercase();
    let count = rows.unwrap_or_default();
    match (first.as_str(), rows) {
        ("INSERT", _) => format!("INSERT 0 {count}"),
        ("DELETE" | "UPDATE" | "MERGE", _) => format!("{first} {count}"),
        ("CREATE", Some(count)) => format!("SELECT {count}"),
        ("WITH", Some(count)) => match behind_with(words).as_str() {
            "INSERT" => format!("INSERT 0 {count}"),
            verb => format!("{verb} {count}"),
        },
        ("EXECUTE", Some(count)) => format!("INSERT 0 {count}"),
        ("TRUNCATE", _) => "TRUNCATE TABLE".to_owned(),
        ("CREATE" | "DROP" | "ALTER", _) => {
            for word in ["or", "replace", "temporary", "temp", "external", "unbounded"] {
                words.take(word);
            }
            let what = words.next().unwrap_or_default().to_ascii_uppercase();
            format!("{first} {what}")
        }
        _ => first,
    }
}

/// What a statement does behind its WITH, whose queries are in parentheses.
fn behind_with(mut words: Words) -> String {
    let mut depth = 0_usize;
    while let Some(word) = words.next() {
        match word {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let word = word.to_ascii_uppercase();
        if depth == 0 && ["INSERT", "UPDATE", "DELETE"].contains(&word.as_str()) {
            return word;
        }
    }
    "INSERT".to_owned()
}

fn first(sql: &str) -> String {
    Words::of(sql).next().unwrap_or_default().to_ascii_uppercase()
}

/// Whether a statement begins as those do that change tables.
pub(super) fn may_write(sql: &str) -> bool {
    let writes = ["INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "TRUNCATE", "MERGE"];
    writes.contains(&first(sql).as_str())
}

/// Whether a text is about the connection itself, so that it need not wait for its turn.
pub(super) fn is_about_connection(sql: &str) -> bool {
    const MOST_BYTES: usize = 200;
    let all = [
        "BEGIN",
        "START",
        "COMMIT",
        "END",
        "ROLLBACK",
        "ABORT",
        "SAVEPOINT",
        "RELEASE",
        "SET",
        "RESET",
        "SHOW",
        "DISCARD",
        "DEALLOCATE",
        "LISTEN",
        "UNLISTEN",
        "",
    ];
    sql.len() < MOST_BYTES && !sql.contains(';') && all.contains(&first(sql).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_their_tags() {
        assert_eq!(of_rows("select 1", 1), "SELECT 1");
        assert_eq!(of_rows("SHOW TABLES", 3), "SHOW");
        assert_eq!(of_change("insert into t values (1)", Some(1)), "INSERT 0 1");
        assert_eq!(of_change("-- x\nDELETE FROM t", Some(7)), "DELETE 7");
        assert_eq!(of_change("WITH w AS (SELECT 1) DELETE FROM t", Some(7)), "DELETE 7");
        assert_eq!(of_change("WITH w AS (SELECT 1) INSERT INTO t FROM w", Some(1)), "INSERT 0 1");
        assert_eq!(of_change("CREATE TABLE t AS SELECT 1", Some(1)), "SELECT 1");
        assert_eq!(of_change("CREATE TABLE t (a INT)", None), "CREATE TABLE");
        assert_eq!(of_change("create or replace view v as select 1", None), "CREATE VIEW");
        assert_eq!(of_change("SET a.b = 1", None), "SET");
        assert!(may_write("/* x */ drop table t") && !may_write("SELECT 1"));
        assert!(is_about_connection("BEGIN") && !is_about_connection("BEGIN; SELECT 1"));
    }
}
