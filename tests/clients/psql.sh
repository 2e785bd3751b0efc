#!/usr/bin/env bash
# psql and `sty serve --pg`. run.sh says how it is run.
set -u

export PGHOST=$STY_HOST PGPORT=$STY_PG_PORT PGUSER=anna PGDATABASE=db PGCONNECT_TIMEOUT=10
unset PGOPTIONS PGPASSWORD PGSERVICE
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

# Each argument is a command; rows come without heads, with | between values.
ask() {
    local commands=() one
    for one; do commands+=(-c "$one"); done
    timeout 60 psql -X -A -t -v VERBOSITY=verbose "${commands[@]}" 2>&1
}

# is WHAT EXPECTED GOT: these must be the same.
is() {
    [ "$2" = "$3" ] && return
    failed=1
    printf '%s: expected:\n%s\ngot:\n%s\n' "$1" "$2" "$3"
}

# has WHAT LINE GOT: a line of an answer must be this one.
has() { grep -qxF -- "$2" <<< "$3" || is "$1" "…$2…" "$3"; }

ask "DROP TABLE IF EXISTS ps" "DROP VIEW IF EXISTS ps_view" > /dev/null
is create "CREATE TABLE
INSERT 0 3
CREATE VIEW" "$(ask "CREATE TABLE ps (id BIGINT NOT NULL, n INTEGER, s SMALLINT, b BOOLEAN, r REAL,
    d DOUBLE PRECISION, price NUMERIC(12, 2), t TEXT, y BYTEA, day DATE, clock TIME, at TIMESTAMP,
    zoned TIMESTAMPTZ)" "INSERT INTO ps VALUES
    (1, -2, 3, true, 1.5, 0.1, 12.50, 'it''s \"x\"', '\x00ff41', '2024-02-29', '01:02:03.5',
        '2024-02-29 12:34:56.789', '2024-02-29 12:34:56+00'),
    (2, NULL, NULL, false, NULL, 'NaN', -0.05, E'a\tb\\\\c\nd', NULL, '1969-12-31', NULL, NULL,
        NULL),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL)" \
    "CREATE VIEW ps_view AS SELECT id, price FROM ps WHERE id < 3")"

# What backslash commands show.
for command in '\d' '\dt' '\dt ps' '\dt public.p*' '\dtv'; do
    has "$command" "public|ps|table|anna" "$(ask "$command")"
done
has '\dv' "public|ps_view|view|anna" "$(ask '\dv')"
is '\dt without views' "" "$(ask '\dt' | grep view)"
has '\l' "db|anna|UTF8" "$(ask '\l' | cut -d'|' -f1-3)"
has '\dn' "public" "$(ask '\dn' | cut -d'|' -f1)"
is '\du' "anna" "$(ask '\du' | cut -d'|' -f1)"
has '\d nope' 'Did not find any relation named "nope".' "$(ask '\d nope')"
is '\d ps' "id|bigint||not null|
n|integer|||
s|smallint|||
b|boolean|||
r|real|||
d|double precision|||
price|numeric(12,2)|||
t|text|||
y|bytea|||
day|date|||
clock|time without time zone|||
at|timestamp without time zone|||
zoned|timestamp with time zone|||" "$(ask '\d ps')"
is '\d ps_view' "id|bigint|||
price|numeric(12,2)|||" "$(ask '\d ps_view' | sed 's/not null//')"
has '\d+ ps' "id|bigint||not null||plain|||" "$(ask '\d+ ps')"
is '\d+ of a view' "1" "$(psql -X -A -c '\d+ ps_view' | tr '\n' ' ' \
    | grep -ci 'definition.*select.*price.*from.*ps')"
has '\dt+' "ps" "$(ask '\dt+' | cut -d'|' -f2)"
has '\l+' "db" "$(ask '\l+' | cut -d'|' -f1)"
has '\dn+' "public" "$(ask '\dn+' | cut -d'|' -f1)"
is '\sv' "CREATE OR REPLACE VIEW public.ps_view AS" "$(ask '\sv ps_view' | head -1)"
has '\conninfo' "1" "$(ask '\conninfo' | grep -c 'database "db" as user "anna"')"
# What there is nothing of is found empty, and no error.
for command in '\di' '\ds' '\df' '\dx' '\dp nope' '\dm' '\dD' '\dP' '\db' '\do nope' '\dC nope' \
    '\dconfig nope' '\da nope' '\dy' '\dL nope' '\des' '\dRp' '\dRs' '\dF nope' '\dX' '\ddp' \
    '\drds' '\dc nope' '\dO nope' '\dew' '\deu'; do
    is "$command" "0" "$(ask "$command" | grep -c ERROR)"
done
is '\gdesc' "a|integer
b|text
c|numeric(12,2)
d|bigint[]" "$(psql -X -A -t <<< "SELECT 1::int AS a, 'x' AS b, 1::numeric(12, 2) AS c,
    ARRAY[1::bigint] AS d \gdesc" 2>&1)"

# Values, and rows by a cursor of so many at a time.
first='1|-2|3|t|1.5|0.1|12.50|it'\''s "x"|\x00ff41|2024-02-29|01:02:03.5'
first="$first|2024-02-29 12:34:56.789|2024-02-29 12:34:56+00"
is values "$first" "$(ask "SELECT * FROM ps WHERE id = 1")"
is cursor "10000|50005000" "$(printf '%s\n' '\set FETCH_COUNT 7' \
    "SELECT g FROM generate_series(1, 10000) AS t(g) ORDER BY g;" | psql -X -A -t \
    | awk '{ if ($1 != NR) exit 1; n++; s += $1 } END { print n "|" s }')"
is 'cursor over a failure' "1" "$(printf '%s\n' '\set FETCH_COUNT 100' \
    "SELECT 10 / (g - 5000) FROM generate_series(1, 10000) AS t(g) ORDER BY g;" 'SELECT 77;' \
    | psql -X -A -t 2>&1 | grep -c 'division by zero')"
is 'FETCH by hand' "BEGIN
DECLARE CURSOR
1
2
3
CLOSE CURSOR
COMMIT" "$(ask BEGIN "DECLARE c CURSOR FOR SELECT id FROM ps ORDER BY id" "FETCH 2 FROM c" \
    "FETCH ALL FROM c" "CLOSE c" COMMIT)"
is variables "it's|2" "$(psql -X -A -t -v who="it's" -v n=2 <<< "SELECT :'who', :n;")"
is prepared "x7
DEALLOCATE" "$(ask "PREPARE q(text, int) AS SELECT \$1 || \$2" "EXECUTE q('x', 7)" "DEALLOCATE q" \
    | grep -v '^PREPARE$')"
is gexec "1
2" "$(psql -X -A -t <<< "SELECT 'SELECT ' || g FROM generate_series(1, 2) AS t(g) ORDER BY g
    \gexec")"

# \copy: what comes out goes in again, and is the same.
for form in "" "WITH CSV HEADER" "WITH (FORMAT csv, DELIMITER ';', NULL 'nil')" "WITH BINARY" \
    "(FORMAT text, NULL '~', DELIMITER '|')" "(FORMAT csv, HEADER, FORCE_QUOTE *)"; do
    is "\\copy out $form" "COPY 3" "$(ask "\\copy ps TO '$dir/rows' $form")"
    ask "DROP TABLE IF EXISTS ps_copy" "CREATE TABLE ps_copy AS SELECT * FROM ps WHERE id < 0" \
        > /dev/null
    in=${form/, FORCE_QUOTE \*/}
    is "\\copy in $form" "COPY 3" "$(ask "\\copy ps_copy FROM '$dir/rows' $in")"
    is "\\copy both $form" "$(ask "SELECT * FROM ps ORDER BY id")" \
        "$(ask "SELECT * FROM ps_copy ORDER BY id")"
done
is '\copy of a query' 'id,t
2,"a	b\c
d"
3,""' "$(ask "\\copy (SELECT id, t FROM ps WHERE id > 1 ORDER BY id) TO STDOUT WITH CSV HEADER")"
is '\copy of columns' "COPY 2
7|x
8|" "$(printf '7\tx\n8\t\\N\n' > "$dir/two"; ask "\\copy ps_copy (id, t) FROM '$dir/two'" \
    "SELECT id, t FROM ps_copy WHERE id IN (7, 8) ORDER BY id")"
is '\copy of a wrong row' "1
0" "$(printf '9\tx\nno\ty\n' > "$dir/wrong"; ask "\\copy ps_copy (id, t) FROM '$dir/wrong'" \
    | grep -c 'ERROR:  22P02'; ask "SELECT count(*) FROM ps_copy WHERE id = 9")"

# Failures have codes.
for pair in "42P01 SELECT * FROM nope" "42703 SELECT nope FROM ps" "42601 SELEC 1" \
    "22012 SELECT 1 / (id - 1) FROM ps" "42P07 CREATE TABLE ps (a INT)" "42883 SELECT nope(1)" \
    "22P02 SELECT CAST('x' AS INT)"; do
    is "${pair#* }" "ERROR:  ${pair%% *}" "$(ask "${pair#* }" | head -1 | cut -c1-13)"
done

ask "DROP VIEW ps_view" "DROP TABLE ps_copy" "DROP TABLE ps" > /dev/null
exit $failed
