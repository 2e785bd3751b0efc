#!/usr/bin/env python3
"""Random sequences of maintenance, with a mirror in DuckDB; some steps are killed half way.

    python3 tests/suites/maintain.py --sty target/release/sty --sequences 300 --seed 1

Rows are ingested from CSV, JSON, Parquet and Arrow, inserted by SQL, deleted and updated; tables
are compacted, sorted and altered, partitions dropped, generations freed. After each step the whole
table is compared with the mirror, and so are some aggregates. A step that is killed (SIGKILL) must
leave the table as it was before or as it should be after the step, a step that is refused as it was
before. The exit code is 1 if anything was wrong.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import duckdb

from compare import difference
from expressions import LEFT_OUT
from mirror import Mirror
from rows import random_rows, write
from steps import Conditions, Steps
from sty import Sty

sys.path.append(str(Path(__file__).resolve().parents[2] / "benches" / "crash"))
from crash import leftovers  # noqa: E402

# The seconds that a step may run before it is killed.
LONGEST = 0.06


class Wrong(Exception):
    pass


class Sequence:
    """The life of one table."""

    def __init__(self, suite, number, folder):
        self.suite, self.folder = suite, Path(folder)
        self.rng = random.Random(f"{suite.options.seed} {number}")
        self.mirror, self.log = Mirror(), []
        self.steps = Steps(self.rng, suite.sty, self.mirror, self.folder, suite.options.leave_out)
        self.kills = suite.options.kills and self.rng.random() < 0.6
        self.refused = 0
        self.other()

    def other(self):
        """The table that subqueries read, the same here and in the mirror."""
        rows = random_rows(self.rng, dict(Conditions.OTHER), self.rng.choice([1, 20, 300]))
        file = write(rows, "parquet", self.folder, "other")
        self.suite.sty.must("ingest", self.folder / "db" / "other", file, "-q")
        self.mirror.connection.register("arriving", rows)
        self.mirror.connection.execute("CREATE TABLE other AS SELECT * FROM arriving")
        self.mirror.connection.unregister("arriving")

    def run(self, length):
        self.step(self.steps.first(), kill=False)
        for _ in range(length):
            step = self.possible()
            self.step(step, kill=self.kills and self.rng.random() < 0.5)
        faults = leftovers(self.suite.sty.binary, self.folder / "db", self.steps.name)
        if faults:
            raise Wrong("; ".join(faults))

    def possible(self):
        """A step that the mirror can do; it is done in `after` there."""
        while True:
            step = self.steps.next()
            self.mirror.begin()
            try:
                step.mirror()
                return step
            except duckdb.Error as error:
                self.suite.left_out[str(error).split("\n")[0][:100]] += 1

    def step(self, step, kill):
        if not self.mirror.exists:
            self.mirror.begin()
            step.mirror()
        command = [self.suite.sty.binary, *map(str, step.arguments)]
        self.log.append(" ".join(command[1:]) + (f" <<< {step.text}" if step.text else ""))
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, stderr = process.communicate(step.text, timeout=self.rng.uniform(0, LONGEST) if kill else 120)
            self.finished(step, process.returncode, stderr)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            if not kill:
                raise Wrong("took more than two minutes") from None
            self.killed(step)
        self.suite.steps[step.kind] += 1
        self.compare()

    def finished(self, step, code, stderr):
        """Checks a step that was not killed: its result, or the table as before if it was refused.
        """
        if code != 0:
            self.suite.refuse(f"{step.kind}: exit {code}: {stderr.strip()}", self.log[-1])
            self.log[-1] += "   -- refused"
            if "panicked" in stderr or code not in (1, 2, 4, 5, 6):
                raise Wrong(f"exit {code}: {stderr.strip()}")
            if not self.mirror.exists:
                raise Wrong(f"the first ingest failed: {stderr.strip()}")
            return
        self.settle(step)

    def settle(self, step):
        """Makes the mirror follow a step that was done."""
        self.mirror.commit()
        self.steps.done(step)

    def killed(self, step):
        self.suite.kills[step.kind] += 1
        self.log[-1] += "   -- killed"
        if step.commits:
            return self.go_on(step)
        new = step.new_name
        if new:
            there = self.suite.sty.run("tables", self.folder / "db", "--format", "csv").stdout
            done = f"\n{new}," in there
        else:
            done = self.is_after()
        # In either case the table is now compared with the mirror.
        if done:
            self.settle(step)

    def go_on(self, step):
        """After a kill between commits, the table has the rows of some; the same command has the rest.
        """
        before = self.mirror.ask("SELECT count(*) FROM {t}")[0][0]
        rows = self.ask(["SELECT count(*) FROM {t}"])[0]
        possible = [before + sum(step.commits[:at]) for at in range(len(step.commits) + 1)]
        if rows.error or rows.rows[0][0] not in possible:
            raise Wrong(f"after a kill, the table has {rows.error or rows.rows[0][0]} rows, not one of {possible}")
        if rows.rows[0][0] == possible[-1]:
            # Loaded, and known to be so.
            step.arguments = [*step.arguments, "--if-loaded", "skip"]
        self.log.append("   the same once more")
        done = self.suite.sty.run(*step.arguments)
        if rows.rows[0][0] == before and done.returncode != 0:
            return self.finished(step, done.returncode, done.stderr)
        if done.returncode != 0:
            raise Wrong(f"the load cannot go on: {done.stderr.strip()}")
        self.settle(step)

    # ---- comparisons

    def is_after(self):
        """Whether the table is as the step should have left it."""
        rows, columns = self.whole(self.mirror.columns_after)
        found, names = self.ask([rows, columns])
        right = self.mirror.ask(rows, "after")
        same = found.error is None and {name for name, in names.rows} == set(self.mirror.columns_after)
        return same and difference(found.rows, right) is None

    def whole(self, columns):
        """Statements for all rows and for the names of the columns."""
        return (f"SELECT {', '.join(columns)} FROM {{t}}",
                f"SELECT column_name FROM information_schema.columns WHERE table_name = '{self.steps.name}'")

    def ask(self, statements, native=True):
        name = self.steps.name
        return self.suite.sty.answers(self.folder / "db", [sql.format(t=name) for sql in statements], native)

    def compare(self):
        """Compares the whole table, its columns, and the answers to more questions."""
        columns = self.mirror.columns
        rows, names = self.whole(columns)
        right = [(rows, self.mirror.ask(rows)), (names, [(name,) for name in columns])]
        for sql in self.questions(columns):
            try:
                right.append((sql, self.mirror.ask(sql)))
            except duckdb.Error:
                pass
        for native in [True, False]:
            for (sql, wanted), answer in zip(right, self.ask([sql for sql, _ in right], native)):
                self.suite.checks += 1
                if answer.error:
                    self.suite.refuse("query: " + answer.error, sql)
                    if sql == rows:
                        raise Wrong(f"{sql}: {answer.error}")
                elif bad := difference(answer.rows, wanted):
                    raise Wrong(f"native {'on' if native else 'off'}: {sql.format(t=self.steps.name)}: {bad}")

    def questions(self, columns):
        """Statements that the store may answer from statistics, and conditions by which it prunes.
        """
        conditions = Conditions(self.rng, self.suite.options.leave_out)
        for name, kind in self.rng.sample(list(columns.items()), min(3, len(columns))):
            sums = f", sum({name})" if kind in ("int", "float", "decimal") else ""
            least = f", min({name}), max({name})" if kind != "bool" else ""
            yield f"SELECT count(*), count({name}), count(DISTINCT {name}){sums}{least} FROM {{t}}"
            yield f"SELECT {name}, count(*) FROM {{t}} GROUP BY {name}"
        for _ in range(3):
            yield f"SELECT count(*) FROM {{t}} WHERE {conditions.whole(list(columns.items()))}"
        yield f"SELECT {', '.join(columns)} FROM {{t}} WHERE {conditions.whole(list(columns.items()))}"


class Suite:
    def __init__(self, options):
        self.options, self.sty = options, Sty(options.sty, options.threads, options.memory_limit)
        self.steps, self.kills, self.refused, self.left_out = Counter(), Counter(), Counter(), Counter()
        self.checks, self.wrong = 0, 0

    def refuse(self, message, statement):
        """Counts errors by their kind, and shows the first of each."""
        kind = re.sub(r"\(line.*|'[^']*'|\b(Int|Utf|Float|Date|Timestamp|Decimal|Boolean|Bool)\w*(\([^)]*\))?", "…", message.split("\n")[0])[:160]
        if self.refused[kind] == 0:
            print(f"refused: {message[:300]}\n   {statement[:400]}", flush=True)
        self.refused[kind] += 1

    def sequence(self, number):
        with tempfile.TemporaryDirectory(dir=self.options.work) as folder:
            sequence = Sequence(self, number, folder)
            try:
                sequence.run(sequence.rng.randint(4, self.options.longest))
            except Wrong as wrong:
                self.wrong += 1
                print(f"WRONG seed {self.options.seed} sequence {number}: {wrong}", flush=True)
                print("".join(f"   {line[:700]}\n" for line in sequence.log[-12:]), flush=True)
                if self.options.keep:
                    kept = Path(self.options.keep) / f"sequence-{number}"
                    subprocess.run(["cp", "-r", folder, kept], check=True)

    def run(self):
        started, done = time.time(), 0
        for number in range(self.options.first, self.options.first + self.options.sequences):
            if time.time() - started > self.options.seconds or self.wrong >= self.options.failures:
                break
            try:
                self.sequence(number)
            except KeyboardInterrupt:
                break
            done += 1
        for kind, times in self.refused.most_common():
            print(f"refused {times} times: {kind}")
        for kind, times in self.left_out.most_common(5):
            print(f"left out {times} times: {kind}")
        print(f"maintain: {done} sequences of seed {self.options.seed}, {sum(self.steps.values())} steps {dict(self.steps)}, "
              f"{sum(self.kills.values())} kills {dict(self.kills)}, {self.checks} answers beside whole tables, {self.wrong} wrong, "
              f"{sum(self.refused.values())} refused, {time.time() - started:.0f} s")
        return 1 if self.wrong else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sty", default="target/release/sty")
    parser.add_argument("--sequences", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="begin with this sequence, as a failure names it")
    parser.add_argument("--longest", type=int, default=25, help="steps of a sequence at most")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this long")
    parser.add_argument("--failures", type=int, default=10, help="stop after this number of wrong sequences")
    parser.add_argument("--no-kills", dest="kills", action="store_false", help="let every step finish")
    parser.add_argument("--keep", help="copy the stores of wrong sequences to this directory")
    parser.add_argument("--leave-out", nargs="*", default=[], choices=LEFT_OUT, help="what conditions are not to have")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--memory-limit")
    parser.add_argument("--work", help="a directory for the stores [a temporary one]")
    return parser


def main(given=None):
    options = arguments().parse_args(given)
    # On an interrupt, report what was found so far.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as temporary:
        options.work = options.work or temporary
        return Suite(options).run()


if __name__ == "__main__":
    sys.exit(main())
