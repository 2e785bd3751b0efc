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
    assert_eq!(section, ("jsonl".into(), "config.toml:6".to_owned()));
}

#[test]
fn settings_are_in_force() {
    let shell =
        home("null = ['NA', '-']\nquiet = true\nread-only = true\n[query]\nformat = 'jsonl'\n");
    shell.file("x.csv", "a\n1\nNA\n-\n");
    let (code, _, stderr) = run(&shell, "ingest db/t x.csv", &[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    shell.file("q.sql", "SELECT count(a) AS n FROM t");
    assert_eq!(run(&shell, "query db -f q.sql", &[]).1, "{\"n\":1}\n");
    assert_eq!(run(&shell, "query db -f q.sql", &[("STY_FORMAT", "tsv")]).1, "n\n1\n");
    assert_eq!(run(&shell, "query db -f q.sql --format csv", &[("STY_FORMAT", "tsv")]).1, "n\n1\n");
    // The name of a file says more of the format than a setting, and less than a flag.
    assert_eq!(run(&shell, "query db -f q.sql -o a.csv", &[]).0, 0);
    assert_eq!(run(&shell, "query db -f q.sql -o b.csv --format json", &[]).0, 0);
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
        assert!(stderr.contains(hint), "{text}: {stderr}");
        let (_, _, stderr) = run(&shell, "tables db --error-format json", &[]);
        let object: Value = serde_json::from_str(&stderr).unwrap();
        assert_eq!(object["code"], "config");
        assert!(object["file"].as_str().unwrap().ends_with("config.toml"));
        // Nobody has to mend a file to learn how.
        assert_eq!(run(&shell, "--version", &[]).0, 0);
        assert_eq!(run(&shell, "config --help", &[]).0, 0);
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
