//! From SQL as PostgreSQL's clients write it to ours: what differs in the letters is put right, and
//! functions that ask about the server become their answers. What a statement means is not looked
//! at.

use super::calls::{answer, call, push_text};
use super::casts;
use super::catalogs::{INFORMATION_SCHEMA, has_array, is_catalog};
use super::known::Known;
use super::marks::Marks;
use super::oids::Type;
use super::words::{Kind, text_of, tokens};

/// How asyncpg asks for the types of arrays that it has not seen, and what it is answered: the
/// question itself nests recursions that the library does not plan.
const ASYNCPG_TYPES: (&str, &str) = (
    "WITH RECURSIVE typeinfo_tree(",
    "SELECT t.oid, 'pg_catalog' AS ns, t.typname AS name, t.typtype AS kind, \
     CAST(NULL AS BIGINT) AS basetype, t.typelem AS elemtype, ',' AS elemdelim, \
     CAST(NULL AS BIGINT) AS range_subtype, CAST(NULL AS VARCHAR[]) AS attrtypoids, \
     CAST(NULL AS VARCHAR[]) AS attrnames, 0 AS depth, CAST(NULL AS VARCHAR) AS basetype_name, \
     e.typname AS elemtype_name, CAST(NULL AS VARCHAR) AS range_subtype_name \
     FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem \
     WHERE array_has(CAST($1 AS BIGINT[]), t.oid)",
);

/// The types of a statement's parameters, of which the client leaves that to us: asyncpg knows few
/// types before it has asked for them.
pub(super) fn declared(sql: &str, types: Vec<u32>) -> Vec<u32> {
    match sql.starts_with(ASYNCPG_TYPES.0) {
        true => vec![Type::OID_ARRAY.oid()],
        false => types,
    }
}

/// What takes the place of a call may be longer; bytes that statements grow by, at most.
pub(super) const MOST_GROWTH: usize = 4 << 20;

/// A statement in our words.
pub(super) fn rewritten(sql: &str, known: &Known) -> String {
    rewritten_within(sql, known, 0)
}

fn rewritten_within(sql: &str, known: &Known, depth: u32) -> String {
    let sql = match sql.starts_with(ASYNCPG_TYPES.0) {
        true => ASYNCPG_TYPES.1,
        false => sql,
    };
    let all = tokens(sql);
    let words = Marks::new(sql, &all);
    let mut out = String::with_capacity(sql.len());
    let (mut at, mut named) = (0, 0);
    let is_about_catalogs = words.is_about_catalogs;
    let rewrite = |text: &str, depth: u32| rewritten_within(text, known, depth);
    let has_own_schema = has_information_schema(&words);
    let expands_arrays = sql.contains("_pg_expandarray");
    while let Some(token) = all.get(at) {
        let word = words.word(at);
        if let Some((value, length)) = answer(&words, at, known) {
            out.push_str(&value);
            // Columns have the names of the functions.
            if words.is_column(at, length) {
                let name = words.name_at(at);
                out.push_str(&format!(" AS \"{name}\""));
            }
            at += length;
            continue;
        }
        if out.len() < token.range.start + MOST_GROWTH
            && let Some((value, length)) = call(&words, at, known, depth, &rewrite)
        {
            out.push_str(&value);
            // In a list of columns without names, it has that of the function, once.
            if words.is_column(at, length) {
                let name = words.name_at(at);
                let number = if named == 0 { String::new() } else { format!("_{named}") };
                out.push_str(&format!(" AS \"{name}{number}\""));
                named += 1;
            }
            at += length;
            continue;
        }
        if out.len() < token.range.start + MOST_GROWTH
            && let Some((value, length)) = casts::shown(&words, at, known)
        {
            out.push_str(&value);
            if words.is_column(at, length) {
                out.push_str(&format!(" AS \"{}\"", casts::column_name(&words, at, length)));
            }
            at += length;
            continue;
        }
        if let Some((value, length)) = casts::cast(&words, at) {
            out.push_str(&value);
            at += length;
            continue;
        }
        if words.is_in_schema(at, "pg_catalog") || is_database(&words, at, known.database) {
            at += 2;
            continue;
        }
        if has_own_schema
            && words.is_in_schema(at, "information_schema")
            && let Some((value, length)) = in_information_schema(&words, at)
        {
            out.push_str(&value);
            at += length;
            continue;
        }
        if word == "0" && words.compared_with(at).is_some_and(is_function_column) {
            // Functions are names here; - is none.
            out.push_str("'-'");
            at += 1;
            continue;
        }
        if is_about_catalogs && let Some(length) = words.system_column(at) {
            // Which catalog a row is of is not known any more.
            let named = words.is_column(at, length);
            out.push_str(if named { "CAST(NULL AS BIGINT) AS tableoid" } else { "NULL" });
            at += length;
            continue;
        }
        if is_about_catalogs && let Some((value, length)) = items(&words, at) {
            out.push_str(&value);
            at += length;
            continue;
        }
        if expands_arrays && let Some((value, length)) = expanded_item(&words, at) {
            out.push_str(&value);
            at += length;
            continue;
        }
        if is_about_catalogs && word.eq_ignore_ascii_case("null") && words.is_column(at, 1) {
            // Columns of an answer have names of their own.
            out.push_str(&format!("NULL AS \"null_{named}\""));
            (at, named) = (at + 1, named + 1);
            continue;
        }
        if words.before(at).eq_ignore_ascii_case("as")
            && words.after(at + 1) == ")"
            && words.is_in_cast(at)
            && let Some(known) = casts::type_of_catalogs(word)
        {
            out.push_str(known);
            at += 1;
            continue;
        }
        if word.eq_ignore_ascii_case("collate")
            && let Some(length) = words.default_collation(at)
        {
            at += length;
            continue;
        }
        if word.eq_ignore_ascii_case("operator")
            && let Some((operator, length)) = words.operator(at)
        {
            out.push_str(operator);
            at += length;
            continue;
        }
        match token.kind {
            Kind::Text if word.starts_with('$') => push_text(&text_of(word), &mut out),
            _ => out.push_str(word),
        }
        at += 1;
    }
    out
}

/// Whether the name of the database stands here before a schema.
fn is_database(words: &Marks, at: usize, database: &str) -> bool {
    let schemas = ["public", "pg_catalog", "information_schema"];
    words.is_in_schema(at, database)
        && words.before(at) != "."
        && schemas.iter().any(|schema| words.is_in_schema(at + 2, schema))
}

/// Whether information_schema is ours in a statement: a view means what it means without us, and
/// DESCRIBE takes a name only.
fn has_information_schema(words: &Marks) -> bool {
    let all = || words.tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Word);
    let first = all().next().map(|(at, _)| words.name_at(at)).unwrap_or_default();
    let makes_view = first == "create"
        && all().take(5).any(|(at, _)| words.word(at).eq_ignore_ascii_case("view"));
    !makes_view && !matches!(first.as_str(), "describe" | "desc" | "show" | "summarize")
}

/// A catalog of information_schema that begins here, or something in it, and how many tokens it
/// has.
fn in_information_schema(words: &Marks, at: usize) -> Option<(String, usize)> {
    let name = words.plain_name(at + 2);
    if name == "_pg_expandarray" {
        return Some((String::new(), 2));
    }
    let catalog = format!("{INFORMATION_SCHEMA}{name}");
    if !is_catalog(&catalog) {
        return None;
    }
    Some(match words.word(at + 3) {
        // One of its columns.
        "." => (format!("\"{name}\""), 3),
        _ if words.has_alias(at + 3) => (format!("\"{catalog}\""), 3),
        _ => (format!("\"{catalog}\" AS \"{name}\""), 3),
    })
}

/// Reads `(keys).n`: a field of a row that `_pg_expandarray` gives.
fn expanded_item(words: &Marks, at: usize) -> Option<(String, usize)> {
    let item = words.name_at(at + 1);
    let is_item = words.word(at) == "."
        && at > 0
        && words.word(at - 1) == ")"
        && matches!(item.as_str(), "x" | "n");
    is_item.then(|| (format!("['{item}']"), 2))
}

/// The items of an array of the catalogs as a table, `unnest(conkey) AS k`: there are none. The
/// column has the name of the table.
fn items(words: &Marks, at: usize) -> Option<(String, usize)> {
    if words.name_at(at) != "unnest" || !words.before(at).eq_ignore_ascii_case("join") {
        return None;
    }
    let (array, None, length) = words.arguments(at + 1)? else { return None };
    if !has_array(array.rsplit('.').next().unwrap_or_default()) {
        return None;
    }
    let name = words.alias_at(at + 1 + length)?;
    Some((format!("(SELECT CAST(NULL AS BIGINT) AS \"{name}\" WHERE false)"), 1 + length))
}

/// Whether a column has functions, which PostgreSQL compares with 0 where there is none.
fn is_function_column(name: &str) -> bool {
    matches!(
        name.to_ascii_lowercase().as_str(),
        "typinput"
            | "typoutput"
            | "typreceive"
            | "typsend"
            | "typmodin"
            | "typmodout"
            | "typanalyze"
            | "typsubscript"
            | "amhandler"
            | "oprcode"
            | "oprrest"
            | "oprjoin"
    )
}

#[cfg(test)]
mod tests {
    use super::super::relations;
    use super::super::settings::{self, Settings};
    use super::*;

    #[test]
    fn the_letters_are_put_right() {
        let settings = Settings::default();
        let known = Known { user: "anna", database: "db", number: 7, settings: &settings };
        let of = |sql: &str| rewritten(sql, &known);
        let version = format!("SELECT '{}' AS \"version\"", settings::VERSION);
        assert_eq!(of("SELECT version()"), version);
        assert_eq!(of("select pg_catalog.version()"), version.replace("SELECT", "select"));
        assert_eq!(of("SELECT current_schema() = 'x'"), "SELECT 'public' = 'x'");
        assert_eq!(of("SELECT current_user, a"), "SELECT 'anna' AS \"current_user\", a");
        assert_eq!(of("SELECT t.version() FROM version"), "SELECT t.version() FROM version");
        assert_eq!(of("SELECT E'a\\n''' || $$x'y$$"), "SELECT E'a\\n''' || 'x''y'");
        assert_eq!(of("SELECT current_setting('jit') AS cur"), "SELECT 'off' AS cur");
        let regex = "a OPERATOR(pg_catalog.~) '^b$' COLLATE pg_catalog.default";
        assert_eq!(of(regex), "a ~ '^b$' ");
        assert_eq!(of("SELECT 'version()'"), "SELECT 'version()'");
        let visible = "SELECT 1 FROM c WHERE pg_catalog.pg_table_is_visible(f(c.oid), 1) AND a";
        assert_eq!(of(visible), "SELECT 1 FROM c WHERE true AND a");
        let oid = relations::oid_of("t");
        assert_eq!(of("a = 'public.t'::pg_catalog.regclass::oid"), format!("a = {oid}::BIGINT"));
        assert!(of("format_type(a.b, c)").starts_with("(CASE a.b WHEN 16 THEN 'boolean'"));
        assert_eq!(of("a::\"char\" :: int"), "a::VARCHAR :: int");
        assert_eq!(of("'\"T\"'::regclass"), relations::oid_of("T").to_string());
        let given = of("$1::regclass::oid");
        assert!(given.contains("CAST($1 AS VARCHAR)") && given.ends_with("::BIGINT"), "{given}");
        assert!(of("format_type(a, -1)").contains("THEN 'numeric'"));
        assert!(of("format_type(a, b)").contains("(b) - 4"));
        assert_eq!(of("n = 'public'::regnamespace"), "n = 2200");
        let items = of("SELECT 1 FROM pg_catalog.c CROSS JOIN UNNEST(c.conkey) AS k ON k = 1");
        let expected = "SELECT 1 FROM c CROSS JOIN (SELECT CAST(NULL AS BIGINT) AS \"k\" \
                        WHERE false) AS k ON k = 1";
        assert_eq!(items, expected);
        let cast = of("CAST('pg_catalog.pg_class' AS REGCLASS)");
        assert_eq!(cast, relations::oid_of("pg_class").to_string());
        let subscripts = "SELECT generate_subscripts(a, 1) FROM ";
        assert!(of(&format!("{subscripts}pg_index")).contains("unnest(CAST(NULL AS BIGINT[]))"));
        for own in [format!("{subscripts}t"), "SELECT json_build_object('a', 1)".to_owned()] {
            assert_eq!(of(&own), own);
        }
        let name = |value: &str| relations::lookup(relations::NAME_OF, value).unwrap();
        assert_eq!(
            of("SELECT c.oid::regclass, 't'::regclass AS x, oid::regclass::text = 't' FROM c"),
            format!(
                "SELECT {} AS \"oid\", {} AS x, {}::text = 't' FROM c",
                name("c.oid"),
                name("'t'"),
                name("oid"),
            )
        );
        assert_eq!(of("a = 'int8'::regtype AND b::regclass = c"), "a = 20 AND b::VARCHAR = c");
        assert!(of("SELECT a::regtype FROM c").contains("WHEN 20 THEN 'bigint'"));
        assert!(of("n::regnamespace::text = 'public'").contains("WHEN 2200 THEN 'public'"));
        assert_eq!(of("SELECT nspowner::regrole"), "SELECT 'anna' AS \"nspowner\"");
        assert_eq!(of("SELECT a FROM t GROUP BY a, version()").matches(" AS ").count(), 0);
        assert_eq!(of("typsend != 0 OR x = 0"), "typsend != '-' OR x = 0");
        assert_eq!(of("SELECT current_schemas(true)").matches("pg_catalog").count(), 1);
        assert_eq!(of("FROM \"db\".\"public\".\"t\""), "FROM \"public\".\"t\"");
    }

    #[test]
    fn information_schema_is_ours() {
        let settings = Settings::default();
        let known = Known { user: "anna", database: "db", number: 7, settings: &settings };
        let of = |sql: &str| rewritten(sql, &known);
        assert_eq!(
            of("SELECT * FROM information_schema.columns c, db.information_schema.tables WHERE a"),
            "SELECT * FROM \"information_schema.columns\" c, \"information_schema.tables\" \
             AS \"tables\" WHERE a"
        );
        assert_eq!(
            of("SELECT information_schema.tables.a FROM information_schema.tables"),
            "SELECT \"tables\".a FROM \"information_schema.tables\" AS \"tables\""
        );
        for same in [
            "CREATE OR REPLACE VIEW v AS SELECT * FROM information_schema.tables",
            "DESCRIBE information_schema.tables",
            "SELECT * FROM information_schema.routines",
        ] {
            assert_eq!(of(same), same);
        }
        let keys = of("SELECT (information_schema._pg_expandarray(i.indkey)).n AS n FROM i");
        assert!(keys.starts_with("SELECT (named_struct(") && keys.contains(")['n'] AS n"));
    }

    #[test]
    fn a_statement_of_any_depth_is_read_in_little_time() {
        let settings = Settings::default();
        let known = Known { user: "anna", database: "db", number: 7, settings: &settings };
        let of = |sql: &str| rewritten(sql, &known);
        let many = 100_000;
        for call in ["format_type(", "pg_get_viewdef(", "quote_ident(", "cast(pg_catalog."] {
            let nested = format!("SELECT {}1{}", call.repeat(many), ")".repeat(many));
            assert!(of(&nested).len() < nested.len() + MOST_GROWTH);
        }
        let beside = format!("SELECT {}1", "format_type(a, b), ".repeat(many));
        assert!(of(&beside).len() < beside.len() + MOST_GROWTH + 10_000);
        for part in ["pg_table_is_visible(", "/**/ ", "array(", "(", "x(a, ", "0 = ", "a.x(b).n"] {
            let sql = part.repeat(many);
            assert_eq!(of(&sql), sql);
        }
        let tags: String = (0..many).map(|tag| format!("$a{tag}$ ")).collect();
        assert_eq!(of(&tags), tags);
    }
}
