#!/usr/bin/env python3
"""Kills `sty` at random moments while others read, and checks that nothing is lost, wrong or stray.

    python3 benches/crash/crash.py --sty target/release/sty --kills 500

Batches of rows are loaded, deleted and compacted, and old generations are freed, each by a process
that is killed (SIGKILL) after a random time. After every kill, each batch is complete or absent:
as before, or as the killed command would have left it. Concurrent readers check the same all the
time. In the end, the next writer must leave exactly the files that the manifest names. The exit
code is 1 if anything was wrong.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROWS = 20_000
COUNT = """SELECT batch, count(*) AS n, count(DISTINCT id) AS ids, sum(id) AS sum
    FROM t GROUP BY batch"""


def expected(batch):
    first = batch * ROWS
    return ROWS, ROWS, sum(range(first, first + ROWS))


def leftovers(sty, store, table):
    """Faults after the next writer: files that the manifest does not name, damaged bytes."""
    path, faults = Path(store) / table, []
    subprocess.run([sty, "gc", path, "-q", "--keep", "0s"], check=True)
    shown = subprocess.run([sty, "manifest", path, "--format", "json"],
                           capture_output=True,
                           check=True)
    manifest = json.loads(shown.stdout)
    named = {segment["file"] for segment in manifest["segments"]} | {"CURRENT", "LOCK"}
    there = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    metadata = {file for file in there if file.startswith("manifest/")}
    ledger = {file for file in metadata if file.endswith(".ledger")}
    if len(metadata) != 1 + len(manifest["chunks"]) + len(ledger) or len(ledger) > 8:
        faults.append(f"metadata files: {sorted(metadata)}")
    if there - metadata != named:
        faults.append(f"files: {sorted((there - metadata) ^ named)}")
    if subprocess.run([sty, "verify", store, "-q"]).returncode != 0:
        faults.append("verify failed")
    return faults


class Test:
    def __init__(self, options):
        self.sty, self.work = str(options.sty), Path(options.work)
        self.random = random.Random(options.seed)
        self.store, self.faults, self.reads, self.stop = self.work / "db", [], 0, False
        self.whole, self.next = set(), 0
        self.kills = {"ingest": 0, "compact": 0, "delete": 0, "gc": 0}
        self.finished = 0

    def query(self, sql):
        command = [self.sty, "query", str(self.store), sql, "--format", "json"]
        return subprocess.run(command, capture_output=True, text=True)

    def batches(self):
        """The batches in the table, and a fault for each incomplete one."""
        answer = self.query(COUNT)
        if answer.returncode != 0:
            return None, [answer.stderr.strip()]
        found, faults = set(), []
        for row in json.loads(answer.stdout):
            batch = int(row["batch"])
            found.add(batch)
            if (int(row["n"]), int(row["ids"]), int(row["sum"])) != expected(batch):
                faults.append(f"batch {batch} is {row}")
        return found, faults

    def reader(self):
        while not self.stop:
            found, faults = self.batches()
            self.reads += 1
            self.faults += [f"a reader: {fault}" for fault in faults]

    def file(self, batch):
        path = self.work / f"batch-{batch}.csv"
        if not path.exists():
            rows = range(batch * ROWS, (batch + 1) * ROWS)
            text = "".join(f"{id},{batch},{id % 3},{id * 7919 % 10007},word {id % 101}\n"
                           for id in rows)
            path.write_text("id,batch,part,number,text\n" + text)
        return path

    def operation(self):
        """A random operation: its kind, its command, and the batches after it has succeeded."""
        kind = self.random.choices(["ingest", "compact", "delete", "gc"], [5, 3, 2, 1])[0]
        table = f"{self.store}/t"
        if kind == "ingest" or not self.whole:
            batch, self.next = self.next, self.next + 1
            return "ingest", [self.sty, "ingest", table,
                              str(self.file(batch)), "-q"], self.whole | {batch}
        if kind == "delete":
            batch = self.random.choice(sorted(self.whole))
            sql = self.random.choice([
                f"DELETE FROM t WHERE batch = {batch}",
                f"DELETE FROM t WHERE id IN (SELECT id FROM t WHERE batch = {batch})",
            ])
            return kind, [self.sty, "query", str(self.store), sql, "-q"], self.whole - {batch}
        if kind == "compact":
            how = self.random.choice(
                ["--all", "--profile=small", "--sort-by=number", "--sort-by=id DESC"])
            return kind, [self.sty, "compact", table, "-q", how], self.whole
        return kind, [self.sty, "gc", table, "-q", "--keep", "0s"], self.whole

    def kill_one(self, longest):
        kind, command, after = self.operation()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            _, stderr = process.communicate(timeout=self.random.uniform(0, longest[kind]))
            self.finished += 1
            if process.returncode != 0:
                self.faults.append(f"{kind} failed: {stderr.decode().strip()}")
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            self.kills[kind] += 1
        found, faults = self.batches()
        self.faults += [f"after {kind}: {fault}" for fault in faults]
        if found is not None:
            if found not in (self.whole, after):
                self.faults.append(
                    f"after {kind}: {sorted(found)}, not {sorted(self.whole)} or {sorted(after)}")
            self.whole = found

    def run(self, kills, readers):
        longest = {"ingest": 0.12, "compact": 0.25, "delete": 0.12, "gc": 0.03}
        # The table must be there for readers.
        command = [
            self.sty, "ingest", f"{self.store}/t",
            str(self.file(0)), "-q", "--partition-by", "part", "--sort-by", "number"
        ]
        subprocess.run(command, check=True)
        self.whole, self.next = {0}, 1
        threads = [threading.Thread(target=self.reader) for _ in range(readers)]
        [thread.start() for thread in threads]
        started = time.time()
        while sum(self.kills.values()) < kills and not self.faults:
            self.kill_one(longest)
        self.stop = True
        [thread.join() for thread in threads]
        self.faults += leftovers(self.sty, self.store, "t")
        print(
            f"{sum(self.kills.values())} kills {self.kills}, "
            f"{self.finished} commands finished first, "
            f"{self.reads} concurrent reads, {len(self.whole)} batches in the end, "
            f"{time.time() - started:.0f} s"
        )
        for fault in self.faults:
            print("FAULT", fault)
        return 1 if self.faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sty", type=Path, default=Path("target/release/sty"))
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work",
                        help="a directory for the store and the batches [a temporary one]")
    options = parser.parse_args()
    options.sty = options.sty.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        options.work = options.work or temporary
        sys.exit(Test(options).run(options.kills, options.readers))


if __name__ == "__main__":
    main()
