#!/usr/bin/env python3
"""Ingest beside the peers: speed, memory, bytes on disk, and answers after it. See README.md."""

import csv
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import (common_options, generated_files, machine, parse, peer_command, peer_versions, queries,
                    remove, run, size, sty_version)
from engines import translate
from peers import COLUMNS

FORMATS = ["csv", "csv.gz", "parquet"]


def contenders(options, versions):
    """The contenders by name, each as a function from format, files and store to a command."""

    def sty(profile, *more):
        def command(format, files, store):
            header = [] if format == "parquet" else ["--no-header", "--names", ",".join(COLUMNS)]
            return [
                options.sty, "ingest", store / "trips", *header, "--profile", profile, *more, *files
            ]

        return command

    def other(engine):
        def command(format, files, store):
            return peer_command(engine, "ingest", format, files[0].parent / f"*.{format}", store)

        return command

    found = {f"sty {profile}": sty(profile) for profile in ["balanced", "small", "fast"]}
    found["sty sorted"] = sty("balanced", "--sort-by", "cab_type,vendor_id,pickup_datetime")
    if shutil.which("eatmydata"):
        without = sty("balanced")
        found["sty without fsync"] = lambda *arguments: ["eatmydata", *without(*arguments)]
    peers = {"duckdb": ["duckdb"], "chdb": ["chdb", "chdb-lowcardinality"], "hyper": ["hyper"]}
    found |= {
        name: other(name)
        for engine, names in peers.items() if versions.get(engine) for name in names
    }
    return found


def store_path(options, name):
    return options.work / f"store-{name.replace(' ', '-')}"


def ingest(options, names, format):
    """Several rounds of all contenders in turn; the best round of each counts."""
    files = generated_files(options, format)
    for file in files:
        # Loads the file into the page cache, for all contenders alike.
        with open(file, "rb") as stream:
            while stream.read(1 << 22):
                pass
    results = {}
    for round in range(options.runs):
        for name, command in names.items():
            if "error" in results.get(name, {}):
                continue
            store = store_path(options, name)
            remove(store)
            if name.startswith("sty"):
                store.mkdir(parents=True)
            with tempfile.TemporaryFile("w+") as output:
                done = run(command(format, files, store), output, options.timeout)
                output.seek(0)
                said = output.read()
            # Seconds of the engine itself, without starting Python and a server.
            done["phases"] = json.loads(said) if said.startswith("{") else {}
            done["disk_bytes"] = done["phases"].pop("disk_bytes",
                                                    size(store)) if "error" not in done else None
            print(f"  {format} round {round + 1} {name}: {done}", file=sys.stderr)
            known = results.setdefault(name, done)
            known.setdefault("all_seconds", []).append(done["seconds"])
            if "error" in done:
                known["error"] = done["error"]
            elif done["seconds"] < known["seconds"]:
                known.update(seconds=done["seconds"],
                             cpu_seconds=done["cpu_seconds"],
                             phases=done["phases"])
            known["peak_bytes"] = max(known["peak_bytes"], done["peak_bytes"])
    result = {"input_bytes": sum(size(file) for file in files), "engines": results}
    if format == "csv.gz":
        result["decompression_seconds"] = decompression(options, files)
    return result


def decompression(options, files):
    """Seconds of decompression alone, with as many files at a time as there are processors."""
    script = 'printf "%s\\0" "$@" | xargs -0 -n 1 -P "$(nproc)" gzip -dc > /dev/null'
    done = [
        run(["sh", "-c", script, "sh", *files], timeout=options.timeout)
        for _ in range(options.runs)
    ]
    return min(each["seconds"] for each in done)


def answer(command, timeout):
    """An answer as rows of text, and the result of its run."""
    with tempfile.TemporaryFile() as output:
        done = run(command, output, timeout)
        output.seek(0)
        rows = list(csv.reader(io.TextIOWrapper(output, encoding="utf-8", newline="")))[1:]
    return rows, done


def parse_value(text):
    try:
        number = float(text)
    except ValueError:
        return (1, text)
    return (0, number) if math.isfinite(number) else (1, text)


def equal_values(a, b):
    if a[0] != b[0]:
        return False
    return a == b or (a[0] == 0 and math.isclose(a[1], b[1], rel_tol=1e-9, abs_tol=1e-9))


def difference(ours, theirs):
    """None, or the first row that differs. Rows are compared as multisets: groups have no order."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, not {len(theirs)}"
    # Times may be written with a `T` or not. Sums of floats differ in the last digits, so they are
    # rounded for sorting.
    shape = lambda row: [
        parse_value(text.replace("T", " ") if text[:2] in ("20", "19") else text) for text in row
    ]
    rough = lambda row: [(kind, round(item, 4) if kind == 0 else item) for kind, item in row]
    ours, theirs = sorted(map(shape, ours), key=rough), sorted(map(shape, theirs), key=rough)
    for a, b in zip(ours, theirs):
        if len(a) != len(b) or not all(map(equal_values, a, b)):
            return f"{[item for _, item in a]}, not {[item for _, item in b]}"
    return None


def compare(options):
    """Compares the nine queries in `sty` and DuckDB, where both stores exist."""
    sty, duck = store_path(options, "sty balanced"), store_path(options, "duckdb")
    results = []
    for number, sql in enumerate(queries("nine")[0], 1):
        theirs = ours = None
        if duck.exists():
            theirs, their_run = answer(
                peer_command("duckdb", "query", duck, translate("duckdb", sql)), options.timeout)
        if sty.exists():
            command = [options.sty, "query", sty, sql, "--format", "csv"]
            ours, our_run = answer(command, options.timeout)
        result = {"query": number, "sql": sql}
        failed = [
            run["error"] for rows, run in [(
                ours, ours is not None and our_run), (theirs, theirs is not None and their_run)]
            if run and "error" in run
        ]
        if ours is None or theirs is None:
            result["verdict"] = "not compared"
        elif failed:
            result["verdict"] = f"failed: {failed[0]}"
        else:
            result["verdict"] = difference(ours, theirs) or "same"
        if theirs is not None:
            result |= {"rows": len(theirs), "duckdb_seconds": their_run["seconds"]}
        if ours is not None:
            result["sty_seconds"] = our_run["seconds"]
        print(f"  query {number}: {result['verdict']}", file=sys.stderr)
        results.append(result)
    return results


def disk(options, ingested):
    """Bytes on disk after ingesting the first format, and of DuckDB's Parquet with zstd."""
    first = next(iter(ingested.values()))
    sizes = {
        name: done["disk_bytes"]
        for name, done in first["engines"].items() if done.get("disk_bytes")
    }
    duck = store_path(options, "duckdb")
    if duck.exists():
        file = options.work / "duckdb-zstd.parquet"
        remove(file)
        done = run(peer_command("duckdb", "parquet", duck, file), timeout=options.timeout)
        if "error" not in done:
            sizes["Parquet, zstd (DuckDB)"] = size(file)
        remove(file)
    return sizes


def device_bytes_written(path):
    """Bytes that the device of a path has written since boot; None if unknown."""
    device = os.stat(path).st_dev
    counts = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    return int(counts.read_text().split()[6]) * 512 if counts.exists() else None


def write_amplification(options):
    """Bytes written by a load and by compactions after it, as `sty` and the device count them."""
    store, results = options.work / "store-traffic", []
    header = ["--no-header", "--names", ",".join(COLUMNS)]
    steps = {
        "load, a file at a time": [["ingest", "TABLE", *header, file]
                                   for file in generated_files(options, "csv")],
        "compact": [["compact", "TABLE", "--all"]], "compact by another order": [[
            "compact", "TABLE", "--sort-by", "cab_type,vendor_id,pickup_datetime"
        ]], "compact --profile small": [["compact", "TABLE", "--profile", "small"]],
    }
    remove(store)
    store.mkdir(parents=True)
    for step, commands in steps.items():
        os.sync()
        before, seconds = device_bytes_written(store), 0
        for command in commands:
            done = run(
                [options.sty, *[store / "trips" if part == "TABLE" else part for part in command]])
            if "error" in done:
                sys.exit(f"{step}: {done['error']}")
            seconds += done["seconds"]
        os.sync()
        after = device_bytes_written(store)
        run([options.sty, "gc", store])
        manifest = subprocess.run([options.sty, "manifest", store / "trips", "--format", "json"],
                                  capture_output=True)
        said = json.loads(manifest.stdout)
        results.append({
            "step": step, "seconds": round(seconds, 2), "stored_bytes": size(store),
            "loaded_bytes": said["bytes_loaded"], "written_bytes": said["bytes_written"],
            "write_amplification": said["write_amplification"],
            "device_bytes": None if before is None or after is None else after - before
        })
        print(f"  {results[-1]}", file=sys.stderr)
    remove(store)
    return results


def markdown(report):
    """The report as tables."""
    rows = report["rows"]
    out = [
        "# Ingest, size and answers", "",
        f"{rows:,} generated trips in {report['files']} files, seed {report['seed']}; "
        f"best of {report['runs']} "
        "alternating rounds, input in the page cache; peak memory is the largest of all rounds.",
        "",
        f"{report['machine']['processor']}, {report['machine']['cores']} cores, "
        f"{report['machine']['system']}. "
        + "; ".join(f"{name} {text}" for name, text in report["versions"].items() if text) + ".", ""
    ]
    out += [
        "Seconds are of the whole process; for the peers, *insert* is the fair figure. "
        "ClickHouse's merge is what "
        "`OPTIMIZE … FINAL` takes after it, and is in its seconds, rows/s, CPU and memory.", ""
    ]
    for format, result in report["ingest"].items():
        out += [
            f"## {format}, {result['input_bytes'] / 1e6:,.0f} MB", "",
            "| | seconds | of these insert | merge | rows/s | MB/s in | CPU s "
            "| peak memory, MiB | bytes a row on disk |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        ]
        for name, done in result["engines"].items():
            if "error" in done:
                out.append(f"| {name} | failed: {done['error']} | | | | | | | |")
                continue
            seconds = done["seconds"]
            phases = [
                f"{done['phases'][phase]:.2f}" if phase in done["phases"] else ""
                for phase in ["insert", "merge"]
            ]
            out.append(
                f"| {name} | {seconds:.2f} | {phases[0]} | {phases[1]} "
                f"| {rows / seconds:,.0f} | {result['input_bytes'] / 1e6 / seconds:,.0f} "
                f"| {done['cpu_seconds']:.2f} | {done['peak_bytes'] / 2**20:,.0f} "
                f"| {done['disk_bytes'] / rows:.1f} |"
            )
        if alone := result.get("decompression_seconds"):
            out += ["", f"`gzip -dc` of the files alone, on all processors, takes {alone:.2f} s."]
        out.append("")
    base = report["disk"].get("Parquet, zstd (DuckDB)")
    out += [
        "## Bytes on disk", "", "| | bytes | a row | of Parquet-zstd |",
        "| --- | ---: | ---: | ---: |"
    ]
    for name, count in sorted(report["disk"].items(), key=lambda item: item[1]):
        out.append(
            f"| {name} | {count:,} | {count / rows:.1f} | {f'{count / base:.2f}' if base else ''} |"
        )
    out += [
        "", "## What is written", "",
        "Since the table was made, by `sty manifest`; and by the device during the step "
        "(all processes).",
        "",
        "| after | seconds | stored | loaded | written | write amplification "
        "| device, in this step |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    ]
    for step in report["traffic"]:
        device = f"{step['device_bytes'] / 1e6:,.1f} MB" if step["device_bytes"] is not None else ""
        out.append(
            f"| {step['step']} | {step['seconds']:.2f} | {step['stored_bytes'] / 1e6:,.1f} MB "
            f"| {step['loaded_bytes'] / 1e6:,.1f} MB | {step['written_bytes'] / 1e6:,.1f} MB "
            f"| {step['write_amplification']:.2f} | {device} |")
    out += [
        "", "## The nine queries: sty beside DuckDB", "",
        "Times are of whole processes (DuckDB's includes starting Python), for orientation only.",
        "", "| | rows | answers | sty, s | DuckDB, s |", "| --- | ---: | --- | ---: | ---: |"
    ]
    for result in report["queries"]:
        verdict = result["verdict"]
        out.append(
            f"| {result['query']} | {result.get('rows', '')} | {verdict} "
            f"| {result.get('sty_seconds', '')} "
            f"| {result.get('duckdb_seconds', '')} |")
    return "\n".join(out) + "\n"


def options():
    parser = common_options(__doc__, "ingest.json and ingest.md", rows=4_000_000, files=4)
    parser.add_argument("--runs", type=int, default=3, help="rounds; the best one counts")
    parser.add_argument("--formats",
                        default=",".join(FORMATS),
                        help="comma-separated: " + ", ".join(FORMATS))
    parser.add_argument(
        "--engines",
        help="comma-separated, of: sty balanced, sty small, sty fast, sty sorted, "
        "sty without fsync, "
        "duckdb, chdb, chdb-lowcardinality, hyper")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for any one run")
    parser.add_argument("--keep", action="store_true", help="keep the stores")
    parsed = parse(parser)
    parsed.formats = parsed.formats.split(",")
    if unknown := set(parsed.formats) - set(FORMATS):
        parser.error(f"no such format: {', '.join(unknown)}")
    return parsed


def main():
    chosen = options()
    for directory in (chosen.work, chosen.out):
        directory.mkdir(parents=True, exist_ok=True)
    versions = {"sty": sty_version(chosen)} | peer_versions(["duckdb", "chdb", "hyper"])
    names = contenders(chosen, versions)
    if chosen.engines:
        names = {
            name: command
            for name, command in names.items() if name in chosen.engines.split(",")
        }
    report = {
        "machine": machine(), "versions": versions, "rows": chosen.rows, "files": chosen.files,
        "seed": chosen.seed, "runs": chosen.runs
    }
    report["ingest"] = {format: ingest(chosen, names, format) for format in chosen.formats}
    report["queries"] = compare(chosen)
    report["disk"] = disk(chosen, report["ingest"])
    report["traffic"] = write_amplification(chosen)
    (chosen.out / "ingest.json").write_text(json.dumps(report, indent=1) + "\n")
    (chosen.out / "ingest.md").write_text(markdown(report))
    print(markdown(report))
    if not chosen.keep:
        for name in names:
            remove(store_path(chosen, name))
    verdicts = [result["verdict"] for result in report["queries"]]
    sys.exit(0 if all(verdict in ("same", "not compared") for verdict in verdicts) else 1)


if __name__ == "__main__":
    main()
