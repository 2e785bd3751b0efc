//! `sty shell`: statements are typed, completed and run one after the other, in one session.
//!
//! The modules, from the bottom:
//!
//! - `keywords`: the words of SQL that are highlighted and completed.
//! - `pieces`: takes a text apart into statements and the shell's own commands.
//! - `dot`: the shell's own commands, which begin with a dot.
//! - `scope`: which tables a statement names, and which of them the cursor may mean.
//! - `known`: tables, columns and functions of the session, read when they are first needed.
//! - `lists`: tables, and the columns of all of them.
//! - `paths`: names of files that begin so.
//! - `completion`: what may stand at the cursor.
//! - `highlight`: what each part of a text is, for its colours.
//! - `history`: the file of what was typed before.
//! - `editor`: the editor of lines, on `reedline`; `plain`: lines as the terminal gives them.
//! - `place`: the line of a statement that an error is about.
//! - `plot`: the options of charts.
//! - `answers`: where answers go, how they look, and the last one.
//! - `session`: runs what was typed.

#![cfg_attr(
    not(feature = "editor"),
    allow(dead_code, reason = "what completes and colours a text is called by the editor only")
)]

mod answers;
mod completion;
mod dot;
#[cfg(feature = "editor")]
mod editor;
#[cfg(feature = "editor")]
mod highlight;
#[cfg(feature = "editor")]
mod history;
mod keywords;
mod known;
mod lists;
mod paths;
mod pieces;
mod place;
mod plain;
mod plot;
mod scope;
mod session;

pub(crate) use session::{Opened, run, run_script};
