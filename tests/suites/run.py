#!/usr/bin/env python3
"""Runs the suites that need DuckDB: all of them, or those that are named.

    python3 tests/suites/run.py --sty target/release/sty all
    python3 tests/suites/run.py --sty target/release/sty --quick joins maintain

A suite whose Python packages are missing is skipped with a note, unless it was named. The exit code
is 1 if any answer was wrong.
"""

import argparse
import importlib
import sys

SUITES = ["tpc", "joins", "maintain", "files"]
# The options with which each suite takes about a minute.
QUICK = {
    "tpc": ["--scale", "0.01"],
    "joins": ["--cases", "100000", "--seconds", "{seconds}", "--per-world", "50"],
    "maintain": ["--sequences", "10000", "--seconds", "{seconds}"],
    "files": ["--cases", "100000", "--seconds", "{seconds}"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sty", default="target/release/sty")
    parser.add_argument("--quick", action="store_true", help="a minute of each")
    parser.add_argument("--seconds", type=int, default=60, help="how long --quick lets all but tpc run")
    parser.add_argument("--seed", type=int, default=1, help="of what is random")
    parser.add_argument("--work", help="a directory for data and stores, kept for the next run [a temporary one]")
    parser.add_argument("suites", nargs="+", choices=["all", *SUITES])
    options = parser.parse_args()
    named = SUITES if "all" in options.suites else options.suites
    failed = [name for name in named if run(name, options) != 0]
    print(f"wrong: {', '.join(failed)}" if failed else "all right")
    sys.exit(1 if failed else 0)


def run(name, options):
    print(f"== {name}", flush=True)
    try:
        suite = importlib.import_module(name)
    except ImportError as missing:
        print(f"{name} is left out: {missing}; pip install -r tests/suites/requirements.txt")
        return 0 if "all" in options.suites else 1
    given = ["--sty", options.sty]
    if name != "tpc":
        given += ["--seed", str(options.seed)]
    if options.work:
        given += ["--work", options.work]
    if options.quick:
        given += [part.format(seconds=options.seconds) for part in QUICK[name]]
    return suite.main(given)


if __name__ == "__main__":
    main()
