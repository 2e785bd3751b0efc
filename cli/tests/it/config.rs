//! Settings: the config files, the environment, and `sty config`.

use std::path::Path;

use serde_json::Value;

use super::shell::Shell;
use super::sty;

/// A home with a config file of the user.
fn home(text: &str) -> Shell {
    let shell = Shell::new();
    std::fs::DirBuilder::new().recursive(true).create(shell.path("xdg/sty")).unwrap();
    shell.file("xdg/sty/config.toml", text);
    shell
}

/// Runs `sty` with this config file and these variables.
fn run(shell: &Shell, line: &str, variables: &[(&str, &str)]) -> (i32, String, String) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command = sty(&words);
    command.env_remove("STY_CONFIG").env("XDG_CONFIG_HOME", shell.path("xdg"));
    command.envs(variables.iter().copied()).current_dir(shell.path("."));
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The value and the origin of a setting.
fn setting(shell: &Shell, line: &str, variables: &[(&str, &str)], name: &str) -> (Value, String) {
    let (code, stdout, stderr) =
        run(shell, &format!("config {line} --origin --format json"), variables);
    assert_eq!(code, 0, "{stderr}");
    let all: Vec<Value> = serde_json::from_str(&stdout).unwrap();
    let found = all.iter().find(|one| one["setting"] == name).unwrap();
    let origin = found["origin"].as_str().unwrap();
    let root = format!("{}/", shell.path("xdg/sty").display());
    (found["value"].clone(), origin.replace(&root, ""))
}

#[test]
fn a_flag_goes_before_a_variable_before_a_file_before_the_default() {
    let shell = home("threads = 3\nquiet = true\n\n[query]\nthreads = 5\nformat = 'jsonl'\n");
    let is = |line: &str, variables: &[(&str, &str)], value: &str, origin: &str| {
        let found = setting(&shell, line, variables, "threads");
        assert_eq!(found, (value.into(), origin.to_owned()), "{line}");
    };
    is("", &[], "3", "config.toml:1");
    is("ingest", &[], "3", "config.toml:1");
    is("query", &[], "5", "config.toml:5");
    is("query", &[("STY_THREADS", "6")], "6", "STY_THREADS");
    is("query", &[("STY_THREADS", "")], "5", "config.toml:5");
    is("query --threads 7", &[("STY_THREADS", "6")], "7", "--threads");
    let nothing = Shell::new();
    let (_, origin) = setting(&nothing, "query", &[], "threads");
    assert_eq!(origin, "default");
    assert_eq!(setting(&nothing, "", &[], "timeout"), (Value::Null, "default".to_owned()));
    let section = setting(&shell, "", &[], "query.format");
    assert_eq!(section, ("jsonl".into(), "config.toml:6 (on terminals)".to_owned()));
}

#[test]
fn settings_are_in_force() {
    let shell = home("null = ['NA', '-']\nquiet = true\nread-only = true\n");
    shell.file("x.csv", "a\n1\nNA\n-\n");
    let (code, _, stderr) = run(&shell, "ingest db/t x.csv", &[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    shell.file("q.sql", "SELECT count(a) AS n FROM t");
    assert_eq!(run(&shell, "query db -f q.sql", &[]).1, "n\n1\n");
    assert_eq!(run(&shell, "query db -f q.sql", &[("STY_FORMAT", "tsv")]).1, "n\n1\n");
    assert_eq!(run(&shell, "query db -f q.sql --format csv", &[("STY_FORMAT", "tsv")]).1, "n\n1\n");
    // The name of a file says more of the format than a setting, and less than a flag.
    let lines = [("STY_FORMAT", "jsonl")];
    assert_eq!(run(&shell, "query db -f q.sql -o a.csv", &lines).0, 0);
    assert_eq!(run(&shell, "query db -f q.sql -o b.csv --format json", &lines).0, 0);
    let read = |name: &str| std::fs::read_to_string(shell.path(name)).unwrap();
    assert_eq!((read("a.csv").as_str(), read("b.csv").as_str()), ("n\n1\n", "[\n{\"n\":1}\n]\n"));
    shell.file("w.sql", "CREATE TABLE u AS SELECT 1 AS a");
    let (code, _, stderr) = run(&shell, "query db -f w.sql", &[]);
    assert_eq!(code, 1);
    assert!(stderr.contains("read-only"), "{stderr}");
    assert_eq!(run(&shell, "query db -f w.sql", &[("STY_READ_ONLY", "0")]).0, 0);
    // A flag for more notes goes before a setting for none.
    let (_, _, stderr) = run(&shell, "ingest db/v x.csv -v", &[]);
    assert!(stderr.contains("3 rows"), "{stderr}");
    // A load says by which settings its text was read.
    assert!(stderr.contains("null = [\"NA\", \"-\"], by "), "{stderr}");
    assert!(stderr.contains("config.toml:1"), "{stderr}");
    let (_, _, stderr) = run(&shell, "ingest db/w x.csv -v --no-config", &[("STY_NULL", "-")]);
    assert!(stderr.contains("null = -, by STY_NULL"), "{stderr}");
    assert!(!stderr.contains("config.toml"), "{stderr}");
    let line = "ingest db/z x.csv -v --null - --no-config";
    let (code, _, stderr) = run(&shell, line, &[("STY_NULL", "NA")]);
    assert!(code == 0 && !stderr.contains("STY_NULL"), "{stderr}");
}

/// How an answer looks in a pipe or a file does not depend on the user's file.
#[test]
fn settings_about_looks_are_for_terminals() {
    let shell = home("format = 'jsonl'\nmax-rows = 1\nno-header = true\n");
    shell.file("q.sql", "SELECT value AS n FROM generate_series(1, 2) s(value)");
    let rows = "n\n1\n2\n";
    assert_eq!(run(&shell, "query - -f q.sql", &[]).1, rows);
    assert_eq!(run(&shell, "query - -f q.sql", &[("STY_MAX_ROWS", "1")]).1, "n\n1\n");
    if Shell::has("script") {
        let line = "script -qfec 'sty query - -f q.sql; sty query - -f q.sql -o x.csv' /dev/null";
        let config = shell.path("xdg/sty/config.toml").display().to_string();
        let (code, shown, _) = shell.sh(&format!("STY_CONFIG={config} {line}"));
        assert!(
            code == 0 && shown.contains("{\"n\":1}\r\n") && !shown.contains("\"n\":2"),
            "{shown}"
        );
        assert_eq!(std::fs::read_to_string(shell.path("x.csv")).unwrap(), rows);
    }
}

#[test]
fn what_the_command_line_says_goes_before_variables_and_files() {
    let shell = home("timer = true\n");
    shell.file("q.sql", "SELECT 1 AS n");
    let time = |line: &str, variables: &[(&str, &str)]| run(&shell, line, variables).2;
    assert!(time("query - -f q.sql", &[]).starts_with("1 row in "));
    for off in ["--timer=false", "--timer=off", "--no-config"] {
        assert_eq!(time(&format!("query - -f q.sql {off}"), &[("STY_TIMER", "")]), "");
    }
    assert_eq!(time("query - -f q.sql", &[("STY_TIMER", "no")]), "");
    assert_eq!(time("query - -f q.sql --timer=false", &[("STY_TIMER", "1")]), "");
    let json = [("STY_FORMAT", "json")];
    let (code, chart, stderr) = run(&shell, "query - -f q.sql --chart bar", &json);
    assert!(code == 0 && chart.contains("n │"), "{chart}{stderr}");
    let (code, svg, _) = run(&shell, "query - -f q.sql --chart bar", &[("STY_FORMAT", "svg")]);
    assert!(code == 0 && svg.starts_with("<svg"), "{svg}");
}

#[test]
fn a_wrong_variable_is_told_by_its_name() {
    let shell = home("");
    for (name, value, why) in [
        ("STY_THREADS", "many", "a number from 1 to 1024 is needed"),
        ("STY_FORMAT", "cvs", "one of table, "),
        ("STY_QUIET", "maybe", "true or false is needed"),
        ("STY_TIMEOUT", "soon", ""),
    ] {
        let (code, stdout, stderr) = run(&shell, "query SELECT\u{a0}1", &[(name, value)]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
        assert!(stderr.starts_with(&format!("error: {name}: '{value}': {why}")), "{stderr}");
        assert!(stderr.contains(&format!("hint: unset {name}, or give --")), "{stderr}");
    }
    // Beside the option, it does not matter.
    shell.file("q.sql", "SELECT 1 AS n");
    let wrong = [("STY_THREADS", "many"), ("STY_TIMER", "maybe")];
    let right = run(&shell, "query - -f q.sql --threads 2 --timer=false", &wrong);
    assert_eq!(right, (0, "n\n1\n".to_owned(), String::new()));
    let wrong = [("STY_QUIET", "maybe"), ("STY_FORMAT", "cvs")];
    for short in ["-q --format csv -f q.sql", "-qf q.sql --format=csv"] {
        let (code, stdout, stderr) = run(&shell, &format!("query - {short}"), &wrong);
        assert_eq!((code, stdout.as_str()), (0, "n\n1\n"), "{short}: {stderr}");
    }
    // A value, and what follows `--`, are no options.
    for line in ["query SELECT\u{a0}1 -oq", "query SELECT\u{a0}1 -- --quiet"] {
        let (code, _, stderr) = run(&shell, line, &[("STY_QUIET", "maybe")]);
        assert!(code == 2 && stderr.starts_with("error: STY_QUIET: 'maybe'"), "{line}: {stderr}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, place, hint) in [
        ("threds = 1\n", ":1:1: there is no setting 'threds'", "did you mean 'threads'?"),
        ("[ingst]\n", ":1:2: there is no command 'ingst'", "did you mean 'ingest'?"),
        ("[query]\ninfer-rows = 5\n", ":2:1: there is no setting 'infer-rows' of [query]", ""),
        ("threads = 0\n", ":1:1: threads: '0': a number from 1 to 1024 is needed", ""),
        ("io = 'mmp'\n", ":1:1: io: 'mmp': one of mmap, read is needed", ""),
        ("a = 'x\n", ":1:", ""),
        ("io = ['mmap']\n", ":1:1: io: one value is needed", ""),
        ("quiet = 'yes'\n", ":1:1: quiet: true or false is needed", ""),
    ] {
        let shell = home(text);
        let (code, stdout, stderr) = run(&shell, "tables db", &[]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{text}");
        assert!(stderr.contains(&format!("xdg/sty/config.toml{place}")), "{text}: {stderr}");
        assert!(stderr.contains(hint) && stderr.contains("--no-config"), "{text}: {stderr}");
        let (_, _, stderr) = run(&shell, "tables db --error-format json", &[]);
        let object: Value = serde_json::from_str(&stderr).unwrap();
        assert_eq!(object["code"], "config");
        assert!(object["file"].as_str().unwrap().ends_with("config.toml"));
        // Nobody has to mend a file to learn how.
        for line in
            ["--version", "help", "help query", "config --help", "man pages", "completions zsh"]
        {
            assert_eq!(run(&shell, line, &[]).0, 0, "{line}");
        }
        // The list is of what is in force, and says what is not.
        let (code, stdout, stderr) = run(&shell, "config", &[]);
        assert!(code == 0 && stdout.contains("\nio,mmap\n"), "{stdout}");
        assert!(stderr.contains(&format!("xdg/sty/config.toml{place}")), "{text}: {stderr}");
        assert_eq!(run(&shell, "query --no-config", &[]), (0, String::new(), String::new()));
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told() {
    let shell = Shell::new();
    std::fs::DirBuilder::new().recursive(true).create(shell.path("xdg/sty/config.toml")).unwrap();
    let (code, _, stderr) = run(&shell, "tables db", &[]);
    assert_eq!(code, 1);
    assert!(stderr.contains("xdg/sty/config.toml: Is a directory"), "{stderr}");
    assert!(stderr.contains("hint: --no-config leaves config files out"), "{stderr}");
    for line in ["--version", "help", "config"] {
        assert_eq!(run(&shell, line, &[]).0, 0, "{line}");
    }
}

#[test]
fn a_variable_names_another_file_or_none() {
    let shell = home("threads = 3\n");
    shell.file("other.toml", "threads = 4\nerror-format = 'json'\n");
    let other = ("STY_CONFIG", "other.toml");
    assert_eq!(setting(&shell, "", &[other], "threads").0, "4");
    assert_eq!(setting(&shell, "", &[("STY_CONFIG", "")], "threads").1, "default");
    let (code, _, stderr) = run(&shell, "tables db", &[("STY_CONFIG", "no.toml")]);
    assert_eq!(code, 6);
    assert!(stderr.starts_with("error: no.toml: No such file"), "{stderr}");
    // Also errors of the command line are as the file says.
    let (code, _, stderr) = run(&shell, "frobnicate", &[other]);
    assert_eq!(code, 2);
    assert!(serde_json::from_str::<Value>(&stderr).is_ok(), "{stderr}");
    let (_, _, stderr) = run(&shell, "frobnicate --error-format human", &[other]);
    assert!(stderr.starts_with("error: "), "{stderr}");
    assert!(Path::new(&shell.path("xdg/sty/config.toml")).exists());
}

/// The reference has a row for each setting.
#[test]
fn all_settings_are_documented() {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference.md");
    let reference = std::fs::read_to_string(reference).unwrap();
    let (code, stdout, _) = run(&Shell::new(), "config --format json", &[]);
    assert_eq!(code, 0);
    let all: Vec<Value> = serde_json::from_str(&stdout).unwrap();
    assert!(all.len() > 15);
    for one in all {
        let name = one["setting"].as_str().unwrap();
        let variable = format!("STY_{}", name.to_uppercase().replace('-', "_"));
        let row = format!("| `{name}` | `{variable}` |");
        assert!(reference.contains(&row), "docs/reference.md lacks {row}");
    }
}

#[test]
fn a_directory_that_nobody_may_look_into_has_no_config_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let shell = home("threads = 1\n");
    let closed = shell.path("xdg/sty");
    let set = |mode| {
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0);
    // The superuser may look everywhere.
    let is_closed = std::fs::metadata(closed.join("config.toml")).is_err();
    let (code, _, stderr) = run(&shell, "tables .", &[]);
    set(0o700);
    assert_eq!(code, 6, "{stderr}");
    assert_eq!(stderr.starts_with("no config file is read: "), is_closed, "{stderr}");
}
