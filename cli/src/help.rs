//! Help texts: paragraphs that fit any terminal, examples with `-h` too, commands in groups.
//!
//! A command's text is its doc comment: a line, paragraphs, and last its examples. Paragraphs are
//! joined to one line each, so that clap wraps them once; examples stay as they are written.

use std::fmt::Write as _;
use std::path::Path;

use clap::Command;
use clap::builder::StyledStr;

use crate::exit;

/// What begins the examples of a command.
const EXAMPLES: &str = "Examples:\n";
/// Where there is no terminal.
const USUAL_WIDTH: usize = 80;
/// Longer lines are hard to read.
const MOST_WIDTH: usize = 100;
/// Where the texts of commands start in the list of them.
const INDENT: usize = 18;

/// The commands by what they are for. The last group takes those that no other has.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Rows in", &["ingest", "alter", "drop-partition"]),
    ("Rows out", &["query", "shell", "export"]),
    ("What is there", &["tables", "schema", "partitions", "inspect", "manifest"]),
    ("Care", &["compact", "gc", "verify", "repair", "cluster"]),
    ("Tools", &["bench", "demo", "gen", "config", "completions"]),
];

const FIRST_STEPS: &str = "\
Examples:
  sty ingest db/trips trips-*.csv.gz
  sty query db 'SELECT vendor, count(*) FROM trips GROUP BY vendor'
  sty tables db
  sty help query";

/// The definition of the command line with all texts of its help.
pub(crate) fn with_texts(root: Command) -> Command {
    let width = terminal_size::terminal_size()
        .map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0).min(MOST_WIDTH));
    let root = each(root, &|command| with_examples(command).term_width(width));
    let template = template(&root, width);
    root.help_template(template)
        .after_help(FIRST_STEPS)
        .after_long_help(format!("{FIRST_STEPS}\n\n{}", exit::HELP))
}

/// What other programs call our commands.
const OTHER_NAMES: [(&str, &str); 22] = [
    ("add", "ingest"),
    ("check", "verify"),
    ("columns", "schema"),
    ("copy", "ingest"),
    ("desc", "schema"),
    ("describe", "schema"),
    ("exec", "query"),
    ("fix", "repair"),
    ("import", "ingest"),
    ("info", "inspect"),
    ("insert", "ingest"),
    ("list", "tables"),
    ("load", "ingest"),
    ("ls", "tables"),
    ("optimize", "compact"),
    ("repl", "shell"),
    ("run", "query"),
    ("select", "query"),
    ("show", "tables"),
    ("sql", "query"),
    ("stat", "inspect"),
    ("vacuum", "compact"),
];

/// What to do where a word is no command: it may be SQL, a file, or the name of a command
/// elsewhere. `known` are names that are like it, the most likely one last.
pub(crate) fn advice(word: &str, known: &[String]) -> String {
    let other = OTHER_NAMES.iter().find(|(name, _)| *name == word);
    match (other, known) {
        _ if word.contains(char::is_whitespace) => "for SQL: sty query 'SELECT …'".to_owned(),
        _ if Path::new(word).is_file() => {
            let name = Path::new(word).file_stem().unwrap_or_default().to_string_lossy();
            let name = name.split('.').next().unwrap_or_default();
            format!("sty query \"FROM '{word}'\" reads it, sty ingest db/{name} {word} stores it")
        }
        (Some((_, command)), _) => format!("did you mean '{command}'?"),
        (None, [.., near]) => format!("did you mean '{near}'?"),
        (None, []) => "`sty --help` lists all commands".to_owned(),
    }
}

fn each(command: Command, change: &impl Fn(Command) -> Command) -> Command {
    change(command).mut_subcommands(|command| each(command, change))
}

/// A command whose paragraphs are lines, and whose examples come at the end.
fn with_examples(command: Command) -> Command {
    let Some(text) = command.get_long_about().map(StyledStr::to_string) else { return command };
    let (prose, examples) = match text.split_once(EXAMPLES) {
        Some((prose, examples)) => (prose, Some(examples)),
        None => (text.as_str(), None),
    };
    let command = command.long_about(joined(prose.trim_end()));
    match examples {
        Some(examples) => command.after_help(format!("{EXAMPLES}{}", examples.trim_end())),
        None => command,
    }
}

/// A text with a line for each paragraph; lines that begin with a blank stay.
fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_paragraph = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if in_paragraph && is_prose {
            out.push(' ');
        } else if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(line);
        in_paragraph = is_prose;
    }
    out
}

/// The help of `sty` itself, with its commands in groups.
fn template(root: &Command, width: usize) -> StyledStr {
    let header = root.get_styles().get_header();
    let literal = root.get_styles().get_literal();
    let mut text = StyledStr::new();
    let _ = write!(text, "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n");
    for (title, commands) in groups(root) {
        let _ = writeln!(text, "{header}{title}:{header:#}");
        for command in commands {
            let (name, about) = (command.get_name(), command.get_about());
            let about = about.map(StyledStr::to_string).unwrap_or_default();
            let mut lines = wrapped(&about, width.saturating_sub(INDENT)).into_iter();
            let first = lines.next().unwrap_or_default();
            let pad = INDENT.saturating_sub(2 + name.len());
            let _ = writeln!(text, "  {literal}{name}{literal:#}{:pad$}{first}", "");
            for line in lines {
                let _ = writeln!(text, "{:INDENT$}{line}", "");
            }
        }
        let _ = writeln!(text);
    }
    let _ = write!(text, "{header}Options:{header:#}\n{{options}}{{after-help}}");
    text
}

fn groups(root: &Command) -> Vec<(&'static str, Vec<&Command>)> {
    let visible = || root.get_subcommands().filter(|command| !command.is_hide_set());
    let named = |name: &str| visible().find(|command| command.get_name() == name);
    let mut groups: Vec<(&str, Vec<&Command>)> = GROUPS
        .iter()
        .map(|(title, names)| (*title, names.iter().filter_map(|name| named(name)).collect()))
        .collect();
    let others = visible()
        .filter(|command| !GROUPS.iter().any(|(_, names)| names.contains(&command.get_name())));
    if let Some((_, tools)) = groups.last_mut() {
        tools.extend(others);
    }
    groups
}

/// A text in lines of at most so many characters, where its words allow.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_lines() {
        let text = "One line.\n\nA long\nparagraph.\n  - a list\n  - of two\nand more.";
        let lines = "One line.\n\nA long paragraph.\n  - a list\n  - of two\nand more.";
        assert_eq!(joined(text), lines);
        assert_eq!(wrapped("a bc def g", 4), ["a bc", "def", "g"]);
    }

    #[test]
    fn what_is_no_command_is_understood() {
        let is = |word: &str, part: &str| {
            let advice = advice(word, &["tables".to_owned()]);
            assert!(advice.contains(part), "{word}: {advice}");
        };
        is("SELECT 1", "sty query 'SELECT …'");
        is("import", "'ingest'");
        is("tabels", "'tables'");
        is("Cargo.toml", "sty ingest db/Cargo Cargo.toml");
        let commands = crate::help::GROUPS.iter().flat_map(|(_, names)| *names);
        let commands: Vec<&&str> = commands.collect();
        for (other, command) in OTHER_NAMES {
            assert!(commands.contains(&&command) && !commands.contains(&&other), "{other}");
        }
        assert!(OTHER_NAMES.is_sorted());
        assert!(advice("frob", &[]).contains("lists all"));
    }

    #[test]
    fn examples_come_after_the_options_of_both_helps() {
        let text = "Do it\n\nAt some\nlength.\n\nExamples:\n  sty do it\n  sty do  | more";
        let mut command = with_examples(Command::new("do").about("Do it").long_about(text));
        for help in [command.render_help(), command.render_long_help()] {
            let help = help.to_string();
            assert!(help.ends_with("Examples:\n  sty do it\n  sty do  | more\n"), "{help}");
        }
        assert!(command.render_long_help().to_string().contains("At some length."));
    }
}
