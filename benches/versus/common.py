"""Shared by ingest.py and versus.py: options, running commands, generated data, the machine, the
queries."""

import argparse
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE / "peers.py"
QUERIES = HERE / "queries"


def common_options(about, reports, rows, files):
    """A parser with the options that both scripts have, and these defaults."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--sty",
                        type=Path,
                        default=HERE / "../../target/release/sty",
                        help="the binary")
    parser.add_argument("--work",
                        type=Path,
                        default=HERE / "../../target/versus",
                        help="data and stores go here")
    parser.add_argument("--out", type=Path, help=f"where {reports} go [the work directory]")
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--files", type=int, default=files)
    parser.add_argument("--seed", type=int, default=1)
    return parser


def parse(parser):
    """The options as given, with absolute paths. The binary must exist."""
    parsed = parser.parse_args()
    parsed.work, parsed.sty = parsed.work.resolve(), parsed.sty.resolve()
    parsed.out = (parsed.out or parsed.work).resolve()
    if not parsed.sty.exists():
        parser.error(
            f"{parsed.sty} does not exist: build it (cargo build --release) or name it with --sty")
    return parsed


def run(command, output=subprocess.DEVNULL, timeout=3600):
    """Runs a command; returns seconds, peak resident bytes and, if it failed, why."""
    # Writes left over from earlier work must not count here.
    os.sync()
    errors = tempfile.TemporaryFile()
    started = time.monotonic()
    process = subprocess.Popen([str(part) for part in command],
                               stdout=output,
                               stderr=errors,
                               stdin=subprocess.DEVNULL)
    deadline = started + timeout
    while True:
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            process.kill()
            deadline = math.inf
        time.sleep(0.002)
    seconds = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    errors.seek(0)
    message = errors.read().decode(errors="replace").strip()
    unit = 1 if sys.platform == "darwin" else 1024
    result = {"seconds": round(seconds, 3), "peak_bytes": usage.ru_maxrss * unit,
              "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3)}
    if process.returncode != 0:
        result["error"] = f"exit {process.returncode}: {next(iter(message.splitlines()), '')[:300]}"
    return result


def size(path):
    """Bytes of the files under a path."""
    path = Path(path)
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*")
               if file.is_file() and not file.is_symlink())


def remove(path):
    path = Path(path)
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


def version(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def peer_command(engine, *rest):
    return [sys.executable, PEERS, engine, *rest]


def sty_version(options):
    return (version([options.sty, "--version"]) or "").removeprefix("sty ")


def peer_versions(engines):
    """The versions of the peers; None for one that cannot be imported."""
    return {engine: version(peer_command(engine, "version")) for engine in engines}


def machine():
    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(
            (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": platform.platform(), "processor": model or platform.processor(),
        "cores": os.cpu_count(), "memory_bytes": memory
    }


def generated_files(options, format):
    """The generated files of a format; they are made once and kept."""
    directory = options.work / f"data-{options.rows}-{options.files}-{options.seed}" / format
    if not directory.exists():
        print(f"generating {options.rows} trips as {format}", file=sys.stderr)
        part = directory.with_name(directory.name + ".part")
        remove(part)
        command = [
            options.sty, "gen", "trips", "--rows", options.rows, "--files", options.files, "--seed",
            options.seed, "--format", format, "-o", part
        ]
        done = run(command)
        if "error" in done:
            sys.exit(f"sty gen failed: {done['error']}")
        part.rename(directory)
    return sorted(directory.iterdir())


def queries(name):
    """The statements of a set without comments, and whether its rows may tie (`-- ties`)."""
    lines = (QUERIES / f"{name}.sql").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    return [" ".join(sql.split()) for sql in text.split(";") if sql.strip()], "-- ties" in lines
