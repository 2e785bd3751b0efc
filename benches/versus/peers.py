#!/usr/bin/env python3
"""Runs the peer engines, one process per run, so that each has its own time and peak memory.

    peers.py ENGINE ingest FORMAT PATTERN STORE     loads rows into the engine's own files; prints
                                                    the seconds of each phase, and the bytes on disk
                                                    where the files include outdated data (engines:
                                                    duckdb, chdb, chdb-lowcardinality, hyper)
    peers.py duckdb parquet STORE FILE              writes the table as Parquet with zstd
    peers.py duckdb query STORE SQL                 prints an answer as CSV
    peers.py ENGINE version
"""

import glob
import json
import os
import sys
import time

INTEGERS = """trip_id rate_code_id passenger_count trip_type max_temperature min_temperature
    pickup_nyct2010_gid pickup_borocode pickup_boroct2010 pickup_puma
    dropoff_nyct2010_gid dropoff_borocode dropoff_boroct2010 dropoff_puma""".split()
TIMES = ["pickup_datetime", "dropoff_datetime"]
POINTS = ["pickup", "dropoff"]
WORDS = """vendor_id store_and_fwd_flag payment_type cab_type
    pickup_boroname pickup_ct2010 pickup_cdeligibil pickup_ntacode pickup_ntaname
    dropoff_boroname dropoff_ct2010 dropoff_cdeligibil dropoff_ntacode dropoff_ntaname""".split()
COLUMNS = """trip_id vendor_id pickup_datetime dropoff_datetime store_and_fwd_flag rate_code_id
    pickup_longitude
    pickup_latitude dropoff_longitude dropoff_latitude passenger_count trip_distance fare_amount
    extra mta_tax
    tip_amount tolls_amount ehail_fee improvement_surcharge total_amount payment_type trip_type
    pickup dropoff
    cab_type precipitation snow_depth snowfall max_temperature min_temperature average_wind_speed
    pickup_nyct2010_gid pickup_ctlabel pickup_borocode pickup_boroname pickup_ct2010
    pickup_boroct2010
    pickup_cdeligibil pickup_ntacode pickup_ntaname pickup_puma dropoff_nyct2010_gid dropoff_ctlabel
    dropoff_borocode dropoff_boroname dropoff_ct2010 dropoff_boroct2010 dropoff_cdeligibil
    dropoff_ntacode
    dropoff_ntaname dropoff_puma""".split()


def types(integer, time, point, word, real):
    """The type of every column; a column in none of the lists is real."""
    groups = [(INTEGERS, integer), (TIMES, time), (POINTS, point), (WORDS, word)]
    named = {name: type for names, type in groups for name in names}
    return {name: named.get(name, real) for name in COLUMNS}


def duckdb_ingest(format, pattern, store):
    import duckdb

    if format == "parquet":
        source = f"read_parquet('{pattern}')"
    else:
        columns = types("BIGINT", "TIMESTAMP", "VARCHAR", "VARCHAR", "DOUBLE")
        source = f"read_csv('{pattern}', header=false, auto_detect=false, delim=',', " \
            f"quote='\"', columns={columns})"
    begun = time.monotonic()
    connection = duckdb.connect(store)
    connection.execute(f"CREATE TABLE trips AS SELECT * FROM {source}")
    connection.execute("CHECKPOINT")
    connection.close()
    return {"insert": time.monotonic() - begun}


def duckdb_parquet(store, file):
    import duckdb

    connection = duckdb.connect(store, read_only=True)
    connection.execute(f"COPY trips TO '{file}' (FORMAT parquet, COMPRESSION zstd)")


def duckdb_query(store, sql):
    import duckdb

    duckdb.connect(store,
                   read_only=True).execute(f"COPY ({sql}) TO '/dev/stdout' (FORMAT csv, HEADER)")


def chdb_ingest(format, pattern, store, words="Nullable(String)"):
    from chdb import session

    columns = types("Nullable(Int64)", "Nullable(DateTime64(0, 'UTC'))", "Nullable(String)",
                    words, "Nullable(Float64)")
    columns["trip_id"] = "Int64"
    columns = ", ".join(f"{name} {type}" for name, type in columns.items())
    kind = "Parquet" if format == "parquet" else "CSV"
    shape = columns.replace("'", "\\'")
    table = session.Session(store)
    table.query("CREATE DATABASE IF NOT EXISTS versus ENGINE = Atomic")
    table.query(f"CREATE TABLE versus.trips ({columns}) ENGINE = MergeTree ORDER BY trip_id")
    begun = time.monotonic()
    table.query(f"INSERT INTO versus.trips SELECT * FROM file('{pattern}', '{kind}', '{shape}')")
    inserted = time.monotonic()
    # Does at once what a MergeTree would do in the background.
    table.query("OPTIMIZE TABLE versus.trips FINAL")
    merged = time.monotonic()
    # The source parts of a merge stay on disk for some minutes.
    bytes = table.query(
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'versus'", "CSV")
    table.close()
    return {"insert": inserted - begun, "merge": merged - inserted, "disk_bytes": int(str(bytes))}


def chdb_lowcardinality_ingest(format, pattern, store):
    return chdb_ingest(format, pattern, store, "LowCardinality(Nullable(String))")


def hyper_ingest(format, pattern, store):
    import tableauhyperapi as api

    from engines import start_hyper

    files = ", ".join(f"'{file}'" for file in sorted(glob.glob(pattern)))
    with start_hyper(api, os.cpu_count()) as process:
        with api.Connection(process.endpoint, store,
                            api.CreateMode.CREATE_AND_REPLACE) as connection:
            shape = "FORMAT => 'parquet'"
            if format != "parquet":
                columns = types("BIGINT", "TIMESTAMP", "TEXT", "TEXT", "DOUBLE PRECISION")
                columns = ", ".join(f"{name} {type}" for name, type in columns.items())
                shape = f"COLUMNS => DESCRIPTOR({columns}), FORMAT => 'csv', HEADER => false"
            begun = time.monotonic()
            connection.execute_command(
                f"CREATE TABLE trips AS (SELECT * FROM external(ARRAY[{files}], {shape}))")
    return {"insert": time.monotonic() - begun}


def hyper_version():
    import tableauhyperapi

    return tableauhyperapi.__version__


def polars_version():
    import polars

    return polars.__version__


def datafusion_version():
    import datafusion

    return datafusion.__version__


def chdb_version():
    import chdb

    clickhouse = chdb.query("SELECT version()", "TSV").bytes().decode().strip()
    return f"{chdb.__version__} (ClickHouse {clickhouse})"


def duckdb_version():
    import duckdb

    return duckdb.__version__


def main():
    engine, task, *rest = sys.argv[1:]
    result = globals()[f"{engine.replace('-', '_')}_{task}"](*rest)
    if result is not None:
        print(json.dumps(result) if isinstance(result, dict) else result)


if __name__ == "__main__":
    main()
