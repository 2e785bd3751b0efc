//! Functions about the server, and about PostgreSQL's catalogs, that become what they give.

use super::known::Known;
use super::marks::Marks;
use super::relations;
use super::settings;
use super::type_rows;
use super::words::{Kind, Words};

/// Calls within each other that are put right: each is rewritten by itself.
pub(super) const MOST_DEPTH: u32 = 4;

/// Appends a text in quotes.
pub(super) fn push_text(text: &str, out: &mut String) {
    out.push('\'');
    out.push_str(&text.replace('\'', "''"));
    out.push('\'');
}

fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    push_text(text, &mut quoted);
    quoted
}

/// What a function or keyword tells of the server, and how many tokens it has.
pub(super) fn answer(words: &Marks, at: usize, known: &Known) -> Option<(String, usize)> {
    if words.tokens.get(at)?.kind != Kind::Word || at > 0 && words.word(at - 1) == "." {
        // But for pg_catalog.version().
        let of_catalog = at > 1 && words.word(at - 2).eq_ignore_ascii_case("pg_catalog");
        if !of_catalog {
            return None;
        }
    }
    let name = words.name_at(at);
    if words.word(at + 1) != "(" {
        let value = match name.as_str() {
            "current_user" | "session_user" | "current_role" => known.user,
            "current_catalog" => known.database,
            "current_schema" => "public",
            _ => return None,
        };
        return words.is_column(at, 1).then(|| (quoted(value), 1));
    }
    if words.word(at + 2) == ")" {
        let value = match name.as_str() {
            "version" => quoted(settings::VERSION),
            "current_schema" => quoted("public"),
            "current_database" | "current_catalog" => quoted(known.database),
            "current_user" | "session_user" => quoted(known.user),
            "pg_backend_pid" => known.number.to_string(),
            "pg_is_in_recovery" => "false".to_owned(),
            // There are no temporary tables.
            "pg_my_temp_schema" => "0".to_owned(),
            "inet_server_addr"
            | "inet_client_addr"
            | "inet_server_port"
            | "inet_client_port"
            | "pg_advisory_unlock_all" => "NULL".to_owned(),
            _ => return None,
        };
        return Some((value, 3));
    }
    let (arguments, length) = words.texts_in_parentheses(at + 1)?;
    let value = match (name.as_str(), arguments.as_slice()) {
        ("current_setting", [name, ..]) if settings::is_known(&name.to_ascii_lowercase()) => {
            quoted(known.settings.get(&name.to_ascii_lowercase()))
        }
        ("set_config", [name, value, ..]) if settings::is_known(&name.to_ascii_lowercase()) => {
            quoted(value)
        }
        ("current_schemas", [with_system]) => {
            let schemas = path(with_system)?.iter().map(|schema| quoted(schema));
            format!("ARRAY[{}]", schemas.collect::<Vec<_>>().join(", "))
        }
        _ => return None,
    };
    Some((value, 1 + length))
}

/// The schemas in which names are looked up, with that of the system or without.
fn path(with_system: &str) -> Option<&'static [&'static str]> {
    match with_system.to_ascii_lowercase().as_str() {
        "true" | "t" => Some(&["pg_catalog", "public"]),
        "false" | "f" => Some(&["public"]),
        _ => None,
    }
}

/// What a function about PostgreSQL's catalogs gives, and how many tokens it has with its
/// arguments, which `rewrite` puts into our words.
pub(super) fn call(
    words: &Marks,
    at: usize,
    known: &Known,
    depth: u32,
    rewrite: &dyn Fn(&str, u32) -> String,
) -> Option<(String, usize)> {
    if words.tokens.get(at)?.kind != Kind::Word || words.word(at + 1) != "(" {
        return None;
    }
    let name = words.name_at(at);
    let of = |name: &str| words.arguments(at + 1).filter(|_| is_about_catalogs(name, words));
    let (first, second, length) = of(&name)?;
    let value = match constant(&name, known) {
        Some(value) => value,
        None => match name.as_str() {
            "format_type" if depth < MOST_DEPTH => {
                let fixed =
                    |modifier: &str| modifier.eq_ignore_ascii_case("null") || modifier == "-1";
                // It is named several times, so that no more is put into it.
                let modifier = second.map(str::trim).filter(|modifier| !fixed(modifier));
                let modifier = modifier.map(|modifier| rewrite(modifier, MOST_DEPTH));
                type_rows::type_name_of(&rewrite(first, depth + 1), modifier.as_deref())
            }
            "array_upper" => size_of(first).to_owned(),
            "cast" => cast_to_relation(first, words, at, depth, rewrite)?,
            // Columns have the names of these, whatever they become.
            "pg_size_pretty" | "quote_ident" | "quote_literal" | "quote_nullable"
                if depth < MOST_DEPTH && second.is_none() =>
            {
                format!("{name}({})", rewrite(first, depth + 1))
            }
            name if depth < MOST_DEPTH && relations::needs(name) => {
                relations::lookup(name, &rewrite(first, depth + 1))?
            }
            _ => return None,
        },
    };
    Some((value, 1 + length))
}

/// Whether a function is about catalogs; of some, that depends on the statement.
fn is_about_catalogs(name: &str, words: &Marks) -> bool {
    match name {
        "array_upper" | "array_lower" | "current_setting" | "array" => words.is_about_catalogs,
        "generate_subscripts" | "json_build_object" => words.names_catalogs,
        _ => true,
    }
}

/// What `CAST(x AS regclass)` gives.
fn cast_to_relation(
    cast: &str,
    words: &Marks,
    at: usize,
    depth: u32,
    rewrite: &dyn Fn(&str, u32) -> String,
) -> Option<String> {
    if depth >= MOST_DEPTH || !words.last_within(at + 1).eq_ignore_ascii_case("regclass") {
        return None;
    }
    let end = cast.to_ascii_lowercase().rfind(" as ")?;
    let value = cast.get(..end)?.trim();
    match Words::of(value).text() {
        Some(text) => Some(relations::oid_in(&text).to_string()),
        None => relations::lookup("regclass", &rewrite(value, depth + 1)),
    }
}

/// How many items an array of the catalogs has.
fn size_of(array: &str) -> &'static str {
    let of = |argument: &str| array.to_ascii_lowercase().contains(&format!("schemas({argument})"));
    match (of("true"), of("false")) {
        (true, _) => "2",
        (_, true) => "1",
        // Of the catalogs, those about which it asks are empty.
        _ => "0",
    }
}

/// What a function gives whatever its arguments are.
fn constant(name: &str, known: &Known) -> Option<String> {
    let nothing = "CAST(NULL AS VARCHAR)";
    Some(match name {
        name if name.starts_with("pg_") && name.ends_with("_is_visible") => "true".to_owned(),
        name if name.starts_with("has_") && name.ends_with("_privilege") => "true".to_owned(),
        "pg_has_role" => "true".to_owned(),
        "pg_relation_is_publishable" | "pg_is_other_temp_schema" => "false".to_owned(),
        "pg_get_userbyid" => quoted(known.user),
        "pg_encoding_to_char" => "'UTF8'".to_owned(),
        "pg_char_to_encoding" => "6".to_owned(),
        "pg_get_keywords" => "pg_get_keywords".to_owned(),
        "obj_description"
        | "col_description"
        | "shobj_description"
        | "pg_get_expr"
        | "pg_get_constraintdef"
        | "pg_get_indexdef"
        | "pg_get_ruledef"
        | "pg_get_triggerdef"
        | "pg_get_functiondef"
        | "pg_get_function_result"
        | "pg_get_function_arguments"
        | "pg_get_function_identity_arguments"
        | "pg_get_statisticsobjdef"
        | "pg_get_statisticsobjdef_columns"
        | "pg_describe_object"
        | "json_build_object"
        | "pg_get_serial_sequence"
        | "pg_get_partkeydef"
        | "pg_get_partition_constraintdef"
        | "pg_tablespace_location"
        | "current_setting" => nothing.to_owned(),
        "pg_indexes_size" | "pg_tablespace_size" | "array_lower" => "0".to_owned(),
        "generate_subscripts" => "unnest(CAST(NULL AS BIGINT[]))".to_owned(),
        // Rows of the catalogs that have arrays are none.
        "_pg_expandarray" => {
            "named_struct('x', CAST(NULL AS BIGINT), 'n', CAST(NULL AS BIGINT))".to_owned()
        }
        "to_regtype" | "to_regnamespace" | "to_regproc" => "CAST(NULL AS BIGINT)".to_owned(),
        // Of the catalogs, those about which it asks are empty.
        "array" => "CAST(NULL AS VARCHAR[])".to_owned(),
        _ => return None,
    })
}
