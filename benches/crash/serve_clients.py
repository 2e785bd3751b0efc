"""For serve.py: clients by hand, and questions whose answers are known."""

import http.client
import re
import socket
import struct

ROWS, WIDE = 1_000_000, 5_000_000
# Rows in an order in which statistics of blocks rule nothing out.
TABLES = [
    f"""CREATE TABLE points AS SELECT value AS id, value % 1000 AS k,
        concat('name ', value % 77) AS s FROM generate_series(1, {ROWS})
        ORDER BY value * 7919 % 1000003""",
    f"""CREATE TABLE wide AS SELECT value AS id, value * 7919 % 1000003 AS r,
        md5(CAST(value AS VARCHAR)) AS t FROM generate_series(1, {WIDE})""",
    "CREATE TABLE log (client BIGINT, seq BIGINT, value BIGINT)",
]
HEAVY = [
    "SELECT sum(n * (id % 7)) FROM (SELECT id, row_number() OVER (ORDER BY t) AS n FROM wide)",
    """SELECT count(*), sum(n), max(i) FROM (SELECT concat(t, r) AS g, count(*) AS n, max(id) AS i
        FROM wide GROUP BY g)""",
    "SELECT count(*), sum(id) FROM (SELECT id FROM wide ORDER BY t, r LIMIT 4000000)",
    "SELECT count(*), sum(id), max(t) FROM wide WHERE t LIKE '%77%ab%'",
]


class Wrong(Exception):
    """The server has done something that it must not do."""


class Refused(Exception):
    """The server is busy, and says so."""


class Http:
    """A client that keeps its connection."""

    def __init__(self, port, timeout=60):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def send(self, sql, path="/"):
        self.connection.request("POST", path, sql.encode())
        self.socket = self.connection.sock

    def ask(self, sql):
        """The rows of the answer."""
        self.send(sql)
        reply = self.connection.getresponse()
        text = reply.read().decode()
        if reply.status == 503 and reply.headers["Retry-After"]:
            raise Refused("busy")
        if reply.status == 500 and "MEMORY_LIMIT_EXCEEDED" in text:
            raise Refused("memory")
        if reply.status != 200 or "__exception__" in text:
            raise Wrong(f"{sql[:200]}: {reply.status} {text[:1000]}")
        return [line.split("\t") for line in text.splitlines()]

    def metrics(self):
        self.connection.request("GET", "/metrics")
        text = self.connection.getresponse().read().decode()
        return {name: float(value) for name, value in re.findall(r"^sty_(\w+) (\S+)$", text, re.M)}

    def close(self):
        self.connection.close()


class Postgres:
    """The same by PostgreSQL's protocol: simple queries, values as text."""

    def __init__(self, port, timeout=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.file = self.socket.makefile("rb")
        start = b"\0\3\0\0user\0crash\0database\0default\0\0"
        self.socket.sendall(struct.pack("!i", len(start) + 4) + start)
        self.rows("start")

    def send(self, sql):
        text = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!i", len(text) + 4) + text)

    def ask(self, sql):
        self.send(sql)
        return self.rows(sql)

    def rows(self, sql):
        rows, error = [], None
        while True:
            head = self.file.read(5)
            if len(head) < 5:
                raise ConnectionError(f"closed: {error}")
            kind, body = head[:1], self.file.read(struct.unpack("!i", head[1:])[0] - 4)
            if kind == b"D":
                row, at = [], 2
                for _ in range(struct.unpack_from("!h", body)[0]):
                    size, at = struct.unpack_from("!i", body, at)[0], at + 4
                    row.append(body[at:at + size].decode())
                    at += max(size, 0)
                rows.append(row)
            elif kind == b"E":
                error = body.decode(errors="replace").replace("\0", " ")
            elif kind == b"Z":
                break
        if error and " C53" in error:
            raise Refused("memory" if "C53200" in error else "busy")
        if error:
            raise Wrong(f"{sql[:200]}: {error}")
        return rows

    def close(self):
        self.file.close()
        self.socket.close()


def question(pick):
    """A short query of a dashboard, its kind, and its answer."""
    kind, x = pick.randrange(4), pick.randrange(1, ROWS - 10_000)
    if kind == 0:
        return "point", f"SELECT k, s FROM points WHERE id = {x}", [[x % 1000, f"name {x % 77}"]]
    if kind == 1:
        k = x % 1000
        first, n = k or 1000, ROWS // 1000
        total = n * first + 1000 * n * (n - 1) // 2
        sql = f"SELECT count(*), sum(id), max(id) FROM points WHERE k = {k}"
        return "sum", sql, [[n, total, first + 1000 * (n - 1)]]
    if kind == 2:
        sql = (f"SELECT k % 10 AS d, count(*), sum(id) FROM points WHERE id BETWEEN {x} AND "
               f"{x + 9999} GROUP BY d ORDER BY d")
        firsts = [x + (d - x) % 10 for d in range(10)]
        return "10 groups", sql, [[d, 1000, 1000 * firsts[d] + 4_995_000] for d in range(10)]
    rows = []
    for q in range(4):
        first = x + 1 + (q - x - 1) % 4
        n = (ROWS - first) // 4 + 1
        rows.append([q, n * first + 2 * n * (n - 1)])
    sql = f"SELECT k % 4 AS q, sum(id) FROM points WHERE id > {x} GROUP BY q ORDER BY q"
    return "4 groups", sql, rows


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
