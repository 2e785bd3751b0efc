#!/usr/bin/env python3
"""Random files of every format whose rows are known, loaded and read, beside DuckDB.

    python3 tests/suites/files.py --sty target/release/sty --cases 10000 --seed 1

Each case is made so that the documentation leaves one reading of it: names, types and every value
are known before. It is loaded with `sty ingest` into a table of its own, and read by FROM where that
has the options. Rows, their order, names and types must be those; rows that are left out must be
those that are bad, by line and text. What DuckDB makes of the same file is counted beside. A case
that is wrong is kept with its files and its command. The exit code is 1 if anything was wrong.
"""

import argparse
import csv
import datetime
import random
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path

import duckdb

from compare import plain
from columnar_files import ColumnarFiles
from csv_files import CsvFiles
from json_files import JsonFiles
from sty import Sty

# Cases whose tables are read by one process.
TOGETHER = 40


class Suite:
    def __init__(self, options):
        self.options, self.sty = options, Sty(options.sty, options.threads, timeout=600)
        self.counts, self.duck, self.wrong, self.rows = Counter(), Counter(), 0, 0
        self.connection = duckdb.connect(config={"threads": 1})
        self.kept = Path(options.keep)

    def run(self):
        started, first = time.time(), self.options.first
        numbers = range(first, first + self.options.cases)
        for at in range(0, len(numbers), TOGETHER):
            if time.time() - started > self.options.seconds or self.wrong >= self.options.failures:
                break
            with tempfile.TemporaryDirectory(dir=self.options.work) as folder:
                try:
                    self.some(Path(folder), numbers[at:at + TOGETHER])
                except KeyboardInterrupt:
                    break
        print(f"{'kind':24} {'cases':>6} {'refused rightly':>16} | DuckDB: agrees  differs  refuses  not asked")
        for kind in sorted({kind for kind, _ in self.counts}):
            duck = lambda what: self.duck[kind, what]
            print(f"{kind:24} {self.counts[kind, 'cases']:6} {self.counts[kind, 'refused']:16} | {duck('agrees'):14} {duck('differs'):8} "
                  f"{duck('refuses'):8} {duck('not asked'):10}")
        cases = sum(count for (_, what), count in self.counts.items() if what == "cases")
        print(f"files: {cases} cases of seed {self.options.seed}, {self.rows} rows compared, {self.wrong} wrong, {time.time() - started:.0f} s")
        return 1 if self.wrong else 0

    def some(self, folder, numbers):
        """Loads some cases, and then reads all their tables at once."""
        loaded = []
        for number in numbers:
            case = make(self.options.seed, number, folder)
            self.counts[case.kind, "cases"] += 1
            if fault := self.load(case, number, folder):
                self.fail(case, number, fault)
            elif case.refused is None and not (case.may_refuse and case.may_refuse in case.stderr):
                loaded.append((case, number))
            else:
                self.counts[case.kind, "refused"] += 1
        self.read(loaded, folder)
        for case, number in loaded:
            self.ask_duck(case, number)

    # ---- loads

    def command(self, case, number, folder):
        rejects = folder / f"bad{number}.csv"
        options = [str(rejects) if option == "REJECTS" else option for option in case.options]
        files = ["-"] if case.input else list(map(str, case.files))
        return ["ingest", str(folder / "db" / f"t{number}"), *options, *files], rejects

    def load(self, case, number, folder):
        """None, or what is wrong with the load itself."""
        arguments, rejects = self.command(case, number, folder)
        if case.input:
            code, stderr = self.feed(arguments, case.input)
        else:
            done = self.sty.run(*arguments)
            code, stderr = done.returncode, done.stderr
        case.stderr = stderr
        if "panicked" in stderr or code not in (0, 1, 2, 4, 5, 6):
            return f"exit {code}: {stderr}"
        if case.refused is not None:
            if code == 0:
                return "it was loaded, and should have been refused"
            return None if any(part in stderr for part in case.refused) else f"the message names none of {case.refused}: {stderr}"
        if code != 0:
            return None if case.may_refuse and case.may_refuse in stderr else f"exit {code}: {stderr.strip()}"
        for note in case.notes:
            if note not in stderr:
                return f"no note has {note!r}: {stderr}"
        return self.check_rejects(case, rejects, stderr)

    def feed(self, arguments, pieces):
        """Writes pieces into a load that commits on the way."""
        process = subprocess.Popen([self.sty.binary, *arguments], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            for piece in pieces:
                process.stdin.write(piece)
                process.stdin.flush()
                time.sleep(0.01)
            process.stdin.close()
        except BrokenPipeError:
            pass
        stderr = process.stderr.read().decode()
        return process.wait(timeout=60), stderr

    def check_rejects(self, case, file, stderr):
        if not case.rejects:
            return f"rows were left out: {stderr}" if "left out" in stderr and "rejected" in stderr else None
        if "REJECTS" not in case.options:
            count = f"{len(case.rejects)} rejected"
            return None if count in stderr else f"not {count}: {stderr}"
        with open(file, newline="", errors="surrogateescape") as text:
            found = [(int(row["line"]), row["raw"]) for row in csv.DictReader(text)]
        return None if found == case.rejects else f"rejected {found}, not {case.rejects}"

    # ---- answers

    def read(self, loaded, folder):
        statements, asked = [], []
        for case, number in loaded:
            for source in [f"t{number}", case.sql]:
                if source:
                    statements += [f"DESCRIBE SELECT * FROM {source}", f"SELECT * FROM {source}"]
                    asked.append((case, number, source))
        answers = iter(self.sty.answers(folder / "db", statements)) if statements else iter(())
        wrong = set()
        for case, number, source in asked:
            described, rows = next(answers), next(answers)
            fault = self.check(case, described, rows)
            if fault and number not in wrong:
                wrong.add(number)
                self.fail(case, number, f"FROM {source}: {fault}")

    def check(self, case, described, rows):
        if described.error or rows.error:
            return (described.error or rows.error).splitlines()[-1]
        columns = [(row[0], row[1]) for row in described.rows]
        right = list(zip(case.names, case.types))
        if columns != right:
            return f"columns {columns}, not {right}"
        self.rows += len(rows.rows)
        if len(rows.rows) != len(case.rows):
            return f"{len(rows.rows)} rows, not {len(case.rows)}"
        for at, (found, wanted) in enumerate(zip(rows.rows, case.rows)):
            for name, data_type, a, b in zip(case.names, case.types, found, wanted):
                if same(a, data_type) != same(b, data_type):
                    return f"row {at}, {name} ({data_type}): {a!r}, not {b!r}"
        return None

    # ---- DuckDB

    def ask_duck(self, case, number):
        outcome = "not asked"
        if case.duck:
            try:
                relation = self.connection.execute(f"SELECT * FROM {case.duck}")
                found = [tuple(map(plain_text, row)) for row in relation.fetchall()]
                names = [column[0] for column in relation.description]
                wanted = [tuple(map(plain_text, row)) for row in case.rows]
                outcome = "agrees" if found == wanted and (names == case.names or case.names[0] == "column0") else "differs"
            except Exception:  # noqa: BLE001: whatever it is, it is not ours
                outcome = "refuses"
        self.duck[case.kind, outcome] += 1

    # ---- what is wrong

    def fail(self, case, number, fault):
        self.wrong += 1
        kept = self.kept / f"case-{self.options.seed}-{number}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for file in case.files:
            shutil.copy(file, kept)
        arguments, _ = self.command(case, number, Path("."))
        arguments = [str(kept / Path(each).name) if "/" in each and Path(each) in case.files else each for each in arguments]
        (kept / "command").write_text(f"sty {shlex.join(arguments)}\n{case.sql}\n{case.duck}\n{fault}\n", errors="replace")
        print(f"WRONG seed {self.options.seed} case {number} ({case.kind}): {fault[:600]}\n   sty {shlex.join(arguments)}", flush=True)


def make(seed, number, folder):
    """The case of this number, the same for the same seed."""
    rng = random.Random(f"{seed} {number}")
    maker = rng.choices([CsvFiles, JsonFiles, ColumnarFiles], [60, 20, 20])[0]
    return maker(rng, folder).case(number)


def same(value, data_type):
    """A value that is equal to others that mean the same in a column of this type."""
    if value is None:
        return None
    if data_type.startswith("float"):
        number = float(value)
        return repr(struct.unpack("f", struct.pack("f", number))[0] if data_type == "float32" else number)
    if data_type.startswith("decimal"):
        return Decimal(str(value)).normalize()
    if data_type.startswith(("time", "date")):
        return without_zeros(value)
    return value


def without_zeros(text):
    """A time without the zeros at the end of its fraction."""
    zone = "+00:00" if text.endswith("+00:00") else ""
    text = text.removesuffix(zone) if zone else text
    return (text.rstrip("0").rstrip(".") if "." in text else text) + zone


def plain_text(value):
    """A value of DuckDB, or one that is known, as one of both."""
    if isinstance(value, str) and value[:4].isdigit() and "T" in value:
        return without_zeros(value).removesuffix("T00:00:00")
    if isinstance(value, datetime.datetime):
        if value.tzinfo:
            value = value.astimezone(datetime.timezone.utc)
        return without_zeros(value.isoformat()).removesuffix("T00:00:00")
    found = plain(value)
    return without_zeros(found) if isinstance(value, datetime.time) else found


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sty", default="target/release/sty")
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="begin with this case, as a failure names it")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this long")
    parser.add_argument("--failures", type=int, default=20, help="stop after this number of wrong cases")
    parser.add_argument("--keep", default=Path(tempfile.gettempdir()) / "sty-wrong-files", help="where the files of wrong cases are copied [%(default)s]")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", help="a directory for files and stores [a temporary one]")
    return parser


def main(given=None):
    options = arguments().parse_args(given)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as temporary:
        options.work = options.work or temporary
        return Suite(options).run()


if __name__ == "__main__":
    sys.exit(main())
