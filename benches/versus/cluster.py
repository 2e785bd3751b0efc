#!/usr/bin/env python3
"""One server over a store beside several nodes that have its rows in parts: answers, time and CPU.

    python3 benches/versus/cluster.py --sty target/release/sty --one db --parts n0 n1 n2 n3 \\
        --sql nine.sql --rounds 5

Statements go over HTTP to the one server, and to the first of the nodes, turn by turn. Both answers
must be the same, in any order of rows (not with ties under a LIMIT: `--any-ties`). Printed are the
best times, and the CPU time of all processes, as Markdown. `--tables FILE` is put into the file of the
cluster.
"""

import argparse
import http.client
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


class Servers:
    """Processes of `sty serve`, the first of which is asked."""

    def __init__(self, options, stores, work, cluster):
        self.processes, flights = [], [free_port() for _ in stores]
        extra = [[] for _ in stores]
        if cluster:
            nodes = "".join(f'n{n} = "http://127.0.0.1:{port}"\n' for n, port in enumerate(flights))
            tables = options.tables.read_text() if options.tables else ""
            file = Path(work) / "nodes.toml"
            file.write_text(f'secret = "a-secret-of-this-bench"\n[nodes]\n{nodes}{tables}')
            extra = [["--flight", str(port), "--node", "--cluster", str(file)] for port in flights]
        self.port = free_port()
        for at, (store, more) in enumerate(zip(stores, extra)):
            port = self.port if at == 0 else 0
            command = [options.sty, "serve", store, "--http", str(port), "--threads",
                       str(options.threads), *more]
            self.processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        for port in [self.port, *(flights if cluster else [])]:
            deadline = time.monotonic() + 30
            while socket.socket().connect_ex(("127.0.0.1", port)):
                if time.monotonic() > deadline:
                    sys.exit(f"no server at port {port}")
                time.sleep(0.05)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port)

    def cpu(self):
        """Seconds of CPU of all processes so far."""
        def of(process):
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / TICKS
        return sum(of(process) for process in self.processes)

    def ask(self, sql):
        """The answer, the seconds that it took, and those of CPU."""
        before, begun = self.cpu(), time.monotonic()
        self.connection.request("POST", "/?default_format=CSVWithNames", sql.encode())
        reply = self.connection.getresponse()
        text = reply.read().decode()
        took = time.monotonic() - begun
        if reply.status != 200:
            sys.exit(f"{sql}\n{text}")
        return text, took, self.cpu() - before

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sty", type=Path, required=True)
    parser.add_argument("--one", required=True, help="the store with all rows")
    parser.add_argument("--parts", nargs="+", required=True, help="the stores of the nodes")
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--sql", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--any-ties", action="store_true")
    options = parser.parse_args()
    options.sty = options.sty.resolve()
    texts = re.sub(r"(?m)^\s*--.*", "", options.sql.read_text()).split(";")
    statements = [text.strip() for text in texts if text.strip()]
    with tempfile.TemporaryDirectory() as work:
        one = Servers(options, [options.one], work, cluster=False)
        many = Servers(options, options.parts, work, cluster=True)
        try:
            compare(options, statements, one, many)
        finally:
            one.end()
            many.end()


def compare(options, statements, one, many):
    print(f"| # | one server, ms | {len(many.processes)} nodes, ms | CPU of one, ms | of all nodes, ms "
          "| ratio |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    sums = [0.0] * 4
    for number, sql in enumerate(statements, 1):
        best, cpu = [float("inf")] * 2, [0.0] * 2
        for round in range(options.rounds + 1):
            answers = []
            for at, servers in enumerate((one, many)):
                text, took, used = servers.ask(sql)
                answers.append(sorted(text.splitlines()))
                # The first round warms up.
                if round:
                    best[at], cpu[at] = min(best[at], took), cpu[at] + used
            if answers[0] != answers[1] and not options.any_ties:
                sys.exit(f"different answers:\n{sql}\n{answers[0][:5]}\n{answers[1][:5]}")
        cpu = [1000 * used / options.rounds for used in cpu]
        figures = [1000 * best[0], 1000 * best[1], *cpu]
        sums = [total + figure for total, figure in zip(sums, figures)]
        ratio = f"{cpu[1] / cpu[0]:.2f}" if cpu[0] else ""
        print(f"| {number} | " + " | ".join(f"{figure:.1f}" for figure in figures) + f" | {ratio} |",
              flush=True)
    print("| all | " + " | ".join(f"{total:.1f}" for total in sums)
          + f" | {sums[3] / max(sums[2], 1e-9):.2f} |")


if __name__ == "__main__":
    main()
