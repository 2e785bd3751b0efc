//! The session's own settings: `SET sty.native = off`.

use std::any::Any;

use datafusion::common::config_err;
use datafusion::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::Result as DataFusionResult;

/// What `SET sty.…` sets.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether fragments of plans run in the store's own executor.
    pub(crate) native: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { native: true }
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
            ("native", "on" | "true" | "1") => self.native = true,
            ("native", "off" | "false" | "0") => self.native = false,
            ("native", _) => return config_err!("sty.native is on or off, not '{value}'"),
            _ => return config_err!("there is no setting sty.{key}; there is sty.native"),
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![ConfigEntry {
            key: "sty.native".into(),
            value: Some(if self.native { "on" } else { "off" }.into()),
            description: "Whether parts of plans run in the store's own executor",
        }]
    }
}
