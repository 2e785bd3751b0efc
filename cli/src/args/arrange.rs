//! `--sort-by` and `--partition-by`.

use stylobate::SortBy;

/// The sort keys of `--sort-by`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SortList(pub(crate) Vec<SortBy>);

/// Parses `a, b DESC NULLS LAST, …`. Unless NULLS FIRST or LAST is given, nulls come last in an
/// ascending order and first in a descending one.
pub(crate) fn parse_sort(text: &str) -> Result<SortList, String> {
    let mut keys = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (mut key, mut nulls_first) = (part, None);
        for (words, first) in [(" nulls first", true), (" nulls last", false)] {
            if let Some(before) = strip_suffix_ignoring_case(key, words) {
                (key, nulls_first) = (before, Some(first));
            }
        }
        let mut descending = false;
        for (words, is_desc) in [(" desc", true), (" asc", false)] {
            if let Some(before) = strip_suffix_ignoring_case(key, words) {
                (key, descending) = (before, is_desc);
            }
        }
        let column = key.trim().trim_matches('"').to_owned();
        if column.is_empty() {
            return Err(format!("'{part}' names no column; write COLUMN or COLUMN DESC"));
        }
        keys.push(SortBy { column, descending, nulls_first: nulls_first.unwrap_or(descending) });
    }
    if keys.is_empty() {
        Err("at least one column is needed".to_owned())
    } else {
        Ok(SortList(keys))
    }
}

fn strip_suffix_ignoring_case<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let at = text.len().checked_sub(words.len())?;
    let end = text.get(at..)?;
    end.eq_ignore_ascii_case(words).then(|| text.get(..at)).flatten().map(str::trim_end)
}

/// The SQL expressions of `--partition-by`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expressions(pub(crate) Vec<String>);

/// Splits a list of expressions at the commas outside parentheses and quotes.
pub(crate) fn parse_expressions(text: &str) -> Result<Expressions, String> {
    let (mut depth, mut quote) = (0_usize, None);
    let is_separator = |c: char| {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0 && quote.is_none()
    };
    let parts: Vec<String> = text
        .split(is_separator)
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect();
    if parts.is_empty() {
        Err("at least one expression is needed".to_owned())
    } else {
        Ok(Expressions(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        let SortList(keys) =
            parse_sort("a, \"b c\" desc,c DESC NULLS LAST, d asc nulls first").unwrap();
        let shown: Vec<_> =
            keys.iter().map(|k| (k.column.as_str(), k.descending, k.nulls_first)).collect();
        assert_eq!(
            shown,
            [("a", false, false), ("b c", true, true), ("c", true, false), ("d", false, true)]
        );
        assert!(parse_sort(" , ").is_err());
        assert!(parse_sort("\"\" desc").is_err());
    }

    #[test]
    fn expressions() {
        let Expressions(parts) =
            parse_expressions("date_trunc('a,b', t) AS m, year(x),vendor").unwrap();
        assert_eq!(parts, ["date_trunc('a,b', t) AS m", "year(x)", "vendor"]);
        assert!(parse_expressions("").is_err());
    }
}
