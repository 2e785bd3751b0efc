#!/usr/bin/env python3
"""Nodes of a cluster in network namespaces of their own: kills them, and loses packets, while they work.

    sudo python3 benches/crash/cluster.py --sty target/release/sty --rounds 20

Four nodes, each with its own rows and its own address, and a client outside. In each round, one of
these happens in the middle of a statement: kill -9 of a node; all packets of a node are lost; every
tenth one is. Each answer must be that of one store with all rows; otherwise the
statement must fail, with the node's name, within two seconds of what happened. The next statements
fail or answer likewise, and are right again once the node is back.

Then the same happens to loads (`sty ingest --cluster`, of a table that is spread and of one in copies)
and moves of partitions (`sty cluster move`), and these are killed themselves. Once the node is back, the same command is repeated until it says
that it is done: each row must be there once, and during moves at all times, and copies must
be the same. The exit code is 1 at the first
thing that is wrong. In the end, a table of figures is printed, as Markdown. It needs `ip` and `nft`.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NODES, BRIDGE, NET = 4, "stybr", "10.213.77"
ROWS = """SELECT i AS id, i % 7 AS seven, 'key ' || (i * 7919 % 100003) AS name, sqrt(i) AS root
    FROM (SELECT CAST(value AS BIGINT) AS i FROM range({first}, {rows}, {step}))"""
QUESTIONS = [
    "SELECT count(*), sum(root), avg(root), min(name), max(id) FROM t",
    "SELECT seven, count(*), sum(root) FROM t GROUP BY seven ORDER BY seven",
    "SELECT name, count(*), sum(id) AS s FROM t GROUP BY name ORDER BY s DESC, name LIMIT 20",
    "SELECT count(*) FROM t a JOIN t b ON a.id = b.id + 1 WHERE a.seven = 3",
    "SELECT count(DISTINCT name) FROM t WHERE root > 100",
    "SELECT id, name FROM t ORDER BY root DESC LIMIT 10",
]
# How long after what has happened a statement may take to say so, in seconds.
PATIENCE = 2.0


class Wrong(Exception):
    """Something that must not be."""


def run(*command, check=True):
    return subprocess.run([str(part) for part in command], check=check, text=True,
                          capture_output=True)


class Cluster:
    def __init__(self, options, work):
        self.sty, self.work, self.rows = str(options.sty), work, options.rows
        self.processes = [None] * NODES
        # Whether all nodes have been started once.
        self.ready = False
        self.file = work / "nodes.toml"
        nodes = "".join(f'n{n} = "http://{self.address(n)}:8815"\n' for n in range(NODES))
        self.file.write_text(f'secret = "a-secret-of-this-test"\n[nodes]\n{nodes}'
                             '[tables.c]\nplacement = "copies"\n')

    @staticmethod
    def address(node):
        return f"{NET}.{node + 1}"

    def build(self):
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{NET}.254/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for node in range(NODES):
            space = f"sty{node}"
            run("ip", "netns", "add", space)
            run("ip", "link", "add", f"stv{node}", "type", "veth", "peer", "name", "eth0", "netns",
                space)
            run("ip", "link", "set", f"stv{node}", "master", BRIDGE, "up")
            run("ip", "-n", space, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            run("ip", "-n", space, "link", "set", "lo", "up")
        create = "CREATE TABLE t AS " + ROWS
        run(self.sty, "query", self.work / "all", create.format(first=0, step=1, rows=self.rows))
        for node in range(NODES):
            text = create.format(first=node, step=NODES, rows=self.rows)
            run(self.sty, "query", self.work / f"n{node}", text)
        for node in range(NODES):
            self.ready = node == NODES - 1
            self.start(node)

    def start(self, node):
        log = open(self.work / f"n{node}.log", "a")
        self.processes[node] = subprocess.Popen(
            ["ip", "netns", "exec", f"sty{node}", self.sty, "serve", self.work / f"n{node}", "--http",
             "0", "--flight", f"{self.address(node)}:8815", "--node", "--cluster", self.file,
             "--anyone"], stderr=log)
        while self.ready:
            if self.ask("SELECT count(*) FROM t").returncode == 0:
                return
            time.sleep(0.05)

    def kill(self, node):
        # The server is a child of `ip netns exec`, which has become it.
        self.processes[node].kill()
        self.processes[node].wait()

    def lose(self, node, share):
        test = "" if share == 100 else f"numgen random mod 100 < {share} "
        rules = "".join(
            f"add chain inet lose {hook} {{ type filter hook {hook} priority 0; }}\n"
            f"add rule inet lose {hook} {at} != lo {test}drop\n"
            for hook, at in (("input", "iif"), ("output", "oif")))
        subprocess.run(["ip", "netns", "exec", f"sty{node}", "nft", "-f", "-"], check=True,
                       text=True, input="add table inet lose\n" + rules)

    def keep(self, node):
        run("ip", "netns", "exec", f"sty{node}", "nft", "delete", "table", "inet", "lose",
            check=False)

    def command(self, sql):
        return [self.sty, "query", "--cluster", str(self.file), "-", sql, "--format", "csv"]

    def ask(self, sql):
        return subprocess.run(self.command(sql), text=True, capture_output=True)

    def one(self, sql):
        return run(self.sty, "query", self.work / "all", sql, "--format", "csv").stdout

    def end(self):
        for process in filter(None, self.processes):
            process.kill()
            process.wait()
        for node in range(NODES):
            run("ip", "netns", "del", f"sty{node}", check=False)
        run("ip", "link", "del", BRIDGE, check=False)


def check(cluster, sql, right, happened, process, node, may_fail):
    """Waits for a statement; it answers rightly, or names the node in time."""
    out, said = process.communicate(timeout=120)
    took = time.monotonic() - happened
    if process.returncode == 0:
        if out != right:
            raise Wrong(f"{sql}\nanswered\n{out[:500]}\nand not\n{right[:500]}")
        return "answered", took
    if not may_fail or f"node n{node} " not in said:
        raise Wrong(f"{sql}\nfailed, of node n{node}: {said}")
    if took > PATIENCE:
        raise Wrong(f"{sql}\nfailed {took:.1f} s after what happened: {said}")
    return "failed", took


class Work:
    """Loads and moves of a partitioned table, and what it must have."""

    def __init__(self, cluster, dice, rows, table):
        self.cluster, self.dice, self.rows, self.files = cluster, dice, rows, 0
        self.table = table
        self.check = f"SELECT count(*), sum(id), count(DISTINCT id) FROM {table}"

    def right(self):
        rows = self.files * self.rows
        return f"{rows},{rows * (rows - 1) // 2},{rows}"

    def load(self):
        """The command of the next load, and what it says if it was done before."""
        first = self.files * self.rows
        file = self.cluster.work / f"{self.table}{self.files}.parquet"
        sql = (f"COPY (SELECT i AS id, i % 40 AS part, 'text ' || (i * 7919 % 100003) AS text "
               f"FROM (SELECT value AS i FROM range({first}, {first + self.rows}))) TO '{file}'")
        run(self.cluster.sty, "query", "-", sql)
        self.files += 1
        return ["ingest", "--cluster", self.cluster.file, self.table, file, "--partition-by",
                "part"], "was loaded before"

    def move(self):
        """The same of a move."""
        part, node = self.dice.randrange(40), self.dice.randrange(NODES)
        status = run(self.cluster.sty, "cluster", "status", "u", "--cluster", self.cluster.file,
                     "--format", "csv").stdout
        have = [line.split(",")[0] for line in status.splitlines() if f",part={part}," in line]
        source = self.dice.choice(have)
        if source == f"n{node}":
            node = (node + 1) % NODES
        return ["cluster", "move", "u", f"part={part}", "--from", source, "--to", f"n{node}",
                "--cluster", self.cluster.file], "has no partition"

    def disturb(self, command, done, what, node, is_load):
        """Runs a command, and has something happen to it; returns how it ended, and when."""
        cluster = self.cluster
        command = [cluster.sty, *map(str, command)]
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        time.sleep(self.dice.random() * (0.8 if is_load else 0.06))
        happened = time.monotonic()
        if what == "kill -9":
            cluster.kill(node)
        elif what == "kill -9 of the command":
            process.kill()
        else:
            cluster.lose(node, 100 if what.startswith("all") else 10)
        _, said = process.communicate(timeout=120)
        took = time.monotonic() - happened
        outcome = "failed" if process.returncode else "answered"
        if process.returncode > 0 and f"node n{node} " not in said and done not in said:
            raise Wrong(f"{command}\nfailed, of node n{node}: {said}")
        if not is_load:
            answer = cluster.ask(self.check)
            if answer.returncode == 0 and self.right() not in answer.stdout:
                raise Wrong(f"{command}, {what} of n{node}\n{answer.stdout}and not {self.right()}")
        cluster.keep(node)
        if what == "kill -9":
            cluster.start(node)
        until = time.monotonic() + 90
        while True:
            again = subprocess.run(command, text=True, capture_output=True)
            if again.returncode == 0 or done in again.stderr:
                break
            if time.monotonic() > until:
                raise Wrong(f"{command}\nis not done after 90 s: {again.stderr}")
            time.sleep(0.2)
        answer = cluster.ask(self.check)
        if self.right() not in answer.stdout:
            raise Wrong(f"{command}, {what} of n{node}, then repeated\n{said}{again.stderr}"
                        f"{answer.stdout}{answer.stderr}and not {self.right()}")
        if self.table == "c":
            same = run(cluster.sty, "cluster", "copy", "c", "--cluster", cluster.file)
            if "are the same" not in same.stderr:
                raise Wrong(f"{command}, {what} of n{node}, then repeated\n{said}{again.stderr}"
                            f"{same.stderr}")
        return outcome, took


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sty", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    options.sty = options.sty.resolve()
    print(f"seed {options.seed}", file=sys.stderr)
    dice = random.Random(options.seed)
    work = Path(tempfile.mkdtemp(prefix="sty-cluster-"))
    cluster = Cluster(options, work)
    seen = {}
    try:
        cluster.build()
        right = {sql: cluster.one(sql) for sql in QUESTIONS}
        for sql in QUESTIONS:
            answer = cluster.ask(sql)
            if answer.stdout != right[sql]:
                raise Wrong(f"{sql}\n{answer.stdout[:500]}{answer.stderr}\nand not\n{right[sql][:500]}")
        for _ in range(options.rounds):
            node, sql = dice.randrange(NODES), dice.choice(QUESTIONS)
            what = dice.choice(["kill -9", "all packets lost", "a tenth of packets lost"])
            process = subprocess.Popen(cluster.command(sql), text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            time.sleep(dice.random() * 0.3)
            happened = time.monotonic()
            if what == "kill -9":
                cluster.kill(node)
            else:
                cluster.lose(node, 100 if what.startswith("all") else 10)
            may_fail = what != "a tenth of packets lost"
            outcome = check(cluster, sql, right[sql], happened, process, node, may_fail)
            seen.setdefault((what, "during"), []).append(outcome)
            if may_fail:
                begun = time.monotonic()
                process = subprocess.Popen(cluster.command(sql), text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                outcome = check(cluster, sql, right[sql], begun, process, node, True)
                if outcome[0] == "answered":
                    raise Wrong(f"{sql}\nanswered without node n{node}")
                seen.setdefault((what, "after"), []).append(outcome)
            cluster.keep(node)
            if what == "kill -9":
                cluster.start(node)
            answer = cluster.ask(sql)
            if answer.returncode or answer.stdout != right[sql]:
                raise Wrong(f"{sql}\nafter {what} of n{node}: {answer.stdout[:300]}{answer.stderr}")
        spread, copies = (Work(cluster, dice, options.rows // 8, table) for table in "uc")
        for work_of in (spread, copies):
            load, done = work_of.load()
            run(cluster.sty, *load)
        for number in range(3 * options.rounds):
            is_load = number < 2 * options.rounds
            work_of = copies if number < options.rounds else spread
            node = dice.randrange(NODES)
            what = dice.choice(["kill -9", "kill -9 of the command", "all packets lost",
                                "a tenth of packets lost"])
            command, done = work_of.load() if is_load else work_of.move()
            outcome = work_of.disturb(command, done, what, node, is_load)
            when = f"load of {work_of.table}" if is_load else "move"
            seen.setdefault((what, when), []).append(outcome)
        print("| what | statement | answered | failed | seconds to the failure, at most |")
        print("| --- | --- | ---: | ---: | ---: |")
        for (what, when), outcomes in sorted(seen.items()):
            failed = [took for outcome, took in outcomes if outcome == "failed"]
            longest = f"{max(failed):.2f}" if failed else ""
            print(f"| {what} | {when} | {len(outcomes) - len(failed)} | {len(failed)} | {longest} |")
    except Wrong as wrong:
        print(f"wrong: {wrong}", file=sys.stderr)
        return 1
    finally:
        cluster.end()
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
