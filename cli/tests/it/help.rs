//! Help, manual pages, suggestions, and completion in shells.

use std::process::Command;

use crate::run;
use crate::shell::Shell;

/// All commands that help lists.
fn commands() -> Vec<String> {
    let (_, help, _) = run(&["-h"]);
    let lines = help.lines().skip_while(|line| *line != "Rows in:");
    let lines = lines.take_while(|line| *line != "Options:");
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("    "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn commands_are_listed_in_groups() {
    for help in ["-h", "--help", "help"] {
        let (code, stdout, stderr) = run(&[help]);
        assert_eq!((code, stderr.as_str()), (0, ""));
        for title in ["Rows in:", "Rows out:", "What is there:", "Care:", "Tools:", "Options:"] {
            assert!(stdout.lines().any(|line| line == title), "{title}\n{stdout}");
        }
    }
    let commands = commands();
    assert!(commands.len() >= 17 && commands.iter().any(|name| name == "ingest"), "{commands:?}");
}

#[test]
fn every_help_fits_80_columns_and_has_examples() {
    let mut pages = vec![Vec::new()];
    pages.extend(commands().into_iter().filter(|name| name != "help").map(|name| vec![name]));
    for page in pages {
        for option in ["-h", "--help"] {
            let words: Vec<&str> = page.iter().map(String::as_str).chain([option]).collect();
            let (code, help, _) = run(&words);
            assert_eq!(code, 0, "{words:?}");
            let wide = help.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{words:?}");
            assert!(help.contains("\nExamples:\n  "), "{words:?}\n{help}");
            assert!(help.contains("Usage: sty"), "{words:?}");
        }
    }
}

#[test]
fn paragraphs_are_wrapped_once() {
    let (_, help, _) = run(&["ingest", "--help"]);
    let prose: Vec<&str> = help.lines().take_while(|line| !line.starts_with("Usage")).collect();
    // A line that is much shorter than the next word allows would have been wrapped twice.
    for pair in prose.windows(2).filter(|pair| !pair[0].is_empty() && !pair[1].is_empty()) {
        let next = pair[1].split_whitespace().next().unwrap_or_default();
        let room = 80usize.saturating_sub(pair[0].chars().count());
        assert!(next.chars().count() + 1 > room, "{pair:?}");
    }
    assert!(prose.len() > 10);
}

/// People copy examples, so no example is wrapped on a terminal of 80 columns.
#[test]
fn examples_fit_a_terminal() {
    for command in commands() {
        let help = run(&[&command, "-h"]).1;
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        for line in lines.filter(|line| !line.is_empty()) {
            assert!(line.starts_with("  ") && line.chars().count() <= 80, "{command}: {line}");
            let begins =
                |words: [&str; 6]| words.iter().any(|word| line.trim_start().starts_with(word));
            assert!(
                begins(["sty ", "zcat ", "cat ", "curl ", "tail ", "echo "]),
                "{command}: {line}"
            );
        }
    }
}

#[test]
fn help_of_a_command_is_asked_for_in_three_ways() {
    let (_, long, _) = run(&["compact", "--help"]);
    assert_eq!(run(&["help", "compact"]).1, long);
    let (_, short, _) = run(&["compact", "-h"]);
    assert!(short.len() < long.len());
    let (code, _, stderr) = run(&["help", "compat"]);
    assert!(code == 2 && stderr.contains("'compact'"), "{stderr}");
}

#[test]
fn what_is_misspelt_is_guessed() {
    for (words, guess) in [
        (&["querry", "db"][..], "query"),
        (&["query", "db", "--fromat", "csv"], "--format"),
        (&["query", "db", "SELECT 1", "--format", "jsno"], "json"),
        (&["alter", "db/t", "renme", "a", "b"], "rename"),
        (&["completions", "fsh"], "fish"),
    ] {
        let (code, stdout, stderr) = run(words);
        assert_eq!((code, stdout.as_str()), (2, ""), "{words:?}");
        assert!(stderr.contains(&format!("'{guess}'")), "{words:?}: {stderr}");
    }
}

#[test]
fn manual_pages_are_those_of_all_commands() {
    let shell = Shell::new();
    shell.stdout("man pages/man1");
    for command in commands().into_iter().filter(|name| name != "help") {
        let page = shell.path(&format!("pages/man1/sty-{command}.1"));
        let text = std::fs::read_to_string(&page).unwrap();
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH EXAMPLES"] {
            assert!(text.contains(section), "{command}: {section}\n{text}");
        }
    }
    let main = std::fs::read_to_string(shell.path("pages/man1/sty.1")).unwrap();
    assert!(main.contains(".SH \"EXIT CODES\"") && main.contains("sty\\-query"), "{main}");
    if Shell::has("man") {
        let (code, text, stderr) = shell.sh("man --warnings -l pages/man1/sty-ingest.1");
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(text.contains("EXAMPLES") && text.contains("zcat trips.csv.gz | sty ingest"));
    }
}

/// A store with two tables, a file, and a directory.
fn store() -> Shell {
    let shell = Shell::new();
    shell
        .stdout_of("query db -q", "CREATE TABLE trips (fare DOUBLE, vendor TEXT, \"Far Off\" INT)");
    shell.stdout_of("query db -q", "CREATE TABLE tips AS SELECT 1 AS amount");
    shell.file("data.csv", "a\n1\n");
    shell
}

/// What bash offers for the last of these words.
fn bash(shell: &Shell, words: &[&str]) -> Vec<String> {
    let current = words[words.len() - 1];
    let quoted = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let script = format!(
        "source <(sty completions bash)
         COMP_WORDS=({quoted}); COMP_CWORD={}; COMP_TYPE=9
         complete_sty=$(complete -p sty); [[ $complete_sty =~ -F\\ ([^ ]+) ]]
         \"${{BASH_REMATCH[1]}}\" sty '{current}' x
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.len() - 1
    );
    shell.file("complete.bash", script);
    let (code, stdout, stderr) =
        shell.sh("bash complete.bash; code=$?; rm complete.bash; exit $code");
    assert_eq!(code, 0, "{words:?}: {stderr}");
    stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_files_and_names_of_the_store() {
    if !Shell::has("bash") {
        return;
    }
    let shell = store();
    let of = |words: &[&str]| bash(&shell, words);
    assert_eq!(of(&["sty", "comp"]), ["compact", "completions"]);
    assert_eq!(of(&["sty", "query", "db", "--form"]), ["--format"]);
    assert_eq!(of(&["sty", "query", "db", "--format", "js"]), ["json", "jsonl"]);
    // Stores and tables.
    assert_eq!(of(&["sty", "query", "d"]), ["db"]);
    assert_eq!(of(&["sty", "inspect", "d"]), ["db/"]);
    assert_eq!(of(&["sty", "inspect", "db/t"]), ["db/tips", "db/trips"]);
    assert_eq!(of(&["sty", "verify", "db/ti"]), ["db/tips"]);
    // Files.
    assert_eq!(of(&["sty", "ingest", "db/tips", "dat"]), ["data.csv"]);
    assert_eq!(of(&["sty", "query", "db", "-f", "dat"]), ["data.csv"]);
    // Columns.
    assert_eq!(of(&["sty", "inspect", "db/trips", "--column", "fa"]), ["fare"]);
    assert_eq!(of(&["sty", "alter", "db/trips", "drop", "v"]), ["vendor"]);
    let sorted = of(&["sty", "compact", "db/trips", "--sort-by", "vendor, fa"]);
    assert_eq!(sorted, ["vendor, fare"]);
    // SQL.
    assert_eq!(of(&["sty", "query", "db", "SELECT am"]), ["SELECT amount"]);
    assert_eq!(of(&["sty", "query", "db", "SELECT * FROM tr"]), ["SELECT * FROM trips"]);
    let all = of(&["sty", "query", "db", "SELECT count(*) FROM trips WHERE F"]);
    assert_eq!(all, ["SELECT count(*) FROM trips WHERE \"Far Off\""]);
    // What is not there has no names.
    assert!(of(&["sty", "inspect", "none/x", "--column", "f"]).is_empty());
}

#[test]
fn zsh_and_fish_complete_names_of_the_store() {
    let shell = store();
    if Shell::has("fish") {
        let script = "sty completions fish | source; complete -C 'sty inspect db/tr'";
        let (code, stdout, stderr) = shell.sh(&format!("fish -c \"{script}\""));
        assert_eq!((code, stdout.as_str()), (0, "db/trips\ttable\n"), "{stderr}");
    }
    if Shell::has("zsh") {
        // The script loads; what it asks is what bash's does.
        let script =
            "autoload -U compinit && compinit -u -d .zcompdump; eval \"$(sty completions zsh)\"";
        shell.file("load.zsh", format!("{script}; print ok"));
        assert_eq!(shell.sh("zsh -f load.zsh").1, "ok\n");
        let asked = "STY_COMPLETE=zsh _CLAP_COMPLETE_INDEX=2 sty -- sty inspect db/tr";
        assert!(shell.sh(asked).1.starts_with("db/trips"), "{:?}", shell.sh(asked));
    }
}

#[test]
fn a_question_of_a_shell_that_has_no_answer_is_silent() {
    let mut sty = Command::new(env!("CARGO_BIN_EXE_sty"));
    let output = sty.args(["--", "sty", "inspect", "db/t"]).env("STY_COMPLETE", "none").output();
    let output = output.unwrap();
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
}
