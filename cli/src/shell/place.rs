//! The line of a statement that an error is about, with a caret under the place.

/// The line and the caret, if an error says where in the text it is: `(line 2, column 8)`.
pub(super) fn caret(sql: &str, message: &str) -> Option<String> {
    let (_, place) = message.rsplit_once("(line ")?;
    let (line, column) = place.split_once(", column ")?;
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text.get(..end)?.parse::<usize>().ok()
    };
    let (line, column) = (digits(line)?.checked_sub(1)?, digits(column)?.checked_sub(1)?);
    let text = sql.lines().nth(line)?;
    // Of a long line, only what is around the place is shown.
    let characters: Vec<char> = text.chars().collect();
    if column > characters.len() {
        return None;
    }
    let start = column.saturating_sub(MOST_BEFORE);
    let end = characters.len().min(column + MOST_AFTER);
    let shown = |c: &char| if c.is_control() { ' ' } else { *c };
    let part: String = characters.get(start..end)?.iter().map(shown).collect();
    let (front, back) =
        (if start > 0 { "… " } else { "" }, if end < characters.len() { " …" } else { "" });
    let before: String = characters.get(start..column)?.iter().map(shown).collect();
    let blanks = unicode_width::UnicodeWidthStr::width(before.as_str()) + front.chars().count();
    Some(format!("  {front}{part}{back}\n  {}^", " ".repeat(blanks)))
}

/// Characters of the line before and after the place.
const MOST_BEFORE: usize = 50;
const MOST_AFTER: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_is_under_the_place() {
        let message = "Expected: an expression, found: FROM (line 2, column 3)";
        assert_eq!(caret("SELECT\n, FROM t", message).unwrap(), "  , FROM t\n    ^");
        assert_eq!(
            caret("SELECT\n漢FROM t", message.replace('3', "2").as_str()).unwrap(),
            "  漢FROM t\n    ^"
        );
        assert_eq!(caret("SELECT", message), None);
        assert_eq!(caret("SELECT", "no column x"), None);
        let long = format!("{}FROM", "x, ".repeat(100));
        let shown = caret(&long, "found: FROM (line 1, column 301)").unwrap();
        let (line, mark) = shown.split_once('\n').unwrap();
        assert_eq!(line.chars().nth(mark.len() - 1), Some('F'), "{shown}");
    }
}
