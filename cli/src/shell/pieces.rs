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

/// Where a line begins with a dot and no statement is open. Only lines that begin so are looked at
/// closely, so that a long script is read once.
fn next_command(sql: &str) -> Option<usize> {
    let begins = |line: &str| line.trim_start_matches([' ', '\t']).starts_with('.');
    if !sql.lines().any(begins) {
        return None;
    }
    let (mut is_open, mut is_new_line) = (false, true);
    for word in lexemes(sql) {
        let text = sql.get(word.range.clone()).unwrap_or_default();
        match word.kind {
            LexemeKind::Blank => is_new_line |= text.contains('\n'),
            LexemeKind::Comment => is_new_line |= text.ends_with('\n'),
            LexemeKind::Semicolon => (is_open, is_new_line) = (false, false),
            _ if !is_open && is_new_line && text.starts_with('.') => return Some(word.range.start),
            _ => (is_open, is_new_line) = (true, false),
        }
    }
    None
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
