//! Columns of `key=value` directories, and of the path itself, in queries over files.

use super::shell::Shell;

/// Writes three files into directories. The path of one of them has no day.
fn lake(extension: &str) -> Shell {
    let shell = Shell::new();
    for (directory, n) in [
        ("day=2024-01-01/k=1/city=a%2Fb", 1),
        ("day=2024-01-02/k=-20/city=7", 2),
        ("day=__HIVE_DEFAULT_PARTITION__/k=300/city=x", 3),
    ] {
        shell.sh(&format!("mkdir -p lake/{directory}"));
        let sql = format!("SELECT {n} AS n, 'r{n}' AS s UNION ALL SELECT {n} + 10, NULL");
        shell.stdout_of(&format!("query -o lake/{directory}/f.{extension}"), &sql);
    }
    shell
}

#[test]
fn directories_are_columns_in_every_format() {
    for extension in ["csv", "jsonl", "parquet", "arrow", "csv.gz"] {
        let shell = lake(extension);
        let files = format!("lake/*/*/*/*.{extension}");
        let answer = |sql: &str| {
            let (code, stdout, stderr) =
                shell.pipe("query --no-header", sql.replace("FILES", &format!("'{files}'")));
            assert_eq!(code, 0, "{extension}: {sql}: {stderr}");
            stdout
        };
        for (sql, rows) in [
            (
                "SELECT n, day, k, city FROM FILES ORDER BY n LIMIT 3",
                "1,2024-01-01,1,a/b\n2,2024-01-02,-20,7\n3,,300,x\n",
            ),
            ("SELECT sum(k), count(day), count(*) FROM FILES", "562,4,6\n"),
            ("SELECT n FROM FILES WHERE day = DATE '2024-01-02' ORDER BY n", "2\n12\n"),
            ("SELECT n FROM FILES WHERE day IS NULL AND n < 10", "3\n"),
            ("SELECT min(day), max(k), min(city), max(city) FROM FILES", "2024-01-01,300,7,x\n"),
            ("SELECT k, count(s) FROM FILES GROUP BY k ORDER BY k", "-20,1\n1,1\n300,1\n"),
            ("SELECT count(*) FROM FILES WHERE k > 0", "4\n"),
            ("SELECT DISTINCT arrow_typeof(k), arrow_typeof(day) FROM FILES", "Int64,Date32\n"),
            ("SELECT * FROM FILES WHERE n = 2", "2,r2,2024-01-02,-20,7\n"),
        ] {
            assert_eq!(answer(sql), rows, "{extension}: {sql}");
        }
        // As in a table that is made of them.
        let (code, _, stderr) = shell.sh(&format!("sty ingest -q db/t '{files}'"));
        assert_eq!(code, 0, "{stderr}");
        let of_table = shell.stdout_of("query db --no-header", "FROM t ORDER BY n");
        assert_eq!(answer("FROM FILES ORDER BY n"), of_table, "{extension}");
    }
}

#[test]
fn columns_of_paths_are_asked_for_or_left_out() {
    for (extension, read) in [("csv", "read_csv"), ("parquet", "read_parquet")] {
        let shell = lake(extension);
        let answer = |from: &str| shell.stdout_of("query", &format!("FROM {from} WHERE n = 2"));
        let file = format!("lake/day=2024-01-02/k=-20/city=7/f.{extension}");
        let call = |options: &str| answer(&format!("{read}('lake/*/*/*/*.{extension}'{options})"));
        assert_eq!(answer(&format!("'{file}'")), "n,s,day,k,city\n2,r2,2024-01-02,-20,7\n");
        assert_eq!(call(", hive_partitioning => false"), "n,s\n2,r2\n");
        assert_eq!(call(", partition_columns => false"), "n,s\n2,r2\n");
        let with_name = format!("n,s,filename\n2,r2,{file}\n");
        assert_eq!(call(", hive_partitioning => false, filename => true"), with_name);
        let as_asked = format!("n,s,day,k,city,f\n2,r2,2024-01-02,-20,7,{file}\n");
        assert_eq!(call(", filename => 'f'"), as_asked);
    }
    // A column of the file goes before one of its path, and types may be named.
    let shell = Shell::new();
    assert_eq!(shell.sh("mkdir k=1 k=2").0, 0);
    shell.file("k=1/a.csv", "k,v\n7,x\n").file("k=2/a.csv", "v\ny\n");
    let sql = "SELECT v, k FROM '*/a.csv' ORDER BY v";
    assert_eq!(shell.stdout_of("query", sql), "v,k\nx,7\ny,2\n");
    assert_eq!(shell.sh("mkdir k=x").0, 0);
    shell.file("k=x/a.csv", "v\nz\n");
    let (code, _, stderr) = shell.pipe("query", "FROM '*/a.csv'");
    assert!(code == 1 && stderr.contains("column 'k' is int64 in one part"), "{stderr}");
    shell.stdout_of("query -o k=1/a.parquet", "SELECT 7 AS k, 'x' AS v");
    shell.stdout_of("query -o k=2/a.parquet", "SELECT 'y' AS v");
    let (code, _, stderr) = shell.pipe("query", "FROM '*/a.parquet'");
    assert!(code == 1 && stderr.contains("'k' is in some files, and in the path"), "{stderr}");
    let sql = "SELECT v, k FROM read_parquet('*/a.parquet', hive_partitioning => false) ORDER BY v";
    assert_eq!(shell.stdout_of("query", sql), "v,k\nx,7\ny,\n");
    let sql = "CREATE TABLE t (v TEXT); COPY t FROM 'k=2/a.csv'; FROM t";
    assert!(shell.stdout_of("query db", sql).ends_with("v\ny\n"));
    let sql = "SELECT v, k || '!' AS k FROM read_csv('k=2/a.csv', types => {'k': 'text'})";
    assert_eq!(shell.stdout_of("query", sql), "v,k\ny,2!\n");
    let (code, _, stderr) =
        shell.pipe("query", "FROM read_csv('k=2/a.csv', types => {'k': 'date'})");
    assert!(code == 1 && stderr.contains("'2', which its path gives for column 'k'"), "{stderr}");
}

/// What the paths say is no answer where there are no rows.
#[test]
fn files_without_rows_have_no_values() {
    let shell = Shell::new();
    assert_eq!(shell.sh("mkdir d=1 d=2 d=3").0, 0);
    for (d, rows) in [(1, "false"), (2, "true"), (3, "false")] {
        shell.stdout_of(
            &format!("query -o d={d}/f.parquet"),
            &format!("SELECT 1 AS n WHERE {rows}"),
        );
    }
    let sql = "SELECT min(d) AS a, max(d) AS b, count(*) AS n, count(DISTINCT d) AS m";
    let answer = |from: &str| shell.stdout_of("query", &format!("{sql} FROM {from}"));
    assert_eq!(answer("'*/f.parquet'"), "a,b,n,m\n2,2,1,1\n");
    assert_eq!(answer("'d=3/f.parquet'"), "a,b,n,m\n,,0,0\n");
}

#[test]
fn files_of_a_pattern_have_their_columns_in_any_order() {
    let shell = Shell::new();
    for extension in ["arrow", "parquet"] {
        for (file, sql) in [("a", "SELECT 1 a, 2 b"), ("b", "SELECT 4 b, 3 a"), ("c", "SELECT 9 b")]
        {
            shell.stdout_of(&format!("query -o {file}.{extension}"), sql);
        }
        let answer = |sql: &str| {
            shell.stdout_of("query --no-header", &format!("{sql} '*.{extension}' ORDER BY b"))
        };
        assert_eq!(answer("FROM"), "1,2\n3,4\n,9\n", "{extension}");
        assert_eq!(answer("SELECT b, a FROM"), "2,1\n4,3\n9,\n", "{extension}");
        assert_eq!(answer("SELECT a FROM"), "1\n3\n\n", "{extension}");
    }
}

#[test]
fn a_directory_is_the_files_in_it() {
    for extension in ["csv", "jsonl", "parquet", "arrow", "csv.gz"] {
        let shell = lake(extension);
        shell.file("lake/_SUCCESS", "").file("lake/.part.crc", "x");
        let same = shell.stdout_of("query", &format!("FROM 'lake/*/*/*/*.{extension}' ORDER BY n"));
        assert_eq!(shell.stdout_of("query", "FROM 'lake/' ORDER BY n"), same, "{extension}");
    }
    let shell = lake("csv");
    let answer = |sql: &str| shell.pipe("query --no-header", sql);
    assert_eq!(answer("SELECT sum(n) FROM read_csv('lake')").1, "42\n");
    assert_eq!(answer("SELECT sum(n) FROM read_csv('lake/day=2024-01-02/')").1, "14\n");
    shell.stdout_of("query -o lake/other.parquet", "SELECT 1 AS n");
    for (sql, said) in [
        ("FROM 'lake/'", "the files of lake/ have several formats"),
        ("FROM 'lake'", "FROM 'lake/'"),
        ("FROM 'nowhere/'", "no file nowhere/"),
    ] {
        let (code, _, stderr) = answer(sql);
        assert!(code != 0 && stderr.contains(said), "{sql}: {stderr}");
    }
    shell.sh("mkdir empty odd && echo x > odd/README");
    assert!(answer("FROM 'empty/'").2.contains("there are no files in this directory"));
    assert!(answer("FROM 'odd/'").2.contains("odd/README does not say by its name what it is"));
    // What may not read files learns nothing of directories.
    let (code, _, stderr) = shell.pipe("query --no-files", "FROM 'lake'");
    assert!(code != 0 && !stderr.contains("directory"), "{stderr}");
    assert_ne!(shell.pipe("query --no-files", "FROM 'lake/'").0, 0);
}

#[test]
fn a_column_of_several_types_has_one_that_holds_all_values() {
    for extension in ["parquet", "arrow"] {
        let shell = Shell::new();
        shell.sh("mkdir -p f/k=1 f/k=2");
        for (name, sql) in [
            ("k=1/a", "SELECT 1::int AS id, 0.5::real AS x, 'a' AS s"),
            ("k=1/b", "SELECT 's' AS s, 5000000000 AS id"),
            ("k=2/c", "SELECT 7::smallint AS id, 0.1 AS x, DATE '2024-01-01' AS day"),
            ("k=2/d", "SELECT 8::int AS id, 2.5::real AS x"),
        ] {
            shell.stdout_of(&format!("query -o f/{name}.{extension}"), sql);
        }
        let answer = |sql: &str| shell.pipe("query --no-header", sql);
        let (code, stdout, stderr) = answer("SELECT id, x, s, day, k FROM 'f/' ORDER BY id");
        let rows = "1,0.5,a,,1\n7,0.1,,2024-01-01,2\n8,2.5,,,2\n5000000000,,s,,1\n";
        assert_eq!((code, stdout.as_str()), (0, rows), "{extension}: {stderr}");
        for (sql, rows) in [
            (
                "SELECT sum(id), max(id), count(x), count(*) FROM 'f/'",
                "5000000016,5000000000,3,4\n",
            ),
            ("SELECT id FROM 'f/' WHERE id > 7 AND k = 2", "8\n"),
            ("SELECT s FROM 'f/' WHERE id = 5000000000", "s\n"),
            ("SELECT count(*) FROM 'f/' WHERE x = 0.1", "1\n"),
            ("SELECT DISTINCT arrow_typeof(id), arrow_typeof(x) FROM 'f/'", "Int64,Float64\n"),
        ] {
            let (code, stdout, stderr) = answer(sql);
            assert_eq!((code, stdout.as_str()), (0, rows), "{extension}: {sql}: {stderr}");
        }
        shell.stdout_of(&format!("query -o f/e.{extension}"), "SELECT true AS id");
        let (code, _, stderr) = answer("FROM 'f/'");
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains("column 'id' is ") && stderr.contains("bool in "), "{stderr}");
    }
}
