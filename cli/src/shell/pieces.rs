//! Takes a text apart into statements and the shell's own commands. A command is a line that
//! begins with a dot, between statements.

use stylobate::internal::sql::{LexemeKind, is_complete, lexemes};

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A line with a command, from its dot.
    Command(&'a str),
    /// Statements.
    Sql(&'a str),
}

/// The parts of a text, in order. Blank parts are left out.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.trim().is_empty() {
        let trimmed = rest.trim_start();
        if trimmed.starts_with('.') {
            let line = trimmed.lines().next().unwrap_or_default();
            found.push(Piece::Command(line.trim_end()));
            rest = trimmed.get(line.len()..).unwrap_or_default();
            continue;
        }
        let end = next_command(rest).unwrap_or(rest.len());
        let (sql, after) = rest.split_at(end);
        found.push(Piece::Sql(sql));
        rest = after;
    }
    found
}

/// Where a line begins with a dot and no statement is open.
fn next_command(sql: &str) -> Option<usize> {
    let mut start = 0;
    for line in sql.split_inclusive('\n') {
        let rest = line.trim_start_matches([' ', '\t']);
        if rest.starts_with('.') && is_between_statements(sql.get(..start)?) {
            return Some(start + line.len() - rest.len());
        }
        start += line.len();
    }
    None
}

/// Whether no statement is open at the end of a text.
fn is_between_statements(sql: &str) -> bool {
    let is_blank = |kind| matches!(kind, LexemeKind::Blank | LexemeKind::Comment);
    let words = lexemes(sql);
    let last = words.iter().rev().find(|word| !is_blank(word.kind));
    last.is_none_or(|word| word.kind == LexemeKind::Semicolon)
}

/// Whether nothing is missing at the end of a text that is typed.
pub(super) fn is_whole(text: &str) -> bool {
    match pieces(text).last() {
        Some(Piece::Sql(sql)) => is_complete(sql),
        Some(Piece::Command(_)) | None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Piece::{Command, Sql};

    #[test]
    fn commands_stand_on_lines_of_their_own() {
        assert_eq!(pieces(" .tables "), [Command(".tables")]);
        assert_eq!(pieces("SELECT 1;"), [Sql("SELECT 1;")]);
        assert_eq!(
            pieces(".mode csv\nSELECT 1; -- one\n.timer on\nSELECT\n2;\n"),
            [
                Command(".mode csv"),
                Sql("\nSELECT 1; -- one\n"),
                Command(".timer on"),
                Sql("\nSELECT\n2;\n")
            ]
        );
        // Within a statement, a text or a number, a dot begins nothing.
        for sql in ["SELECT\n.5;", "SELECT '\n.tables';", "SELECT $$\n.quit\n$$;", "/*\n.quit */"] {
            assert_eq!(pieces(sql), [Sql(sql)]);
        }
        assert_eq!(pieces(" \n"), []);
    }

    #[test]
    fn a_line_goes_on_until_its_statement_ends() {
        for whole in ["", ".tables", "SELECT 1;", "SELECT 1; ", ".mode csv\nSELECT 1;"] {
            assert!(is_whole(whole), "{whole}");
        }
        for open in ["SELECT 1", "SELECT ';", "SELECT 1; SELECT", ".mode csv\nSELECT 1"] {
            assert!(!is_whole(open), "{open}");
        }
    }
}
