//! Each JSON output has a schema in `docs/schemas/`, which knows every key: a new one needs a
//! change there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::shell::Shell;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas")
}

/// The schema of this name.
pub(crate) fn schema(name: &str) -> Value {
    let path = folder().join(format!("{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What is wrong with a value. Of JSON Schema, it knows the keywords that the schemas use, and
/// refuses others.
fn problems(schema: &Value, root: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (keyword, rule) in schema.as_object().unwrap() {
        match (keyword.as_str(), value) {
            ("$schema" | "title" | "description" | "$defs", _) => {}
            ("$ref", _) => {
                let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                problems(&root["$defs"][name], root, value, at, found);
            }
            ("type", _) => {
                let is = |name: &Value| match name.as_str().unwrap() {
                    "null" => value.is_null(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "number" => value.is_number(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    other => panic!("the type {other}"),
                };
                let any = rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is));
                if !any {
                    found.push(format!("{at}: {value} is not of type {rule}"));
                }
            }
            ("enum", _) => {
                if !rule.as_array().unwrap().contains(value) {
                    found.push(format!("{at}: {value} is none of {rule}"));
                }
            }
            ("required", Value::Object(members)) => {
                for name in rule.as_array().unwrap() {
                    if !members.contains_key(name.as_str().unwrap()) {
                        found.push(format!("{at}: {name} is missing"));
                    }
                }
            }
            ("properties", Value::Object(members)) => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(member) = members.get(name) {
                        problems(rule, root, member, &format!("{at}.{name}"), found);
                    }
                }
            }
            ("additionalProperties", Value::Object(members)) => {
                let known = |name: &str| schema["properties"].get(name).is_some();
                for (name, member) in members.iter().filter(|(name, _)| !known(name)) {
                    match rule {
                        Value::Bool(false) => found.push(format!("{at}: {name} is unknown")),
                        rule => problems(rule, root, member, &format!("{at}.{name}"), found),
                    }
                }
            }
            ("items", Value::Array(items)) => {
                for (number, item) in items.iter().enumerate() {
                    problems(rule, root, item, &format!("{at}[{number}]"), found);
                }
            }
            ("required" | "properties" | "additionalProperties" | "items", _) => {}
            (other, _) => panic!("the keyword {other}"),
        }
    }
}

/// Holds a text against a schema, and returns its value.
pub(crate) fn check(name: &str, text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap();
    let (schema, mut found) = (schema(name), Vec::new());
    problems(&schema, &schema, &value, name, &mut found);
    assert!(found.is_empty(), "{}\n{text}", found.join("\n"));
    value
}

/// Tables of all kinds: partitioned, sorted, with nulls, floats, long texts, a column that older
/// segments lack, and kept generations.
fn store() -> Shell {
    let shell = Shell::new();
    shell.file("a.csv", "id,day,kind,x\n1,2020-01-01,a,0.5\n2,2021-01-01,,1.25\n3,2021-02-03,c,\n");
    shell.file("b.csv", "id,day,kind,x\n4,2020-01-01,a,7\n5,2021-01-01,b,oops\n");
    shell.file("sum.sql", "SELECT kind, sum(x) FROM t WHERE id > 1 AND kind LIKE 'a%' GROUP BY 1");
    shell
}

#[test]
fn every_json_output_fits_its_schema() {
    let shell = store();
    let mut checked = BTreeSet::new();
    let mut is = |name: &'static str, text: &str| {
        checked.insert(name.to_owned());
        check(name, text)
    };
    let load = "ingest -q db/t --report json";
    let first =
        is("ingest-report", &shell.stdout(&format!("{load} a.csv --partition-by year(day)")));
    assert_eq!(first["rows_stored"], 3);
    shell.stdout("alter db/t keep 1d -q");
    shell.stdout("alter db/t add note:utf8 -q");
    let second = is(
        "ingest-report",
        &shell.stdout(&format!("{load} a.csv b.csv --if-loaded skip --on-error skip")),
    );
    assert_eq!(
        (&second["rows_rejected"], &second["loaded_before"]),
        (&json!(1), &json!(["a.csv"]))
    );
    is("dry-run", &shell.stdout("ingest db/t a.csv b.csv --if-loaded skip --dry-run=json"));
    is("dry-run", &shell.stdout("query db -f sum.sql --dry-run=json"));
    is("dry-run", &shell.stdout("compact db/t --all --dry-run=json"));
    is("dry-run", &shell.stdout("drop-partition db/t year_day=2020 --dry-run=json"));
    is("dry-run", &shell.stdout("gc db --keep 0s --dry-run=json"));
    is("dry-run", &shell.stdout("alter db/t --dry-run=json drop note"));
    is("tables", &shell.stdout("tables db --format json"));
    is("schema", &shell.stdout("schema db/t --format json"));
    is("partitions", &shell.stdout("partitions db/t --format json"));
    is("manifest", &shell.stdout("manifest db/t --format json"));
    is("inspect", &shell.stdout("inspect db/t --format json"));
    is("bench", &shell.stdout("bench db -f sum.sql --runs 2 --format json"));
    is("config", &shell.stdout("config --format json"));
    is("config", &shell.stdout("config query --origin --format json"));
    for sql in ["SELECT count(*) FROM t", "SELECT * FROM t ORDER BY x LIMIT 2", "SELECT 1"] {
        let (code, _, stats) = shell.sh(&format!("sty query db '{sql}' --stats=json -q"));
        assert_eq!(code, 0, "{stats}");
        is("query-stats", &stats);
    }
    let (_, _, stats) = shell.run("query db -f sum.sql --stats=json -q");
    let stats = is("query-stats", &stats);
    let mut operators = stats["operators"].as_array().unwrap().iter();
    assert!(operators.any(|operator| operator["store"]["table"] == "t"), "{stats}");
    is("compact-report", &shell.stdout("compact db/t --all --report json -q"));
    is("verify", &shell.stdout("verify db --format json -q"));
    is("repair", &shell.stdout("repair db --format json -q"));
    let damage = "for f in $(find db/t/data -name '*.sty'); do yes X | head -c 64 | \
                  dd of=\"$f\" bs=1 seek=8 conv=notrunc 2> /dev/null; done";
    assert_eq!(shell.sh(damage).0, 0);
    let (code, verified, _) = shell.run("verify db --format json -q --error-format json");
    assert_eq!((code, is("verify", &verified).as_array().unwrap().is_empty()), (3, false));
    let (code, repaired, _) = shell.run("repair db --format json -q");
    assert_eq!((code, is("repair", &repaired).as_array().unwrap().is_empty()), (0, false));
    let (code, _, error) = shell.run("query db -f none.sql --error-format json");
    assert_eq!((code, is("error", &error)["code"].as_str()), (6, Some("not-found")));

    let all: BTreeSet<String> = folder()
        .read_dir()
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(checked, all, "every schema has an output that is held against it");
}

#[test]
fn a_key_more_a_key_less_and_another_type_are_refused() {
    let good = json!([{"partition": "year=2020", "rows": 1, "segments": 1, "bytes": 10}]);
    check("partitions", &good.to_string());
    let bad = |change: fn(&mut Value)| {
        let (mut value, schema, mut found) = (good.clone(), schema("partitions"), Vec::new());
        change(&mut value[0]);
        problems(&schema, &schema, &value, "", &mut found);
        assert_eq!(found.len(), 1, "{found:?}");
    };
    bad(|row| row["more"] = json!(1));
    bad(|row| drop(row.as_object_mut().unwrap().remove("rows")));
    bad(|row| row["rows"] = json!("1"));
    bad(|row| row["rows"] = Value::Null);
}

/// All objects of all schemas say which keys there are.
#[test]
fn schemas_know_every_key() {
    fn walk(name: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                if members.contains_key("properties") && members.contains_key("type") {
                    assert_eq!(members.get("additionalProperties"), Some(&json!(false)), "{name}");
                    assert!(members.contains_key("required"), "{name}");
                }
                members.values().for_each(|member| walk(name, member));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(name, item)),
            _ => {}
        }
    }
    for file in folder().read_dir().unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        walk(name, &schema(name));
    }
}
