//! From SQL as PostgreSQL's clients write it to ours: what differs in the letters is put right, and
//! functions that ask about the server become their answers. What a statement means is not looked
//! at.

use super::catalog;
use super::oids::Type;
use super::settings::{self, Settings};
use super::words::{Kind, Token, text_of, tokens};

/// What is known of a connection.
pub(super) struct Known<'a> {
    pub(super) user: &'a str,
    pub(super) database: &'a str,
    pub(super) number: i32,
    pub(super) settings: &'a Settings,
}

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

/// Calls of format_type within each other that are put right: each is rewritten by itself.
const MOST_DEPTH: u32 = 4;
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
            && let Some((value, length)) = call(&words, at, known, depth)
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
        if let Some((value, length)) = words.cast(at) {
            out.push_str(&value);
            at += length;
            continue;
        }
        if word.eq_ignore_ascii_case("pg_catalog") && words.word(at + 1) == "." {
            at += 2;
            continue;
        }
        if is_about_catalogs && word.eq_ignore_ascii_case("null") && words.is_column(at, 1) {
            // Columns of an answer have names of their own.
            out.push_str(&format!("NULL AS \"null_{named}\""));
            (at, named) = (at + 1, named + 1);
            continue;
        }
        if is_about_catalogs
            && word.eq_ignore_ascii_case("escape")
            && words.word(at + 2).starts_with('\'')
        {
            // What is escaped are underscores of names; they stand for themselves nevertheless.
            at += 3;
            continue;
        }
        if words.before(at).eq_ignore_ascii_case("as")
            && words.after(at + 1) == ")"
            && let Some(known) = type_of_catalogs(word)
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
            Kind::Text if !word.starts_with('\'') => push_text(&text_of(word), &mut out),
            _ => out.push_str(word),
        }
        at += 1;
    }
    out
}

/// Appends a text in quotes.
fn push_text(text: &str, out: &mut String) {
    out.push('\'');
    out.push_str(&text.replace('\'', "''"));
    out.push('\'');
}

/// What a function or keyword tells of the server, and how many tokens it has.
fn answer(words: &Marks, at: usize, known: &Known) -> Option<(String, usize)> {
    if words.tokens.get(at)?.kind != Kind::Word || at > 0 && words.word(at - 1) == "." {
        // But for pg_catalog.version().
        let of_catalog = at > 1 && words.word(at - 2).eq_ignore_ascii_case("pg_catalog");
        if !of_catalog {
            return None;
        }
    }
    let name = words.word(at).to_ascii_lowercase();
    let text = |text: &str| {
        let mut quoted = String::new();
        push_text(text, &mut quoted);
        quoted
    };
    if words.word(at + 1) != "(" {
        let value = match name.as_str() {
            "current_user" | "session_user" | "current_role" => known.user,
            "current_catalog" => known.database,
            "current_schema" => "public",
            _ => return None,
        };
        return words.is_column(at, 1).then(|| (text(value), 1));
    }
    if words.word(at + 2) == ")" {
        let value = match name.as_str() {
            "version" => text(settings::VERSION),
            "current_schema" => text("public"),
            "current_database" | "current_catalog" => text(known.database),
            "current_user" | "session_user" => text(known.user),
            "pg_backend_pid" => known.number.to_string(),
            "pg_is_in_recovery" => "false".to_owned(),
            "inet_server_addr" | "inet_client_addr" | "pg_advisory_unlock_all" => "NULL".to_owned(),
            _ => return None,
        };
        return Some((value, 3));
    }
    let arguments = words.texts_in_parentheses(at + 1)?;
    match (name.as_str(), arguments.0.as_slice()) {
        ("current_setting", [name, ..]) if settings::is_known(&name.to_ascii_lowercase()) => {
            let value = known.settings.get(&name.to_ascii_lowercase());
            Some((text(value), 1 + arguments.1))
        }
        ("set_config", [name, value, ..]) if settings::is_known(&name.to_ascii_lowercase()) => {
            Some((text(value), 1 + arguments.1))
        }
        _ => None,
    }
}

/// What a function about PostgreSQL's catalogs gives, and how many tokens it has with its
/// arguments.
fn call(words: &Marks, at: usize, known: &Known, depth: u32) -> Option<(String, usize)> {
    if words.tokens.get(at)?.kind != Kind::Word || words.word(at + 1) != "(" {
        return None;
    }
    let name = words.name_at(at);
    let value = match name.as_str() {
        "pg_table_is_visible"
        | "pg_type_is_visible"
        | "pg_function_is_visible"
        | "has_table_privilege"
        | "has_schema_privilege"
        | "has_database_privilege"
        | "has_any_column_privilege"
        | "has_column_privilege" => "true".to_owned(),
        "pg_relation_is_publishable" | "pg_is_other_temp_schema" => "false".to_owned(),
        "pg_get_userbyid" => format!("'{}'", known.user.replace('\'', "''")),
        "pg_encoding_to_char" => "'UTF8'".to_owned(),
        "obj_description"
        | "col_description"
        | "shobj_description"
        | "pg_get_expr"
        | "pg_get_constraintdef"
        | "pg_get_indexdef"
        | "pg_get_viewdef"
        | "pg_get_triggerdef"
        | "pg_get_function_result"
        | "pg_get_function_arguments"
        | "pg_get_statisticsobjdef_columns"
        | "json_build_object"
        | "pg_get_serial_sequence"
        | "pg_get_partkeydef"
        | "pg_tablespace_location" => "CAST(NULL AS VARCHAR)".to_owned(),
        "array_upper" | "array_lower" if words.is_about_catalogs => "0".to_owned(),
        "generate_subscripts" => "unnest(CAST(NULL AS BIGINT[]))".to_owned(),
        "current_setting" if words.is_about_catalogs => "CAST(NULL AS VARCHAR)".to_owned(),
        "to_regtype" => "CAST(NULL AS BIGINT)".to_owned(),
        "format_type" if depth < MOST_DEPTH => String::new(),
        // Of the catalogs, those about which it asks are empty.
        "array" if words.is_about_catalogs => "CAST(NULL AS VARCHAR[])".to_owned(),
        _ => return None,
    };
    let (first, length) = words.first_argument(at + 1)?;
    let value = match name.as_str() {
        "format_type" => catalog::type_name_of(&rewritten_within(first, known, depth + 1)),
        _ => value,
    };
    Some((value, 1 + length))
}

/// Our type in the place of one that only PostgreSQL's catalogs have.
fn type_of_catalogs(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "oid" | "xid" => Some("BIGINT"),
        "name" | "\"char\"" | "regtype" | "regclass" | "regproc" | "regnamespace" => {
            Some("VARCHAR")
        }
        _ => None,
    }
}

/// The tokens of a statement.
struct Marks<'t> {
    text: &'t str,
    tokens: &'t [Token],
    /// For each token that opens parentheses, these.
    parentheses: Vec<Option<Parentheses>>,
    is_about_catalogs: bool,
}

/// Parentheses that have an end.
#[derive(Clone, Copy)]
struct Parentheses {
    end: usize,
    /// The comma behind their first argument, if there is a second.
    comma: Option<usize>,
}

impl<'t> Marks<'t> {
    fn new(text: &'t str, tokens: &'t [Token]) -> Marks<'t> {
        let mut parentheses = vec![None; tokens.len()];
        let mut open: Vec<(usize, Option<usize>)> = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            match &text[token.range.clone()] {
                "(" => open.push((at, None)),
                "," => {
                    if let Some((_, comma)) = open.last_mut() {
                        comma.get_or_insert(at);
                    }
                }
                ")" => {
                    if let Some((begin, comma)) = open.pop() {
                        parentheses[begin] = Some(Parentheses { end: at, comma });
                    }
                }
                _ => {}
            }
        }
        Marks { text, tokens, parentheses, is_about_catalogs: text.contains("pg_catalog.") }
    }

    fn word(&self, at: usize) -> &'t str {
        self.tokens.get(at).map_or("", |token| &self.text[token.range.clone()])
    }

    fn name_at(&self, at: usize) -> String {
        self.word(at).to_ascii_lowercase()
    }

    /// The next token that is no blank, from here on.
    fn after(&self, at: usize) -> &'t str {
        let mut rest = self.tokens.iter().enumerate().skip(at);
        rest.find(|(_, token)| token.kind != Kind::Blank).map_or("", |(at, _)| self.word(at))
    }

    /// The last token that is no blank, before here.
    fn before(&self, at: usize) -> &'t str {
        let mut all = self.tokens.iter().enumerate().take(at);
        let found = all.rfind(|(_, token)| token.kind != Kind::Blank);
        found.map_or("", |(at, _)| self.word(at))
    }

    /// Whether tokens are a column of an answer by themselves, without a name.
    fn is_column(&self, at: usize, length: usize) -> bool {
        let before = match self.before(at) {
            "." => self.before(at.saturating_sub(2)),
            before => before,
        };
        let after = self.after(at + length).to_ascii_lowercase();
        (before.eq_ignore_ascii_case("select") || before == ",")
            && matches!(after.as_str(), "" | "," | "from")
    }

    /// The length of `COLLATE "default"`, which changes nothing.
    fn default_collation(&self, at: usize) -> Option<usize> {
        let names = ["default", "\"default\"", "C", "\"C\""];
        for length in 2..=5 {
            let word = self.word(at + length);
            if names.contains(&word) {
                return Some(length + 1);
            }
            if !matches!(word, "." | "pg_catalog" | " ") {
                return None;
            }
        }
        None
    }

    /// The first argument in parentheses that begin here, and how many tokens these have.
    fn first_argument(&self, at: usize) -> Option<(&'t str, usize)> {
        let Parentheses { end, comma } = (*self.parentheses.get(at)?)?;
        let begin = self.tokens.get(at)?.range.end;
        let end_of_first = self.tokens.get(comma.unwrap_or(end))?.range.start;
        Some((self.text.get(begin..end_of_first)?, end - at + 1))
    }

    /// A cast that begins here to a type of PostgreSQL's catalogs, in our words, and how many
    /// tokens it has.
    fn cast(&self, at: usize) -> Option<(String, usize)> {
        let is_text = self.tokens.get(at)?.kind == Kind::Text;
        let begin = at + usize::from(is_text);
        if self.word(begin) != ":" || self.word(begin + 1) != ":" {
            return None;
        }
        let name = match self.word(begin + 2).eq_ignore_ascii_case("pg_catalog") {
            true => begin + 4,
            false => begin + 2,
        };
        let length = name + 1 - at;
        let target = match self.name_at(name).as_str() {
            "regclass" if is_text => {
                let table = text_of(self.word(at));
                let table = table.rsplit('.').next().unwrap_or_default().trim_matches('"');
                return Some((catalog::oid_of(table).to_string(), length));
            }
            name => type_of_catalogs(name)?,
        };
        let before = if is_text { self.word(at) } else { "" };
        Some((format!("{before}::{target}"), length))
    }

    /// The operator in `OPERATOR(pg_catalog.~)`, and the number of tokens.
    fn operator(&self, at: usize) -> Option<(&'t str, usize)> {
        if self.word(at + 1) != "(" {
            return None;
        }
        let end = (at + 2..at + 8).find(|end| self.word(*end) == ")")?;
        let begin = (at + 2..end).rfind(|begin| self.word(*begin) == ".")? + 1;
        let begin = self.tokens.get(begin)?.range.start;
        let operator = self.text.get(begin..self.tokens.get(end)?.range.start)?;
        Some((operator, end - at + 1))
    }

    /// Texts and keywords in parentheses that begin here, and how many tokens these have.
    fn texts_in_parentheses(&self, at: usize) -> Option<(Vec<String>, usize)> {
        let mut found = Vec::new();
        for (length, token) in self.tokens.iter().skip(at + 1).enumerate() {
            let word = &self.text[token.range.clone()];
            match token.kind {
                Kind::Text => found.push(text_of(word)),
                Kind::Word => found.push(word.to_owned()),
                Kind::Blank => {}
                Kind::Sign if word == "," => {}
                Kind::Sign if word == ")" => return Some((found, length + 2)),
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(of("SELECT E'a\\n''' || $$x'y$$"), "SELECT 'a\n''' || 'x''y'");
        assert_eq!(of("SELECT current_setting('jit') AS cur"), "SELECT 'off' AS cur");
        let regex = "a OPERATOR(pg_catalog.~) '^b$' COLLATE pg_catalog.default";
        assert_eq!(of(regex), "a ~ '^b$' ");
        assert_eq!(of("SELECT 'version()'"), "SELECT 'version()'");
        let visible = "SELECT 1 FROM c WHERE pg_catalog.pg_table_is_visible(f(c.oid), 1) AND a";
        assert_eq!(of(visible), "SELECT 1 FROM c WHERE true AND a");
        let oid = catalog::oid_of("t");
        assert_eq!(of("a = 'public.t'::pg_catalog.regclass::oid"), format!("a = {oid}::BIGINT"));
        assert!(of("format_type(a.b, c)").starts_with("(CASE a.b WHEN 16 THEN 'boolean'"));
        assert_eq!(of("a::\"char\" :: int"), "a::VARCHAR :: int");
    }

    #[test]
    fn a_statement_of_any_depth_is_read_in_little_time() {
        let settings = Settings::default();
        let known = Known { user: "anna", database: "db", number: 7, settings: &settings };
        let of = |sql: &str| rewritten(sql, &known);
        let many = 100_000;
        let nested = format!("SELECT {}1{}", "format_type(".repeat(many), ")".repeat(many));
        assert!(of(&nested).len() < nested.len() + MOST_GROWTH);
        let beside = format!("SELECT {}1", "format_type(a, b), ".repeat(many));
        assert!(of(&beside).len() < beside.len() + MOST_GROWTH + 10_000);
        for part in ["pg_table_is_visible(", "/**/ ", "array(", "(", "x(a, "] {
            let sql = part.repeat(many);
            assert_eq!(of(&sql), sql);
        }
        let tags: String = (0..many).map(|tag| format!("$a{tag}$ ")).collect();
        assert_eq!(of(&tags), tags);
    }
}
