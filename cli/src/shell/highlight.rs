//! What each part of a text is, for its colours.

use std::ops::Range;

use stylobate::internal::sql::{LexemeKind, lexemes};

use super::keywords::is_keyword;
use super::pieces::{Piece, pieces};

/// What a part of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Plain,
    Keyword,
    Function,
    Number,
    Text,
    Comment,
    Parameter,
    /// One of the shell's own commands.
    Command,
    Wrong,
}

/// Longer texts have no colours, so that a key is answered at once.
const MOST_BYTES: usize = 64 << 10;

/// The parts of a text, which together are the whole of it.
pub(super) fn classes(text: &str) -> Vec<(Class, Range<usize>)> {
    if text.len() > MOST_BYTES {
        return vec![(Class::Plain, 0..text.len())];
    }
    let (mut found, mut at) = (Vec::new(), 0);
    for piece in pieces(text) {
        let part = match piece {
            Piece::Command(part) | Piece::Sql(part) => part,
        };
        // Parts follow each other; what is between them is blank.
        let start = at + text.get(at..).and_then(|rest| rest.find(part)).unwrap_or(0);
        found.push((Class::Plain, at..start));
        match piece {
            Piece::Command(command) => {
                let name = command.find(char::is_whitespace).unwrap_or(command.len());
                found.push((Class::Command, start..start + name));
                found.push((Class::Plain, start + name..start + command.len()));
            }
            Piece::Sql(sql) => statement(sql, start, &mut found),
        }
        at = start + part.len();
    }
    found.push((Class::Plain, at..text.len()));
    found.retain(|(_, range)| !range.is_empty());
    found
}

fn statement(sql: &str, start: usize, found: &mut Vec<(Class, Range<usize>)>) {
    let words = lexemes(sql);
    for (number, word) in words.iter().enumerate() {
        let text = sql.get(word.range.clone()).unwrap_or_default();
        let is_called = || words.get(number + 1).is_some_and(|next| next.kind == LexemeKind::Open);
        let class = match word.kind {
            LexemeKind::Word if is_keyword(text) => Class::Keyword,
            LexemeKind::Word if is_called() => Class::Function,
            LexemeKind::Number => Class::Number,
            LexemeKind::Text => Class::Text,
            LexemeKind::Unfinished if text.starts_with("/*") => Class::Comment,
            LexemeKind::Unfinished if text.starts_with('"') => Class::Plain,
            LexemeKind::Unfinished => Class::Text,
            LexemeKind::Comment => Class::Comment,
            LexemeKind::Parameter => Class::Parameter,
            LexemeKind::Wrong => Class::Wrong,
            _ => Class::Plain,
        };
        found.push((class, start + word.range.start..start + word.range.end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a class.
    fn of(text: &str, class: Class) -> Vec<&str> {
        let found = classes(text);
        let whole: String = found.iter().map(|(_, range)| &text[range.clone()]).collect();
        assert_eq!(whole, text);
        found.into_iter().filter(|(c, _)| *c == class).map(|(_, range)| &text[range]).collect()
    }

    #[test]
    fn parts_have_their_classes() {
        let text = "SELECT sum(fare), 'é;' FROM t WHERE n > 1.5 AND c = $p -- why";
        assert_eq!(of(text, Class::Keyword), ["SELECT", "FROM", "WHERE", "AND"]);
        assert_eq!(of(text, Class::Function), ["sum"]);
        assert_eq!(of(text, Class::Text), ["'é;'"]);
        assert_eq!(of(text, Class::Number), ["1.5"]);
        assert_eq!(of(text, Class::Parameter), ["$p"]);
        assert_eq!(of(text, Class::Comment), ["-- why"]);
        assert_eq!(of("SELECT 'open", Class::Text), ["'open"]);
        assert_eq!(of("  .mode csv\nSELECT 1;", Class::Command), [".mode"]);
        assert_eq!(of("  .mode csv\nSELECT 1;", Class::Keyword), ["SELECT"]);
        assert_eq!(of(&"x".repeat(MOST_BYTES + 1), Class::Plain).len(), 1);
    }
}
