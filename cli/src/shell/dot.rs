//! The shell's own commands, which begin with a dot: what they are called, and what a line asks
//! for.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::errors::Failure;
use crate::printers::Format;

/// What a line asks the shell to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Dot {
    Help(Option<String>),
    Tables(Option<String>),
    Schema(Option<String>),
    /// `None` asks which one it is.
    Mode(Option<Format>),
    Timer(bool),
    Stats(bool),
    Pager(bool),
    Read(PathBuf),
    /// `None` is the screen.
    Output(Option<PathBuf>),
    Explain(String),
    Last,
    Plot(Vec<String>),
    Quit,
}

/// A command, for `.help` and for completion.
pub(super) struct Known {
    /// With its dot.
    pub(super) name: &'static str,
    /// What may follow it.
    pub(super) arguments: &'static str,
    /// What it does, in a line.
    pub(super) summary: &'static str,
    /// What else there is to say.
    details: &'static str,
}

const fn known(
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    details: &'static str,
) -> Known {
    Known { name, arguments, summary, details }
}

/// All commands, in the order in which `.help` lists them.
pub(super) const COMMANDS: [Known; 13] = [
    known(".help", "[COMMAND]", "Say what there is, or more about one command", ""),
    known(
        ".tables",
        "[PATTERN]",
        "List tables and views with their rows and columns",
        "PATTERN is a part of a name, or one with % for any characters: .tables trips%",
    ),
    known(
        ".schema",
        "[TABLE]",
        "List the columns of a table or file, or of all tables",
        "A file is named in quotes: .schema 'trips.parquet'",
    ),
    known(
        ".mode",
        "[FORMAT]",
        "Choose the format of answers",
        "table, vertical (a value a line), csv, tsv, json, jsonl, markdown, chart, svg, html; .last shows the last answer again in the new one.",
    ),
    known(".timer", "on|off", "Say how long statements take (on)", ""),
    known(
        ".stats",
        "on|off",
        "Say what statements read, and what was pruned (off)",
        "The figures are those of `sty query --stats`.",
    ),
    known(".explain", "SQL", "Show the plan of a statement", "The same as EXPLAIN SQL;"),
    known(
        ".last",
        "",
        "Show the last answer again, in the current format",
        "Up to a million rows and 64 MiB of it are kept.",
    ),
    known(
        ".plot",
        "[KIND] [OPTIONS]",
        "Draw the last answer",
        "KIND is bar, line, hist, heat, spark or scatter, or is chosen by the columns. OPTIONS are \
         those of charts in `sty query --help`: --x COLUMN, --y COLUMN,…, --hue COLUMN, --log, \
         --bins N, --title TEXT, --width N, --height N, --ascii.",
    ),
    known(
        ".read",
        "FILE",
        "Run the statements and commands of a file",
        "It stops at the first error. A file may read others.",
    ),
    known(
        ".output",
        "[FILE]",
        "Write answers to a file from now on, without FILE to the screen",
        "The format is that of the file's name (.csv, .parquet, …). The file appears when the next \
         .output closes it, or the shell ends. An existing file is not replaced. .json, .arrow, \
         .parquet and .svg files hold one answer.",
    ),
    known(
        ".pager",
        "on|off",
        "Show answers that do not fit on the screen in a pager (on)",
        "The pager is $STY_PAGER, $PAGER or less. Leaving it stops the query.",
    ),
    known(".quit", "", "Leave the shell; so does Ctrl-D", ""),
];

/// Other names of commands, as other shells have them.
const ALIASES: [(&str, &str); 4] =
    [(".exit", ".quit"), (".q", ".quit"), (".h", ".help"), (".describe", ".schema")];

/// The command that a line asks for.
pub(super) fn parse(line: &str) -> Result<Dot, Failure> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    // Statements have a semicolon at the end, and fingers put one here, too.
    let rest = rest.trim().trim_end_matches(';').trim_end();
    let known = find(name.trim_end_matches(';'))?;
    let words = words(rest);
    let one = || match words.as_slice() {
        [] => Ok(None),
        [word] => Ok(Some(word.clone())),
        _ => Err(wrong(known)),
    };
    let needed = || one()?.ok_or_else(|| wrong(known));
    let switch = || match needed()?.as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(wrong(known)),
    };
    Ok(match known.name {
        ".help" => Dot::Help(one()?),
        ".tables" => Dot::Tables(one()?),
        ".schema" => Dot::Schema(one()?),
        ".mode" => Dot::Mode(one()?.map(|name| format(&name)).transpose()?),
        ".timer" => Dot::Timer(switch()?),
        ".stats" => Dot::Stats(switch()?),
        ".pager" => Dot::Pager(switch()?),
        ".read" => Dot::Read(needed()?.into()),
        ".output" => Dot::Output(one()?.map(PathBuf::from)),
        ".explain" if rest.is_empty() => return Err(wrong(known)),
        ".explain" => Dot::Explain(rest.to_owned()),
        ".last" if words.is_empty() => Dot::Last,
        ".plot" => Dot::Plot(words),
        ".quit" if words.is_empty() => Dot::Quit,
        _ => return Err(wrong(known)),
    })
}

/// The command of a name, of which the beginning is enough.
fn find(name: &str) -> Result<&'static Known, Failure> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, name)| name);
    if let Some(known) = COMMANDS.iter().find(|known| known.name == name) {
        return Ok(known);
    }
    let begins = |known: &&Known| name.len() > 1 && known.name.starts_with(name);
    let alike: Vec<&Known> = COMMANDS.iter().filter(begins).collect();
    match alike.as_slice() {
        [known] => Ok(known),
        [] => Err(unknown("command", name, COMMANDS.iter().map(|known| known.name))
            .hint_unless_there(".help lists all commands")),
        several => {
            let names: Vec<&str> = several.iter().map(|known| known.name).collect();
            Err(Failure::usage(format!("{name} may be {}", names.join(" or "))))
        }
    }
}

fn format(name: &str) -> Result<Format, Failure> {
    let known = Format::from_str(name, true);
    known.map_err(|_| {
        let names: Vec<String> = formats().collect();
        let failure = unknown("format", name, names.iter().map(String::as_str));
        failure.hint_unless_there(&format!("there are: {}", names.join(", ")))
    })
}

/// The formats that a terminal can show.
pub(super) fn formats() -> impl Iterator<Item = String> {
    let shown = Format::value_variants().iter().filter(|format| !format.is_binary());
    shown.filter_map(|format| Some(format.to_possible_value()?.get_name().to_owned()))
}

fn wrong(known: &Known) -> Failure {
    Failure::usage(format!("usage: {} {}", known.name, known.arguments))
}

/// The failure for a name that means nothing, with the one that was probably meant.
fn unknown<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>) -> Failure {
    let distance = |known: &&str| strsim::damerau_levenshtein(known, name);
    let near = names.min_by_key(distance).filter(|known| distance(known) <= 2);
    let failure = Failure::usage(format!("there is no {what} {name}"));
    match near {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => failure,
    }
}

/// The words of a line. Quotes of either kind hold a word with blanks together.
pub(super) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// What `.help` says.
pub(super) fn help(about: Option<&str>) -> Result<String, Failure> {
    let Some(name) = about else {
        let line = |known: &Known| {
            let usage = format!("{} {}", known.name, known.arguments);
            format!("  {usage:<23} {}\n", known.summary)
        };
        let commands: String = COMMANDS.iter().map(line).collect();
        return Ok(format!("{KEYS}\n{commands}"));
    };
    let dotted = if name.starts_with('.') { name.to_owned() } else { format!(".{name}") };
    let Known { name, arguments, summary, details } = find(&dotted)?;
    let details = if details.is_empty() { String::new() } else { format!("  {details}\n") };
    Ok(format!("{name} {arguments}\n  {summary}\n{details}"))
}

const KEYS: &str =
    "  SQL ends with a semicolon and may have several lines. Tab completes names, files
  and functions; the right arrow takes the grey suggestion; Ctrl-R searches what was
  typed before. Ctrl-C clears the line or stops the statement that runs; Ctrl-Z suspends
  the shell. FROM 'file' reads CSV, JSON, Parquet and Arrow.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_ask_for_commands() {
        let ask = |line: &str| parse(line).unwrap();
        assert_eq!(ask(".tables"), Dot::Tables(None));
        assert_eq!(ask(".tables trips%;"), Dot::Tables(Some("trips%".to_owned())));
        assert_eq!(ask(".schema \"a b\""), Dot::Schema(Some("a b".to_owned())));
        assert_eq!(ask(".mode csv"), Dot::Mode(Some(Format::Csv)));
        assert_eq!(ask(".timer off"), Dot::Timer(false));
        assert_eq!(ask(".read 'my file.sql'"), Dot::Read("my file.sql".into()));
        assert_eq!(ask(".output"), Dot::Output(None));
        assert_eq!(ask(".explain SELECT  'a b';"), Dot::Explain("SELECT  'a b'".to_owned()));
        for quit in [".quit", ".quit;", ".exit", ".q", ".qu"] {
            assert_eq!(ask(quit), Dot::Quit, "{quit}");
        }
    }

    #[test]
    fn wrong_lines_say_what_is_right() {
        let hint = |line: &str| {
            let failure = parse(line).unwrap_err();
            format!("{} {}", failure.message, failure.hint.unwrap_or_default())
        };
        assert!(hint(".tabels").contains("did you mean .tables?"));
        assert!(hint(".mode cvs").contains("did you mean csv?"));
        assert!(hint(".mode x").contains("table, vertical, csv"));
        assert!(hint(".timer maybe").contains("on|off"));
        assert!(hint(".t on").contains(".tables or .timer"));
        assert!(hint(".frobnicate").contains(".help"));
        assert!(hint(".quit now").contains("usage"));
    }

    #[test]
    fn every_command_has_its_help() {
        let all = help(None).unwrap();
        for known in &COMMANDS {
            assert!(all.contains(known.summary));
            let dotless = known.name.trim_start_matches('.');
            assert!(help(Some(dotless)).unwrap().contains(known.summary));
        }
        assert!(all.lines().all(|line| line.chars().count() < 100));
        assert!(help(Some("nothing")).is_err());
    }
}
