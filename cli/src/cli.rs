//! The command line: the options that all commands share, and the list of commands.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{
    ArgAction, ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
};

use crate::args::resources::LimitArgs;
use crate::charts::ChartOptions;
#[cfg(feature = "cluster")]
use crate::commands::cluster;
#[cfg(feature = "serve")]
use crate::commands::serve;
use crate::commands::{
    alter, bench, compact, completions, config as settings, drop_partition, export, gc, ingest,
    inspect, man, manifest, partitions, query, repair, schema, shell, tables, verify,
};
#[cfg(feature = "gen")]
use crate::commands::{demo, r#gen};
use crate::config::{self, Settings};
use crate::context::Context;
use crate::errors::{ErrorFormat, Failure};
use crate::exit::Exit;
use crate::help;
use crate::memory;
use crate::printers::Format;
use crate::signals;
use crate::terminal::When;

/// Columnar tables on disk: rows in with `ingest`, SQL answers out with `query`.
///
/// A STORE is a directory of tables. Results go to stdout and nothing else does; progress,
/// summaries and errors go to stderr. `-` is stdin wherever a file is read and stdout wherever one
/// is written.
#[derive(Debug, Parser)]
#[command(name = "sty", version)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Debug, Args)]
struct Globals {
    /// How an error looks on stderr; `json` is one object: code, message, file, offset, hint
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t)]
    #[arg(help_heading = "Everywhere", env = "STY_ERROR_FORMAT", hide_env = true)]
    error_format: ErrorFormat,
    /// Colours; `auto` uses them on a terminal unless NO_COLOR is set or TERM is dumb
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    #[arg(help_heading = "Everywhere", env = "STY_COLOR", hide_env = true)]
    color: When,
    /// How far a command is, on stderr, once it takes more than half a second; `auto` shows it on a
    /// terminal
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    #[arg(help_heading = "Everywhere", env = "STY_PROGRESS", hide_env = true)]
    progress: When,
    /// No notes and summaries on stderr
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    #[arg(env = "STY_QUIET", hide_env = true)]
    quiet: bool,
    /// More notes on stderr; repeat for more still
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    #[arg(help_heading = "Everywhere")]
    verbose: u8,
    /// Read no config files; variables hold all the same
    #[arg(long, global = true, help_heading = "Everywhere")]
    no_config: bool,
}

/// What `sty` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ingest(ingest::IngestArgs),
    Query(query::QueryArgs),
    Shell(shell::ShellArgs),
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    Tables(tables::TablesArgs),
    Schema(schema::SchemaArgs),
    Partitions(partitions::PartitionsArgs),
    Manifest(manifest::ManifestArgs),
    Export(export::ExportArgs),
    Compact(compact::CompactArgs),
    Alter(alter::AlterArgs),
    DropPartition(drop_partition::DropPartitionArgs),
    Gc(gc::GcArgs),
    Bench(bench::BenchArgs),
    Inspect(inspect::InspectArgs),
    Verify(verify::VerifyArgs),
    Repair(repair::RepairArgs),
    #[cfg(feature = "cluster")]
    Cluster(cluster::ClusterArgs),
    #[cfg(feature = "gen")]
    Demo(demo::DemoArgs),
    #[cfg(feature = "gen")]
    Gen(r#gen::GenArgs),
    Config(settings::ConfigArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

impl Command {
    /// Whether the command runs where a config file is wrong: it neither stores nor answers
    /// anything.
    fn needs_no_settings(&self) -> bool {
        matches!(self, Command::Config(_) | Command::Completions(_) | Command::Man(_))
    }

    /// Whether a person types what the command does.
    pub(crate) fn is_interactive(&self) -> bool {
        matches!(self, Command::Shell(args) if args.is_interactive())
    }

    /// Whether the timeout is that of the command, and not of each of its statements.
    pub(crate) fn has_timeout(&self) -> bool {
        #[cfg(feature = "serve")]
        if matches!(self, Command::Serve(_)) {
            return false;
        }
        !self.is_interactive()
    }
}

/// Runs the command.
pub(crate) fn run(command: Command, context: &Context) -> Result<(), Failure> {
    signals::check()?;
    match command {
        Command::Ingest(args) => ingest::run(&args, context),
        Command::Query(args) => query::run(&args, context),
        Command::Shell(args) => shell::run(&args, context),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&args, context),
        Command::Tables(args) => tables::run(&args, context),
        Command::Schema(args) => schema::run(&args, context),
        Command::Partitions(args) => partitions::run(&args, context),
        Command::Manifest(args) => manifest::run(&args, context),
        Command::Export(args) => export::run(&args, context),
        Command::Compact(args) => compact::run(&args, context),
        Command::Alter(args) => alter::run(args, context),
        Command::DropPartition(args) => drop_partition::run(&args, context),
        Command::Gc(args) => gc::run(&args, context),
        Command::Bench(args) => bench::run(&args, context),
        Command::Inspect(args) => inspect::run(&args, context),
        Command::Verify(args) => verify::run(&args, context),
        Command::Repair(args) => repair::run(&args, context),
        #[cfg(feature = "cluster")]
        Command::Cluster(args) => cluster::run(&args, context),
        #[cfg(feature = "gen")]
        Command::Demo(args) => demo::run(&args, context),
        #[cfg(feature = "gen")]
        Command::Gen(args) => r#gen::run(&args, context),
        Command::Config(args) => settings::run(&args, context),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args, help::with_texts(Cli::command())),
    }
}

/// Tells a shell what may come next on its command line; false if none has asked.
pub(crate) fn complete() -> bool {
    completions::answer(|| help::with_texts(Cli::command()))
}

/// Reads the command line. Help, version, usage errors and those of settings are answered here.
pub(crate) fn parse() -> Result<(Command, Context), Exit> {
    let words = words(std::env::args_os());
    let settings = match words.iter().take_while(|word| *word != "--").any(|w| w == "--no-config") {
        true => Settings::default(),
        false => config::checked(&Cli::command(), config::load()),
    };
    let wants_json = asks_for_json(&words)
        .or_else(|| Some(settings.value("error-format")? == "json"))
        .unwrap_or(false);
    let parsed = matches(&words, &settings);
    let parsed = parsed.or_else(|error| with_help_texts(error, &words, &settings));
    let parsed = parsed.and_then(|matches| {
        let limit = matches.try_get_one("memory_limit").ok().flatten().copied();
        memory::return_freed_at_once(limit, matches.subcommand_name() == Some("serve"));
        let mut cli =
            Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::command()))?;
        let in_force = |given, name| config::in_force(&Cli::command(), &settings, given, name);
        match &mut cli.command {
            // Options of `config` are none of the command that it is asked about.
            Command::Config(args) => args.in_force = in_force(&matches, args.command.as_deref()),
            Command::Ingest(args) => {
                let given = matches.subcommand_matches("ingest").unwrap_or(&matches);
                args.settings = in_force(given, Some("ingest")).unwrap_or_default();
            }
            _ => {}
        }
        Ok(cli)
    });
    let report = |failure: &Failure| {
        let format = if wants_json { ErrorFormat::Json } else { ErrorFormat::Human };
        failure.report(format, When::Auto.color(std::io::stderr().is_terminal()));
        failure.exit
    };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let ours = config::wrong_variable(&Cli::command(), &error, &words);
            let ours = ours.or_else(|| no_command(&error));
            return Err(match ours.or_else(|| export_without_option(&error, &words)) {
                Some(failure) => report(&failure),
                None => answer(&error, wants_json),
            });
        }
    };
    // Nobody has to mend a file to learn how.
    if let Some(problem) = settings.problems.first().filter(|_| !cli.command.needs_no_settings()) {
        return Err(report(problem));
    }
    settings.problems.iter().for_each(|problem| {
        report(problem);
    });
    let Globals { error_format, color, progress, quiet, verbose, no_config: _ } = cli.globals;
    // -v goes before a setting.
    let quiet = quiet && verbose == 0;
    let LimitArgs { threads, memory_limit, timeout } = cli.limits;
    let timeout = timeout.filter(|timeout| !timeout.is_zero());
    let context = Context {
        error_format,
        color,
        progress,
        quiet,
        verbose,
        threads,
        memory_limit,
        timeout,
        wait: Duration::ZERO,
    };
    settings.notes.iter().for_each(|note| context.note(note));
    Ok((cli.command, context))
}

/// The definition of the command line, with settings as its defaults.
fn definition(settings: &Settings, words: &[OsString]) -> clap::Command {
    config::apply(Cli::command(), settings, words)
}

/// Parses the command line once more where help, or a part of it, is the answer: its texts are not
/// made before.
fn with_help_texts(
    error: clap::Error,
    words: &[OsString],
    settings: &Settings,
) -> Result<ArgMatches, clap::Error> {
    let definition = help::with_texts(definition(settings, words));
    match words {
        // Only without `help` a name that is misspelt is guessed.
        [sty, help, command, ..]
            if help == "help" && error.kind() == ErrorKind::InvalidSubcommand =>
        {
            definition.try_get_matches_from([sty, command])
        }
        words => definition.try_get_matches_from(words),
    }
}

/// What the command line says. Where an answer does not go to a terminal, settings of files do not
/// say how it looks; and what the command line itself says of the format goes before settings.
fn matches(words: &[OsString], settings: &Settings) -> Result<ArgMatches, clap::Error> {
    let elsewhere = settings.away_from_terminal();
    let is_shown = std::io::stdout().is_terminal();
    let settings = if is_shown { settings } else { &elsewhere };
    let matches = definition(settings, words).try_get_matches_from(words)?;
    let Some(("query", query)) = matches.subcommand() else { return Ok(matches) };
    let file = query.get_one::<PathBuf>("output").or_else(|| query.get_one::<PathBuf>("html"));
    let is_setting = |id| query.value_source(id).is_some_and(|s| s != ValueSource::CommandLine);
    let format = query.get_one::<Format>("format").filter(|_| is_setting("format"));
    let is_said = file.is_some_and(|path| Format::of_name(path).is_some())
        || asks_for_chart(query) && format.is_some_and(|format| !format.has_chart());
    if format.is_some() && is_said {
        let without = |arg: clap::Arg| arg.env(Resettable::Reset).default_value(Resettable::Reset);
        let definition = definition(&elsewhere, words);
        return definition
            .mut_subcommand("query", |query| query.mut_arg("format", without))
            .try_get_matches_from(words);
    }
    match file.is_some() && is_shown {
        true => definition(&elsewhere, words).try_get_matches_from(words),
        false => Ok(matches),
    }
}

fn asks_for_chart(query: &ArgMatches) -> bool {
    ChartOptions::from_arg_matches(query).is_ok_and(|options| options.any())
}

/// The words of the command line. A store alone, and nothing on a terminal, open a shell. SQL may
/// begin with a comment, which is no option.
fn words(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let is_comment = |word: &OsString| {
        let word = word.to_str().filter(|word| word.starts_with("--")).unwrap_or_default();
        // The names of options have no blanks; their values may have some.
        word.split('=').next().is_some_and(|name| name.contains(char::is_whitespace))
    };
    let mut words: Vec<OsString> = args.collect();
    let options = words.iter().position(|word| word == "--").unwrap_or(words.len());
    if words.iter().take(options).any(is_comment) && may_take_sql(&words) {
        for word in words.iter_mut().take(options).filter(|word| is_comment(word)) {
            *word = [OsString::from(" "), std::mem::take(word)].into_iter().collect();
        }
    }
    let opens_shell = match words.get(1) {
        None => std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
        Some(word) => {
            let is_command = || {
                let word = word.to_str().unwrap_or_default();
                let is_known = || Cli::command().find_subcommand(word).is_some();
                word.starts_with('-') || word == "help" || is_known()
            };
            Path::new(word).is_dir() && !is_command()
        }
    };
    if opens_shell {
        words.insert(1.min(words.len()), "shell".into());
    }
    words
}

/// Whether the command takes SQL, or is not known.
fn may_take_sql(words: &[OsString]) -> bool {
    let cli = Cli::command();
    let is_command = |word: &&str| cli.find_subcommand(word).is_some();
    let command = words.iter().skip(1).filter_map(|word| word.to_str()).find(is_command);
    command.is_none_or(|command| ["query", "shell", "bench"].contains(&command))
}

/// The failure for a word that is no command.
fn no_command(error: &clap::Error) -> Option<Failure> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let near = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(near)) => near.as_slice(),
        _ => &[],
    };
    let failure = Failure::usage(format!("there is no command '{word}'"));
    Some(failure.hint(help::advice(word, near)))
}

/// The failure for `sty export db/t x.csv`: a file without its option.
fn export_without_option(error: &clap::Error, words: &[OsString]) -> Option<Failure> {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let at = words.iter().position(|word| *word == "export")?;
    let Some(ContextValue::String(file)) = error.get(ContextKind::InvalidArg) else { return None };
    let table = words.get(at + 1..)?.iter().find(|word| !word.starts_with('-'))?;
    if error.kind() != ErrorKind::UnknownArgument || file.starts_with('-') {
        return None;
    }
    let failure = Failure::usage(format!("export writes to what -o names, and {file} has none"));
    Some(failure.hint(format!("sty export {table} -o {file}")))
}

/// Prints help or version to stdout, or a usage error to stderr, and returns the exit code.
fn answer(error: &clap::Error, wants_json: bool) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return Exit::Done;
    }
    if wants_json {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let (message, hint) = text.split_once("\n\n").unwrap_or((text, ""));
        let failure = Failure::usage(message.trim());
        let hint = hint.split_whitespace().collect::<Vec<_>>().join(" ");
        let failure = if hint.is_empty() { failure } else { failure.hint(hint) };
        failure.report(ErrorFormat::Json, false);
    } else {
        let _ = error.print();
        let _ = std::io::stderr().flush();
    }
    Exit::Usage
}

/// Whether `--error-format json` is given, or another format. It is searched for by hand, since the
/// command line could not be parsed.
fn asks_for_json(args: &[OsString]) -> Option<bool> {
    let after = |flag: &[OsString]| match flag {
        [flag, value] if flag == "--error-format" => Some(value.clone()),
        [flag, ..] => Some(flag.to_str()?.strip_prefix("--error-format=")?.into()),
        [] => None,
    };
    let given = (0..args.len()).rev().find_map(|at| after(args.get(at..args.len().min(at + 2))?));
    let variable = || std::env::var_os("STY_ERROR_FORMAT").filter(|value| !value.is_empty());
    given.or_else(variable).map(|value| value == "json")
}

/// Prints the help of one command to stderr.
pub(crate) fn print_help(command: &str) {
    let mut cli = help::with_texts(Cli::command());
    // Building it gives the command its full name and the options of all commands.
    cli.build();
    if let Some(found) = cli.find_subcommand_mut(command) {
        let _ = writeln!(std::io::stderr().lock(), "{}", found.render_help());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_store_alone_opens_a_shell() {
        let words = |args: &[&str]| {
            let words = words(args.iter().map(OsString::from)).into_iter();
            words.map(|word| word.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(words(&["sty", "/tmp", "-q"]), ["sty", "shell", "/tmp", "-q"]);
        assert_eq!(words(&["sty", "query", "/tmp"]), ["sty", "query", "/tmp"]);
        assert_eq!(words(&["sty", "--version"]), ["sty", "--version"]);
        assert_eq!(words(&["sty", "/no/such/store"]), ["sty", "/no/such/store"]);
    }

    #[test]
    fn a_comment_is_no_option() {
        let words =
            |word: &str| words(["sty", "query", word].map(OsString::from).into_iter())[2].clone();
        for sql in ["-- total\nSELECT 1", "--total\nSELECT 1", "--\nSELECT 1 WHERE a = 2"] {
            assert_eq!(words(sql), OsString::from(format!(" {sql}")));
        }
        for option in ["--title=A b", "--quiet", "--", "-q", "--x=a\n--b c"] {
            assert_eq!(words(option), option);
        }
        let same = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            assert_eq!(super::words(args.clone().into_iter()), args);
        };
        same(&["sty", "ingest", "db/t", "--", "--my file.csv"]);
        same(&["sty", "query", "--", "-- a\nSELECT 1"]);
        same(&["sty", "ingest", "db/t", "--my file.csv"]);
    }

    #[test]
    fn json_is_asked_for_in_either_spelling() {
        let asks =
            |args: &[&str]| asks_for_json(&args.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(asks(&["sty", "--error-format", "json", "nonsense"]), Some(true));
        assert_eq!(asks(&["sty", "nonsense", "--error-format=json"]), Some(true));
        assert_eq!(asks(&["sty", "json", "--error-format", "human"]), Some(false));
    }
}
