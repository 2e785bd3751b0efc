"""Random CSV files of every dialect, whose rows are known."""

import string

import pyarrow

from csv_options import command_line, duck_options, from_options
from csv_values import KINDS, Cell, Values

ENCODINGS = {"latin1": "latin-1", "windows-1252": "cp1252", "shift_jis": "shift_jis", "utf-16le": "utf-16-le"}
LETTERS = {"latin1": "äöüÉñß", "windows-1252": "äö€–", "shift_jis": "日本語カナ"}
COMPRESSIONS = {"gzip": ".gz", "zstd": ".zst", "bz2": ".bz2", "lz4": ".lz4"}


class Case:
    """Files, how they are to be read, and what they hold.

    `sql` is what FROM calls them, None if it has no such option; `duck` what DuckDB does. `refused`
    are parts of which the message has one where they cannot be loaded, `may_refuse` where they need not be. `rejects` are the lines and texts of rows
    that are left out. `input` is text for stdin in pieces.
    """

    def __init__(self, kind):
        self.kind, self.files, self.options, self.names, self.types, self.rows = kind, [], [], [], [], []
        self.bad = 0  # the share of bad rows
        self.sql = self.duck = self.refused = self.may_refuse = self.input = None
        self.rejects, self.notes = [], []


class World:
    """What holds for all of a file."""

    def __init__(self, rng):
        self.rng = rng
        chance = lambda share: rng.random() < share
        self.quote = rng.choice(['"'] * 12 + ["'", "'", ""])
        self.thousands, self.decimal = None, "."
        if chance(0.12):
            self.decimal, self.thousands = rng.choice([(",", None), (",", "."), (".", ","), (".", "'"), (",", " ")])
            if self.thousands == self.quote:
                self.thousands = None
        self.delimiter = rng.choice([","] * 8 + [";", ";", "\t", "|", ":", "~", "^"])
        if self.decimal == "," or self.thousands == ",":
            self.delimiter = rng.choice([";", ",", "\t"]) if self.quote else ";"
        self.line_end = rng.choice(["\n"] * 8 + ["\r\n"] * 4 + ["\r", "mixed"])
        plain = self.line_end == "\r"
        self.comment = "#" if chance(0.1) and not plain else ""
        self.escape = "\\" if chance(0.12) and self.quote and not plain else ""
        self.skip_space = chance(0.1) and not plain
        self.nulls = rng.choice([[]] * 6 + [["NULL"], ["NA", "-"], ["\\N"], ["-999"], ["null value"]])
        self.date_order = rng.choice([None, None, None, "dmy", "mdy"])
        self.encoding = rng.choice([None] * 14 + list(ENCODINGS) + ["bom", "utf-16 bom"])
        self.compression = rng.choice([None] * 8 + list(COMPRESSIONS))
        self.final_end = chance(0.8)
        self.skip = rng.choice([0] * 12 + [1, 3])
        self.names_delimiter = chance(0.04) and self.delimiter in ";,|" and not plain and not self.skip
        self.letters = self.alphabet()

    def alphabet(self):
        special = ",;|\t#\\ ' \"  .:-+=%" + LETTERS.get(self.encoding, "äé日本😀ß" if self.encoding not in ENCODINGS or "utf" in self.encoding else "")
        lines = "\n" if self.line_end != "\r" and self.quote else ""
        if lines and self.rng.random() < 0.2:
            lines += "\r"
        letters = string.ascii_letters + string.digits + special * 2 + lines
        if self.skip_space and not self.quote:
            letters = letters.replace(" ", "")
        if self.comment and not self.quote:
            letters = letters.replace(self.comment, "")
        if not self.quote:
            letters = "".join(letter for letter in letters if letter not in (self.delimiter, "\n", "\r"))
        return letters

    def has_letters(self, text):
        try:
            text.encode(ENCODINGS.get(self.encoding, "utf-8"))
            return True
        except UnicodeEncodeError:
            return False

    def end(self):
        return self.rng.choice(["\n", "\r\n"]) if self.line_end == "mixed" else self.line_end


class Writer:
    """Writes rows as a file of a world has them, and knows in which line the next one begins."""

    def __init__(self, rng, world, single):
        self.rng, self.world, self.single = rng, world, single
        self.text, self.line = [], 1

    def add(self, text, end=True):
        end = self.world.end() if end else ""
        self.text.append(text + end)
        self.line += text.count("\n") + (1 if end else 0)

    def field(self, cell, first):
        world, rng = self.world, self.rng
        text = cell.text
        must = cell.quoted or text[:1] == world.quote or any(byte in text for byte in (world.delimiter, "\n", "\r")) or (
            first and world.comment and text.startswith(world.comment))
        if world.skip_space and (text[:1] == " " or text[-1:] == " "):
            must = True
        if text.lstrip(" ")[:1] == world.quote and world.quote:
            must = True  # else it might be a quote after a blank
        if world.quote and (must or cell.quoted is None and text and rng.random() < 0.15):
            if world.escape:
                inner = text.replace("\\", "\\\\").replace(world.quote, "\\" + world.quote)
            else:
                inner = text.replace(world.quote, world.quote * 2)
            text = world.quote + inner + world.quote
        if world.skip_space and rng.random() < 0.5 and not (first and world.comment):
            text = " " * rng.choice([1, 2]) + text
        return text

    def row(self, cells, end=True):
        self.add(self.world.delimiter.join(self.field(cell, at == 0) for at, cell in enumerate(cells)), end)

    def between(self):
        """Lines that are no rows."""
        if self.world.comment and self.rng.random() < 0.15:
            self.add(self.rng.choice(["#", "# \"a", "#x,y,z", "# it's", "##"]))
        if not self.single and self.rng.random() < 0.03:
            self.add("")


class CsvFiles:
    def __init__(self, rng, folder):
        self.rng, self.folder = rng, folder

    def rows(self):
        return self.rng.choice([1, 1, 2, 3, 3, 5, 8, 8, 20, 20, 60, 300])

    def case(self, number):
        kind = self.rng.choices(["one", "several", "bad", "large", "pipe"], [80, 8, 12, 0.05, 0.3])[0]
        return getattr(self, kind)(number)

    def one(self, number, rows=None, world=None, kinds=None):
        rng = self.rng
        case, world = Case("csv"), world or World(rng)
        rows = rows or self.rows()
        columns = self.columns(world, rows, kinds)
        case.rows = [tuple(column.cells[at].value for column in columns) for at in range(rows)]
        case.types = [column.data_type for column in columns]
        data, told, ending = self.write(case, world, columns, rows)
        self.save(case, f"c{number}{ending}", data, world)
        self.finish(case, columns, told)
        return case

    def columns(self, world, rows, kinds=None):
        rng, values = self.rng, Values(self.rng, world)
        count = rng.choice([1, 1, 2, 2, 3, 4, 6, 12])
        picked = kinds or rng.choices(list(KINDS), list(KINDS.values()), k=count)
        if picked == ["nothing"]:
            picked = ["texts"]  # lines without text alone are no rows
        columns = [values.column(kind, rows) for kind in picked]
        if not world.quote and any(world.delimiter in cell.text for column in columns for cell in column.cells):
            world.quote = '"'
        return columns

    def names(self, columns, odd):
        pool = ["id", "name", "n", "price", "day", "city (2020)", "Größe" if odd else "Size", "two words", "x_1", "value", "b-c", "at"]
        self.rng.shuffle(pool)
        return pool[:len(columns)] + [f"c{at}" for at in range(len(columns) - len(pool))]

    # ---- one file

    def write(self, case, world, columns, rows):
        """The bytes of a file, what is told of it, and the end of its name; case.names are set.

        What is told are pairs of an option, as read_csv calls it, and its value.
        """
        rng, single = self.rng, len(columns) == 1
        writer = Writer(rng, world, single)
        told = []
        junk = ["report of 'x", "a;b,c|d", ""]
        for at in range(world.skip):
            writer.add(junk[at % 3])
        if world.skip:
            told.append(("skip", str(world.skip)))
        if world.names_delimiter:
            writer.add(f"sep={world.delimiter}")
        names = self.names(columns, world.has_letters("Größe"))
        header = rng.random() < 0.7
        if header:
            self.header(writer, names, rng.random() < 0.15)
        guessed = self.header_is_clear(header, columns, rows, world)
        if not (guessed and rng.random() < 0.7):
            told.append(("header", header))
        for at in range(rows):
            if not (single and not header and at == 0):
                writer.between()
            cells = [column.cells[at] for column in columns]
            last = at + 1 == rows
            # Without an end, a last row without text is none.
            ends = not last or world.final_end or single and not cells[0].text
            writer.row(cells, ends)
            if case.bad:
                self.spoil(case, writer, at)
        text = "".join(writer.text)
        self.dialect(world, told, columns)
        schema = [(name, column.schema) for name, column in zip(names, columns) if column.schema]
        if not header:
            if schema or rng.random() < 0.3:
                told.append(("names", names))
            else:
                names = [f"column{at}" for at in range(len(columns))]
        if schema:
            told.append(("types", schema))
        case.names = names
        for column in columns:
            if column.note and not case.rejects:
                case.notes.append(column.note)
        ending = ".tsv" if world.delimiter == "\t" and rng.random() < 0.5 else rng.choice([".csv", ".csv", ".txt"])
        encoding = ENCODINGS.get(world.encoding, "utf-8-sig" if world.encoding == "bom" else "utf-16" if world.encoding else "utf-8")
        if world.encoding in ENCODINGS:
            told.append(("encoding", world.encoding))
        return text.encode(encoding, "surrogateescape"), told, ending

    def header(self, writer, names, blank_before):
        if blank_before and not writer.world.skip and not writer.world.names_delimiter:
            writer.add("")
        writer.row([Cell(name, name, None if name.isascii() else False) for name in names])

    def header_is_clear(self, header, columns, rows, world):
        """Whether the documented rules tell if the first row is a header."""
        if header:
            if not rows:
                return False
            # A name above a column that is not text.
            return any(column.data_type not in ("utf8", "null") and column.kind not in ("codes", "bools") for column in columns)
        sure = ("ints", "floats", "dates", "moments")
        return bool(rows) and any(column.kind in sure and column.cells[0].value is not None and column.cells[0].text[:1] in "0123456789"
                                  and column.cells[0].text[:1] for column in columns) and not world.thousands

    def dialect(self, world, told, columns):
        """Options of the dialect: those that the first rows do not tell, and some that they do."""
        single = len(columns) == 1
        is_clear = world.delimiter in (",",) if single else world.delimiter in ",;\t|"
        is_found = is_clear and self.delimiter_is_clear(world, columns) and (single or self.rng.random() < 0.6)
        if not world.names_delimiter and not is_found:
            told.append(("delimiter", world.delimiter))
        if world.quote != '"':
            told.append(("quote", world.quote))
        if world.comment:
            told.append(("comment", world.comment))
        if world.escape:
            told.append(("escape", world.escape))
        if world.skip_space:
            told.append(("skip_initial_space", True))
        if world.decimal != ".":
            told.append(("decimal", world.decimal))
        if world.thousands:
            told.append(("thousands", world.thousands))
        if world.date_order:
            told.append(("date_order", world.date_order))
        for null in world.nulls:
            told.append(("null", null))

    def delimiter_is_clear(self, world, columns):
        """Whether the first row has no other delimiter outside of quotes, and the next ones as many."""
        others = [other for other in ",;\t|" if other != world.delimiter]
        cells = [cell for column in columns for cell in column.cells[:12]]
        plain = not any(other in cell.text for other in others for cell in cells) and world.decimal == "." and not world.thousands
        inner = not any(quote in cell.text for quote in "\"'" for cell in cells)
        return plain and inner and world.quote == '"' and not world.skip_space

    # ---- files of one load

    def several(self, number):
        """Two or three files with the same columns, in other orders, of types that may differ."""
        rng = self.rng
        case, count = Case("csv files"), rng.choice([2, 2, 3])
        worlds = [World(rng) for _ in range(count)]
        for world in worlds:
            # Options hold for all files of a load; delimiters and line ends are found out.
            world.quote, world.comment, world.escape, world.skip_space, world.nulls, world.date_order = '"', "", "", False, [], None
            world.decimal, world.thousands, world.encoding, world.skip, world.names_delimiter = ".", None, None, 0, False
            world.delimiter = rng.choice([",", ";", "\t", "|"])
            world.letters = string.ascii_letters + string.digits + " \n\"'"
        kinds = [rng.choice([["ints"] * 3, ["floats"] * 3, ["ints", "floats", "ints"], ["floats", "ints", "ints"], ["texts"] * 3, ["texts", "ints", "dates"],
                             ["dates"] * 3, ["nothing", "ints", "ints"], ["nothing", "texts", "nothing"], ["ints", "texts", "texts"],
                             ["times"] * 3]) for _ in range(rng.randint(2, 5))]
        if rng.random() < 0.8:
            kinds = [each if each[:2] != ["ints", "texts"] else ["ints"] * 3 for each in kinds]
        names = self.names(kinds, True)
        joined = ["ints" in each and "floats" in each for each in kinds]
        made = []
        for at, world in enumerate(worlds):
            rows, values = rng.choice([1, 3, 10]), Values(rng, world)
            columns = [values.column(kind[at], rows) for kind in kinds]
            for column in (column for column, both in zip(columns, joined) if both and column.kind == "ints"):
                for cell in column.cells:
                    if cell.value in (2**63 - 1, -2**63):
                        cell.text, cell.value = "5", 5  # a float holds one of them, and the widening asks for 53 bits
            for cell in (cell for column in columns for cell in column.cells if cell.text == "-0"):
                cell.text, cell.value = "0", 0  # whose sign depends on the files before
            for name, column in zip(names, columns):
                column.name = name
            missing = rng.randrange(len(columns)) if at and len(columns) > 2 and rng.random() < 0.2 else None
            order = [column for position, column in enumerate(columns) if position != missing]
            if at and rng.random() < 0.3:
                rng.shuffle(order)
            writer = Writer(rng, world, len(order) == 1)
            writer.row([Cell(column.name, column.name) for column in order])
            for row in range(rows):
                writer.between()
                writer.row([column.cells[row] for column in order], row + 1 < rows or world.final_end)
            self.save(case, f"c{number}-{at}.csv", "".join(writer.text).encode(), world)
            made.append(({column.name: column for column in order}, rows))
        self.join(case, names, made)
        case.options.append("--header")
        listed = ", ".join(f"'{file}'" for file in case.files)
        case.sql = f"read_csv([{listed}], header => true)"
        case.duck = f"read_csv([{listed}], header = true, union_by_name = true)"
        if case.refused:
            case.sql = None
        return case

    def join(self, case, names, made):
        """The columns of all files together, as widening says."""
        case.names = names
        for name in names:
            found = [columns[name] for columns, _ in made if name in columns]
            data_type, error, guessed = "null", False, False
            for column in found:
                here = column.data_type
                guessed |= any(cell.value is None and cell.text for cell in column.cells)
                if column.kind in ("times",) and here != data_type and data_type.startswith("time("):
                    data_type = "time(ns)"
                elif data_type == "null" or here == data_type:
                    data_type = here
                elif here == "null" or data_type == "utf8":
                    pass
                elif {here, data_type} == {"int64", "float64"}:
                    data_type = "float64"
                else:
                    error = True
            if error and guessed:
                # Words were taken for nulls: the load begins anew, and they are text.
                data_type, error = "utf8", False
            if data_type == "float64":
                exact = lambda value: value is None or not isinstance(value, int) or int(float(value)) == value
                error |= not all(exact(cell.value) for column in found for cell in column.cells)
            if error:
                case.refused = [*(case.refused or []), name]
            case.types.append(data_type)
        for columns, rows in made:
            for row in range(rows):
                value = lambda name, data_type: None if name not in columns else (
                    (columns[name].cells[row].text if columns[name].cells[row].text != "" or columns[name].cells[row].quoted else None)
                    if data_type == "utf8" else columns[name].cells[row].value)
                case.rows.append(tuple(map(value, names, case.types)))

    # ---- rows that cannot be stored

    def bad(self, number):
        rng, world = self.rng, World(self.rng)
        world.line_end = rng.choice(["\n", "\r\n"])
        world.quote, world.comment, world.escape, world.skip_space, world.compression = '"', "", "", False, None
        world.encoding, world.skip, world.names_delimiter, world.decimal, world.thousands = None, 0, False, ".", None
        world.delimiter = rng.choice([",", ";"])
        world.letters = string.ascii_letters + string.digits + " \n,;"
        case = Case("csv bad rows")
        rows, kinds = rng.choice([3, 8, 30]), ["ints", *rng.choices(["ints", "floats", "texts", "dates"], k=rng.randint(1, 3))]
        columns = self.columns(world, rows, kinds)
        columns[0].schema = "int64"
        case.bad = rng.choice([0.05, 0.2, 0.5])
        case.rows = [tuple(column.cells[at].value for column in columns) for at in range(rows)]
        case.types = [column.data_type for column in columns]
        case.columns, case.world = columns, world
        data, told, _ = self.write(case, world, columns, rows)
        self.save(case, f"c{number}.csv", data, world)
        told = [each for each in told if each[0] not in ("header", "delimiter")] + [("delimiter", world.delimiter)]
        has_names = any(key == "names" for key, _ in told)
        told.append(("header", not has_names and case.names[0] != "column0"))
        if case.names[0] == "column0":
            told = [each for each in told if each[0] != "types"] + [("types", [("column0", "int64")])]
        self.finish(case, columns, told)
        case.sql = case.duck = None
        if case.rejects:
            case.options += ["--rejects", "REJECTS"] if rng.random() < 0.7 else ["--on-error", "skip"]
        return case

    def spoil(self, case, writer, at):
        """Adds a bad row after this one."""
        rng, world = self.rng, case.world
        if rng.random() > case.bad or writer.text[-1][-1:] != "\n":
            return
        good = [writer.field(column.cells[at], False) for column in case.columns]
        if any("\n" in field for field in good):
            return
        kind = rng.choice(["more", "fewer", "junk", "value", "bytes"])
        if kind == "more":
            fields = good + ["x"]
        elif kind == "fewer":
            fields = good[:-1] if len(good) > 2 else good[:1]
        elif kind == "junk":
            fields = ['"a"b', *good[1:]]
        elif kind == "value":
            fields = [rng.choice(["x", "1.5", "12a"]), *good[1:]]
        else:
            fields = ["\udcff", *good[1:]]
        text = world.delimiter.join(fields)
        if not text.strip():
            return
        line = writer.line
        writer.add(text)
        case.rejects.append((line, text))

    # ---- long files, and pipes

    def large(self, number):
        """More than one chunk."""
        world = World(self.rng)
        world.skip_space = False
        rows = self.rng.randint(60_000, 90_000)
        kinds = self.rng.choices(["ints", "floats", "texts", "dates", "moments", "times"], k=5) + ["texts"]
        case = self.one(number, rows, world, kinds)
        case.kind, case.duck = "csv large", None
        return case

    def pipe(self, number):
        """Rows that come in pieces, with commits by time."""
        rng, world = self.rng, World(self.rng)
        world.compression, world.encoding, world.nulls = None, None, []
        if world.line_end == "\r":
            world.line_end = "\n"
        case = self.one(number, rng.randint(1100, 2500), world, rng.choices(["ints", "texts", "floats", "dates"], k=rng.randint(2, 4)))
        data = case.files[0].read_bytes()
        start = sorted(rng.sample(range(len(data)), rng.randint(3, 25)))
        ends = [*start, len(data)]
        case.input = [data[before:after] for before, after in zip([0, *ends], ends)]
        case.options += ["--commit-every", "20ms"]
        case.kind, case.sql, case.duck = "csv pipe", None, None
        return case

    # ---- saved

    def save(self, case, name, data, world):
        if world.compression:
            name += COMPRESSIONS[world.compression] if self.rng.random() < 0.7 else ""
        file = self.folder / name
        if world.compression:
            data = self.compressed(data, world.compression)
        file.write_bytes(data)
        case.files.append(file)
        return file

    def compressed(self, data, how):
        """The bytes, sometimes in two members."""
        cut = self.rng.randrange(len(data)) if data and self.rng.random() < 0.2 and how in ("gzip", "bz2", "zstd") else 0
        codec = lambda part: pyarrow.compress(part, codec=how, asbytes=True) if how in ("gzip", "zstd") else stream(part, how)
        return codec(data[:cut]) + codec(data[cut:]) if cut else codec(data)

    def finish(self, case, columns, told):
        case.options += command_line(told)
        file = f"'{case.files[0]}'"
        if not any(column.schema and "epoch" in column.schema for column in columns):
            case.sql = from_options(file, told)
        if not any(column.schema for column in columns):
            case.duck = duck_options(file, told)


def stream(data, how):
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, how) as out:
        out.write(data)
    return sink.getvalue().to_pybytes()
