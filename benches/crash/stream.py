#!/usr/bin/env python3
"""Feeds a stream that never ends into a table, while others read and the load is killed.

    python3 benches/crash/stream.py --sty target/release/sty --minutes 30

Rows are numbered and go through a pipe into `sty ingest --commit-every`, at a steady rate. Every
second a query in a process of its own checks that the rows are those from 0 to some number, each
once, that none that was seen before is missing, and how old the oldest row is that it does not see.
Once a minute the load is killed (SIGKILL) at a random moment; the stream goes on with the first row
that is not committed. In the end SIGTERM must store all that was sent. The exit code is 1 if
anything was lost, doubled, late or left behind.
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
from collections import deque
from pathlib import Path

from crash import leftovers

# Batches of rows a second.
BATCHES = 20
# What the process of a query may take in addition to the interval of commits.
GRACE = 1.0
CHECK = "SELECT count(*) AS n, min(n) AS least, max(n) AS most, sum(n) AS sum FROM log"
LEVELS = ["debug", "info", "info", "info", "warn", "error"]
HOSTS = [f"web-{number:02}" for number in range(40)]


class Stream:
    def __init__(self, options):
        self.options, self.sty = options, str(options.sty)
        self.random = random.Random(options.seed)
        self.store = Path(options.work) / "db"
        self.table = self.store / "log"
        self.faults, self.queries, self.kills, self.most_segments = [], 0, 0, 0
        self.lags, self.committed, self.next = [], 0, 0
        # When rows were sent that may not be committed: (first, end, time).
        self.sent, self.lock, self.stopped = deque(), threading.Lock(), False
        self.load = None

    def fault(self, text):
        self.faults.append(text)
        print(f"FAULT: {text}", flush=True)

    def start(self):
        command = [self.sty, "ingest", self.table, "-", "--commit-every", f"{self.options.every}s",
                   "--names", "n,time,level,host,took,message", "--no-header", "-q"]
        self.load = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)

    def rows(self, first, count):
        now, pick = time.strftime("%Y-%m-%d %H:%M:%S"), self.random.random
        line = "{},{},{},{},{:.3f},request {} of session {:x} answered\n"
        return "".join(
            line.format(n, now, LEVELS[int(pick() * 6)], HOSTS[int(pick() * 40)], pick() ** 4 * 9,
                        n % 977, int(pick() * (1 << 40))) for n in range(first, first + count))

    def check(self):
        """How many rows there are, after they have been checked."""
        command = [self.sty, "query", self.store, CHECK, "--format", "json"]
        started = time.monotonic()
        committed = self.committed
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode != 0:
            if committed == 0 and not (self.table / "CURRENT").exists():
                return 0
            self.fault(answer.stderr.strip())
            return committed
        row = {name: int(value or 0) for name, value in json.loads(answer.stdout)[0].items()}
        rows = row["n"]
        right = (0, rows - 1, rows * (rows - 1) // 2)
        if rows and (row["least"], row["most"], row["sum"]) != right:
            self.fault(f"rows are not 0 to {rows - 1}: {row}")
        if rows < committed:
            self.fault(f"{committed} rows were there, and now {rows}")
        with self.lock:
            self.committed = max(self.committed, rows)
            while self.sent and self.sent[0][1] <= self.committed:
                self.sent.popleft()
            # Of the rows that the query did not see, the oldest that had been sent before it.
            oldest = next((at for _, end, at in self.sent if at < started), None)
        if oldest is not None:
            self.lags.append(started - oldest)
        self.queries += 1
        return rows

    def read(self):
        while not self.stopped:
            due = time.monotonic() + 1
            self.check()
            if self.queries % 10 == 0:
                self.count_segments()
            time.sleep(max(0, due - time.monotonic()))

    def count_segments(self):
        shown = subprocess.run([self.sty, "tables", self.store, "--format", "json"],
                               capture_output=True, text=True)
        for table in json.loads(shown.stdout or "[]"):
            self.most_segments = max(self.most_segments, table["segments"])

    def kill(self):
        self.load.send_signal(signal.SIGKILL)
        self.load.communicate()
        self.kills += 1
        with self.lock:
            self.sent.clear()
        self.next = self.check()
        with self.lock:
            self.sent.clear()
        self.start()

    def run(self):
        options = self.options
        self.start()
        threading.Thread(target=self.read, daemon=True).start()
        begun = due = time.monotonic()
        end, kill_at = begun + options.minutes * 60, begun + options.kill_every
        size = options.rate // BATCHES
        while time.monotonic() < end:
            if time.monotonic() >= kill_at:
                self.kill()
                kill_at += options.kill_every * self.random.uniform(0.8, 1.2)
                due = time.monotonic()
            text = self.rows(self.next, size).encode()
            with self.lock:
                self.sent.append((self.next, self.next + size, time.monotonic()))
            try:
                self.load.stdin.write(text)
                self.load.stdin.flush()
            except BrokenPipeError:
                self.fault(f"the load ended: {self.load.stderr.read().decode().strip()}")
                self.kill()
                continue
            self.next += size
            due += 1 / BATCHES
            time.sleep(max(0, due - time.monotonic()))
        self.load.send_signal(signal.SIGTERM)
        _, told = self.load.communicate()
        self.stopped = True
        time.sleep(2)
        stored = self.check()
        # What is still in the pipe may be lost.
        if not self.next - 1000 <= stored <= self.next:
            self.fault(f"{self.next} rows were sent, and {stored} are there")
        if self.load.returncode not in (0, 130, 143):
            self.fault(f"the load ended with {self.load.returncode}: {told.decode().strip()}")
        self.count_segments()
        for fault in leftovers(self.sty, self.store, "log"):
            self.fault(fault)
        lags = sorted(self.lags) or [0]
        print(f"{stored:,} of {self.next:,} rows, {self.kills} kills, {self.queries} queries, at "
              f"most {self.most_segments} segments, lag {lags[len(lags) // 2]:.1f} s (median), "
              f"{lags[len(lags) * 99 // 100]:.1f} s (99 %), {lags[-1]:.1f} s at most")
        late = [lag for lag in lags if lag > options.every + GRACE]
        if late:
            self.fault(f"{len(late)} queries missed rows older than {options.every + GRACE} s")
        if self.most_segments > options.segments:
            self.fault(f"{self.most_segments} segments")
        return self.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sty", type=Path, default=Path("target/release/sty"))
    parser.add_argument("--work", help="a folder for the store, which is kept")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--rate", type=int, default=20_000, help="rows a second")
    parser.add_argument("--every", type=float, default=10, help="seconds between commits")
    parser.add_argument("--kill-every", type=float, default=60, help="seconds between kills")
    parser.add_argument("--segments", type=int, default=40, help="the most segments")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        options.work = options.work or scratch
        sys.exit(1 if Stream(options).run() else 0)


if __name__ == "__main__":
    main()
