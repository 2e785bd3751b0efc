//! Tests of fields of objects as columns.

use super::JsonOptions;
use super::tests::read_with;
use crate::model::DataType;

#[test]
fn fields_of_objects_may_be_columns() {
    let flat = JsonOptions { flatten: true, ..JsonOptions::default() };
    let text = r#"{"id":1,"geo":{"lat":1.5,"at":{"x":"a"}},"l":[{"y":1}]}
{"id":2,"geo":null,"k\u0065y":{"a\"b":true}}
{"id":3,"geo":{},"l":[]}
{"geo":{"at":{"x":"b"},"lat":2},"id":4}
{"id":5,"geo":"none"}
"#;
    assert_eq!(
        read_with(text, &flat).unwrap(),
        [
            "id int64: 1 2 3 4 5",
            "geo.lat float64: 1.5 ∅ ∅ 2.0 ∅",
            "geo.at.x utf8: a ∅ ∅ b ∅",
            r#"l utf8: [{"y":1}] ∅ [] ∅ ∅"#,
            "geo utf8: ∅ ∅ ∅ ∅ none",
            r#"key.a"b bool: ∅ true ∅ ∅ ∅"#,
        ]
    );
    // The column of a key whose other values are objects goes if it has nulls alone.
    let names = |text: &str, options: &JsonOptions| -> Vec<String> {
        let lines = read_with(text, options).unwrap();
        lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let text = r#"{"geo":null,"id":1}{"geo":{"lat":1},"id":2}"#;
    assert_eq!(names(text, &flat), ["id", "geo.lat"]);
    // An object whose column has a type of the user's stays whole.
    let whole = JsonOptions { schema: vec![("a.b".into(), DataType::Utf8)], ..flat.clone() };
    assert_eq!(
        read_with(r#"{"a":{"b":{"c":1},"d":{"e":2}}}"#, &whole).unwrap(),
        [r#"a.b utf8: {"c":1}"#, "a.d.e int64: 2"]
    );
    // 32 levels are columns, what is below them is a text.
    let deep = format!("{}1{}", r#"{"a":"#.repeat(40), "}".repeat(40));
    let line = &read_with(&deep, &flat).unwrap()[0];
    assert!(line.starts_with("a.a.a.") && line.ends_with(r#"{"a":1}}}}}}}"#), "{line}");
    assert_eq!(line.matches("a.").count(), 32);
    // Two keys of one column, and an error within an object.
    for (text, expected) in [
        (r#"{"a.b":1,"a":{"b":2}}"#, "two keys of this row are the column 'a.b'"),
        (r#"{"a":{"b":2},"a.b":1}"#, "two keys of this row are the column 'a.b'"),
        ("{\"a\":\n{\"b\" 2}}", "line 2: not a row of JSON: ':' expected"),
    ] {
        let error = read_with(text, &flat).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    // The last one of equal keys counts, as elsewhere.
    let twice = r#"{"a":{"b":1,"b":2}}"#;
    assert_eq!(read_with(twice, &flat).unwrap(), ["a.b int64: 2"]);
}
