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
    let mut dots = lines_with_dots(sql);
    let mut judged = 0;
    loop {
        // Twice as many at once, so that a long text is read few times; and few at first, since
        // what comes after a command is read again.
        let some: Vec<usize> = dots.by_ref().take(judged.max(1)).collect();
        let (text, _) = sql.split_at_checked(*some.last()?)?;
        let found = between_statements(text, &some);
        if found.is_some() {
            return found;
        }
        judged += some.len();
    }
}

/// The places of dots that are the first characters of their lines.
fn lines_with_dots(sql: &str) -> impl Iterator<Item = usize> {
    let mut start = 0;
    sql.split_inclusive('\n').filter_map(move |line| {
        let rest = line.trim_start_matches([' ', '\t']);
        let at = start + line.len() - rest.len();
        start += line.len();
        rest.starts_with('.').then_some(at)
    })
}

/// The first of these places, in order, at which no statement is open. The last one is the end of
/// the text.
fn between_statements(text: &str, places: &[usize]) -> Option<usize> {
    let (mut places, mut is_between) = (places.iter().copied().peekable(), true);
    for word in lexemes(text) {
        while let Some(place) = places.next_if(|place| *place <= word.range.start) {
            if is_between {
                return Some(place);
            }
        }
        // What is within a word begins nothing.
        while places.next_if(|place| *place < word.range.end).is_some() {}
        if !matches!(word.kind, LexemeKind::Blank | LexemeKind::Comment) {
            is_between = word.kind == LexemeKind::Semicolon;
        }
    }
    places.next().filter(|_| is_between)
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
        // What is no SQL in the argument of a command does not matter.
        assert_eq!(
            pieces("SELECT 1;\n.read it's\nSELECT\n.5 + '\n.x';\n.last"),
            [
                Sql("SELECT 1;\n"),
                Command(".read it's"),
                Sql("\nSELECT\n.5 + '\n.x';\n"),
                Command(".last")
            ]
        );
    }

    /// Each of these took a time with the square of its lines.
    #[test]
    fn long_scripts_are_taken_apart_in_linear_time() {
        let started = std::time::Instant::now();
        let times = |text: &str| text.repeat(100_000);
        assert_eq!(pieces(&times(".timer on\n")).len(), 100_000);
        assert_eq!(pieces(&times("SELECT 1;\n.timer on\n")).len(), 200_000);
        assert_eq!(pieces(&times("-- it's\n.read it's\n")).len(), 200_000);
        assert_eq!(pieces(&format!("SELECT '{}';", times("\n.tables"))).len(), 1);
        assert_eq!(pieces(&format!("SELECT 1 IN (0{});", times(",\n.5"))).len(), 1);
        assert_eq!(pieces(&format!("'{}", times("\n.tables"))).len(), 1);
        let took = started.elapsed();
        assert!(took < std::time::Duration::from_secs(60), "{took:?}");
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
