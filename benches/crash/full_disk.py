#!/usr/bin/env python3
"""Fills the disk at every stage of every writing command, and checks that the table is unchanged.

    python3 benches/crash/full_disk.py --sty target/release/sty

The table is on a file system in memory (tmpfs; without root, in a namespace made by `unshare`) with
little free space: first none, then more step by step, until the command succeeds. Each failure must
be an error that names the file and says that there is no space, with exit code 1; the table must
verify and have the same rows; and with more space, the same command must succeed and leave no file
that the manifest does not name. The exit code is 1 if anything was wrong.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS = 120_000
PAGE = 4096
# The row count, and sums that show whether the rows are the same.
SUMS = "SELECT count(*) AS n, sum(id) AS ids, sum(number) AS numbers, count(text) AS texts FROM t"


class Test:
    def __init__(self, sty, work):
        self.sty, self.work, self.faults = str(sty), Path(work), []
        self.base, self.disk = self.work / "base", self.work / "disk"
        self.disk.mkdir()

    def run(self, *command):
        return subprocess.run([self.sty, *map(str, command)], capture_output=True, text=True)

    def rows(self, first, count, name):
        path = self.work / name
        rows = range(first, first + count)
        path.write_text("id,part,number,text\n" +
                        "".join(f"{i},{i % 3},{i * 7919 % 10007},word {i * 31 % 50021}\n"
                                for i in rows))
        return path

    def sums(self, store):
        return json.loads(self.run("query", store, SUMS, "--format", "json").stdout)

    def mount(self, size, *options):
        subprocess.run([
            "mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", self.disk
        ],
                       check=True)

    def leftovers(self, store):
        """Files that the manifest does not name."""
        manifest = json.loads(self.run("manifest", store / "t", "--format", "json").stdout)
        named = {segment["file"] for segment in manifest["segments"]} | {"CURRENT", "LOCK"}
        files = {
            str(path.relative_to(store / "t"))
            for path in (store / "t").rglob("*") if path.is_file()
        }
        return sorted(file for file in files ^ named if not file.startswith("manifest/"))

    def one(self, name, command):
        """Runs a command with more and more space until it succeeds; returns its failures."""
        size = sum(-(-file.stat().st_size // PAGE) * PAGE for file in self.base.rglob("*")
                   if file.is_file())
        failures, room = 0, 0
        while True:
            self.mount(size + room)
            try:
                store = self.disk / "db"
                shutil.copytree(self.base, store)
                before = self.sums(store)
                done = self.run(*command(store))
                fault = lambda what: self.faults.append(f"{name} with {room} bytes of room: {what}")
                if done.returncode != 0:
                    failures += 1
                    if done.returncode != 1 or "No space left" not in done.stderr or str(
                            store) not in done.stderr:
                        fault(f"exit {done.returncode}, {done.stderr.strip()}")
                    if self.sums(store) != before:
                        fault(f"rows are {self.sums(store)}, were {before}")
                    if self.run("verify", store).returncode != 0:
                        fault("the table does not verify")
                    self.mount(4 * size + (64 << 20), "remount")
                    again = self.run(*command(store))
                    if again.returncode != 0:
                        fault(f"failed again with space: {again.stderr.strip()}")
                self.run("gc", store / "t", "--keep", "0s")
                if self.run("verify", store).returncode != 0:
                    fault("the table does not verify in the end")
                if left := self.leftovers(store):
                    fault(f"left: {left}")
                if done.returncode == 0 or self.faults:
                    return failures
            finally:
                subprocess.run(["umount", self.disk], check=True)
            # Page by page at first: the last files written are the smallest.
            room += PAGE if room < 10 * PAGE else max(PAGE, room // 16 // PAGE * PAGE)

    def main(self):
        made = self.run("ingest", self.base / "t", self.rows(0, ROWS, "first.csv"),
                        "--partition-by", "part")
        if made.returncode != 0:
            sys.exit(made.stderr)
        more = self.rows(ROWS, ROWS, "more.csv")
        commands = {
            "ingest": lambda store: ["ingest", store / "t", more],
            "compact --all": lambda store: ["compact", store / "t", "--all"],
            "compact --sort-by": lambda store: ["compact", store / "t", "--sort-by", "text"],
            "DELETE": lambda store:
            ["query", store, "DELETE FROM t WHERE id < (SELECT max(id) / 2 FROM t)"],
            "UPDATE": lambda store: [
                "query", store,
                "UPDATE t SET number = number + 1, part = (part + 1) % 3 WHERE id % 7 = 1"
            ], "INSERT": lambda store:
            ["query", store, "INSERT INTO t SELECT id + 1000000, part, number, text FROM t"],
            "CREATE TABLE AS": lambda store:
            ["query", store, "CREATE TABLE IF NOT EXISTS u AS SELECT * FROM t"],
            "alter": lambda store: ["alter", store / "t", "add", "note:utf8"],
        }
        for name, command in commands.items():
            print(f"{name}: failed {self.one(name, command)} times, then succeeded", flush=True)
        for fault in self.faults:
            print("FAULT", fault)
        return 1 if self.faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sty", type=Path, default=Path("target/release/sty"))
    options = parser.parse_args()
    if os.geteuid() != 0:
        os.execvp("unshare", ["unshare", "--map-root-user", "--mount", sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory() as work:
        sys.exit(Test(options.sty.resolve(), work).main())


if __name__ == "__main__":
    main()
