//! Settings that a connection changes: SET and RESET, and calls of `set_config` in a query, whose
//! value `calls` puts in their place.

use super::backend::{Backend, Stop};
use super::marks::Marks;
use super::output::Output;
use super::replies::{self, Status};
use super::settings;
use super::words::{Kind, Token, tokens};

/// The function.
const NAME: &str = "set_config";

impl Backend {
    /// Gives a setting a value, or that with which the connection has begun.
    pub(super) fn set(
        &mut self,
        name: &str,
        value: Option<String>,
        is_local: bool,
        out: &mut Output,
    ) -> Result<(), Stop> {
        if name.ends_with("transaction_isolation") {
            value.iter().for_each(|level| self.warn_of_isolation(level, out));
        }
        // Outside of a block, SET LOCAL ends with itself.
        let ends = is_local && self.block.status == Status::Idle;
        let told = self.settings.set(name, value, is_local)?;
        if let Some((name, value)) = told.filter(|_| !ends) {
            replies::parameter(name, &value, &mut out.bytes);
        }
        if ends {
            self.settings.end_block();
        }
        Ok(())
    }

    /// Makes the settings of the calls of `set_config` in a query, before it runs.
    pub(super) fn set_by_calls(&mut self, sql: &str, out: &mut Output) -> Result<(), Stop> {
        for (name, value, is_local) in calls(sql) {
            self.set(&name, Some(value), is_local, out)?;
            self.isolate();
        }
        Ok(())
    }
}

/// The calls in a query: a setting, its value, and whether it is for the block only.
fn calls(sql: &str) -> Vec<(String, String, bool)> {
    // Few statements have the name, and only those are split into tokens.
    let has_name = |part: &[u8]| part.eq_ignore_ascii_case(NAME.as_bytes());
    if !sql.as_bytes().windows(NAME.len()).any(has_name) {
        return Vec::new();
    }
    let all = tokens(sql);
    let words = Marks::new(sql, &all);
    let mut found = Vec::new();
    for at in (0..all.len()).filter(|at| words.name_at(*at) == NAME) {
        let Some((arguments, _)) = words.texts_in_parentheses(at + 1) else { continue };
        let [name, value, is_local] = arguments.as_slice() else { continue };
        // The value of a column is not known before the query runs.
        let is_value = |token: &&Token| matches!(token.kind, Kind::Text | Kind::Word);
        let value_token = all.iter().skip(at + 2).filter(is_value).nth(1);
        if !value_token.is_some_and(|token| matches!(token.kind, Kind::Text)) {
            continue;
        }
        let name = name.to_ascii_lowercase();
        if words.word(at + 1) == "(" && settings::is_known(&name) {
            found.push((name, value.clone(), settings::is_on(is_local)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found() {
        let of = |sql: &str| calls(sql);
        let path = |is_local| ("search_path".to_owned(), "a b".to_owned(), is_local);
        let sql = "SELECT pg_catalog.SET_CONFIG('search_path', 'a b', false), \
                   set_config('Search_Path', 'a b', true) AS x";
        assert_eq!(of(sql), [path(false), path(true)]);
        for none in [
            "SELECT 'set_config(''jit'', ''on'', false)'",
            "SELECT set_config('nope', 'x', false)",
            "SELECT set_config($1, 'x', false)",
            "SELECT set_config('search_path', NULL, false)",
            "SELECT set_config FROM t",
        ] {
            assert_eq!(of(none), [], "{none}");
        }
    }
}
