//! The settings of PostgreSQL that clients set and ask for. Few of them mean something here; the
//! others are kept, so that what was set is what is shown.

use std::collections::BTreeMap;
use std::time::Duration;

use super::errors::PgError;

/// The version whose clients are spoken to, and ours.
pub(super) const SERVER_VERSION: &str = concat!("16.6 (Stylobate ", env!("CARGO_PKG_VERSION"), ")");
/// What version() says; clients read the numbers behind the first word.
pub(super) const VERSION: &str =
    concat!("PostgreSQL 16.6 (Stylobate ", env!("CARGO_PKG_VERSION"), ")");

/// Settings and their defaults.
const KNOWN: [(&str, &str); 61] = [
    ("application_name", ""),
    ("backslash_quote", "safe_encoding"),
    ("bytea_output", "hex"),
    ("check_function_bodies", "on"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("cursor_tuple_fraction", "0.1"),
    ("datestyle", "ISO, MDY"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("enable_hashjoin", "on"),
    ("enable_indexscan", "on"),
    ("enable_mergejoin", "on"),
    ("enable_nestloop", "on"),
    ("enable_seqscan", "on"),
    ("escape_string_warning", "on"),
    ("extra_float_digits", "1"),
    ("geqo", "on"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "off"),
    ("jit", "off"),
    ("lc_collate", "C"),
    ("lc_ctype", "C.UTF-8"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("lock_timeout", "0"),
    ("maintenance_work_mem", "64MB"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("max_parallel_workers_per_gather", "2"),
    ("quote_all_identifiers", "off"),
    ("random_page_cost", "4"),
    ("row_security", "on"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", "160006"),
    ("session_authorization", ""),
    ("session_replication_role", "origin"),
    ("ssl", "off"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronize_seqscans", "on"),
    ("synchronous_commit", "on"),
    ("tcp_keepalives_idle", "0"),
    ("temp_buffers", "8MB"),
    ("timezone", "UTC"),
    ("transaction_deferrable", "off"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
    ("work_mem", "4MB"),
    ("xmloption", "content"),
];

/// Those that a client is told of when it connects, and when they change, as they are spelled then.
const REPORTED: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// Those that cannot be set.
const FIXED: [&str; 13] = [
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "lc_collate",
    "lc_ctype",
    "max_identifier_length",
    "max_index_keys",
    "server_encoding",
    "server_version",
    "server_version_num",
    "session_authorization",
    "ssl",
    "transaction_isolation",
];

/// The levels of isolation.
pub(super) const LEVELS: [&str; 4] =
    ["serializable", "repeatable read", "read committed", "read uncommitted"];

/// How intervals may be spelled.
const INTERVAL_STYLES: [&str; 2] = ["postgres", ISO];
const ISO: &str = "iso_8601";

/// The settings of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    set: BTreeMap<String, String>,
    /// What was set when the connection began.
    begun: BTreeMap<String, String>,
    /// What SET LOCAL has set, and what was before.
    local: Vec<(String, Option<String>)>,
}

/// Whether PostgreSQL has a setting of this name, in lower case.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|(known, _)| *known == name)
}

/// The default of a setting.
pub(super) fn default_of(name: &str) -> &'static str {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).unwrap_or_default()
}

/// Whether a setting cannot be set.
pub(super) fn is_fixed(name: &str) -> bool {
    FIXED.contains(&name)
}

/// Whether an encoding is UTF-8 by any of its names.
pub(super) fn is_utf8(name: &str) -> bool {
    let plain = name.trim().trim_matches('\'').to_ascii_lowercase().replace(['-', '_'], "");
    matches!(plain.as_str(), "utf8" | "unicode")
}

impl Settings {
    /// The value of a setting that is known.
    pub(super) fn get(&self, name: &str) -> &str {
        self.set.get(name).map_or_else(|| default_of(name), String::as_str)
    }

    /// The connection begins: to what is set now, RESET goes back.
    pub(super) fn begin(&mut self) {
        self.begun = self.set.clone();
    }

    /// The value that RESET goes back to.
    pub(super) fn begun_with(&self, name: &str) -> &str {
        self.begun.get(name).map_or_else(|| default_of(name), String::as_str)
    }

    /// Sets a value, or that with which the connection has begun. Returns what the client is to be
    /// told.
    pub(super) fn set(
        &mut self,
        name: &str,
        value: Option<String>,
        is_local: bool,
    ) -> Result<Option<(&'static str, String)>, PgError> {
        let value = value.map(|value| checked(name, value)).transpose()?;
        let before = match value.or_else(|| self.begun.get(name).cloned()) {
            Some(value) => self.set.insert(name.to_owned(), value),
            None => self.set.remove(name),
        };
        match is_local {
            true => self.local.push((name.to_owned(), before)),
            // It outlives the block, whatever SET LOCAL has said before.
            false => self.local.retain(|(local, _)| local != name),
        }
        Ok(self.reported(name))
    }

    /// Keeps a value to the end of the block.
    pub(super) fn set_local(&mut self, name: &str, value: &str) {
        let before = self.set.insert(name.to_owned(), value.to_owned());
        self.local.push((name.to_owned(), before));
    }

    /// Keeps a value that the client has not set.
    pub(super) fn keep(&mut self, name: &str, value: &str) {
        self.set.insert(name.to_owned(), value.to_owned());
    }

    /// What SET LOCAL has set ends with its block.
    pub(super) fn end_block(&mut self) {
        while let Some((name, before)) = self.local.pop() {
            match before {
                Some(before) => self.set.insert(name, before),
                None => self.set.remove(&name),
            };
        }
    }

    /// All have the values again with which the connection has begun.
    pub(super) fn reset(&mut self) {
        self.local.clear();
        self.set = self.begun.clone();
    }

    fn reported(&self, name: &str) -> Option<(&'static str, String)> {
        let reported = REPORTED.iter().find(|known| known.eq_ignore_ascii_case(name))?;
        Some((reported, self.get(name).to_owned()))
    }

    /// What a client is told when it connects.
    pub(super) fn all_reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        REPORTED.iter().map(|name| (*name, self.get(&name.to_ascii_lowercase())))
    }

    /// All settings by name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        KNOWN.iter().map(|(name, _)| (*name, self.get(name)))
    }

    /// Whether intervals are sent in the form of ISO 8601.
    pub(super) fn has_iso_intervals(&self) -> bool {
        self.get("intervalstyle") == ISO
    }

    /// How long a statement may take.
    pub(super) fn statement_timeout(&self) -> Option<Duration> {
        milliseconds(self.get("statement_timeout")).filter(|time| !time.is_zero())
    }
}

/// A value as it is kept; an error if it is none, or one that would not mean what it says.
fn checked(name: &str, value: String) -> Result<String, PgError> {
    let wrong = |what: &str| Err(PgError::of("22023", format!("{name} = '{value}': {what}")));
    match name {
        _ if FIXED.contains(&name) && name != "transaction_isolation" => {
            Err(PgError::of("55P02", format!("{name} cannot be changed")))
        }
        "client_encoding" if !is_utf8(&value) => wrong("only UTF8 is spoken"),
        "client_encoding" => Ok("UTF8".to_owned()),
        "timezone" => match value.to_ascii_lowercase().as_str() {
            "utc" | "gmt" | "etc/utc" | "etc/gmt" | "default" | "zulu" | "0" => {
                Ok("UTC".to_owned())
            }
            _ => wrong("times are sent in UTC"),
        },
        "datestyle" if value.to_ascii_lowercase().starts_with("iso") => Ok(value),
        "datestyle" => wrong("dates are sent as in ISO 8601"),
        "intervalstyle" if !INTERVAL_STYLES.contains(&&*value.to_ascii_lowercase()) => {
            wrong("intervals are sent in the style of postgres, or in that of iso_8601")
        }
        "intervalstyle" => Ok(value.to_ascii_lowercase()),
        "bytea_output" if !value.eq_ignore_ascii_case("hex") => wrong("bytes are sent as hex"),
        "standard_conforming_strings" if !is_on(&value) => {
            wrong("a backslash is a character of texts")
        }
        "statement_timeout" if milliseconds(&value).is_none() => wrong("a time such as 500 or 5s"),
        "default_transaction_isolation" | "transaction_isolation" => {
            let level = value.to_ascii_lowercase();
            match LEVELS.contains(&level.as_str()) {
                true => Ok(level),
                false => wrong("a level of isolation such as read committed"),
            }
        }
        "default_transaction_read_only" | "transaction_read_only" => {
            Ok(if is_on(&value) { "on" } else { "off" }.to_owned())
        }
        _ => Ok(value),
    }
}

/// Whether a value means yes.
pub(super) fn is_on(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "on" | "true" | "yes" | "1")
}

/// A time with its unit; milliseconds without one.
fn milliseconds(text: &str) -> Option<Duration> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let number: u64 = number.parse().ok()?;
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(factor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_kept_and_checked() {
        let mut settings = Settings::default();
        let set = |settings: &mut Settings, name: &str, value: &str, is_local| {
            settings.set(name, Some(value.to_owned()), is_local)
        };
        let told = set(&mut settings, "application_name", "x", false).unwrap();
        assert_eq!(told, Some(("application_name", "x".to_owned())));
        set(&mut settings, "application_name", "y", true).unwrap();
        assert_eq!(settings.get("application_name"), "y");
        settings.end_block();
        assert_eq!(settings.get("application_name"), "x");
        set(&mut settings, "statement_timeout", "5s", false).unwrap();
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(5)));
        settings.reset();
        assert_eq!((settings.get("application_name"), settings.statement_timeout()), ("", None));
        settings.keep("application_name", "begun");
        settings.begin();
        for value in [Some("x"), None] {
            settings.set("application_name", value.map(str::to_owned), false).unwrap();
            assert_eq!(settings.get("application_name"), value.unwrap_or("begun"));
        }
        set(&mut settings, "application_name", "local", true).unwrap();
        set(&mut settings, "application_name", "stays", false).unwrap();
        settings.end_block();
        assert_eq!(settings.get("application_name"), "stays");
        settings.reset();
        assert_eq!(settings.get("application_name"), "begun");
        for (name, value) in [
            ("client_encoding", "LATIN1"),
            ("timezone", "Europe/Berlin"),
            ("intervalstyle", "sql_standard"),
            ("server_version", "17"),
            ("statement_timeout", "soon"),
        ] {
            assert!(set(&mut settings, name, value, false).is_err(), "{name}");
        }
        assert!(REPORTED.iter().all(|name| is_known(&name.to_ascii_lowercase())));
    }
}
