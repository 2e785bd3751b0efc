#!/usr/bin/env python3
"""Random joins of tables that share column names, answered by `sty` and DuckDB over the same rows.

    python3 tests/suites/joins.py --sty target/release/sty --cases 10000 --seed 1

Each statement runs with the native executor on and off. A difference is printed with the statement
and the tables, which are reduced as far as the answers still differ (the statement only with the
package `sqlglot`). The exit code is 1 if any was found.
"""

import argparse
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import duckdb

from compare import difference
from expressions import LEFT_OUT
from oracle import Oracle, TooMuch
from reduce import reproduction
from statements import Statements, for_oracle, for_sty
from sty import Sty
from worlds import World

BATCH = 50
# Errors that no statement may cause: dumps of plans, failed checks, panics.
FAULTS = re.compile(r"panicked|error: Plan|internal|Internal|engine failed|duplicate unqualified|__correlated|__common")


class Suite:
    def __init__(self, options):
        self.options, self.work = options, Path(options.work)
        self.sty = Sty(options.sty, options.threads, options.memory_limit, timeout=20)
        self.cases, self.left_out, self.refused, self.wrong = 0, Counter(), Counter(), 0
        self.empty = 0
        self.report = open(options.report, "a") if options.report else None

    def say(self, text):
        print(text, flush=True)
        if self.report:
            self.report.write(text + "\n")
            self.report.flush()

    def world(self, number):
        """The world of this number, and the generator of its statements."""
        rng = random.Random(f"{self.options.seed} {number}")
        world = World(rng, self.options.floats, "shared-names" in self.options.leave_out)
        oracle = Oracle(seconds=2)
        world.load(oracle)
        return world, oracle, Statements(rng, world.tables, world.size == "large", self.options.leave_out)

    def statements(self, oracle, maker, wanted):
        """Statements that the oracle can answer, with its answers."""
        found = []
        while len(found) < wanted:
            sql, ordered = maker.statement()
            try:
                rows = oracle.ask(for_oracle(sql))
            except TooMuch:
                self.left_out["too large"] += 1
                continue
            except duckdb.Error as error:
                self.left_out[str(error).split(":")[0]] += 1
                continue
            self.empty += not rows
            found.append((sql, ordered, rows))
        return found

    def run_world(self, number, wanted):
        world, oracle, maker = self.world(number)
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            world.store(self.sty, Path(folder))
            for start in range(0, wanted, BATCH):
                some = self.statements(oracle, maker, min(BATCH, wanted - start))
                queries = [for_sty(sql) for sql, _, _ in some]
                answers = [self.sty.answers(f"{folder}/db", queries, native) for native in (True, False)]
                for case, on, off in zip(some, *answers):
                    self.check(number, world, case, {True: on, False: off})
                self.cases += len(some)

    def check(self, number, world, case, answers):
        sql, ordered, rows = case
        bad = {}
        for native, answer in answers.items():
            if answer.error:
                bad |= self.refuse(native, sql, answer)
            elif found := difference(answer.rows, rows, ordered):
                bad[native] = found
        if bad:
            self.wrong += 1
            self.tell(number, world, sql, ordered, bad)
            if self.wrong >= self.options.failures:
                raise Enough

    def refuse(self, native, sql, answer):
        """An error is not a wrong answer, but errors that show a fault of the engine are reported.

        Only the first error of each kind is.
        """
        kind = re.sub(r"\bt?\d+(\.\w+)?|did you mean \w+|field \w+", "…", answer.error.split("\n")[0])[:120]
        self.refused[kind] += 1
        if self.refused[kind] > 1:
            return {}
        if FAULTS.search(answer.error):
            return {native: answer.error}
        self.say(f"REFUSED exit {answer.code}: {answer.error[:600]}\n   {for_sty(sql)}")
        return {}

    def tell(self, number, world, sql, ordered, bad):
        error = FAULTS.search(next(iter(bad.values())))
        how = "on and off" if len(bad) == 2 else "on" if True in bad else "off"
        self.say(f"WRONG #{self.wrong} seed {self.options.seed} world {number} ({world.size}), native {how}: {next(iter(bad.values()))[:1000]}\n"
                 f"  {for_sty(sql)};")
        if self.options.reduce:
            self.say(reproduction(self.sty, self.work, world, sql, ordered, next(iter(bad)), error))

    def run(self):
        started, number = time.time(), self.options.first_world
        try:
            while self.cases < self.options.cases and time.time() - started < self.options.seconds:
                self.run_world(number, min(self.options.per_world, self.options.cases - self.cases))
                number += 1
        except Enough:
            self.say("… and so on")
        except KeyboardInterrupt:
            self.say("stopped")
        for kind, times in self.refused.most_common():
            self.say(f"refused {times} times: {kind}")
        left = ", ".join(f"{times} {kind}" for kind, times in self.left_out.most_common(5)) or "none"
        self.say(f"joins: {self.cases} statements of seed {self.options.seed} in {number - self.options.first_world} worlds, native on and "
                 f"off, {self.wrong} wrong, {sum(self.refused.values())} refused, {self.empty} with no row; left out: {left}; "
                 f"{time.time() - started:.0f} s")
        return 1 if self.wrong else 0


class Enough(Exception):
    pass


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sty", default="target/release/sty")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this long")
    parser.add_argument("--per-world", type=int, default=200, help="statements over the same tables")
    parser.add_argument("--first-world", type=int, default=0, help="begin with this one, as a failure names it")
    parser.add_argument("--failures", type=int, default=20, help="stop after this number of wrong answers")
    parser.add_argument("--floats", action="store_true", help="also NaN and both zeros")
    parser.add_argument("--no-reduce", dest="reduce", action="store_false", help="print failures as they are")
    parser.add_argument("--leave-out", nargs="*", default=[], choices=LEFT_OUT, help="what the statements are not to have")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--memory-limit")
    parser.add_argument("--report", help="append what is found to this file too")
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
