#!/usr/bin/env python3
"""Queries beside the peers: hot and cold times, memory, bytes on disk, answers. See README.md."""

import importlib.util
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from answers import difference
from common import (common_options, generated_files, machine, parse, peer_command, peer_versions, queries,
                    remove, run, size, sty_version)
from engines import NAMES, translate
from process import Peer, Sty, evict, peak_memory
from report import markdown, svg

SETS = ["nine", "topn", "pairs", "filters", "distinct", "like", "sums", "everyday"]
MEASURES = ["answers", "hot", "cold", "oneshot", "memory"]


def load(options, files, versions):
    """The stores of all available engines, filled where they are missing."""
    stores = {"sty": options.sty_store or options.work / "sty"}
    if not stores["sty"].exists():
        command = [options.sty, "ingest", stores["sty"].with_suffix(".part") / "trips", *files]
        fill(stores["sty"], command, options)
    for name in options.engines:
        kind = name.split("-")[0]
        if name == "sty":
            continue
        if not versions.get(kind):
            print(f"{name} is left out: it cannot be imported", file=sys.stderr)
            continue
        if name in ("duckdb-parquet", "polars", "datafusion"):
            stores[name] = files[0].parent
            continue
        stores[name] = options.work / {"duckdb": "trips.duckdb", "hyper": "trips.hyper"}.get(
            name, name)
        if not stores[name].exists():
            pattern = files[0].parent / "*.parquet"
            fill(
                stores[name],
                peer_command(name, "ingest", "parquet", pattern, stores[name].with_suffix(".part")),
                options)
    return {
        name: stores[name]
        for name in options.engines if name in stores and stores[name].exists()
    }


def fill(store, command, options):
    """Fills a store under a temporary name, so that a partial one is not taken for complete."""
    part = store.with_suffix(".part")
    remove(part)
    if store.name in ("sty",):
        part.mkdir(parents=True)
    print(f"filling {store}", file=sys.stderr)
    done = run(command, timeout=options.timeout)
    if "error" in done:
        print(f"  failed: {done['error']}", file=sys.stderr)
        remove(part)
    else:
        part.rename(store)
        print(f"  {done['seconds']:.1f} s", file=sys.stderr)


def start(name, stores, options):
    if name == "sty":
        return Sty(options.sty, stores[name], options.threads)
    return Peer(name, stores[name], options.threads)


def compare_answers(results, stores, options):
    """Compares every engine's answers with those of the first peer."""
    engines = {name: start(name, stores, options) for name in stores}
    open_all(engines)
    reference = next((name for name in stores if name != "sty"), "sty")
    directory = options.work / "answers"
    directory.mkdir(exist_ok=True)
    for result in results:
        files = {}
        for name in engines:
            engine = restart_if_dead(name, engines, stores, options)
            file = directory / f"{name}.parquet"
            remove(file)
            reply = engine.answer(translate(name, result["sql"]), file)
            if "error" in reply:
                result["engines"][name]["error"] = reply["error"]
            else:
                files[name] = file
        for name, file in files.items():
            same = difference(file, files[reference],
                              result["ties"]) if reference in files and name != reference else None
            result["engines"][name]["answer"] = same or "same"
        odd = {name: one.get("error") or one["answer"] for name, one in result["engines"].items()
               if one.get("error") or one["answer"] != "same"}
        result["reference"] = reference
        print(f"{result['set']} {result['number']}: {odd or 'same'}", file=sys.stderr)
    for engine in engines.values():
        engine.end()


def open_all(engines):
    for name, engine in list(engines.items()):
        reply = engine.open()
        if "error" in reply:
            print(f"{name} is left out: {reply['error']}", file=sys.stderr)
            engine.end()
            del engines[name]


def restart_if_dead(name, engines, stores, options):
    """The engine, restarted if it has ended or timed out."""
    if engines[name].dead:
        engines[name].end()
        engines[name] = start(name, stores, options)
        engines[name].open()
    return engines[name]


def hot(results, stores, options):
    """Rounds in which the engines take turns query by query; all others are stopped meanwhile."""
    engines = {name: start(name, stores, options) for name in stores}
    open_all(engines)
    for engine in engines.values():
        engine.stop()
    try:
        for round in range(options.rounds):
            for result in results:
                # The first engine changes, so that no engine always follows the same one.
                names = list(engines)
                turn = (round + result["number"]) % max(len(names), 1)
                for name in names[turn:] + names[:turn]:
                    known = result["engines"][name]
                    if "error" in known:
                        continue
                    engine = restart_if_dead(name, engines, stores, options)
                    engine.go()
                    reply = engine.run(translate(name, result["sql"]), options.warm_up,
                                       options.runs, options.budget)
                    engine.stop()
                    if "error" in reply:
                        known["error"] = reply["error"]
                        continue
                    known.setdefault("hot_all_ms", []).extend(round_ms(ms) for ms in reply["ms"])
                    known["rows"] = reply["rows"]
                log_figures(result, f"round {round + 1}", lambda one: min(one["hot_all_ms"])
                            if "hot_all_ms" in one else None)
    finally:
        # Also when interrupted: a stopped process would stay for ever.
        for engine in engines.values():
            engine.go()
            engine.end()
    for one in (one for result in results for one in result["engines"].values()
                if one.get("hot_all_ms")):
        one["hot_ms"] = min(one["hot_all_ms"])
        one["hot_median_ms"] = round_ms(statistics.median(one["hot_all_ms"]))


def cold(results, stores, options):
    """Open and first run in a new process, with the store evicted from the page cache."""
    for round in range(options.cold_rounds):
        for result in results:
            for name, store in stores.items():
                known = result["engines"][name]
                if "error" in known:
                    continue
                engine = start(name, stores, options)
                left = evict(store, options.drop_caches)
                reply = engine.cold(translate(name, result["sql"]))
                engine.end()
                if "error" in reply:
                    known["error"] = reply["error"]
                    continue
                known.setdefault("cold_all_ms", []).append(round_ms(reply["ms"]))
                known["cold_ms"] = min(known["cold_all_ms"])
                known["cold_cached_bytes"] = left
            log_figures(result, f"cold {round + 1}", lambda one: one.get("cold_ms"))


def duckdb_binary():
    """The binary itself: the `duckdb` that `duckdb-cli` puts in the path is a Python wrapper."""
    package = importlib.util.find_spec("duckdb_cli")
    inside = Path(package.origin).parent / "duckdb" if package and package.origin else None
    return inside if inside and inside.is_file() else shutil.which("duckdb")


def oneshot(results, stores, options):
    """Whole runs of our command line and, if it is installed, DuckDB's."""
    commands = {}
    if "sty" in stores:
        commands["sty"] = lambda sql: [
            options.sty, "query", stores["sty"], sql, "--threads", options.threads, "--format",
            "csv"
        ]
    if "duckdb" in stores and (duckdb := duckdb_binary()):
        settings = f"SET threads = {options.threads}"
        commands["duckdb"] = lambda sql: [
            duckdb, "-readonly", "-csv", stores["duckdb"], "-c", f"{settings}; {sql}"
        ]
    for _ in range(options.rounds):
        for result in results:
            for name, command in commands.items():
                arguments = [str(part) for part in command(translate(name, result["sql"]))]
                times = result["engines"][name].setdefault("oneshot_all_ms", [])
                for _ in range(options.runs):
                    started = time.perf_counter()
                    done = subprocess.run(arguments,
                                          stdin=subprocess.DEVNULL,
                                          stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL)
                    if done.returncode == 0:
                        times.append(round_ms((time.perf_counter() - started) * 1e3))
                if times:
                    result["engines"][name]["oneshot_ms"] = min(times)
            log_figures(result, "one shot", lambda one: one.get("oneshot_ms"))


def memory(results, stores, options):
    """Two runs in a new process, sampled from outside."""
    for result in results:
        for name in stores:
            known = result["engines"][name]
            if "error" in known:
                continue
            engine = start(name, stores, options)
            reply, peak = peak_memory(engine, translate(name, result["sql"]))
            engine.end()
            if "error" in reply:
                known["error"] = reply["error"]
            elif peak is not None:
                known["memory_bytes"] = peak
        log_figures(result, "MiB", lambda one: one["memory_bytes"] / 2**20
                    if "memory_bytes" in one else None)


def round_ms(ms):
    return round(ms, 3)


def log_figures(result, what, of):
    figures = {name: of(one) for name, one in result["engines"].items()}
    text = ", ".join(f"{name} {figure:.1f}" for name, figure in figures.items()
                     if figure is not None)
    print(f"{result['set']} {result['number']} {what}: {text}", file=sys.stderr)


def options():
    parser = common_options(__doc__, "versus.json, .md and .svg", rows=20_000_000, files=8)
    parser.add_argument("--data",
                        type=Path,
                        help="a directory of Parquet files to use in place of generated ones")
    parser.add_argument("--sty-store",
                        type=Path,
                        help="our store of these, if it is there already (table `trips`)")
    parser.add_argument("--threads",
                        type=int,
                        default=os.cpu_count(),
                        help="threads, and processors, of every engine")
    parser.add_argument("--engines",
                        default=",".join(["sty", *NAMES]),
                        help="comma-separated [%(default)s]")
    parser.add_argument("--sets",
                        default=",".join(SETS),
                        help="comma-separated query sets [%(default)s]")
    parser.add_argument("--only", help="comma-separated numbers of queries of the sets")
    parser.add_argument("--measure",
                        default=",".join(MEASURES),
                        help="comma-separated [%(default)s]")
    parser.add_argument("--rounds",
                        type=int,
                        default=3,
                        help="rounds in which hot engines take turns")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of a query in a round")
    parser.add_argument("--warm-up", type=int, default=1, help="runs before those")
    parser.add_argument("--budget",
                        type=float,
                        default=3,
                        help="seconds after which a round does not run a query again")
    parser.add_argument("--cold-rounds", type=int, default=2)
    parser.add_argument("--drop-caches",
                        action="store_true",
                        help="drop the whole page cache, as root")
    parser.add_argument("--timeout", type=float, default=7200, help="seconds for filling a store")
    parser.add_argument("--seconds",
                        type=float,
                        default=120,
                        help="seconds for one reply of an engine")
    parsed = parse(parser)
    for name, known in [("engines", ["sty", *NAMES]), ("sets", SETS), ("measure", MEASURES)]:
        setattr(parsed, name, getattr(parsed, name).split(","))
        if unknown := set(getattr(parsed, name)) - set(known):
            parser.error(f"--{name}: no such: {', '.join(unknown)}; there are {', '.join(known)}")
    parsed.only = {int(number) for number in parsed.only.split(",")} if parsed.only else None
    return parsed


def write(report, out):
    (out / "versus.json").write_text(json.dumps(report, indent=1) + "\n")
    (out / "versus.md").write_text(markdown(report))
    (out / "versus.svg").write_text(svg(report))


def main():
    chosen = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for directory in (chosen.work, chosen.out):
        directory.mkdir(parents=True, exist_ok=True)
    # All processes inherit this affinity, so that every engine uses the same number of processors.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:chosen.threads])
    Peer.patience = chosen.seconds
    files = sorted(chosen.data.resolve().glob("*.parquet")) if chosen.data else generated_files(
        chosen, "parquet")
    kinds = sorted({name.split("-")[0] for name in chosen.engines} - {"sty"})
    versions = {"sty": sty_version(chosen), "python": platform.python_version()}
    versions |= peer_versions(kinds)
    stores = load(chosen, files, versions)
    results = []
    for name in chosen.sets:
        statements, ties = queries(name)
        for number, sql in enumerate(statements, 1):
            if not chosen.only or number in chosen.only:
                results.append({"set": name, "number": number, "sql": sql, "ties": ties,
                                "engines": {engine: {} for engine in stores}})
    report = {
        "machine": machine(), "versions": versions, "threads": chosen.threads,
        "rounds": chosen.rounds, "runs": chosen.runs, "rows": None if chosen.data else chosen.rows,
        "started": time.strftime("%Y-%m-%d %H:%M"), "input": f"{len(files)} Parquet files",
        "disk_bytes": {name: size(store)
                       for name, store in stores.items()}, "queries": results
    }
    for name, measure in [("answers", compare_answers), ("hot", hot), ("cold", cold),
                          ("oneshot", oneshot), ("memory", memory)]:
        if name in chosen.measure:
            measure(results, stores, chosen)
            # Saves the results so far, in case a later part is interrupted.
            write(report, chosen.out)
    print(markdown(report))
    differ = [
        one for result in results for one in result["engines"].values()
        if one.get("answer", "same") != "same"
    ]
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
