//! RESET: settings as the session has begun with them, and what it has named for itself is gone.
//!
//! Where this stands on the road of a query: before it. DataFusion's RESET gives its own defaults,
//! which are not those of the engine: as many partitions as the machine has cores, say, and not
//! `--threads`. So a session's configuration carries what it was when the session began.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{FunctionRegistry as _, SessionStateBuilder};
use datafusion::prelude::SessionConfig;

use super::Session;
use crate::error::Result;

/// What a session has begun with.
#[derive(Debug)]
pub(super) struct Beginning {
    options: Arc<ConfigOptions>,
    environment: Arc<RuntimeEnv>,
}

impl Beginning {
    /// Notes in a configuration what it is now.
    pub(super) fn note(config: &mut SessionConfig, environment: &Arc<RuntimeEnv>) {
        let (options, environment) = (Arc::clone(config.options()), Arc::clone(environment));
        config.set_extension(Arc::new(Beginning { options, environment }));
    }
}

/// The value that a setting had when the session began; `None` if it had none, or that is not
/// known.
pub(super) fn begun_with(config: &SessionConfig, name: &str) -> Option<String> {
    let begun = config.get_extension::<Beginning>()?;
    let entries = begun.options.entries();
    entries.into_iter().find(|entry| entry.key == name)?.value
}

impl Session {
    /// Gives all settings the values with which the session has begun, as SET would.
    #[doc(hidden)]
    pub fn reset_settings(&self) -> Result<()> {
        // Plans may depend on what was set.
        self.kept.iter().for_each(|kept| kept.forget_session(self.number));
        let state = self.context.state_ref();
        let mut state = state.write();
        let Some(begun) = state.config().get_extension::<Beginning>() else { return Ok(()) };
        if !Arc::ptr_eq(state.runtime_env(), &begun.environment) {
            *state = SessionStateBuilder::from(state.clone())
                .with_runtime_env(Arc::clone(&begun.environment))
                .build();
        }
        *state.config_mut().options_mut() = ConfigOptions::clone(&begun.options);
        // Some functions keep the settings that they go by.
        let options = Arc::clone(state.config().options());
        let functions = state.scalar_functions().values();
        let changed = functions.filter_map(|it| it.inner().with_updated_config(&options));
        for function in changed.collect::<Vec<_>>() {
            state.register_udf(Arc::new(function))?;
        }
        Ok(())
    }

    /// Drops the temporary views and external tables of the session.
    #[doc(hidden)]
    pub fn drop_temporary(&self) {
        self.kept.iter().for_each(|kept| kept.forget_session(self.number));
        self.tables.forget_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::sql::names::parameters::Parameters;
    use crate::sql::run::settings::Settings;
    use crate::sql::session::SessionOptions;

    #[test]
    fn settings_go_back_to_those_of_the_beginning() {
        let options = SessionOptions { threads: Some(3), ..SessionOptions::default() };
        let session = Session::new(&options).unwrap();
        let run = |sql: &str| session.run(sql, &Parameters::default(), |_| Ok(())).unwrap();
        let now = || {
            let state = session.context.state();
            let options = state.config_options();
            let zone = options.execution.time_zone.clone();
            let partitions = state.config().target_partitions();
            (partitions, zone, Settings::of(options).implicit_groups, state.runtime_env().clone())
        };
        let (partitions, zone, groups, environment) = now();
        let is_begun = || {
            let now = now();
            (now.0, now.1, now.2) == (partitions, zone.clone(), groups)
        };
        let change = "SET datafusion.execution.target_partitions = 7; SET sty.dialect = 'locustdb'; \
                      SET datafusion.execution.time_zone = '+02:00'";
        let each = "RESET datafusion.execution.target_partitions; RESET sty.dialect; \
                    RESET datafusion.execution.time_zone";
        assert_eq!(partitions, 3);
        run(change);
        assert!(!is_begun());
        run(each);
        assert!(is_begun(), "{:?}", now());
        run(change);
        run(
            "SET datafusion.runtime.max_temp_directory_size = '5G'; CREATE TEMP VIEW v AS SELECT 1",
        );
        assert!(!Arc::ptr_eq(&now().3, &environment));
        session.reset_settings().unwrap();
        assert!(is_begun() && Arc::ptr_eq(&now().3, &environment));
        run("SELECT * FROM v");
        session.drop_temporary();
        assert!(session.run("SELECT * FROM v", &Parameters::default(), |_| Ok(())).is_err());
    }
}
