//! The session's own settings: `SET sty.native = off`, `SET sty.group_memory = 100000000`. Each may
//! be set to `default`, which is what RESET does.

use std::any::Any;
use std::time::Duration;

use arrow_cast::parse::{IntervalParseConfig, IntervalUnit, parse_interval_month_day_nano_config};
use datafusion::common::config_err;
use datafusion::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::Result as DataFusionResult;

/// What takes a fast network about ten milliseconds, which is what another stage costs.
const GATHER_BYTES: usize = 1 << 20;

/// What `SET sty.…` sets.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether fragments of plans run in the store's own executor.
    pub(crate) native: bool,
    /// Bytes that the groups of one fragment may take before they spill, if that is less than the
    /// memory limit leaves.
    pub(crate) group_memory: usize,
    /// Whether statements go by the rows that earlier ones have found to meet the same conditions.
    pub(crate) known_rows: bool,
    /// Whether a SELECT with an aggregate and without GROUP BY groups by all that is none, as in
    /// LocustDB.
    pub(crate) implicit_groups: bool,
    /// Whether answers may leave out rows of machines that do not answer.
    pub(crate) partial_answers: bool,
    /// What is estimated at no more bytes comes from the machines of a cluster to the one that was
    /// asked, before it is joined or grouped.
    pub(crate) gather_bytes: usize,
    /// How long statements that write wait for the writer of another process.
    pub(crate) wait: Duration,
    /// The same for sessions that have not set it.
    pub(crate) usual_wait: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            native: true,
            group_memory: usize::MAX,
            known_rows: true,
            implicit_groups: false,
            partial_answers: false,
            gather_bytes: GATHER_BYTES,
            wait: Duration::ZERO,
            usual_wait: Duration::ZERO,
        }
    }
}

impl Settings {
    /// The settings in force.
    pub(crate) fn of(options: &ConfigOptions) -> Settings {
        options.extensions.get::<Settings>().cloned().unwrap_or_default()
    }
}

impl ConfigExtension for Settings {
    const PREFIX: &'static str = "sty";
}

impl ExtensionOptions for Settings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> DataFusionResult<()> {
        match (key, value.to_ascii_lowercase().as_str()) {
            ("native", "default") => self.native = true,
            ("known_rows", "default" | "on" | "true" | "1") => self.known_rows = true,
            ("known_rows", "off" | "false" | "0") => self.known_rows = false,
            ("known_rows", _) => {
                return config_err!("sty.known_rows is on or off, not '{value}'");
            }
            ("partial_answers", "on" | "true" | "1") => self.partial_answers = true,
            ("partial_answers", "default" | "off" | "false" | "0") => self.partial_answers = false,
            ("partial_answers", _) => {
                return config_err!("sty.partial_answers is on or off, not '{value}'");
            }
            ("group_memory", "default") => self.group_memory = usize::MAX,
            ("gather_bytes", "default") => self.gather_bytes = GATHER_BYTES,
            ("gather_bytes", bytes) => match bytes.parse() {
                Ok(bytes) => self.gather_bytes = bytes,
                Err(_) => {
                    return config_err!("sty.gather_bytes is a number of bytes, not '{value}'");
                }
            },
            ("wait", "default") => self.wait = self.usual_wait,
            ("native", "on" | "true" | "1") => self.native = true,
            ("native", "off" | "false" | "0") => self.native = false,
            ("native", _) => return config_err!("sty.native is on or off, not '{value}'"),
            ("group_memory", bytes) => match bytes.parse() {
                Ok(bytes) => self.group_memory = bytes,
                Err(_) => {
                    return config_err!("sty.group_memory is a number of bytes, not '{value}'");
                }
            },
            ("dialect", "locustdb") => self.implicit_groups = true,
            ("dialect", "default" | "duckdb") => self.implicit_groups = false,
            ("dialect", _) => {
                return config_err!("sty.dialect is default or locustdb, not '{value}'");
            }
            ("wait", "on" | "true") => self.wait = Duration::MAX,
            ("wait", "off" | "false") => self.wait = Duration::ZERO,
            ("wait", time) => match parse_time(time) {
                Some(time) => self.wait = time,
                None => {
                    return config_err!(
                        "sty.wait is on, off, or a time such as '30s', not '{value}'"
                    );
                }
            },
            _ => {
                return config_err!(
                    "there is no setting sty.{key}; there are sty.native, sty.group_memory, \
                     sty.known_rows, sty.partial_answers, sty.gather_bytes, sty.dialect and \
                     sty.wait"
                );
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![
            ConfigEntry {
                key: "sty.native".into(),
                value: Some(if self.native { "on" } else { "off" }.into()),
                description: "Whether parts of plans run in the store's own executor",
            },
            ConfigEntry {
                key: "sty.known_rows".into(),
                value: Some(if self.known_rows { "on" } else { "off" }.into()),
                description: "Whether rows that earlier statements found to meet the same conditions are known",
            },
            ConfigEntry {
                key: "sty.partial_answers".into(),
                value: Some(if self.partial_answers { "on" } else { "off" }.into()),
                description: "Whether answers may leave out rows of nodes that do not answer",
            },
            ConfigEntry {
                key: "sty.gather_bytes".into(),
                value: Some(self.gather_bytes.to_string()),
                description: "Bytes up to which nodes send rows to the one that was asked, before they are joined or grouped",
            },
            ConfigEntry {
                key: "sty.dialect".into(),
                value: Some(if self.implicit_groups { "locustdb" } else { "default" }.into()),
                description: "default, or locustdb for its implicit grouping",
            },
            ConfigEntry {
                key: "sty.wait".into(),
                value: Some(match self.wait {
                    Duration::ZERO => "off".into(),
                    Duration::MAX => "on".into(),
                    time => format!("{time:?}"),
                }),
                description: "How long to wait for the writer of another process",
            },
            ConfigEntry {
                key: "sty.group_memory".into(),
                value: Some(self.group_memory)
                    .filter(|bytes| *bytes < usize::MAX)
                    .map(|bytes| bytes.to_string()),
                description: "Bytes that the groups of a query take before they spill; no more than the memory limit",
            },
        ]
    }
}

/// A time such as `30s` or `5 minutes`; without a unit, it is seconds.
fn parse_time(text: &str) -> Option<Duration> {
    let seconds = IntervalParseConfig::new(IntervalUnit::Second);
    let time = parse_interval_month_day_nano_config(text, seconds).ok()?;
    let days = u64::try_from(time.days).ok().filter(|_| time.months == 0)?;
    let days = Duration::from_secs(days * 24 * 60 * 60);
    days.checked_add(Duration::from_nanos(u64::try_from(time.nanoseconds).ok()?))
}
