"""The `sty` command: many statements in one process, an answer or an error for each."""

import json
import subprocess
from decimal import Decimal
from pathlib import Path

# The column of the rows that separate the answers of two statements.
MARK = "~between~"


class Answer:
    """Rows, each a tuple of JSON values in the order of the columns, or an error."""

    def __init__(self, rows=None, error=None, code=0):
        self.rows, self.error, self.code = rows, error, code


class Sty:
    """One `sty` program and how it is to be run."""

    def __init__(self, binary, threads=None, memory_limit=None, timeout=60):
        self.binary, self.timeout = str(Path(binary).resolve()), timeout
        self.options = []
        if threads:
            self.options += ["--threads", str(threads)]
        if memory_limit:
            self.options += ["--memory-limit", memory_limit]

    def run(self, *arguments, text=None, timeout=None):
        """Runs any command, and returns the ended process."""
        command = [self.binary, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, input=text, timeout=timeout)

    def must(self, *arguments, text=None):
        """Runs a command that must succeed."""
        done = self.run(*arguments, text=text)
        if done.returncode != 0:
            raise RuntimeError(f"sty {' '.join(map(str, arguments))}: exit {done.returncode}: {done.stderr.strip()}")
        return done

    def answers(self, store, statements, native=True):
        """An answer for each statement.

        A statement that fails ends its process; another process runs the rest.
        """
        found, rest = [], list(statements)
        while rest:
            some = self.answer_some(store, rest, native)
            found += some
            rest = rest[len(some):]
        return found

    def answer_some(self, store, statements, native):
        """Answers to the first statements, at least to one."""
        parts = [] if native else ["SET sty.native = off;"]
        for at, statement in enumerate(statements):
            parts.append(f"{statement.rstrip().rstrip(';')};\nSELECT {at} AS \"{MARK}\";")
        command = ["query", store, "-f", "-", "--format", "jsonl", "--timeout", f"{self.timeout}s", *self.options]
        done = self.run(*command, text="\n".join(parts), timeout=self.timeout * 10)
        found = split(done.stdout)
        if done.returncode == 0:
            return found
        if not found and len(statements) > 1:
            # All statements are parsed before the first one runs, so one that does not parse hides
            # the others.
            return self.answer_some(store, statements[: len(statements) // 2], native)
        return found + [Answer(error=done.stderr.strip() or f"exit {done.returncode}", code=done.returncode)]


def split(text):
    """The answers before each mark; rows after the last mark belong to a statement that failed."""
    found, rows = [], []
    for line in text.split("\n")[:-1]:
        pairs = json.loads(line, object_pairs_hook=list, parse_float=Decimal)
        if len(pairs) == 1 and pairs[0][0] == MARK:
            found.append(Answer(rows=rows))
            rows = []
        else:
            rows.append(tuple(value for _, value in pairs))
    return found
