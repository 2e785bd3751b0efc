"""For serve.py: the server as it is seen from outside, times, and the table of figures."""

import http.client
import os
import re
import statistics
import threading
import time
from pathlib import Path

from serve_clients import Http

# The phases of a run.
ONE, MANY, MIXED = "one client", "dashboards alone", "mixed load"


def percentile(times, part):
    times = sorted(times)
    return times[min(len(times) - 1, int(len(times) * part))] * 1000 if times else 0.0


def size_of(path):
    total = 0
    for folder, _, files in os.walk(path):
        for file in files:
            try:
                total += os.lstat(os.path.join(folder, file)).st_blocks * 512
            except OSError:
                pass  # It has been removed meanwhile.
    return total


def processor():
    """Seconds in which the cores were busy, since the machine has started."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, soft, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Samples the server of a test each second, and keeps times and counts."""

    def __init__(self, test):
        self.test, self.lock = test, threading.Lock()
        self.times, self.counts, self.samples = {}, {}, []
        self.spilled = self.disk = 0
        self.phase, self.machine = ONE, ""

    def count(self, what, more=1):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + more

    def time(self, what, seconds):
        self.times.setdefault((self.phase, what), []).append(seconds)

    def timed(self, what, ask, sql):
        """Asks, and keeps the time unless the server, or the phase of the test, has ended."""
        life, phase, started = self.test.life, self.phase, time.monotonic()
        rows = ask(sql)
        if (life, phase) == (self.test.life, self.phase):
            self.time(what, time.monotonic() - started)
        return rows

    def sample(self):
        test, looked = self.test, 0
        while not test.stop.is_set():
            test.up.wait()
            life, process = test.life, test.process
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
                find = lambda name: int(re.search(rf"{name}:\s*(\d+)", status)[1])
                files = len(os.listdir(f"/proc/{process.pid}/fd"))
                self.samples.append((time.monotonic(), life, self.phase, find("RssAnon") / 1024,
                                     find("VmRSS") / 1024, find("Threads"), files))
                self.spilled = max(self.spilled, size_of(test.temp))
                if time.monotonic() - looked > 5:
                    looked = time.monotonic()
                    Http(test.http, 30).metrics()
            except (OSError, TypeError, http.client.HTTPException) as error:
                # A kill may be noticed before it is known.
                time.sleep(0.2)
                if life == test.life and test.up.is_set() and not test.stop.is_set():
                    test.fault(f"the server is not there: {process.poll()}, {error!r}")
            self.disk = max(self.disk, size_of(test.work))
            if self.disk > test.options.disk << 30:
                test.fault(f"store and temporary files have {self.disk >> 30} GiB")
            test.stop.wait(1)

    def own_time(self):
        """Seconds of the processor for this process, its server, and those that have ended."""
        stat = Path(f"/proc/{self.test.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(os.times()[:4]) + sum(map(int, stat[11:13])) / os.sysconf("SC_CLK_TCK")

    def load_begins(self):
        self.phase, self.begun = MIXED, (time.monotonic(), processor(), self.own_time())

    def load_ends(self):
        now = time.monotonic(), processor(), self.own_time()
        took, busy, own = (end - begin for end, begin in zip(now, self.begun))
        self.machine = (f"{busy / took:.2f} of {os.cpu_count()} cores busy under the mixed load, "
                        f"{(busy - own) / took:.2f} of them by others; load average "
                        f"{os.getloadavg()[2]:.1f}")

    def memory(self):
        """Memory of the server's first life under the mixed load: figures, and what is wrong."""
        seen = [(at, anon) for at, life, phase, anon, *_ in self.samples
                if life == 0 and phase == MIXED]
        seen = seen[len(seen) // 10:]
        if len(seen) < 10:
            return {}, None
        halves = seen[:len(seen) // 2], seen[len(seen) // 2:]
        middle, most = ([figure([anon for _, anon in half]) for half in halves]
                        for figure in (statistics.median, max))
        slope = statistics.linear_regression(*zip(*halves[1])).slope * 60
        limit, wrong = self.test.options.memory, None
        # So much the usual limit leaves free for what the limit does not count.
        if max(most) > limit + 256:
            wrong = f"{max(most):.0f} MiB of anonymous memory, the limit is {limit}"
        elif len(seen) > 300 and middle[1] > middle[0] * 1.25 + 32:
            wrong = f"memory grows from {middle[0]:.0f} to {middle[1]:.0f} MiB"
        return {
            "anonymous memory, MiB: medians of both halves": f"{middle[0]:.0f}, {middle[1]:.0f}",
            "the most of both halves": f"{most[0]:.0f}, {most[1]:.0f}",
            "its slope in the second half, MiB a minute": f"{slope:+.2f}",
        }, wrong

    def summary(self):
        lines = ["| p50 / p90 / p99, ms | |", "| --- | ---: |"]
        for phase in (ONE, MANY, MIXED):
            for (when, what), times in sorted(self.times.items()):
                if when == phase:
                    parts = " / ".join(f"{percentile(times, it):.1f}" for it in (0.5, 0.9, 0.99))
                    lines.append(f"| {phase}: {what}, {len(times):,} times | {parts} |")
        for what in ("HTTP", "PostgreSQL"):
            one, load = (self.times.get((phase, what)) for phase in (ONE, MIXED))
            if one and load:
                ratio = percentile(load, 0.99) / percentile(one, 0.99)
                lines.append(f"| {what}: p99 under load, by that of one client | {ratio:.1f} |")
        lines += [f"| {what} | {count:,} |" for what, count in sorted(self.counts.items())]
        lines += [f"| {what} | {figures} |" for what, figures in self.memory()[0].items()]
        for name, place in (("resident memory, MiB", 4), ("threads", 5), ("open files", 6)):
            most = max((sample[place] for sample in self.samples), default=0)
            lines.append(f"| {name}, at most | {most:,.0f} |")
        lines += [f"| spilled at a time, on disk, MiB, at most | {self.spilled >> 20}, "
                  f"{self.disk >> 20} |", f"| machine | {self.machine} |"]
        print("\n".join(lines), flush=True)
