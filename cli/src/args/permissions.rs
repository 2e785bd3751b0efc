//! What statements may do beside reading the store.

use clap::Args;

/// `--read-only` and `--no-files`.
#[derive(Debug, Args)]
pub(crate) struct PermissionArgs {
    /// Refuse statements that write to the store; views and SET still work, for this command
    #[arg(long, env = "STY_READ_ONLY", hide_env = true)]
    pub(crate) read_only: bool,
    /// Refuse statements that name files outside the store: FROM 'x.csv', FROM '-', CREATE EXTERNAL
    /// TABLE
    #[arg(long, env = "STY_NO_FILES", hide_env = true)]
    pub(crate) no_files: bool,
}
