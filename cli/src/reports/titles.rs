//! Statements as they are written, and the comments before them, which are titles on a page.

/// A statement's text and, if there are comments before it, their first lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The comment in one line.
    pub(crate) title: Option<String>,
    /// The statement without comments before it.
    pub(crate) text: String,
}

/// Splits a text into statements as the parser does: at each `;` outside of quotes and comments.
pub(crate) fn written(sql: &str) -> Vec<Written> {
    let mut all = Vec::new();
    let (mut title, mut start, mut rest) = (Vec::new(), None, sql);
    let end = |title: &mut Vec<&str>, start: &mut Option<usize>, at: usize, all: &mut Vec<_>| {
        if let Some(text) = start.take().and_then(|start| sql.get(start..at)) {
            let title = if title.is_empty() { None } else { Some(title.join(" ")) };
            all.push(Written { title, text: text.trim_end().to_owned() });
        }
        title.clear();
    };
    while let Some(first) = rest.chars().next() {
        let at = sql.len() - rest.len();
        let taken = if let Some(comment) = rest.strip_prefix("--") {
            let line = comment.lines().next().unwrap_or_default();
            if start.is_none() && !line.trim().is_empty() {
                title.push(line.trim());
            }
            2 + line.len()
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment_end(comment) + 2
        } else if matches!(first, '\'' | '"' | '`') {
            start.get_or_insert(at);
            let quoted = rest.get(1..).unwrap_or_default();
            quoted.find(first).map_or(rest.len(), |end| end + 2)
        } else if first == ';' {
            end(&mut title, &mut start, at, &mut all);
            1
        } else {
            if !first.is_whitespace() {
                start.get_or_insert(at);
            }
            first.len_utf8()
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    end(&mut title, &mut start, sql.len(), &mut all);
    all
}

/// The length of a comment after `/*`, in which there may be others.
fn comment_end(comment: &str) -> usize {
    let (mut depth, mut at) = (1, 0);
    while let Some(rest) = comment.get(at..).filter(|rest| !rest.is_empty()) {
        let taken = match rest {
            rest if rest.starts_with("*/") => {
                depth -= 1;
                2
            }
            rest if rest.starts_with("/*") => {
                depth += 1;
                2
            }
            rest => rest.chars().next().map_or(1, char::len_utf8),
        };
        at += taken;
        if depth == 0 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_before_a_statement_are_its_title() {
        let sql = "-- Fares\n--\n-- by hour;\nSELECT ';' -- not this\n FROM \"a;b\";;\n\
                   /* none; /* at all; */ */ SELECT 2\n; -- the end";
        let all = written(sql);
        let titles: Vec<Option<&str>> = all.iter().map(|w| w.title.as_deref()).collect();
        assert_eq!(titles, [Some("Fares by hour;"), None]);
        let texts: Vec<&str> = all.iter().map(|w| &*w.text).collect();
        assert_eq!(texts, ["SELECT ';' -- not this\n FROM \"a;b\"", "SELECT 2"]);
        assert!(written(" ;; -- x\n").is_empty());
        assert_eq!(written("select 'a''b;é").len(), 1);
    }
}
