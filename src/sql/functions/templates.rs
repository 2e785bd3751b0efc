//! PostgreSQL's templates of dates and times, as formats of `strftime`: `YYYY-MM-DD HH24:MI:SS`.
//!
//! Where this stands on the road of a query: `to_char` translates its format by this, and so do
//! `to_date` and `to_timestamp`, after parsing. A format with a `%` is one of `strftime` already.

use datafusion::common::exec_err;
use datafusion::error::Result as DataFusionResult;

/// Patterns with what they are without and with `FM`, which leaves out zeros before a number. Names
/// are not filled up with blanks, as they are without `FM` there.
const PATTERNS: [(&str, &str, &str); 26] = [
    ("Month", "%B", "%B"),
    ("HH24", "%H", "%-H"),
    ("HH12", "%I", "%-I"),
    ("YYYY", "%Y", "%Y"),
    ("IYYY", "%G", "%G"),
    ("Mon", "%b", "%b"),
    ("Day", "%A", "%A"),
    ("DDD", "%j", "%-j"),
    ("Dy", "%a", "%a"),
    ("YY", "%y", "%y"),
    ("MM", "%m", "%-m"),
    ("DD", "%d", "%-d"),
    ("HH", "%I", "%-I"),
    ("MI", "%M", "%-M"),
    ("SS", "%S", "%-S"),
    ("MS", "%3f", "%3f"),
    ("US", "%6f", "%6f"),
    ("IW", "%V", "%-V"),
    ("IY", "%g", "%g"),
    ("ID", "%u", "%u"),
    ("AM", "%p", "%p"),
    ("PM", "%p", "%p"),
    ("am", "%P", "%P"),
    ("pm", "%P", "%P"),
    ("OF", "+00", "+0"),
    ("Q", "%q", "%q"),
];

/// Patterns of PostgreSQL's that `strftime` has no format for.
const OTHERS: [&str; 26] = [
    "A.M.", "P.M.", "SSSSS", "SSSS", "MONTH", "MON", "DAY", "DY", "WW", "W", "CC", "RM", "TZ",
    "Y,YYY", "YYY", "Y", "IYY", "I", "IDDD", "D", "J", "FF1", "FF2", "FF3", "FF6", "TH",
];

/// Names that are read in any case, but written in one only.
const READ_NAMES: [(&str, &str); 4] = [("MONTH", "%B"), ("MON", "%b"), ("DAY", "%A"), ("DY", "%a")];

/// The format of `strftime` that a template is.
pub(super) fn as_strftime(template: &str) -> DataFusionResult<String> {
    if template.contains('%') {
        return Ok(template.to_owned());
    }
    translated(template, false)
}

/// The format of `strptime` that a template without `%` is.
pub(in crate::sql) fn as_strptime(template: &str) -> DataFusionResult<String> {
    translated(template, true)
}

fn translated(template: &str, reads: bool) -> DataFusionResult<String> {
    let (mut format, mut rest) = (String::with_capacity(template.len()), template);
    while let Some(first) = rest.chars().next() {
        // Text in quotes stands for itself.
        if let Some((quoted, after)) = rest.strip_prefix('"').and_then(|it| it.split_once('"')) {
            format.push_str(quoted);
            rest = after;
            continue;
        }
        let (after_fm, fills) = match rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            Some(after) => (after, false),
            None => (rest, true),
        };
        let longest = |all: &mut dyn Iterator<Item = &'static str>| {
            all.filter(|pattern| begins(after_fm, pattern)).max_by_key(|pattern| pattern.len())
        };
        let read = READ_NAMES.iter().filter(|(name, _)| {
            let start = after_fm.get(..name.len());
            reads && start.is_some_and(|start| start.eq_ignore_ascii_case(name))
        });
        if let Some((name, read)) = read.max_by_key(|(name, _)| name.len()) {
            format.push_str(read);
            rest = after_fm.get(name.len()..).unwrap_or_default();
            continue;
        }
        let named = longest(&mut PATTERNS.iter().map(|(pattern, ..)| *pattern));
        if let Some(other) = longest(&mut OTHERS.into_iter())
            && named.is_none_or(|named| named.len() < other.len())
        {
            return exec_err!(
                "nothing of strftime stands for {other} in the template '{template}'; formats with \
                 % are those of strftime, such as '%Y-%m-%d'"
            );
        }
        let known = PATTERNS.iter().find(|(pattern, ..)| Some(*pattern) == named);
        match known {
            Some((pattern, filled, plain)) => {
                format.push_str(match (reads, fills) {
                    // An offset is read.
                    (true, _) if *pattern == "OF" => "%#z",
                    (_, true) => filled,
                    (_, false) => plain,
                });
                rest = after_fm.get(pattern.len()..).unwrap_or_default();
            }
            None if !fills => rest = after_fm,
            None => {
                format.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
    }
    Ok(format)
}

/// Whether a text begins with a pattern. Case says how names are written, and nothing of numbers.
fn begins(text: &str, pattern: &str) -> bool {
    let names = matches!(pattern, "AM" | "PM") || pattern.bytes().any(|it| it.is_ascii_lowercase());
    text.get(..pattern.len()).is_some_and(|start| match names {
        true => start == pattern,
        false => start.eq_ignore_ascii_case(pattern),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_formats() {
        for (template, format) in [
            ("YYYY-MM-DD HH24:MI:SS", "%Y-%m-%d %H:%M:%S"),
            ("yyyy/mm/dd", "%Y/%m/%d"),
            ("YYYY-MM-DD\"T\"HH24:MI:SS.MSZ", "%Y-%m-%dT%H:%M:%S.%3fZ"),
            ("FMDD Mon YY, HH12:MI am", "%-d %b %y, %I:%M %P"),
            ("FMMonth FMDDD IYYY-IW-ID Q", "%B %-j %G-%V-%u %q"),
            ("%Y YYYY", "%Y YYYY"),
            ("ä, o'clock", "ä, o'clock"),
            ("", ""),
        ] {
            assert_eq!(as_strftime(template).unwrap(), format, "{template}");
        }
        for (template, format) in [
            ("DD Mon YYYY", "%d %b %Y"),
            ("DD MON YYYY", "%d %b %Y"),
            ("FMMonth DD, YYYY HH12:MI AM", "%B %d, %Y %I:%M %p"),
            ("DAY DD.MM.YY", "%A %d.%m.%y"),
            ("YYYY-MM-DD HH24:MI:SS.US OF", "%Y-%m-%d %H:%M:%S.%6f %#z"),
        ] {
            assert_eq!(as_strptime(template).unwrap(), format, "{template}");
        }
        assert!(as_strptime("YYYY WW").is_err());
        for template in ["MONTH", "YYYY WW", "TZ", "YYY", "Y,YYY", "IDDD", "J", "DDth", "HH a.m."] {
            assert!(as_strftime(template).is_err(), "{template}");
        }
    }
}
