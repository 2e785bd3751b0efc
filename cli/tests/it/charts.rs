//! Charts and pages as whole commands: what goes where, well-formed SVG and HTML, nothing of the
//! data taken for markup.

use super::shell::Shell;

/// Values and names that try to leave their place in a page.
const HOSTILE: [&str; 5] = [
    "</td></table><script>alert(1)</script>",
    "\"><img src=x onerror=alert(2)>",
    "]]></title><style>*{display:none}</style>&amp;",
    "'-- \u{1b}[31m \u{7} -->",
    "日本 é \u{ffff}",
];

/// A store with a table of hostile names and values.
fn hostile() -> Shell {
    let shell = Shell::new();
    let rows: Vec<String> = HOSTILE
        .iter()
        .enumerate()
        .map(|(at, text)| format!("('{}', {at})", text.replace('\'', "''")))
        .collect();
    let sql = format!(
        "CREATE TABLE t (\"<b onclick='x'>&\" VARCHAR, n BIGINT);
         INSERT INTO t VALUES {}",
        rows.join(", ")
    );
    shell.stdout_of("query db", &sql);
    shell
}

/// Parses a page or picture as XML, which is stricter than browsers are, and checks that it has no
/// element or attribute that can run or load anything but its own script.
fn check(text: &str, scripts: usize) -> String {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(text, options)
        .unwrap_or_else(|error| panic!("{error}: {text}"));
    let elements = || document.descendants().filter(|node| node.is_element());
    let named = |name: &str| elements().filter(|node| node.tag_name().name() == name).count();
    assert_eq!(named("script"), scripts);
    assert_eq!(named("img") + named("b") + named("iframe") + named("link"), 0);
    assert!(named("style") <= 1);
    for attribute in elements().flat_map(|node| node.attributes()) {
        let name = attribute.name();
        assert!(!name.starts_with("on") && !["src", "href"].contains(&name), "{name}");
    }
    let without_namespace = text.replace("http://www.w3.org/2000/svg", "");
    assert!(!without_namespace.contains("://"), "nothing is loaded");
    document.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect()
}

fn read(shell: &Shell, name: &str) -> String {
    std::fs::read_to_string(shell.path(name)).unwrap()
}

#[test]
fn a_picture_is_well_formed_and_holds_hostile_texts() {
    let shell = hostile();
    for kind in ["bar", "heat --x n", "hist --x n"] {
        let line = format!("query db -o x.svg --force --chart {kind}");
        shell.stdout_of(&line, "SELECT *, 'a' k FROM t");
        let texts = check(&read(&shell, "x.svg"), 0);
        assert!(kind.starts_with("hist") || texts.contains("<script>alert(1)"), "{texts}");
    }
    shell.stdout_of("query db -o lines.svg --hue k", "SELECT n, n * n m, 'a<b' k FROM t");
    assert!(check(&read(&shell, "lines.svg"), 0).contains("a<b"));
}

#[test]
fn a_page_has_a_section_for_each_answer() {
    let shell = hostile();
    let sql = "-- All of <it> & more\n--\n-- in two lines\nSELECT * FROM t;\n\
               CREATE VIEW v AS SELECT 1 AS one;\n\
               SELECT value AS n FROM generate_series(1, 6000);";
    let (code, stdout, stderr) = shell.pipe("query db --html r.html", sql);
    assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    assert!(stderr.contains("the table leaves out 1,000 more rows"), "{stderr}");
    let page = read(&shell, "r.html");
    let texts = check(&page, 1);
    for text in [
        "All of <it> & more in two lines",
        "<script>alert(1)</script>",
        "\\u{1b}[31m",
        "the table leaves out 1,000 more rows",
        "6,000 rows",
        "Answers of db",
    ] {
        assert!(texts.contains(text), "{text}: {texts}");
    }
    assert_eq!(page.matches("<section>").count(), 2);
    assert_eq!(page.matches("<svg").count(), 2);
    // The same page, by the name of the file or by its format.
    shell.stdout_of("query db -o x.html", "SELECT 1 AS a");
    let (_, stdout, _) = shell.pipe("query db --format html", "SELECT 1 AS a");
    for page in [&read(&shell, "x.html"), &stdout] {
        assert!(check(page, 1).contains("SELECT 1 AS a"), "{page}");
    }
    // Without an answer it is a page, too.
    shell.stdout_of("query db --html empty.html", "CREATE VIEW w AS SELECT 1 AS one");
    assert!(check(&read(&shell, "empty.html"), 1).contains("no answers"));
}

#[test]
fn the_page_of_a_table_tells_how_it_is_stored() {
    let shell = hostile();
    let (code, stdout, stderr) = shell.run("inspect db/t --html -");
    assert_eq!((code, stderr.as_str()), (0, ""));
    let texts = check(&stdout, 1);
    for text in ["Table t", "<b onclick='x'>&", "int64", "utf8", "Zone", "Segments", ".sty"] {
        assert!(texts.to_lowercase().contains(&text.to_lowercase()), "{text}: {texts}");
    }
    assert_eq!(stdout.matches("class=\"strip\"").count(), 2);
    shell.stdout("inspect db/t --html t.html");
    assert_eq!(shell.run("inspect db/t --html t.html").0, 2);
    shell.stdout("inspect db/t --html t.html --force --column n");
    let page = read(&shell, "t.html");
    assert!(!check(&page, 1).contains("onclick"));
    // Partitions have a table of their own.
    shell.file("p.csv", "day,n\n2024-01-01,1\n2025-01-01,2\n");
    shell.stdout("ingest db/p p.csv --partition-by day");
    let texts = check(&shell.stdout("inspect db/p --html -"), 1);
    assert!(texts.contains("Partitions") && texts.contains("2025-01-01"), "{texts}");
}

#[test]
fn a_wide_table_has_a_page_of_bounded_size() {
    let shell = Shell::new();
    let names: Vec<String> = (0..2_000).map(|at| format!("c{at}")).collect();
    let values: Vec<String> = (0..2_000).map(|at| at.to_string()).collect();
    shell.file("w.csv", format!("{}\n{}\n", names.join(","), values.join(",")));
    shell.stdout("ingest db/w w.csv");
    let page = shell.stdout("inspect db/w --html -");
    assert!(check(&page, 1).contains("c1999"));
    assert!(page.len() < 2_000_000, "{}", page.len());
}

#[test]
fn options_of_charts_ask_for_a_chart() {
    let shell = Shell::new();
    let sql = "SELECT column1 AS k, column2 AS n FROM (VALUES ('a', 1), ('b', 2), ('c', NULL))";
    let run = |line: &str| shell.pipe(&format!("query db {line}"), sql);
    shell.stdout_of("query db", "CREATE TABLE t (x INT)");
    let (code, stdout, stderr) = run("--chart bar --width 30");
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout.lines().next(), Some("a │███████████ 1"), "{stdout}");
    let (_, ascii, _) = run("--format chart --ascii --width 30");
    assert!(ascii.is_ascii());
    let (_, colored, _) = run("--chart bar --color always");
    assert!(colored.contains("\x1b[") && !stdout.contains('\x1b'));
    // A chart is no CSV.
    let (code, stdout, stderr) = run("--format csv --chart bar");
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("no chart"), "{stderr}");
    assert_eq!(run("-o x.csv --log").0, 2);
    let (code, _, stderr) = run("--chart line --x k");
    assert_eq!(code, 2);
    assert!(stderr.contains("column 'k' is neither a number nor a time"), "{stderr}");
    // A picture holds one answer.
    let two = shell.pipe("query db --format svg", "SELECT 1 AS a; SELECT 2 AS b");
    assert_eq!(two.0, 2);
}

#[test]
fn what_is_not_drawn_is_said_on_stderr() {
    let shell = Shell::new();
    shell.stdout_of("query db", "CREATE TABLE t (x INT)");
    let sql = "SELECT CASE WHEN value % 10 > 0 THEN value END AS n FROM generate_series(1, 300000)";
    let (code, stdout, stderr) = shell.pipe("query db --chart hist --bins 10", sql);
    assert_eq!((code, stderr.as_str()), (0, "not drawn: 30,000 nulls\n"));
    assert!(stdout.contains("270,000 rows"), "{stdout}");
    let (_, _, quiet) = shell.pipe("query db --chart hist -q", sql);
    assert_eq!(quiet, "");
    // Every bin of the picture tells its count.
    shell.stdout_of("query db -o h.svg --chart hist --bins 10 -q", sql);
    let picture = read(&shell, "h.svg");
    let tips = picture.split("<title>").skip(1).filter_map(|rest| rest.split("</title>").next());
    let counts =
        tips.filter_map(|tip| tip.rsplit(": ").next()?.replace(',', "").parse::<u64>().ok());
    assert_eq!(counts.sum::<u64>(), 270_000);
}

#[test]
fn a_page_draws_no_chart_of_texts() {
    let shell = Shell::new();
    shell.stdout_of("query db", "CREATE TABLE t (x INT)");
    let sql = "-- Texts\nSELECT 'a' AS k, 'b' AS v; -- One row\nSELECT 1 AS n;\n\
               -- Two\nSELECT column1 AS n FROM (VALUES (1), (2))";
    shell.stdout_of("query db --html r.html --title Mine", sql);
    let page = read(&shell, "r.html");
    let texts = check(&page, 1);
    assert!(texts.contains("Mine") && texts.contains("One row"), "{texts}");
    assert_eq!(page.matches("<svg").count(), 1);
    // Every list can be a page, too.
    assert!(check(&shell.stdout("tables db --format html"), 1).contains("1 row"));
}
