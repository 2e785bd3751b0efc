//! Tests of whole commands as a shell runs them: exit code, stdout and stderr.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot run has failed")]

mod answers;
mod attach;
mod bench;
mod charts;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "cluster")]
mod cluster_clients;
#[cfg(feature = "cluster")]
mod cluster_copies;
#[cfg(feature = "cluster")]
mod cluster_faults;
#[cfg(feature = "cluster")]
mod cluster_joins;
#[cfg(feature = "cluster")]
mod cluster_loads;
#[cfg(feature = "cluster")]
mod cluster_moves;
#[cfg(feature = "cluster")]
mod cluster_writes;
mod codes;
mod config;
mod conventions;
mod copy;
mod damage;
mod dry_run;
mod files;
mod flatten;
mod guesses;
mod help;
mod ingest;
mod interactive;
mod limits;
mod locustdb;
mod maintain;
mod pages;
mod path_columns;
mod pipelines;
mod progress;
mod resume;
mod schemas;
mod selects;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
mod serve_clients;
#[cfg(feature = "serve")]
mod serve_flight;
#[cfg(feature = "serve")]
mod serve_flight_limits;
#[cfg(feature = "serve")]
mod serve_flight_parts;
#[cfg(feature = "serve")]
mod serve_limits;
#[cfg(feature = "serve")]
mod serve_page;
#[cfg(feature = "serve")]
mod serve_postgres;
#[cfg(feature = "serve")]
mod serve_postgres_catalogs;
#[cfg(feature = "serve")]
mod serve_postgres_sessions;
#[cfg(feature = "serve")]
mod serve_postgres_values;
#[cfg(feature = "serve")]
mod serve_writes;
mod shell;
mod stats;
mod stops;
mod terminals;
mod trust;
mod types;
mod views;
mod waits;
mod write;

use assert_cmd::Command;

/// `sty` without the environment variables that change its output.
fn sty(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sty"));
    command
        .args(args)
        .env_remove("NO_COLOR")
        .env_remove("STY_ERROR_FORMAT")
        .env_remove("STY_FORMAT")
        .env_remove("STY_PROGRESS")
        .env("STY_CONFIG", "");
    command
}

/// The exit code, stdout and stderr of a run with an empty stdin.
fn run(args: &[&str]) -> (i32, String, String) {
    let output = sty(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}
