#!/usr/bin/env bash
# Lets real clients, and a browser, work with `sty serve`: tests/clients/run.sh path/to/sty [program…]
#
# Starts a server over a small store in a temporary directory, installs each client there from its
# registry, and runs one program per client, which checks what comes back. Says for each client
# whether it is ok, failed, or could not be installed; the exit code is 1 if one has failed.
set -u

[ $# -ge 1 ] || { echo "usage: $0 path/to/sty [http.py|http.mjs|http.go|Http.java|flight.py|Flight.java|page.py …]" >&2; exit 2; }
sty=$(realpath "$1") || exit 2
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 2
server=
trap '[ -n "$server" ] && kill "$server" 2> /dev/null; wait 2> /dev/null; rm -rf "$work"' EXIT

# The versions that the programs were written with; others can be named from outside.
: "${CLICKHOUSE_CONNECT:=1.12.0}" "${CLICKHOUSE_JS:=1.23.0}" "${CLICKHOUSE_GO:=v2.51.0}" \
    "${CLICKHOUSE_JDBC:=0.11.0}" "${ADBC_FLIGHTSQL:=1.13.0}" "${FLIGHT_SQL_JDBC:=18.3.0}" \
    "${PLAYWRIGHT:=1.65.2}"

mkdir "$work/db"
STY_CONFIG='' "$sty" serve "$work/db" --http 0 --flight 0 2> "$work/server.log" &
server=$!
for _ in $(seq 100); do
    port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/$|\1|p' "$work/server.log")
    flight=$(sed -n 's|.*grpc://127.0.0.1:\([0-9]*\)/.*|\1|p' "$work/server.log")
    [ -n "$port" ] && [ -n "$flight" ] && break
    sleep 0.1
done
[ -n "$port" ] && [ -n "$flight" ] || { echo "the server does not start:" >&2; cat "$work/server.log" >&2; exit 2; }
export STY_HOST=127.0.0.1 STY_PORT=$port STY_FLIGHT_PORT=$flight STY=$sty
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

failed=0
for program in "${@:-http.py http.mjs http.go Http.java flight.py Flight.java page.py}"; do
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
