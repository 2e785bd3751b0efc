#!/usr/bin/env bash
# Lets real clients, and a browser, work with `sty serve`: tests/clients/run.sh path/to/sty [program…]
#
# Starts a server over a small store in a temporary directory, installs each client there from its
# registry, and runs one program per client, which checks what comes back. Says for each client
# whether it is ok, failed, or could not be installed; the exit code is 1 if one has failed.
set -u

all="http.py http.mjs http.go Http.java flight.py Flight.java page.py psql.sh pgbench.sh
    pg_drivers.py pg_alchemy.py pg_frames.py pg_harlequin.py pg_superset.py pg.mjs Postgres.java"
[ $# -ge 1 ] || { echo "usage: $0 path/to/sty [program…], of" $all >&2; exit 2; }
sty=$(realpath "$1") || exit 2
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 2
server=
trap '[ -n "$server" ] && kill "$server" 2> /dev/null; wait 2> /dev/null; rm -rf "$work"' EXIT

# The versions that the programs were written with; others can be named from outside.
: "${CLICKHOUSE_CONNECT:=1.12.0}" "${CLICKHOUSE_JS:=1.23.0}" "${CLICKHOUSE_GO:=v2.51.0}" \
    "${CLICKHOUSE_JDBC:=0.11.0}" "${ADBC_FLIGHTSQL:=1.13.0}" "${FLIGHT_SQL_JDBC:=18.3.0}" \
    "${PLAYWRIGHT:=1.65.2}" "${PSYCOPG:=3.3.9}" "${PSYCOPG2:=2.9.13}" "${ASYNCPG:=0.32.0}" \
    "${SQLALCHEMY:=2.1.9}" "${ADBC_POSTGRESQL:=1.13.0}" "${CONNECTORX:=0.4.6}" \
    "${HARLEQUIN_POSTGRES:=1.5.2}" "${SUPERSET:=6.1.0}" "${PG_JS:=8.23.1}" "${PGJDBC:=42.7.14}"

mkdir "$work/db"
STY_CONFIG='' "$sty" serve "$work/db" --http 0 --pg 0 --flight 0 2> "$work/server.log" &
server=$!
for _ in $(seq 100); do
    port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/$|\1|p' "$work/server.log")
    pg=$(sed -n 's|.*postgresql://127.0.0.1:\([0-9]*\)/$|\1|p' "$work/server.log")
    flight=$(sed -n 's|.*grpc://127.0.0.1:\([0-9]*\)/.*|\1|p' "$work/server.log")
    [ -n "$port" ] && [ -n "$pg" ] && [ -n "$flight" ] && break
    sleep 0.1
done
[ -n "$port" ] && [ -n "$pg" ] && [ -n "$flight" ] \
    || { echo "the server does not start:" >&2; cat "$work/server.log" >&2; exit 2; }
export STY_HOST=127.0.0.1 STY_PORT=$port STY_PG_PORT=$pg STY_FLIGHT_PORT=$flight STY=$sty
for statement in \
    "CREATE TABLE trips (id BIGINT NOT NULL, city VARCHAR, fare DOUBLE, day DATE, at TIMESTAMP)" \
    "INSERT INTO trips VALUES (1, 'Oslo', 12.5, '2024-01-02', '2024-01-02 03:04:05.678'),
        (2, 'it''s \"Bergen\"', NULL, NULL, NULL),
        (3, NULL, 0.25, '1969-12-31', '2024-02-29 23:59:59')"
do
    curl -sSf "http://127.0.0.1:$port/" --data-binary "$statement" > /dev/null || exit 2
done

# Each of these installs what a program needs, and fails if it cannot.
install_http_py() {
    # A program of this name beside others would stand in the place of Python's own module http.
    python3 -m venv "$work/py" && mkdir "$work/py/program" \
        && cp "$here/http.py" "$work/py/program/check.py" \
        && "$work/py/bin/pip" -q install "clickhouse-connect==$CLICKHOUSE_CONNECT" pandas pyarrow \
            sqlalchemy
}
install_page_py() {
    # A Chromium that is installed will do; Playwright brings one for what it knows.
    python3 -m venv "$work/page" && mkdir "$work/page/program" \
        && cp "$here/page.py" "$work/page/program/check.py" \
        && "$work/page/bin/pip" -q install "playwright==$PLAYWRIGHT" \
        && { [ -n "${CHROMIUM:-}" ] || command -v chromium \
            || "$work/page/bin/playwright" install chromium; }
}
install_http_mjs() {
    mkdir "$work/js" && cp "$here/http.mjs" "$work/js/" && cd "$work/js" \
        && npm install --silent --no-save "@clickhouse/client@$CLICKHOUSE_JS"
}
install_http_go() {
    mkdir "$work/go" && cp "$here/http.go" "$work/go/" && cd "$work/go" \
        && printf 'module clients\n\ngo 1.24\n' > go.mod \
        && export GOFLAGS=-mod=mod \
        && go get "github.com/ClickHouse/clickhouse-go/v2@$CLICKHOUSE_GO" && go build -o http .
}
install_Http_java() {
    # The driver asks for a variant of zstd-jni that Maven Central lacks; the usual one will do.
    mkdir "$work/java" && cd "$work/java" && cat > pom.xml << POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>clients</groupId><artifactId>clients</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>com.clickhouse</groupId><artifactId>clickhouse-jdbc</artifactId>
      <version>$CLICKHOUSE_JDBC</version>
      <exclusions>
        <exclusion>
          <groupId>com.github.luben</groupId><artifactId>zstd-jni</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>com.github.luben</groupId><artifactId>zstd-jni</artifactId>
      <version>1.5.7-3</version>
    </dependency>
  </dependencies>
</project>
POM
    mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib
}

install_flight_py() {
    python3 -m venv "$work/adbc" \
        && "$work/adbc/bin/pip" -q install "adbc-driver-flightsql==$ADBC_FLIGHTSQL" \
            adbc-driver-manager pyarrow pandas
}
install_Flight_java() {
    mkdir "$work/flight" && cd "$work/flight" \
        && mvn -q -B dependency:copy -DoutputDirectory=lib \
            -Dartifact="org.apache.arrow:flight-sql-jdbc-driver:$FLIGHT_SQL_JDBC"
}

# One environment for the drivers of PostgreSQL for Python.
install_pg_python() {
    [ -e "$work/pg/program" ] && return
    python3 -m venv "$work/pg" \
        && "$work/pg/bin/pip" -q install "psycopg[binary]==$PSYCOPG" "psycopg2-binary==$PSYCOPG2" \
            "asyncpg==$ASYNCPG" "sqlalchemy==$SQLALCHEMY" pandas pyarrow \
            "adbc-driver-postgresql==$ADBC_POSTGRESQL" "connectorx==$CONNECTORX" \
        && mkdir "$work/pg/program" && cp "$here"/pg_*.py "$work/pg/program"
}
install_psql_sh() { psql --version; }
install_pgbench_sh() { psql --version && pgbench --version; }
install_pg_drivers_py() { install_pg_python; }
install_pg_alchemy_py() { install_pg_python; }
install_pg_frames_py() { install_pg_python; }
install_pg_harlequin_py() {
    python3 -m venv "$work/harlequin" && mkdir "$work/harlequin/program" \
        && cp "$here/pg_harlequin.py" "$work/harlequin/program/" \
        && "$work/harlequin/bin/pip" -q install "harlequin-postgres==$HARLEQUIN_POSTGRES"
}
install_pg_superset_py() {
    # This Superset fails with newer versions of flask-caching, and does not ask for cachetools.
    python3 -m venv "$work/superset" && mkdir "$work/superset/config" "$work/superset/program" \
        && cp "$here/pg_superset.py" "$work/superset/program/" \
        && "$work/superset/bin/pip" -q install "apache-superset==$SUPERSET" "flask-caching==2.3.1" \
            cachetools "psycopg2-binary==$PSYCOPG2" \
        && cat > "$work/superset/config/superset_config.py" << 'CONFIG'
_NONE = {"CACHE_TYPE": "NullCache"}
CACHE_CONFIG = DATA_CACHE_CONFIG = _NONE
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = _NONE
SECRET_KEY = "not a secret, for nothing is kept"
CONFIG
}
install_pg_mjs() {
    mkdir "$work/pgjs" && cp "$here/pg.mjs" "$work/pgjs/" && cd "$work/pgjs" \
        && npm install --silent --no-save "pg@$PG_JS"
}
install_Postgres_java() {
    mkdir "$work/pgjdbc" && cd "$work/pgjdbc" \
        && mvn -q -B dependency:copy -DoutputDirectory=lib \
            -Dartifact="org.postgresql:postgresql:$PGJDBC"
}

run_http_py() { "$work/py/bin/python" "$work/py/program/check.py"; }
run_page_py() { "$work/page/bin/python" "$work/page/program/check.py"; }
run_http_mjs() { node "$work/js/http.mjs"; }
run_http_go() { "$work/go/http"; }
run_Http_java() { java -cp "$work/java/lib/*" "$here/Http.java"; }
run_flight_py() { "$work/adbc/bin/python" "$here/flight.py"; }
# Arrow in Java reaches into the buffers of the runtime.
run_Flight_java() {
    java --add-opens=java.base/java.nio=ALL-UNNAMED -cp "$work/flight/lib/*" "$here/Flight.java"
}
run_psql_sh() { bash "$here/psql.sh"; }
run_pgbench_sh() { bash "$here/pgbench.sh"; }
run_pg_drivers_py() { "$work/pg/bin/python" "$work/pg/program/pg_drivers.py"; }
run_pg_alchemy_py() { "$work/pg/bin/python" "$work/pg/program/pg_alchemy.py"; }
run_pg_frames_py() { "$work/pg/bin/python" "$work/pg/program/pg_frames.py"; }
run_pg_harlequin_py() { "$work/harlequin/bin/python" "$work/harlequin/program/pg_harlequin.py"; }
run_pg_superset_py() {
    PYTHONPATH=$work/superset/config "$work/superset/bin/python" \
        "$work/superset/program/pg_superset.py"
}
run_pg_mjs() { node "$work/pgjs/pg.mjs"; }
run_Postgres_java() { java -cp "$work/pgjdbc/lib/*" "$here/Postgres.java"; }

failed=0
for program in "${@:-$all}"; do
    for name in $program; do
        kind=${name/./_}
        log=$work/$name.log
        if ! (install_"$kind") > "$log" 2>&1; then
            echo "$name: not installed ($(grep -v '^$' "$log" | tail -1 | cut -c1-200))"
        elif (run_"$kind") > "$log" 2>&1; then
            echo "$name: ok"
        else
            failed=1
            echo "$name: failed"
            tail -30 "$log" | sed 's/^/    /'
        fi
    done
done
exit $failed
