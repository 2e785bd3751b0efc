#!/usr/bin/env python3
"""Requests a second beside other servers: `sty serve`, nginx's static answer, and ClickHouse. See README.md."""

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

from common import machine, parse, sty_version, version

ROWS = 1_000_000
TABLE = (f"CREATE TABLE points AS SELECT value AS id, value % 1000 AS k, value * 0.5 AS v, "
         f"concat('name ', value % 77) AS s FROM generate_series(1, {ROWS})")
THEIR_TABLE = (f"CREATE TABLE points ENGINE = MergeTree ORDER BY id AS SELECT number + 1 AS id, "
               f"id % 1000 AS k, id * 0.5 AS v, concat('name ', toString(id % 77)) AS s "
               f"FROM system.numbers LIMIT {ROWS}")
GROUPS = "SELECT k, sum(v) FROM points GROUP BY k FORMAT Null"

# Each request has another id, so that no text comes twice.
LUA = """
local base, rest, step = "%s", "%s", 7919
local id = 1
request = function()
  id = (id + step) %% %d
  return wrk.format("GET", base .. (id + 1) .. rest)
end
"""


class Server:
    """A server in a process of its own, for as long as the context lasts."""

    def __init__(self, name, command, port, ready, tls=False):
        self.name, self.command, self.port, self.ready, self.tls = name, command, port, ready, tls

    @property
    def base(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(part) for part in self.command],
                                        stdout=self.log,
                                        stderr=self.log,
                                        start_new_session=True)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return self
            time.sleep(0.05)
        self.log.seek(0)
        sys.exit(f"{self.name} did not start: {self.log.read().decode(errors='replace')[-2000:]}")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ask(self, sql):
        """Sends a statement and returns the answer's text."""
        request = urllib.request.Request(self.base, data=sql.encode())
        with urllib.request.urlopen(request, timeout=600) as reply:
            return reply.read().decode()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def nginx(work, tls):
    """nginx, whose answer is a constant."""
    port = free_port()
    secure = f" ssl; ssl_certificate {work}/cert.pem; ssl_certificate_key {work}/key.pem" if tls else ""
    (work / f"nginx-{port}.conf").write_text(f"""
worker_processes {os.cpu_count()};
worker_rlimit_nofile 20000;
daemon off;
pid {work}/nginx-{port}.pid;
error_log {work}/nginx.log;
events {{ worker_connections 10000; }}
http {{
  access_log off;
  keepalive_requests 100000000;
  client_body_temp_path {work}/body; proxy_temp_path {work}/proxy; fastcgi_temp_path {work}/fcgi;
  uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
  server {{
    listen 127.0.0.1:{port} backlog=8192{secure};
    location / {{ return 200 "Ok.\\n"; }}
  }}
}}
""")
    command = [shutil.which("nginx"), "-c", work / f"nginx-{port}.conf", "-p", work]
    return Server("nginx", command, port, "/ping", tls)


def clickhouse(work):
    """ClickHouse of the system's packages, with a configuration of its own."""
    port, native, data = free_port(), free_port(), work / "clickhouse"
    data.mkdir()
    (work / "users.xml").write_text("""<yandex>
<profiles><default><max_memory_usage>10000000000</max_memory_usage></default></profiles>
<users><default><password></password><networks><ip>::/0</ip></networks>
<profile>default</profile><quota>default</quota></default></users>
<quotas><default/></quotas></yandex>
""")
    (work / "config.xml").write_text(f"""<yandex>
<logger><level>error</level><log>{work}/ch.log</log><errorlog>{work}/ch.err</errorlog></logger>
<http_port>{port}</http_port><tcp_port>{native}</tcp_port><listen_host>127.0.0.1</listen_host>
<max_connections>10000</max_connections><keep_alive_timeout>60</keep_alive_timeout>
<max_concurrent_queries>10000</max_concurrent_queries>
<path>{data}/</path><tmp_path>{data}/tmp/</tmp_path><users_config>{work}/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>1000000000</mark_cache_size></yandex>
""")
    command = [shutil.which("clickhouse-server"), f"--config-file={work}/config.xml"]
    return Server("ClickHouse", command, port, "/ping")


def sty(options, work, tls):
    port = free_port()
    more = ["--tls-cert", work / "cert.pem", "--tls-key", work / "key.pem"] if tls else []
    command = [options.sty, "serve", work / "store", "--http", port, *more]
    return Server("sty", command, port, "/ping", tls)


def wrk(server, path, connections, seconds, close, lua):
    """Requests a second, the 90th percentile of their times in ms, and how many went wrong."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "--latency"]
    if close:
        command += ["-H", "Connection: close"]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        if lua:
            base, rest = path.split("ID")
            script.write(LUA % (base, rest, ROWS))
            script.flush()
            command += ["-s", script.name]
        said = subprocess.run([*command, server.base + ("/" if lua else path)],
                              capture_output=True,
                              text=True).stdout
    rate = re.search(r"Requests/sec:\s*([\d.]+)", said)
    slow = re.search(r"90%\s+([\d.]+)(us|ms|s|m)", said)
    unit = {"us": 1e-3, "ms": 1, "s": 1e3, "m": 6e4}
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    broken = re.search(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", said)
    return {
        "rate": float(rate[1]) if rate else 0.0,
        "p90_ms": round(float(slow[1]) * unit[slow[2]], 2) if slow else None,
        "refused": int(wrong[1]) if wrong else 0,
        "timeouts": int(broken[4]) if broken else 0,
        "broken": sum(map(int, broken.groups()[:3])) if broken else 0,
    }


# What is asked: the path, whether each request has another id, and who can be asked.
POINT = "SELECT s FROM points WHERE id = "
REQUESTS = {
    "ping": ("/ping", False, ["sty", "nginx", "ClickHouse"]),
    "SELECT 1": ("/?query=" + quote("SELECT 1"), False, ["sty", "ClickHouse"]),
    "point query": ("/?query=" + quote(POINT) + "ID", True, ["sty", "ClickHouse"]),
    "point query, a parameter":
    ("/?query=" + quote(POINT + "{x:Int64}") + "&param_x=ID", True, ["sty"]),
    "1,000 groups": ("/?query=" + quote(GROUPS.replace(" FORMAT Null", "")), False, ["sty", "ClickHouse"]),
}


def measure(options, servers):
    """All requests of all servers, which take turns; of the rounds the best one counts."""
    results = []
    for name, (path, lua, asked) in REQUESTS.items():
        if options.requests and name not in options.requests.split(","):
            continue
        for connections in options.connections:
            for close in (False, True):
                # Ports in TIME-WAIT would run out.
                if close and (connections > 64 or not options.close):
                    continue
                for tls in (False, True):
                    if tls and (name not in ("ping", "SELECT 1") or not options.tls):
                        continue
                    row = {"request": name, "connections": connections, "close": close, "tls": tls}
                    for _ in range(options.rounds):
                        for server in servers:
                            if server.name not in asked or server.tls != tls:
                                continue
                            done = wrk(server, path, connections, options.seconds, close, lua)
                            best = row.setdefault(server.name, done)
                            if done["rate"] > best["rate"]:
                                row[server.name] = done
                    results.append(row)
                    print(json.dumps(row), file=sys.stderr)
    return results


def markdown(results, versions, about):
    names = ["sty", "nginx", "ClickHouse"]
    out = [
        "# Requests a second", "",
        f"{about['processor']}, {about['cores']} cores, which the servers share with wrk. "
        + "; ".join(f"{name} {text}" for name, text in versions.items() if text) + ".", "",
        "Times are the 90th percentile in ms; (n) are answers that were refused, lost or late.", "",
        "| | connections | " + " | ".join(names) + " |",
        "| --- | ---: | " + " | ".join("---:" for _ in names) + " |"
    ]
    for row in results:
        label = row["request"] + (", https" if row["tls"] else "")
        label += ", no keep-alive" if row["close"] else ""
        cells = []
        for name in names:
            done = row.get(name)
            if not done:
                cells.append("")
                continue
            wrong = done["refused"] + done["timeouts"] + done["broken"]
            cells.append(f"{done['rate']:,.0f}, {done['p90_ms']} ms" + (f" ({wrong})" if wrong else ""))
        out.append(f"| {label} | {row['connections']} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    here = Path(__file__).resolve().parent
    parser.add_argument("--sty", type=Path, default=here / "../../target/release/sty")
    parser.add_argument("--work", type=Path, default=here / "../../target/versus")
    parser.add_argument("--out", type=Path, help="where serve.json and serve.md go [the work directory]")
    parser.add_argument("--connections", default="1,64,256,1000,4000")
    parser.add_argument("--requests", help="comma-separated, of: " + ", ".join(REQUESTS))
    parser.add_argument("--seconds", type=int, default=4, help="of each run")
    parser.add_argument("--rounds", type=int, default=2, help="the best one counts")
    parser.add_argument("--servers", default="sty,nginx,ClickHouse")
    parser.add_argument("--no-tls", dest="tls", action="store_false")
    parser.add_argument("--no-close", dest="close", action="store_false")
    parsed = parse(parser)
    parsed.connections = [int(count) for count in parsed.connections.split(",")]
    return parsed


def main():
    chosen = options()
    if not shutil.which("wrk"):
        sys.exit("wrk is not installed")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    chosen.out.mkdir(parents=True, exist_ok=True)
    wanted = chosen.servers.split(",")
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        work = Path(directory)
        work.chmod(0o755)
        subprocess.run([
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", work / "key.pem", "-out",
            work / "cert.pem"
        ], check=True, capture_output=True)
        servers, versions = [], {}
        if "sty" in wanted:
            subprocess.run([chosen.sty, "query", work / "store", TABLE], check=True)
            servers += [sty(chosen, work, tls) for tls in ((False, True) if chosen.tls else (False,))]
            versions["sty"] = sty_version(chosen)
        if "nginx" in wanted and shutil.which("nginx"):
            servers += [nginx(work, tls) for tls in ((False, True) if chosen.tls else (False,))]
            versions["nginx"] = subprocess.run(["nginx", "-v"], capture_output=True,
                                               text=True).stderr.strip().rpartition("/")[2]
        if "ClickHouse" in wanted and shutil.which("clickhouse-server"):
            servers.append(clickhouse(work))
            said = version(["clickhouse-server", "--version"]) or ""
            versions["ClickHouse"] = (re.search(r"[\d.]+\d", said) or [""])[0]
        for server in servers:
            stack.enter_context(server)
        for server in servers:
            if server.name == "ClickHouse":
                server.ask(THEIR_TABLE)
            if server.name != "nginx" and not server.tls:
                counted = server.ask("SELECT count(*), sum(k) FROM points").split()
                assert counted == ["1000000", "499500000"], counted
        results = measure(chosen, servers)
    report = {"machine": machine(), "versions": versions, "results": results}
    (chosen.out / "serve.json").write_text(json.dumps(report, indent=1) + "\n")
    text = markdown(results, versions, machine())
    (chosen.out / "serve.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
