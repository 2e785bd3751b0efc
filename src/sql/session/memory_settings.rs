//! Settings that a statement may not change, or not so far: those of memory.

use crate::error::{Error, Result};

/// Settings that take memory for each of a number, and the most that they may be.
const MOST: [(&str, u64); 2] = [
    ("datafusion.execution.target_partitions", 1 << 10),
    ("datafusion.execution.batch_size", 1 << 20),
];

/// Refuses settings by which a statement would take more memory than the session may.
pub(super) fn check_set(name: &str, value: &str) -> Result<()> {
    let name = name.to_ascii_lowercase();
    if name == "datafusion.runtime.memory_limit" {
        let what = "the memory limit holds for the whole session; use --memory-limit";
        return Err(Error::Unsupported(what.into()));
    }
    let most = MOST.iter().find(|(known, _)| *known == name).map(|(_, most)| *most);
    match most.zip(value.parse::<u64>().ok()) {
        Some((most, value)) if value > most => Err(Error::LimitExceeded(format!(
            "{name} may be at most {most}, and {value} is asked for"
        ))),
        _ => Ok(()),
    }
}

/// How settings begin that DataFusion would reset to its own defaults, such as a memory without a
/// limit, and not to what the session has begun with.
const RUNTIME: &str = "datafusion.runtime.";

/// Refuses to reset a setting of the runtime.
pub(super) fn check_reset(name: &str) -> Result<()> {
    match name.to_ascii_lowercase().starts_with(RUNTIME) {
        true => Err(Error::Unsupported(format!("RESET {name}; SET says what it is to be"))),
        false => Ok(()),
    }
}
