//! How a text table is read, and what the options of ingest are called in a statement.

use crate::ingest::sources::{CsvOptions, Format, TextEncoding};

/// How text is read; what is not said is found out.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextOptions {
    /// The format; `None` to detect it.
    pub(crate) format: Option<Format>,
    /// Options of CSV, some of which hold for JSON too.
    pub(crate) csv: CsvOptions,
    /// The encoding, unless a byte-order mark says otherwise; UTF-8 if `None`.
    pub(crate) encoding: Option<TextEncoding>,
    /// Whether directories called `key=value` give no columns.
    pub(crate) without_path_columns: bool,
    /// The name of a column for the path of each row's file.
    pub(crate) filename_column: Option<String>,
}

/// A message of ingest with the names that its options have in `read_csv` and `read_json`:
/// `--null NA` is `null => 'NA'`.
pub(super) fn named_as_in_sql(message: &str) -> String {
    let mut named = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find("--") {
        let (before, option) = rest.split_at(at);
        named.push_str(before);
        match option_in_sql(option) {
            Some((text, after)) => {
                named.push_str(&text);
                rest = after;
            }
            None => {
                named.push_str("--");
                rest = option.get(2..).unwrap_or_default();
            }
        }
    }
    named + rest
}

/// The option that a text starts with, as it is called in SQL, and what follows it.
fn option_in_sql(text: &str) -> Option<(String, &str)> {
    let body = text.strip_prefix("--")?;
    let end = body.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(body.len());
    let (name, after) = body.split_at(end);
    let in_sql = match name {
        "header" => return Some(("header => true".to_owned(), after)),
        "names" => {
            let after =
                after.strip_prefix(" A,B,…").or(after.strip_prefix(" NAME")).unwrap_or(after);
            return Some(("names => ['A', …]".to_owned(), after));
        }
        "no-header" => return Some(("header => false".to_owned(), after)),
        "skip-initial-space" => {
            let (value, after) = match after.strip_prefix("=false") {
                Some(after) => ("false", after),
                None => ("true", after),
            };
            return Some((format!("skip_initial_space => {value}"), after));
        }
        "schema" => "types",
        "delimiter" | "quote" | "skip" | "null" | "comment" | "escape" | "decimal"
        | "thousands" | "encoding" => name,
        "date-order" => "date_order",
        "infer-rows" => "infer_rows",
        _ => return None,
    };
    let (value, behind) = match after.strip_prefix(' ') {
        Some(words) => words.split_at(words.find(' ').unwrap_or(words.len())),
        None => ("", after),
    };
    // A list that goes on does so in its form here, too.
    let value = value.strip_suffix(",…").unwrap_or(value);
    let trimmed = value.trim_end_matches([';', ')', '.', ',']);
    // A comma may be the delimiter itself.
    let trimmed = if trimmed.is_empty() { value } else { trimmed };
    let plain = trimmed.trim_matches('\'');
    let is_value = match name {
        "schema" => plain.contains(':'),
        "date-order" => matches!(plain, "dmy" | "mdy"),
        "skip" | "infer-rows" => false,
        "encoding" => plain == "latin1",
        _ => !value.is_empty() && (plain.len() <= 4 && !matches!(plain, "if" | "or" | "and")),
    };
    if !is_value {
        return Some((in_sql.to_owned(), after));
    }
    let quoted = plain.replace('\'', "''");
    let value_in_sql = match plain.rsplit_once(':').filter(|_| name == "schema") {
        Some((column, data_type)) => format!("{{'{column}': '{data_type}'}}"),
        None => format!("'{quoted}'"),
    };
    let unread = value.get(trimmed.len()..).unwrap_or_default().len() + behind.len();
    let after = text.get(text.len() - unread..).unwrap_or_default();
    Some((format!("{in_sql} => {value_in_sql}"), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_called_as_in_statements() {
        for (message, expected) in [
            (
                "say --null NA to have, or --null '' to",
                "say null => 'NA' to have, or null => '' to",
            ),
            ("say --null '\\N' and more", "say null => '\\N' and more"),
            ("--date-order dmy or --date-order mdy", "date_order => 'dmy' or date_order => 'mdy'"),
            ("is ':' right (--delimiter), or", "is ':' right (delimiter), or"),
            ("if it is none, say --delimiter ,", "if it is none, say delimiter => ','"),
            ("text: --schema a:b:utf8", "text: types => {'a:b': 'utf8'}"),
            ("them with --schema NAME:TYPE,…", "them with types => {'NAME': 'TYPE'}"),
            ("is called 'x' (--schema); its", "is called 'x' (types); its"),
            ("such as --encoding latin1, or keep", "such as encoding => 'latin1', or keep"),
            ("say --no-header if it is data", "say header => false if it is data"),
            ("say --skip-initial-space=false", "say skip_initial_space => false"),
            ("say --skip-initial-space to", "say skip_initial_space => true to"),
            ("name them with --names", "name them with names => ['A', …]"),
            ("--on-error skip leaves", "--on-error skip leaves"),
            ("a -- b", "a -- b"),
        ] {
            assert_eq!(named_as_in_sql(message), expected);
        }
    }
}
