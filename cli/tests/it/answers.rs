//! Where the answers of `sty shell` go: `.output`, `.mode` and `.plot`, in scripts.

use super::shell::Shell;

fn read(shell: &Shell, name: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(shell.path(name)).unwrap()).into_owned()
}

#[test]
fn a_file_has_the_format_of_its_name() {
    let shell = Shell::new();
    let (code, out, err) = shell.pipe(
        "shell",
        ".output x.arrow\nSELECT 1 AS a;\n.output x.parquet\nSELECT 2 AS a;\n.output x.csv\n\
         SELECT 3 AS a; SELECT 4 AS b;\n.output\nSELECT 5 AS a;\n.output y.csv\nSELECT 6 AS a;\n",
    );
    assert_eq!((code, out.as_str()), (0, "a\n5\n"), "{err}");
    assert!(err.contains("(wrote x.csv: 2 answers)") && err.contains("(wrote y.csv: 1 answer)"));
    assert!(read(&shell, "x.arrow").starts_with("ARROW1"));
    assert!(read(&shell, "x.parquet").starts_with("PAR1"));
    assert_eq!(
        (read(&shell, "x.csv").as_str(), read(&shell, "y.csv").as_str()),
        ("a\n3\nb\n4\n", "a\n6\n")
    );
    shell.file("q.sql", "SELECT x.a + y.a AS n FROM 'x.arrow' x, 'x.parquet' y");
    assert_eq!(shell.stdout("query - -f q.sql"), "n\n3\n");
}

#[test]
fn answers_before_an_error_are_kept() {
    let shell = Shell::new();
    let script = ".output x.csv\nSELECT 1 AS a;\nSELECT nope;\nSELECT 2 AS a;\n";
    let (code, _, err) = shell.pipe("shell", script);
    assert_eq!((code, read(&shell, "x.csv").as_str()), (1, "a\n1\n"), "{err}");
    assert!(err.contains("(wrote x.csv: 1 answer)") && err.contains("nope"), "{err}");
}

#[test]
fn a_file_without_an_answer_is_not_made() {
    let shell = Shell::new();
    for name in ["x.parquet", "x.csv", "x.html"] {
        let (code, _, err) =
            shell.pipe("shell", format!(".output {name}\nSET sty.native = on;\n.output\n"));
        assert_eq!(code, 0, "{err}");
        assert!(err.contains(&format!("no answer went to {name}, which was not made")), "{err}");
        assert!(!shell.path(name).exists());
    }
}

#[expect(clippy::disallowed_methods, reason = "the test removes an answer's file")]
#[test]
fn formats_that_hold_one_answer_are_not_mixed() {
    let shell = Shell::new();
    for (name, second, why) in [
        ("x.parquet", ".mode csv", "an answer in another format"),
        ("x.csv", ".mode parquet", "an answer in another format"),
        ("x.json", ".mode jsonl", "an answer in another format"),
        ("x.html", ".mode csv", "an answer in another format"),
        ("x.parquet", ".plot", "holds no chart"),
        ("x.json", ".plot", "holds no chart"),
        ("x.json", "SELECT 2;", "holds only one"),
        ("x.svg", ".plot", "holds only one"),
        ("x.csv", ".output x.csv", "answers go to x.csv already"),
    ] {
        let script = format!(".output {name}\nSELECT 1 AS a, 2 AS b;\n{second}\nSELECT 3;\n");
        let (code, _, err) = shell.pipe("shell", script);
        assert!(code == 2 && err.contains(why), "{name} {second}: {err}");
        // The first answer is whole.
        std::fs::remove_file(shell.path(name)).unwrap();
    }
    // Before the first answer, any format can be chosen; texts may follow each other.
    let script = ".output x.json\n.mode csv\nSELECT 1 AS a;\n.mode jsonl\n.last\n";
    assert_eq!(shell.pipe("shell", script).0, 0);
    assert_eq!(read(&shell, "x.json"), "a\n1\n{\"a\":1}\n");
}

#[test]
fn pages_and_pictures_are_whole() {
    let shell = Shell::new();
    let answers = "SELECT 1 AS a; SELECT 'x' AS b, 2 AS n UNION ALL SELECT 'y', 3;\n";
    let script =
        format!("{answers}.output x.svg\n.plot bar\n.output x.html\n{answers}.plot\n.output\n");
    let (code, _, err) = shell.pipe("shell", script);
    assert_eq!(code, 0, "{err}");
    assert!(read(&shell, "x.svg").starts_with("<svg"));
    let page = read(&shell, "x.html");
    let count = |tag: &str| page.matches(tag).count();
    assert_eq!((count("<html"), count("<section>"), count("</html>")), (1, 3, 1));
}

#[test]
fn a_file_that_appears_meanwhile_stays_and_no_answer_is_lost() {
    let shell = Shell::new();
    let script = ".output x.csv\nSELECT 1 AS a;\nCOPY (SELECT 2 AS b) TO 'x.csv';\n.output\n";
    let (code, _, err) = shell.pipe("shell", script);
    assert_eq!(code, 2);
    assert!(err.contains("x.csv: exists already") && err.contains("complete in x-2.csv"), "{err}");
    assert_eq!(
        (read(&shell, "x.csv").as_str(), read(&shell, "x-2.csv").as_str()),
        ("b\n2\n", "a\n1\n")
    );
    // What cannot be opened leaves answers where they go.
    let script = ".output y.csv\nSELECT 1 AS a;\n.output x.csv\n";
    assert_eq!(shell.pipe("shell", script).0, 2);
    let values = ".mode vertical\nSELECT 1 AS a, 'x' AS name;\n.mode line\n.last\n";
    let row = "── row 1 ──\na     1\nname  x\n";
    assert_eq!(shell.pipe("shell", values).1, row.repeat(2));
}
