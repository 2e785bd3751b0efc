#!/usr/bin/env bash
# pgbench and `sty serve --pg`: scripts of reads and inserts. run.sh says how it is run.
set -u

export PGHOST=$STY_HOST PGPORT=$STY_PG_PORT PGUSER=anna PGDATABASE=db PGCONNECT_TIMEOUT=10
unset PGOPTIONS PGPASSWORD PGSERVICE
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

# is WHAT EXPECTED GOT: these must be the same.
is() {
    [ "$2" = "$3" ] && return
    failed=1
    printf '%s: expected:\n%s\ngot:\n%s\n' "$1" "$2" "$3"
}

ask() { psql -X -A -t -q -c "$1" 2>&1; }

# Runs scripts that check what they read, and tells how many transactions have been done.
bench() {
    timeout 120 pgbench -n -c 4 -j 2 "$@" > "$dir/log" 2>&1 || tail -5 "$dir/log"
    sed -n 's/^number of transactions actually processed: //p' "$dir/log"
}

ask "DROP TABLE IF EXISTS bench" > /dev/null
is create "" "$(ask "CREATE TABLE bench (id BIGINT, name TEXT, amount DOUBLE PRECISION)";
    ask "INSERT INTO bench SELECT g, 'n' || g, g * 0.5 FROM generate_series(1, 10000) AS t(g)")"
# A wrong row ends the client: there is no such label to go to, and division by zero fails.
cat > "$dir/read" << 'SQL'
\set id random(1, 10000)
SELECT id AS found, amount * 2 AS twice FROM bench WHERE id = :id \gset
\set same 1 / (case when :found = :id and :twice = :id then 1 else 0 end)
SELECT count(*) AS many FROM bench WHERE id BETWEEN :id AND :id + 9 AND id <= 10000 \gset
\set same 1 / (case when :many = least(10, 10001 - :id) then 1 else 0 end)
SQL
cat > "$dir/insert" << 'SQL'
\set id random(20001, 30000)
BEGIN;
INSERT INTO bench (id, name, amount) VALUES (:id, 'new', :client_id);
END;
SQL
for mode in simple extended prepared; do
    is "reads, $mode" "400/400" "$(bench -M $mode -t 100 -f "$dir/read")"
    before=$(ask "SELECT count(*) FROM bench")
    is "inserts, $mode" "100/100" "$(bench -M $mode -t 25 -f "$dir/insert")"
    is "rows of inserts, $mode" "$((before + 100))" "$(ask "SELECT count(*) FROM bench")"
done
sql="SELECT amount, count(*) FROM bench WHERE name = 'new' GROUP BY amount ORDER BY amount"
is 'clients of inserts' "0|75
1|75
2|75
3|75" "$(ask "$sql")"
is 'reads beside inserts' "400/400" \
    "$(bench -M prepared -t 100 -f "$dir/read@9" -f "$dir/insert@1")"
is 'a connection for each' "80/80" "$(bench -C -t 20 -f "$dir/read")"
ask "DROP TABLE bench" > /dev/null
exit $failed
