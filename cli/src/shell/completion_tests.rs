//! Tests of completion over a store with two tables, and one of 2,000 columns.

use std::sync::Arc;

use stylobate::internal::sql::{KnownColumn, KnownFunction};

use super::*;

/// Names as a session would know them, counting what is asked.
#[derive(Default)]
struct Fixed {
    asked: usize,
    functions: Vec<KnownFunction>,
}

fn fixed() -> Fixed {
    let function = |name: &str, signature: &str| KnownFunction {
        name: name.to_owned(),
        signature: signature.to_owned(),
        description: "Gives something.".to_owned(),
    };
    let functions = vec![
        function("date_bin", "date_bin(interval, expression)"),
        function("sum", "sum(expression)"),
    ];
    Fixed { asked: 0, functions }
}

impl Names for Fixed {
    fn tables(&mut self) -> Arc<Vec<String>> {
        Arc::new(["trips", "Cities", "order", "wide"].map(str::to_owned).to_vec())
    }

    fn schemas(&self) -> Vec<String> {
        ["public", "old"].map(str::to_owned).to_vec()
    }

    fn schema_in_use(&self) -> String {
        "public".to_owned()
    }

    fn tables_in(&self, schema: &str) -> Vec<String> {
        let names: &[&str] = if schema == "old" { &["trips", "zones"] } else { &[] };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn columns(&mut self, schema: Option<&str>, table: &str, _: bool) -> Arc<Vec<KnownColumn>> {
        self.asked += 1;
        let names = match table.to_lowercase().as_str() {
            "trips" | "zones" if schema == Some("old") => vec!["old_fare".to_owned()],
            "trips" => ["id", "fare_amount", "total_amount", "Fare", "fare", "pick up"]
                .map(str::to_owned)
                .to_vec(),
            "cities" => ["id", "name"].map(str::to_owned).to_vec(),
            "wide" => (0..2000).map(|number| format!("column_{number}")).collect(),
            _ => Vec::new(),
        };
        let column = |name| KnownColumn { name, data_type: "int64".to_owned() };
        Arc::new(names.into_iter().map(column).collect())
    }

    fn functions(&self) -> &[KnownFunction] {
        &self.functions
    }
}

/// The texts that may stand at the `|` of a text.
fn at_bar(text: &str) -> Vec<String> {
    let at = text.find('|').unwrap();
    let (_, found) = complete(&text.replace('|', ""), at, &mut fixed());
    found.into_iter().map(|candidate| candidate.text).collect()
}

/// The text after the only candidate is chosen at the `|`.
fn chosen(text: &str) -> String {
    let at = text.find('|').unwrap();
    let mut text = text.replace('|', "");
    let (range, found) = complete(&text, at, &mut fixed());
    assert_eq!(found.len(), 1, "{found:?}");
    text.replace_range(range, &found[0].text);
    text
}

#[test]
fn columns_are_those_of_the_tables_that_are_named() {
    assert_eq!(at_bar("SELECT to| FROM trips")[0], "total_amount");
    assert_eq!(at_bar("SELECT | FROM cities"), ["id", "name"]);
    assert_eq!(at_bar("SELECT c.| FROM trips t JOIN cities c ON true"), ["id", "name"]);
    assert_eq!(at_bar("SELECT trips.to| FROM trips"), ["total_amount"]);
    assert_eq!(at_bar("SELECT * FROM trips WHERE fare_| > 1"), ["fare_amount"]);
    assert_eq!(at_bar("select t.total_| from trips t"), ["total_amount"]);
    assert_eq!(at_bar("select t.total_a| from trips t where t.id = 1"), ["total_amount"]);
    assert_eq!(at_bar("SELECT x FROM cities; SELECT na| FROM cities")[0], "name");
    assert_eq!(at_bar("INSERT INTO cities (na|"), ["name", "natural"]);
    // What is in the middle of a name is found if no name begins so.
    assert_eq!(at_bar("SELECT amount| FROM trips"), ["fare_amount", "total_amount"]);
}

#[test]
fn names_that_need_quotes_get_them() {
    assert_eq!(chosen("SELECT pick| FROM trips"), "SELECT \"pick up\" FROM trips");
    assert_eq!(chosen("SELECT \"pi| FROM trips"), "SELECT \"pick up\" FROM trips");
    assert!(at_bar("SELECT far| FROM trips").contains(&"\"Fare\"".to_owned()));
    assert!(at_bar("SELECT far| FROM trips").contains(&"fare".to_owned()));
    assert_eq!(chosen("SELECT * FROM ord|"), "SELECT * FROM \"order\"");
    assert_eq!(chosen("SELECT * FROM cit|"), "SELECT * FROM Cities");
}

#[test]
fn functions_show_their_signatures() {
    let (range, found) = complete("SELECT date_b FROM trips", 13, &mut fixed());
    assert_eq!(range, 7..13);
    assert_eq!(found[0].text, "date_bin(");
    assert_eq!(found[0].shown.as_deref(), Some("date_bin(interval, expression)"));
}

#[test]
fn keywords_come_in_the_case_that_is_typed() {
    assert_eq!(at_bar("sel|"), ["select"]);
    assert_eq!(at_bar("SEL|"), ["SELECT"]);
    assert_eq!(at_bar("SELECT 1 FROM trips WHE|"), ["WHEN", "WHERE"]);
}

#[test]
fn tables_follow_from_and_its_commas() {
    // Four tables and two schemas.
    assert_eq!(at_bar("SELECT * FROM |").len(), 6);
    assert_eq!(at_bar("SELECT * FROM tr|"), ["trips"]);
    assert_eq!(at_bar("SELECT * FROM cities c, tr|"), ["trips"]);
    assert_eq!(at_bar("WITH trend AS (SELECT 1) SELECT * FROM tr|"), ["trend", "trips"]);
    assert_eq!(at_bar("SELECT extract(year FROM tot|) FROM trips")[0], "total_amount");
}

#[test]
fn tables_and_columns_of_attached_stores_follow_their_names() {
    assert_eq!(at_bar("SELECT * FROM ol|"), ["old."]);
    assert_eq!(at_bar("SELECT * FROM old.|"), ["trips", "zones"]);
    assert_eq!(at_bar("SELECT * FROM cities JOIN OLD.zo|"), ["zones"]);
    assert_eq!(at_bar("SELECT * FROM cities, old.t|"), ["trips"]);
    assert_eq!(at_bar("SELECT | FROM old.trips"), ["old_fare"]);
    assert_eq!(at_bar("SELECT o.| FROM old.trips o"), ["old_fare"]);
    assert_eq!(at_bar("SELECT old.trips.| FROM old.trips JOIN trips USING (id)"), ["old_fare"]);
    assert_eq!(at_bar("SELECT old.| FROM old.trips JOIN trips USING (id)"), ["trips"]);
    assert_eq!(at_bar("SELECT old.zones.|"), ["old_fare"]);
    assert_eq!(at_bar("USE |"), ["public", "old"]);
    assert_eq!(at_bar("DETACH o|"), ["old"]);
    assert_eq!(at_bar(".schema old.z|"), ["old.zones"]);
}

#[test]
fn files_follow_from_in_quotes() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::File::create_new(directory.path().join("trips.csv")).unwrap();
    let root = directory.path().to_str().unwrap();
    for before in ["SELECT * FROM '", "SELECT * FROM read_csv('", ".read "] {
        let quote = if before.ends_with('\'') { "'" } else { "" };
        let text = chosen(&format!("{before}{root}/tri|"));
        assert_eq!(text, format!("{before}{root}/trips.csv{quote}"));
    }
    assert!(at_bar(&format!("SELECT '{root}/tri|")).is_empty());
}

#[test]
fn commands_complete_like_statements() {
    assert_eq!(at_bar(".ta|"), [".tables"]);
    assert_eq!(at_bar(".schema tr|"), ["trips"]);
    assert_eq!(at_bar(".timer o|"), ["on", "off"]);
    assert_eq!(at_bar(".mode cs|"), ["csv"]);
    assert_eq!(at_bar(".explain SELECT total| FROM trips"), ["total_amount"]);
}

#[test]
fn nothing_is_offered_in_comments_texts_and_numbers() {
    for text in ["SELECT 1 -- fa|", "SELECT 'fa| FROM trips", "SELECT 12|", "SELECT $p| FROM trips"]
    {
        assert!(at_bar(text).is_empty(), "{text}");
    }
}

/// Each table is read once, and each of its columns looked at once: a key is answered at once.
#[test]
fn two_thousand_columns_are_completed_at_once() {
    let mut names = fixed();
    let text = "SELECT column_1, sum(column_19) FROM wide w JOIN trips t ON w.column_1 = t.id";
    let (_, found) = complete(text, 15, &mut names);
    assert_eq!(found.iter().filter(|found| found.text.starts_with("column_1")).count(), 1111);
    assert_eq!(names.asked, 2);
}
