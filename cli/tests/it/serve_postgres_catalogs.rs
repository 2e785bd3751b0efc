//! What clients of PostgreSQL find in the catalogs of `sty serve --pg`.

use crate::serve_postgres::Server;

/// Statements, and what each answers.
fn check(server: &Server, all: &[(&str, &str)]) {
    let mut client = server.connect();
    for (sql, shown) in all {
        assert_eq!(client.ask(sql), *shown, "{sql}");
    }
}

#[test]
fn types_are_described() {
    let create = "CREATE TABLE \"Trips\" (id BIGINT NOT NULL, price NUMERIC(12, 2), at TIMESTAMP)";
    let columns = "SELECT attname, format_type(atttypid, atttypmod), attlen FROM pg_attribute \
                   WHERE attrelid = '\"Trips\"'::regclass ORDER BY attnum";
    let senders = "SELECT typname, typsend, typreceive, typlen FROM pg_type \
                   WHERE (typreceive != 0 OR typsend != 0) AND oid IN (16, 20, 1082, 1700, 1231) \
                   ORDER BY oid";
    check(
        &Server::start(&[]),
        &[
            (create, "CREATE TABLE I"),
            (
                columns,
                "id|bigint|8 price|numeric(12,2)|-1 at|timestamp without time zone|8 SELECT 3 I",
            ),
            (
                senders,
                "bool|boolsend|boolrecv|1 int8|int8send|int8recv|8 date|date_send|date_recv|4 \
             _numeric|array_send|array_recv|-1 numeric|numeric_send|numeric_recv|-1 SELECT 5 I",
            ),
            ("SELECT typlen FROM pg_type WHERE typname = 'name'", "64 SELECT 1 I"),
            ("SELECT to_regclass('public.\"Trips\"') = '\"Trips\"'::regclass", "t SELECT 1 I"),
            ("SELECT to_regclass('nope')", "NULL SELECT 1 I"),
            // What is shown is a name, and what is compared a number.
            ("SELECT 'public.\"Trips\"'::regclass, 'nope'::regclass", "\"Trips\"|NULL SELECT 1 I"),
            (
                "SELECT c.oid::regclass::text, c.oid::regclass AS r, relnamespace::regnamespace, \
                 relowner::regrole FROM pg_class c WHERE oid = '\"Trips\"'::regclass",
                "\"Trips\"|\"Trips\"|public|anna SELECT 1 I",
            ),
            (
                "SELECT atttypid::pg_catalog.regtype FROM pg_attribute \
                 WHERE attrelid = '\"Trips\"'::regclass AND atttypid = 'numeric'::regtype",
                "numeric SELECT 1 I",
            ),
            (
                "SELECT typname FROM pg_type WHERE typinput = 'array_in(cstring)'::regprocedure",
                "SELECT 0 I",
            ),
            // Of the catalogs, those that have arrays are empty; other arrays are not.
            ("SELECT generate_subscripts(indkey, 1) FROM pg_index", "SELECT 0 I"),
            ("SELECT generate_subscripts(ARRAY[5, 6], 1)", "!42883 I"),
            ("SELECT json_build_object('a', 1)", "{\"a\":1} SELECT 1 I"),
            (
                "SELECT CAST('\"Trips\"' AS pg_catalog.regclass) = '\"Trips\"'::regclass",
                "t SELECT 1 I",
            ),
        ],
    );
}

#[test]
fn views_and_sizes_are_told() {
    let server = Server::start(&[]);
    let definitions = "SELECT pg_get_viewdef(oid, true), pg_get_viewdef('v') FROM pg_class \
                       WHERE relkind = 'v'; SELECT definition FROM pg_views; \
                       SELECT view_definition FROM information_schema.views";
    let text = " SELECT a FROM t WHERE a > 1;";
    let defined = format!("{text}|{text} SELECT 1 {text} SELECT 1 {text} SELECT 1 I");
    let sizes = "SELECT pg_table_size('t') > 0, pg_relation_size(oid) = pg_table_size('public.t'), \
                 pg_size_pretty(pg_total_relation_size(oid)) LIKE '% bytes', \
                 pg_database_size('db') = pg_table_size('t'), pg_table_size('v') \
                 FROM pg_class WHERE relname = 't'";
    check(
        &server,
        &[
            ("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)", "CREATE TABLE INSERT 0 2 I"),
            // It is planned anew once there is such a view.
            ("PREPARE later AS SELECT pg_get_viewdef('v')", "PREPARE I"),
            ("EXECUTE later", "NULL SELECT 1 I"),
            ("CREATE VIEW v AS SELECT a FROM t WHERE a > 1", "CREATE VIEW I"),
            (definitions, &defined),
            (sizes, "t|t|t|t|0 SELECT 1 I"),
            ("SELECT table_name FROM information_schema.views", "v SELECT 1 I"),
            ("SELECT tablename FROM pg_tables", "t SELECT 1 I"),
        ],
    );
}

#[test]
fn information_schema_is_that_of_postgresql() {
    let columns = "SELECT columns.column_name, udt_name, data_type, is_nullable, \
                   numeric_precision, numeric_scale FROM information_schema.columns \
                   WHERE table_catalog = current_database() ORDER BY ordinal_position";
    let all =
        "a|int4|integer|NO|32|0 p|numeric|numeric|YES|12|2 b|text|text|YES|NULL|NULL SELECT 3 I";
    check(
        &Server::start(&[]),
        &[
            ("CREATE TABLE t (a INT NOT NULL, p NUMERIC(12, 2), b TEXT)", "CREATE TABLE I"),
            (columns, all),
            (
                "SELECT table_catalog, table_schema, t.table_name, table_type \
             FROM db.information_schema.tables t",
                "db|public|t|BASE TABLE SELECT 1 I",
            ),
            (
                "SELECT count(*) FROM information_schema.key_column_usage k \
             JOIN information_schema.table_constraints USING (constraint_name)",
                "0 SELECT 1 I",
            ),
            ("SELECT count(*) FROM db.public.t", "0 SELECT 1 I"),
        ],
    );
}

#[test]
fn functions_and_empty_catalogs_are_there() {
    let keys = "SELECT a.attname, (i.keys).n FROM pg_catalog.pg_class c JOIN \
                (SELECT indrelid, information_schema._pg_expandarray(indkey) AS keys \
                FROM pg_catalog.pg_index) i ON i.indrelid = c.oid \
                JOIN pg_catalog.pg_attribute a ON a.attnum = (i.keys).x";
    check(
        &Server::start(&[]),
        &[
            (
                "SELECT current_schemas(true), current_schemas(false)",
                "{pg_catalog,public}|{public} SELECT 1 I",
            ),
            (
                "SELECT nspname FROM pg_namespace WHERE nspname = ANY (current_schemas(false))",
                "public SELECT 1 I",
            ),
            ("SELECT pg_my_temp_schema()", "0 SELECT 1 I"),
            (
                "SELECT quote_ident('a b'), quote_ident('ab'), quote_literal('it''s')",
                "\"a b\"|ab|'it''s' SELECT 1 I",
            ),
            (
                "SELECT setting, source FROM pg_settings WHERE name = 'application_name'",
                "test|session SELECT 1 I",
            ),
            ("SELECT catcode FROM pg_get_keywords() WHERE word = 'select'", "R SELECT 1 I"),
            (keys, "SELECT 0 I"),
            ("SELECT count(*) FROM pg_index WHERE indisprimary = 'f'", "0 SELECT 1 I"),
            (
                "SELECT count(*) FROM pg_catalog.pg_cast c LEFT JOIN pg_catalog.pg_description d \
          ON d.classoid = c.tableoid",
                "0 SELECT 1 I",
            ),
        ],
    );
}
