#!/usr/bin/env python3
"""Has a server answer a mixed load, kills it now and then, and checks every answer and every row.

    python3 benches/crash/serve.py --sty target/release/sty --minutes 30

Dashboards ask short queries whose answers are known, by HTTP and by PostgreSQL's protocol: first
one client, then 64, then 64 beside sorts and groups beyond the memory of a statement; inserters
that remember what was acknowledged; compaction, gc and DELETE in other processes; connections that
are dropped within a query or a body; clients that read slowly, or not at all, or send a byte of a
head or a row of a body now and then. In the last third of the time the server is killed (SIGKILL)
at random moments and started again. Each acknowledged row must be there once, each INSERT as a
whole or not at all; statements of clients that are gone must end; memory must stay within the limit
and must not grow. Refusals (503 with Retry-After, PostgreSQL's class 53) are counted. The exit code
is 1 at the first thing that is wrong. In the end a table of figures is printed, as Markdown.
"""

import argparse
import http.client
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from crash import leftovers
from serve_clients import HEAVY, TABLES, Http, Postgres, Refused, Wrong, free_port, question
from serve_watch import MANY, ONE, Watch

# The rows of an INSERT are numbered from this times its number.
STEP = 1000
STORED = f"""SELECT client, seq / {STEP} AS batch, count(*), min(seq), max(seq), sum(seq),
    sum(value) FROM log WHERE client >= 0 GROUP BY client, batch"""
# Rows of bodies that are cut off, and rows that are deleted.
CUT, JUNK = 900, -1


def drop(state):
    """Closes the connection of a client, if it has one."""
    if "to" in state:
        state.pop("to").close()


class Test:
    def __init__(self, options):
        self.options, self.sty, self.work = options, str(options.sty), Path(options.work)
        self.store, self.http, self.pg = self.work / "db", free_port(), free_port()
        self.faults, self.threads = [], []
        self.stop, self.up = threading.Event(), threading.Event()
        # The life of the server: an error of a connection is none if it has ended meanwhile.
        self.life, self.process, self.temp, self.watch = 0, None, None, Watch(self)
        # The INSERTs of each client: number to rows and their sum; and those acknowledged.
        self.sent = [{} for _ in range(options.inserters)]
        self.stored = [set() for _ in range(options.inserters)]

    def fault(self, text):
        self.faults.append(text)
        print(f"FAULT after {time.monotonic() - self.begun:.0f} s: {text}", flush=True)
        self.stop.set()

    # The server.

    def start(self):
        self.temp = self.work / f"temp-{self.life}"
        self.temp.mkdir()
        command = [self.sty, "serve", self.store, "--http", self.http, "--pg", self.pg,
                   "--memory-limit", f"{self.options.memory}MiB", "--temp-dir", self.temp,
                   "--no-config"]
        log = open(self.work / "server.log", "ab")
        self.process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                Http(self.http).ask("SELECT 1")
                Postgres(self.pg).close()
                return self.up.set()
            except OSError:
                time.sleep(0.02)
        log = (self.work / "server.log").read_text()
        raise Wrong(f"the server does not start: {log[-2000:]}")

    def kill(self):
        self.up.clear()
        self.life += 1
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        # Whoever was about to send has seen the kill by then.
        time.sleep(0.3)
        last = [max(sent, default=-1) for sent in self.sent]
        shutil.rmtree(self.temp)
        self.start()
        self.check(last)
        self.command("verify", self.store, "-q")
        self.watch.count("kills")

    def command(self, *command):
        done = subprocess.run([self.sty, *map(str, command)], capture_output=True, text=True)
        if done.returncode != 0:
            raise Wrong(f"{' '.join(map(str, command))}: {done.returncode} {done.stderr}")
        return done.stdout

    def check(self, last=None):
        """Compares the rows of all INSERTs with what was sent and what was acknowledged.

        `last` has the last INSERT of each client before a kill."""
        known = [set(stored) for stored in self.stored]
        there = [set() for _ in self.sent]
        for row in Http(self.http, 300).ask(STORED):
            client, batch, *found = map(int, row)
            if client >= len(self.sent):
                raise Wrong(f"rows of a body that was cut off are there: {row}")
            rows, total = self.sent[client].get(batch, (0, 0))
            first = batch * STEP
            if found != [rows, first, first + rows - 1, rows * (2 * first + rows - 1) // 2, total]:
                raise Wrong(f"client {client}, INSERT {batch}: {found}, {rows} rows were sent")
            there[client].add(batch)
        for client, stored in enumerate(self.stored):
            if lost := known[client] - there[client]:
                raise Wrong(f"client {client}: acknowledged INSERTs are lost: {sorted(lost)}")
            # What was seen must stay, and what a kill has taken must not come back.
            stored |= there[client]
            for batch in list(self.sent[client]) if last else []:
                if batch <= last[client] and batch not in stored:
                    del self.sent[client][batch]
                    self.watch.count("INSERTs not acknowledged, and not there after a kill")
        self.watch.count("checks of all rows")

    # The clients. Each is asked again and again, and keeps its connection in its state.

    def client(self, work, *arguments):
        """A thread that does this until the end. A server that was killed is waited for."""
        state = {"random": random.Random(f"{self.options.seed} {work.__name__} {arguments}")}

        def run():
            while not self.stop.is_set():
                self.up.wait()
                life = self.life
                if state.setdefault("life", life) != life:
                    drop(state)
                state["life"] = life
                try:
                    work(state, *arguments)
                    continue
                except Refused as refused:
                    self.watch.count(f"{work.__name__}: refused ({refused})")
                    self.stop.wait(1)
                except (Wrong, OSError, http.client.HTTPException) as error:
                    # A kill may be noticed before it is known.
                    self.stop.wait(0.2)
                    if life == self.life and self.up.is_set() and not self.stop.is_set():
                        self.fault(f"{work.__name__} {arguments}: {error!r}")
                drop(state)

        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()

    def to_server(self, state, timeout=60):
        if "to" not in state:
            state["to"] = Http(self.http, timeout)
        return state["to"]

    def dashboard(self, state, number, pause):
        # One in four speaks PostgreSQL's protocol.
        protocol = "PostgreSQL" if number % 4 == 3 else "HTTP"
        if "to" not in state:
            state["to"] = Postgres(self.pg) if protocol == "PostgreSQL" else Http(self.http)
        _, sql, right = question(state["random"])
        rows = self.watch.timed(protocol, state["to"].ask, sql)
        if rows != [[str(value) for value in row] for row in right]:
            raise Wrong(f"{sql}: {rows}, not {right}")
        self.stop.wait(state["random"].uniform(0.5, 1.5) * pause)

    def heavy(self, state):
        sql, right = state["random"].choice(self.answers)
        rows = self.watch.timed("sorts, groups and scans", self.to_server(state, 300).ask, sql)
        if rows != right:
            raise Wrong(f"{sql}: {rows}, not {right}")

    def inserter(self, state, client):
        pick, batch = state["random"], state.get("next", 0)
        state["next"] = batch + 1
        seqs = range(batch * STEP, batch * STEP + pick.randint(1, 100))
        rows = [(client, seq, (client * 7919 + seq) * 104729 % 1000003) for seq in seqs]
        self.sent[client][batch] = len(rows), sum(row[2] for row in rows)
        how = pick.choice(["CSV", "JSONEachRow", "VALUES"])
        if how == "CSV":
            text = "FORMAT CSV\n" + "".join("{},{},{}\n".format(*row) for row in rows)
        elif how == "VALUES":
            text = "VALUES " + ", ".join(map(str, rows))
        else:
            text = "FORMAT JSONEachRow\n" + "".join(
                '{{"client":{},"seq":{},"value":{}}}\n'.format(*row) for row in rows)
        try:
            self.watch.timed("INSERTs", self.to_server(state).ask, f"INSERT INTO log {text}")
        except Refused:
            del self.sent[client][batch]
            raise
        self.stored[client].add(batch)
        self.watch.count("rows acknowledged", len(rows))
        if pick.random() < 0.05:
            sql = f"SELECT count(*) FROM log WHERE client = {client} AND seq / {STEP} = {batch}"
            if (found := self.to_server(state).ask(sql)) != [[str(len(rows))]]:
                raise Wrong(f"{len(rows)} rows were acknowledged, then {sql}: {found}")
        self.stop.wait(pick.uniform(0.05, 0.4))

    def maintain(self, state):
        """Another process that writes the same table."""
        log, pick = self.store / "log", state["random"]
        Http(self.http).ask(f"INSERT INTO log VALUES ({JUNK}, 0, 0), ({JUNK}, 1, 1)")
        kind = pick.choice(["compact", "compact", "compact all", "sort", "gc", "delete"])
        self.command(*{
            "compact": ["compact", log, "-q", "--wait=60s"],
            "compact all": ["compact", log, "-q", "--all", "--wait=60s"],
            "sort": ["compact", log, "-q", "--sort-by=client,seq", "--wait=60s"],
            "gc": ["gc", log, "-q", "--wait=60s"],
            "delete": ["query", self.store, f"DELETE FROM log WHERE client = {JUNK}", "-q",
                       "--wait=60s"],
        }[kind])
        self.watch.count("compactions, gc, DELETEs")
        self.stop.wait(pick.uniform(2, 10))

    def drop_query(self, state):
        """Goes within a query, which must end soon."""
        pick = state["random"]
        number = pick.getrandbits(60)
        sql = f"/* drop {number} */ {pick.choice(self.answers)[0]}"
        to = Postgres(self.pg) if pick.random() < 0.3 else Http(self.http)
        to.send(sql)
        self.stop.wait(pick.uniform(0, 1.5))
        if pick.random() < 0.5:  # It is reset, and not closed.
            to.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        to.close()
        gone = time.monotonic()
        # Its own text does not have what it looks for.
        sql = f"SELECT elapsed FROM system.processes WHERE query LIKE '%drop ' || '{number}%'"
        while self.to_server(state).ask(sql):
            if time.monotonic() - gone > 15:
                raise Wrong(f"a statement runs on, 15 s after its client is gone: drop {number}")
            time.sleep(0.02)
        self.watch.time("from a client's end to that of its statement", time.monotonic() - gone)
        self.stop.wait(pick.uniform(0.5, 3))

    def drop_body(self, state):
        """Goes within the rows of an INSERT, of which none may be stored."""
        pick = state["random"]
        rows = "".join(f"{CUT},{seq},0\n" for seq in range(pick.choice([10, 1000, 30_000])))
        body = f"INSERT INTO log FORMAT CSV\n{rows}".encode()
        part = body[:pick.randrange(1, len(body))]
        with socket.create_connection(("127.0.0.1", self.http), 60) as to:
            head = "POST / HTTP/1.1\r\nHost: x\r\n"
            if pick.random() < 0.5:
                to.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + part)
            else:
                to.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n{len(part):x}\r\n".encode() +
                           part + b"\r\n")
            self.stop.wait(pick.uniform(0, 0.5))
        self.watch.count("bodies cut off")
        self.stop.wait(pick.uniform(0.5, 3))

    def read_slowly(self, state):
        """Takes a large answer in small pieces; it must be complete."""
        to = Http(self.http)
        to.send("SELECT id, k, s FROM points")
        reply, bytes, lines = to.connection.getresponse(), 0, 0
        if reply.status == 503:
            raise Refused("busy")
        while not self.stop.is_set() and (piece := reply.read(128 << 10)):
            bytes, lines = bytes + len(piece), lines + piece.count(b"\n")
            time.sleep(0.2)
        if not self.stop.is_set() and (bytes, lines) != self.whole:
            raise Wrong(f"a slow reader has {bytes} bytes, {lines} lines, not {self.whole}")
        self.watch.count("large answers read slowly")
        to.close()

    def read_nothing(self, state):
        """Asks for a large answer and takes nothing of it: the statement must end in a minute."""
        name = f"stalled-{state['random'].getrandbits(60)}"
        to = Http(self.http, 200)
        to.connection.connect()
        to.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        to.send("SELECT * FROM wide", f"/?query_id={name}")
        begun = time.monotonic()
        sql = f"SELECT elapsed FROM system.processes WHERE query_id = '{name}'"
        self.stop.wait(1)
        while not self.stop.is_set() and self.to_server(state).ask(sql):
            if time.monotonic() - begun > 90:
                raise Wrong("a statement runs, 90 s after its client has stopped to read")
            self.stop.wait(1)
        self.watch.count("answers of which nothing was read")
        to.close()

    def loris(self, state):
        """Sends a head byte by byte; the server must not wait for it longer than 30 s."""
        with socket.create_connection(("127.0.0.1", self.http), 60) as to:
            begun = time.monotonic()
            to.sendall(b"GET /ping HTTP/1.1\r\nX-Slow: ")
            to.settimeout(state["random"].uniform(0.5, 4))
            while not self.stop.is_set():
                try:
                    to.sendall(b"x")
                    # An end, or a refusal.
                    to.recv(1000)
                    break
                except TimeoutError:
                    pass
                except ConnectionError:
                    break
                if time.monotonic() - begun > 45:
                    raise Wrong("a head has taken 45 s, and the connection is open")
        self.watch.count("slow heads ended")

    def slow_body(self, state):
        """Sends rows of an INSERT one by one, and goes before their end: none may be stored."""
        pick, sent = state["random"], "INSERT INTO log FORMAT CSV\n"
        with socket.create_connection(("127.0.0.1", self.http), 60) as to:
            to.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            for seq in range(pick.randrange(5, 60)):
                to.sendall(f"{len(sent):x}\r\n{sent}\r\n".encode())
                sent = f"{CUT},{seq},0\n"
                self.stop.wait(pick.uniform(0.3, 1.5))
        self.watch.count("bodies sent row by row")

    # The run.

    def prepare(self):
        self.begun = time.monotonic()
        for sql in TABLES:
            self.command("query", self.store, sql, "-q")
        ask = lambda sql: self.command("query", self.store, sql, "--format", "tsv", "-q",
                                       "--no-header").splitlines()
        self.answers = [(sql, [line.split("\t") for line in ask(sql)]) for sql in HEAVY]
        lines = ask("SELECT id, k, s FROM points")
        self.whole = sum(map(len, lines)) + len(lines), len(lines)

    def run(self):
        options = self.options
        self.prepare()
        self.start()
        threading.Thread(target=self.watch.sample, daemon=True).start()
        whole = options.minutes * 60
        alone = min(60, whole / 10)
        # One client at a time, each protocol in its turn, after some questions to get warm.
        for number in (0, 3):
            state, begun = {"random": random.Random(options.seed + number)}, time.monotonic()
            while time.monotonic() < begun + alone and not self.stop.is_set():
                self.watch.phase = ONE if time.monotonic() > begun + 2 else "warm-up"
                self.dashboard(state, number, 0.01)
        for number in range(options.dashboards):
            self.client(self.dashboard, number, options.pause)
        self.watch.phase = MANY
        self.stop.wait(alone)
        roles = [(self.heavy, 1), (self.inserter, options.inserters), (self.maintain, 1),
                 (self.drop_query, 2), (self.drop_body, 2), (self.read_slowly, 2),
                 (self.read_nothing, 1), (self.loris, 20), (self.slow_body, options.slow_bodies)]
        self.watch.load_begins()
        for work, many in roles:
            for number in range(many):
                self.client(work, *([number] if work == self.inserter else []))
        # Memory is watched for a long time, and then come the kills.
        rest = whole - 3 * alone
        calm = rest * 2 / 3 if options.kills else rest
        moments = sorted(random.Random(options.seed).uniform(calm, rest * 0.97)
                         for _ in range(options.kills))
        begun = checked = time.monotonic()
        while not self.stop.is_set() and time.monotonic() < begun + rest:
            self.stop.wait(0.1)
            if moments and time.monotonic() > begun + moments[0]:
                moments.pop(0)
                self.kill()
            elif time.monotonic() > checked + 60:
                self.check()
                checked = time.monotonic()
        self.watch.load_ends()
        if not self.faults:
            self.end()

    def end(self):
        """All clients go; the server must be as it was, and end in order with all rows."""
        self.stop.set()
        deadline = time.monotonic() + 90
        for thread in self.threads:
            thread.join(max(0, deadline - time.monotonic()))
        deadline = time.monotonic() + 30
        while (now := Http(self.http).metrics())["connections"] > 1 or now["statements_running"]:
            if time.monotonic() > deadline:
                raise Wrong(f"30 s after the last client: {now}")
            time.sleep(0.5)
        self.check()
        self.process.send_signal(signal.SIGTERM)
        if (code := self.process.wait(30)) != 0:
            raise Wrong(f"the server ended with {code}")
        if left := os.listdir(self.temp):
            raise Wrong(f"left in --temp-dir: {left}")
        self.command("verify", self.store, "-q")
        if faults := leftovers(self.sty, self.store, "log"):
            raise Wrong("; ".join(faults))
        if wrong := self.watch.memory()[1]:
            raise Wrong(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sty", type=Path, default=Path("target/release/sty"))
    parser.add_argument("--work", help="a new folder for the store, which is kept")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--dashboards", type=int, default=64)
    parser.add_argument("--pause", type=float, default=1, help="seconds between questions")
    parser.add_argument("--inserters", type=int, default=10)
    parser.add_argument("--slow-bodies", type=int, default=20, help="clients that send slowly")
    parser.add_argument("--memory", type=int, default=512, help="the server's limit, MiB")
    parser.add_argument("--disk", type=int, default=5, help="what the store may take, GiB")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    sys.setswitchinterval(0.0005)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as scratch:
        options.work = options.work or scratch
        os.makedirs(options.work, exist_ok=True)
        test = Test(options)
        try:
            test.run()
        except (Wrong, Refused, OSError) as wrong:
            test.fault(str(wrong) or repr(wrong))
        finally:
            if test.process:
                test.process.kill()
        test.watch.summary()
        sys.exit(1 if test.faults else 0)


if __name__ == "__main__":
    main()
