//! `sty ingest --flatten`: fields of objects and structs as columns.

use crate::shell::Shell;

const EVENTS: &str = r#"{"id":1,"k":"a","geo":{"lat":1.5,"Place":{"name":"Ulm"}},"tags":["x","y"]}
{"id":2,"k":"b","geo":null}
{"id":3,"k":"a","geo":{"lat":-2,"Place":{"name":"Rom"}},"tags":[]}
"#;

#[test]
fn fields_are_columns_with_dots() {
    let shell = Shell::new();
    shell.file("e.jsonl", EVENTS);
    shell.file("places.csv", "name,country\nUlm,de\nRom,it\n");
    let query = |sql: &str| format!("sty query db \"{sql}\"; ");
    let script = "sty ingest -q db/e e.jsonl --flatten; sty ingest -q db/places places.csv; "
        .to_owned()
        + &query("SELECT column_name FROM information_schema.columns WHERE table_name = 'e'")
        + &query("SELECT geo.lat, e.geo.place.NAME FROM e WHERE geo.lat > 0")
        + &query("SELECT k, sum(x.geo.lat) AS s FROM e AS x GROUP BY k ORDER BY max(geo.lat)")
        + &query("SELECT country FROM e JOIN places p ON p.name = geo.place.name ORDER BY geo.lat")
        + &query(
            "SELECT (SELECT max(country) FROM places WHERE name = geo.place.name) c FROM e ORDER BY id",
        )
        + &query("SELECT tags ->> 0 AS tag FROM e ORDER BY id")
        // A query of that name goes first; and rows that are changed.
        + &query("WITH geo AS (SELECT 9 AS lat) SELECT max(geo.lat) AS m FROM e, geo")
        + &query("PIVOT (SELECT k, geo.lat FROM e) ON k USING sum(geo.lat)")
        + &query("INSERT INTO e (id, geo.lat) VALUES (4, 7)")
        + &query("UPDATE e SET geo.lat = 8, geo.place.name = 'Bonn' WHERE id = 4")
        + &query("SELECT geo.lat, geo.place.name FROM e WHERE id = 4");
    let (code, stdout, stderr) = shell.sh(&script);
    let answer = "column_name\nid\nk\ngeo.lat\ngeo.Place.name\ntags\n\
                  geo.lat,geo.Place.name\n1.5,Ulm\n\
                  k,s\na,-0.5\nb,\n\
                  country\nit\nde\n\
                  c\nde\n\nit\n\
                  tag\nx\n\n\n\
                  m\n9\na,b\n-0.5,\ncount\n1\ncount\n1\ngeo.lat,geo.Place.name\n8.0,Bonn\n";
    assert_eq!((code, stdout.as_str()), (0, answer), "{stderr}");
}

#[test]
fn every_format_is_flattened_alike() {
    let shell = Shell::new();
    shell.file("e.jsonl", EVENTS);
    let structs = "SELECT id, k, CASE WHEN id <> 2 THEN named_struct('lat', CASE id WHEN 1 \
                   THEN 1.5::double ELSE -2 END, 'Place', named_struct('name', CASE id WHEN 1 \
                   THEN 'Ulm' ELSE 'Rom' END)) END AS geo, CASE id WHEN 1 THEN ['x', 'y'] \
                   WHEN 3 THEN [] END AS tags FROM 'e.jsonl' ORDER BY id";
    let script = format!(
        "for to in parquet arrow; do sty query \"{structs}\" -o e.$to; done
         for from in e.jsonl e.parquet e.arrow; do
           rm -rf db; sty ingest -q db/e $from --flatten; sty query db 'FROM e ORDER BY id'
         done"
    );
    let (code, stdout, stderr) = shell.sh(&script);
    let answer = "id,k,geo.lat,geo.Place.name,tags\n1,a,1.5,Ulm,\"[\"\"x\"\",\"\"y\"\"]\"\n\
                  2,b,,,\n3,a,-2.0,Rom,[]\n";
    assert_eq!((code, stdout), (0, answer.repeat(3)), "{stderr}");
}

#[test]
fn maps_are_objects_and_null_objects_no_columns() {
    let shell = Shell::new();
    shell.file("a.jsonl", "{\"id\":1,\"geo\":{\"lat\":1}}\n");
    shell.file("b.jsonl", "{\"id\":2,\"geo\":null}\n");
    let script =
        "sty query \"SELECT map([1, 2], ['x', 'y']) m, [map([DATE '2024-01-02'], [3])] l\" \
         -o m.parquet
         sty ingest -q db/m m.parquet --flatten; sty query db 'FROM m'
         sty ingest -q db/t a.jsonl --flatten; sty ingest -q db/t b.jsonl --flatten
         sty query db 'FROM t ORDER BY id'";
    let (code, stdout, stderr) = shell.sh(script);
    let answer = "m,l\n\"{\"\"1\"\":\"\"x\"\",\"\"2\"\":\"\"y\"\"}\",\
                  \"[{\"\"2024-01-02\"\":3}]\"\nid,geo.lat\n1,1\n2,\n";
    assert_eq!((code, stdout.as_str()), (0, answer), "{stderr}");
}

#[test]
fn what_cannot_be_flattened_is_told() {
    let shell = Shell::new();
    shell.file("e.jsonl", "{\"id\":1,\"geo\":{\"lat\":1}}\n{\"id\":2,\"geo\":{\"lat\":\"x\"}}\n");
    let script = r#"sty query "SELECT 1 id, named_struct('b', 2) a, 3 AS \"a.b\"" -o s.parquet
         sty ingest db/t s.parquet; echo $?; sty ingest db/t s.parquet --flatten; echo $?
         sty ingest -q db/t s.parquet --flatten --schema a:utf8 && sty query db 'FROM t'
         sty ingest -q db/e e.jsonl --flatten --schema geo.lat:int64 --rejects bad.csv; echo $?
         cat bad.csv; sed -i 's/""x""}/7}/' bad.csv
         sty ingest -q db/e bad.csv --from-rejects --flatten --schema geo.lat:int64
         sty query db 'SELECT sum(geo.lat) AS s, count(*) AS n FROM e'"#;
    let (_, stdout, stderr) = shell.sh(script);
    let answer = "1\n1\nid,a,a.b\n1,\"{\"\"b\"\":2}\",3\n0\nfile,line,column,reason,raw\n\
                  e.jsonl,2,geo.lat,\"\"\"x\"\" is not of type int64; --schema gives that type; \
                  as text it would be --schema geo.lat:utf8\",\
                  \"{\"\"id\"\":2,\"\"geo\"\":{\"\"lat\"\":\"\"x\"\"}}\"\ns,n\n8,2\n";
    assert_eq!(stdout, answer, "{stderr}");
    for part in ["column 'a' has type", "with --flatten", "two columns would be called 'a.b'"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}
