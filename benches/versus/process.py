"""The engines' processes, as versus.py controls them: started, stopped, sampled and ended."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from common import HERE


class Peer:
    """A peer engine behind engines.py, in a process group of its own."""

    patience = 120

    def __init__(self, name, store, threads):
        command = [sys.executable, HERE / "engines.py", name, store, threads]
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(part) for part in command],
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE,
                                        stderr=self.errors,
                                        start_new_session=True)
        self.dead = None
        self.rest = b""
        self.reply()

    def reply(self):
        """The next line from the engine, or an error if it takes too long or ends."""
        deadline = time.monotonic() + self.patience
        while b"\n" not in self.rest and not self.dead:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.dead = f"no reply in {self.patience} s"
                self.signal(signal.SIGKILL)
                break
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                self.dead = f"the process ended: {self.last_words()}"
            self.rest += part
        if self.dead:
            return {"error": self.dead}
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def last_words(self):
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "without a word"

    def ask(self, **command):
        if self.dead:
            return {"error": self.dead}
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            self.dead = f"the process ended: {self.last_words()}"
        return self.reply()

    def open(self):
        return self.ask(do="open")

    def run(self, sql, warm_up, runs, budget):
        return self.ask(do="run", sql=sql, warm_up=warm_up, runs=runs, budget=budget)

    def answer(self, sql, file):
        return self.ask(do="answer", sql=sql, file=str(file))

    def cold(self, sql):
        """Open and first run. The process has started and imported the engine before."""
        opened = self.open()
        if "error" in opened:
            return opened
        done = self.run(sql, 0, 1, 0)
        return done if "error" in done else {"ms": opened["ms"] + done["ms"][0]}

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def stop(self):
        self.signal(signal.SIGSTOP)

    def go(self):
        self.signal(signal.SIGCONT)

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.signal(signal.SIGKILL)
        self.process.wait()


class Sty:
    """Our engine: `sty bench`, a process for every call."""

    def __init__(self, binary, store, threads):
        self.binary, self.store, self.threads = str(binary), str(store), str(threads)
        self.dead = None

    def open(self):
        return {}

    def bench(self, sql, warm_up, runs):
        command = [
            self.binary, "bench", self.store, sql, "--threads", self.threads, "--format", "json"
        ]
        done = subprocess.run(
            [*command, "--warm-up", str(warm_up), "--runs",
             str(runs)],
            capture_output=True,
            text=True)
        if done.returncode != 0:
            return {"error": done.stderr.strip()[:300] or f"exit {done.returncode}"}
        return json.loads(done.stdout)["statements"][0]

    def run(self, sql, warm_up, runs, _budget):
        # `sty bench` reports only these three of its runs, which is enough for minimum and median.
        found = self.bench(sql, warm_up, runs)
        return found if "error" in found else {
            "ms": [found["min_ms"], found["median_ms"], found["p90_ms"]], "rows": found["rows"]
        }

    def answer(self, sql, file):
        command = [
            self.binary, "query", self.store, sql, "--threads", self.threads, "--format", "parquet",
            "-o",
            str(file)
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        return {"error": done.stderr.strip()[:300]} if done.returncode != 0 else {}

    def cold(self, sql):
        """A whole process that writes its answer as Arrow to /dev/null."""
        command = [
            self.binary, "query", self.store, sql, "--threads", self.threads, "--format", "arrow",
            "-o", "-"
        ]
        started = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        taken = (time.perf_counter() - started) * 1e3
        return {"error": done.stderr.strip()[:300]} if done.returncode != 0 else {"ms": taken}

    def stop(self):
        pass

    def go(self):
        pass

    def end(self):
        pass


def store_files(store):
    store = Path(store)
    return [store] if store.is_file() else [file for file in store.rglob("*") if file.is_file()]


def evict(store, all_caches):
    """Evicts a store's files from the page cache; returns the bytes that stayed, by `fincore`."""
    os.sync()
    files = store_files(store)
    for file in files:
        with open(file, "rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if all_caches:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    try:
        listed = subprocess.run(["fincore", "-bnro", "RES", *map(str, files)],
                                capture_output=True,
                                text=True)
        return sum(int(line) for line in listed.stdout.split())
    except (OSError, ValueError):
        return None


def anonymous_bytes(group):
    """Bytes of anonymous memory of a process and its descendants."""
    total, waiting = 0, [group]
    while waiting:
        pid = waiting.pop()
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            for task in os.listdir(f"/proc/{pid}/task"):
                waiting += Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        except OSError:
            continue
        total += next((int(line.split()[1]) * 1024
                       for line in status.splitlines() if line.startswith("RssAnon:")), 0)
    return total


def peak_memory(engine, sql):
    """Two runs, and their peak of anonymous memory beyond that of a process with an open store."""
    if isinstance(engine, Sty):
        found = engine.bench(sql, 2, 1)
        return found, found.get("peak_memory_bytes")
    if not sys.platform.startswith("linux"):
        return {}, None
    opened = engine.open()
    if "error" in opened:
        return opened, None
    pid = engine.process.pid
    before, done = anonymous_bytes(pid), threading.Event()
    peak = before

    def sample():
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, anonymous_bytes(pid))

    sampler = threading.Thread(target=sample)
    sampler.start()
    reply = engine.run(sql, 1, 1, 0)
    done.set()
    sampler.join()
    return reply, max(peak, anonymous_bytes(pid)) - before
