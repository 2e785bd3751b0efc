//! What differs on a terminal: help in place of a wait for a person, tables, colours. The terminal
//! is made by `script`; where there is none, nothing is tested.

use super::shell::{Outcome, Shell};

/// Runs a line of `sh` on a terminal, in the directory of a store `db`. What it writes has no
/// carriage returns.
fn on_terminal(shell: &Shell, line: &str) -> Outcome {
    let (code, seen, stderr) = shell.sh(&format!("script -qfec \"{line}\" /dev/null < /dev/null"));
    (code, seen.replace('\r', ""), stderr)
}

fn store() -> Option<Shell> {
    let shell = Shell::new();
    shell.file("t.csv", "a,b\n1,\n");
    assert_eq!(shell.run("ingest -q db/t t.csv").0, 0);
    Shell::has("script").then_some(shell)
}

#[test]
fn a_terminal_in_place_of_data_is_told_what_to_type() {
    let Some(shell) = store() else { return };
    for line in ["ingest db/n", "ingest db/n -", "query db", "query db -", "bench db -f -"] {
        let (code, seen, _) = on_terminal(&shell, &format!("sty {line}"));
        let command = line.split(' ').next().unwrap();
        assert!(code == 2 && seen.contains(&format!("Usage: sty {command}")), "{line}: {seen}");
    }
    let (code, seen, _) = on_terminal(&shell, "sty query db 'FROM stdin'");
    assert!(code == 1 && seen.contains("the standard input is a terminal; pipe rows in"), "{seen}");
}

#[test]
fn answers_are_tables_with_colours_on_a_terminal_alone() {
    let Some(shell) = store() else { return };
    let plain = "┌───┬──────┐\n│ a │ b    │\n├───┼──────┤\n│ 1 │ NULL │\n└───┴──────┘\n";
    let ascii = "+---+------+\n| a | b    |\n+---+------+\n| 1 | NULL |\n+---+------+\n";
    let asked = "sty query db 'FROM t' --timer 2> /dev/null";
    let (code, coloured, _) = on_terminal(&shell, &format!("TERM=xterm {asked}"));
    assert!(code == 0 && coloured.contains("\x1b[") && coloured.contains('│'), "{coloured}");
    for (before, after, expected) in [
        ("TERM=xterm NO_COLOR=1", "", plain),
        ("TERM=xterm", "--color never", plain),
        ("TERM=dumb", "", ascii),
        ("TERM=xterm", "--format csv --color never", "a,b\n1,\n"),
        ("TERM=xterm", "| cat", "a,b\n1,\n"),
    ] {
        let (code, seen, _) = on_terminal(&shell, &format!("{before} {asked} {after}"));
        assert_eq!((code, &*seen), (0, expected), "{before} {after}");
    }
}
