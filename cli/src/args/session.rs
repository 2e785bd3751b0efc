//! What a session over a store may use and do.

use std::path::PathBuf;

use clap::Args;
use stylobate::{Parameters, SessionOptions};

#[cfg(feature = "cluster")]
use super::cluster::ClusterArg;
use super::permissions::PermissionArgs;
use super::resources::{IoArg, WaitArg};
use crate::context::Context;
use crate::errors::Failure;

/// The options of commands that run statements of the user.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// A value for $NAME in the statements; may be repeated
    #[arg(short, long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    #[command(flatten)]
    io: IoArg,
    /// Read around damage: verify each table first, and leave out segments with any damage
    ///
    /// What is damaged, and how many rows and segments are left out, is said on stderr. All bytes
    /// of each table that a statement names are read for it.
    #[arg(long)]
    pub(crate) skip_damaged: bool,
    #[command(flatten)]
    permissions: PermissionArgs,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    cluster: ClusterArg,
    #[command(flatten)]
    pub(crate) wait: WaitArg,
    /// Where sorts and groups spill [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR", env = "STY_TEMP_DIR", hide_env = true)]
    temp_dir: Option<PathBuf>,
}

impl SessionArgs {
    /// The options of the session.
    pub(crate) fn options(&self, context: &Context) -> Result<SessionOptions, Failure> {
        Ok(SessionOptions {
            threads: context.threads,
            memory_limit: context.memory_limit,
            temp_dir: self.temp_dir.clone(),
            io: Some(self.io.io()),
            create: true,
            skip_damaged: self.skip_damaged,
            read_only: self.permissions.read_only,
            no_files: self.permissions.no_files,
            #[cfg(feature = "cluster")]
            cluster: self.cluster.read()?,
            ..SessionOptions::default()
        })
    }

    /// The values of `-p`.
    pub(crate) fn parameters(&self) -> Result<Parameters, Failure> {
        let mut parameters = Parameters::default();
        for assignment in &self.params {
            parameters.add(assignment).map_err(|e| Failure::usage(e.to_string()))?;
        }
        Ok(parameters)
    }
}
