"""Columns of CSV files: texts as people write them, each with the value that it means."""

import datetime
import string

MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
# Words that are null in columns which are not text; `nan` is left to floats.
WORDS = ["NA", "N/A", "n/a", "null", "NULL", "None", "-", "?", "\\N", "#N/A"]
EPOCH = datetime.datetime(1970, 1, 1)


class Cell:
    """A field: its text without quotes, and its value; `value` None is null."""

    def __init__(self, text, value, quoted=None):
        # Whether it must (True) or must not (False) have quotes.
        self.text, self.value, self.quoted = text, value, quoted


class Column:
    """The type that the column should come to, and its fields.

    `options` are what it needs of the command line; `schema` the type that --schema names; `note` a
    part of what stderr should say.
    """

    def __init__(self, kind, data_type, cells, schema=None, options=(), note=None):
        self.kind, self.data_type, self.cells, self.schema = kind, data_type, cells, schema
        self.options, self.note = list(options), note
        self.name = None

    def is_text(self):
        return self.data_type == "utf8"


class Values:
    """Makes columns. `world` says what holds for all of a file: null texts, decimal point, …"""

    def __init__(self, rng, world):
        self.rng, self.world = rng, world

    def column(self, kind, rows):
        made = getattr(self, kind)(rows)
        for cell in made.cells:
            if cell.text in self.world.nulls and cell.value is not None:
                cell.quoted, cell.value = (True, cell.value) if self.world.quote else (False, None)
        share = self.rng.choice([0, 0, 0.1, 0.3, 0.8])
        first = self.rng.randrange(rows) if rows else 0
        if kind == "nothing":
            return made
        kept = made.keep if hasattr(made, "keep") else {first}
        words = self.null_words(made)
        for at in range(rows):
            if at not in kept and self.rng.random() < share:
                made.cells[at] = self.null(words)
        if any(cell.value is None and cell.text in WORDS and not self.world.nulls for cell in made.cells) and not made.is_text():
            made.note = made.note or "null in"
        return made

    def null_words(self, column):
        """Texts that are null in this column, the empty one among them."""
        if self.world.nulls:
            return ["", *self.world.nulls]
        if column.is_text() or column.data_type == "binary" or self.rng.random() < 0.6:
            return [""]
        words = [word for word in WORDS if not (self.world.comment and word[0] == self.world.comment)]
        return ["", *self.rng.sample(words, self.rng.choice([1, 1, 2]))]

    def null(self, words):
        text = self.rng.choice(words)
        return Cell(text, None, quoted=False)

    def cells(self, rows, make):
        return [Cell(*make(at)) for at in range(rows)]

    # ---- numbers

    def ints(self, rows):
        style = self.rng.choice(["small", "wide", "plus", "zero"])
        edges = [0, 1, -1, 2**31, -2**31, 2**53 + 1, 2**63 - 1, -2**63]

        def make(at):
            number = self.rng.choice(edges) if style == "wide" else self.rng.randint(-999, 9999)
            if style == "zero" and self.rng.random() < 0.3:
                return "-0", 0
            if style == "plus" and number > 0 and at and self.rng.random() < 0.5:
                return self.grouped(f"+{number}"), number
            return self.grouped(str(number)), number
        column = Column("ints", "int64", self.cells(rows, make))
        if rows and style == "plus":
            # Not all of them may have the sign.
            column.cells[0] = Cell("-7", -7)
            column.keep = {0}
        return column

    def grouped(self, text):
        """A number with separators of thousands, where the file has them."""
        point = self.world.thousands
        if not point or self.rng.random() < 0.3:
            return text
        sign = text[0] if text[0] in "+-" else ""
        return sign + f"{int(text.lstrip('+-')):,}".replace(",", point)

    def unsigned(self, rows):
        column = Column("unsigned", "uint64", self.cells(rows, lambda at: (lambda n: (str(n), n))(self.rng.choice([0, 7, 2**64 - 1]))))
        return self.with_first(column, rows, str(2**64 - 2), 2**64 - 2)

    def with_first(self, column, rows, text, value):
        """Puts the value that gives the column its type anywhere among the others."""
        if rows:
            at = self.rng.randrange(rows)
            column.cells[at] = Cell(text, value)
            column.keep = {at}
        return column

    def floats(self, rows):
        def make(at):
            number = self.rng.choice([0.0, -0.0, 0.1, -2.5, 1e300, 5e-324, 1.7976931348623157e308, float(self.rng.randint(-9, 9)),
                                      self.rng.uniform(-1e6, 1e6), self.rng.random() * 1e-9])
            style = self.rng.randrange(6)
            if style == 0 and number == int(number) and abs(number) < 1e15:
                return str(int(number)) if number or str(number)[0] != "-" else "-0", number
            text = repr(number) if style < 4 else f"{number:.17e}".replace("e", self.rng.choice("eE"))
            if style == 5 and number > 0 and at:
                text = "+" + text
            if "+" in text[:1] and len(text.split(".")[0]) > 8:
                text = text[1:]
            return self.comma(text), number
        column = Column("floats", "float64", self.cells(rows, make))
        if rows and self.rng.random() < 0.3 and self.world.decimal == ".":
            for text, value in [("NaN", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity"), ("nan", "NaN"), ("Infinity", "Infinity")]:
                if self.rng.random() < 0.3 and text not in self.world.nulls:
                    column.cells[self.rng.randrange(rows)] = Cell(text, value)
        return self.with_first(column, rows, self.comma("0.125"), 0.125)

    def comma(self, text):
        return text.replace(".", self.world.decimal)

    def unfit(self, rows):
        """Numbers that no type of numbers holds: they stay text."""
        kind = self.rng.choice(["beyond", "zeros", "phones", "hex", "rounded", "signs"])
        make = {"beyond": lambda: str(self.rng.choice([2**64 + 1, -2**63 - 1, 10**30 + 1])), "zeros": lambda: f"{self.rng.randint(0, 99):05}",
                "phones": lambda: f"+49{self.rng.randint(10**7, 10**9)}", "hex": lambda: f"0x{self.rng.randint(0, 255):x}",
                "rounded": lambda: self.rng.choice(["9007199254740993", "0.5"]), "signs": lambda: f"+{self.rng.randint(1, 99)}"}[kind]
        column = Column(f"unfit {kind}", "utf8", self.cells(rows, lambda at: (lambda t: (t, t))(make())))
        if kind == "rounded" and rows:
            if rows < 2:
                return self.texts(rows)
            one, other = self.rng.sample(range(rows), 2)
            column.cells[one], column.cells[other] = Cell("9007199254740993", "9007199254740993"), Cell("0.5", "0.5")
            column.keep = {one, other}
        return column

    def given(self, rows):
        """Columns whose type --schema names."""
        rng, number = self.rng, lambda low, high: (lambda n: (str(n), n))(rng.randint(low, high))
        name, make = rng.choice([
            ("int8", lambda at: number(-128, 127)), ("int16", lambda at: number(-2**15, 2**15 - 1)), ("int32", lambda at: number(-2**31, 2**31 - 1)),
            ("uint8", lambda at: number(0, 255)), ("uint16", lambda at: number(0, 65535)), ("uint32", lambda at: number(0, 2**32 - 1)),
            ("uint64", lambda at: number(0, 2**64 - 1)), ("int64", lambda at: (lambda n: (f"{n:03}", n))(rng.randint(0, 999))),
            ("utf8", lambda at: (lambda n: (str(n), str(n)))(rng.randint(0, 99))), ("float64", lambda at: number(-99, 99)),
            ("float32", lambda at: (lambda n: (self.comma(str(n)), n))(rng.randint(-99, 99) / 4)),
            ("bool", lambda at: rng.choice([("Y", True), ("n", False), ("1", True), ("0", False), ("yes", True), ("F", False)])),
            ("decimal(9,2)", lambda at: (lambda n: (self.comma(f"{n / 100:.2f}"), n / 100))(rng.randint(-10**8, 10**8))),
            ("date", lambda at: (lambda d: (f"{d:%Y%m%d}", d.isoformat()))(self.day())),
            ("binary", lambda at: (lambda n: (f"\\x{n:04x}", f"\\x{n:04x}"))(rng.randrange(65536))),
            ("timestamp(epoch_s)", lambda at: self.epoch(1)), ("timestamp(epoch_ms)", lambda at: self.epoch(10**3)),
            ("timestamp(epoch_us)", lambda at: self.epoch(10**6)), ("timestamp(s)", lambda at: self.moment_text(0)),
            ("timestamp(ms)", lambda at: self.moment_text(3)), ("time(ms)", lambda at: (lambda t: (t, t))(f"{rng.randint(0, 23):02}:00:00"))])
        real = {"timestamp(epoch_s)": "timestamp(s)", "timestamp(epoch_ms)": "timestamp(ms)", "timestamp(epoch_us)": "timestamp(us)"}.get(name, name)
        if name in ("int64", "float64", "date") and self.world.thousands:
            return self.ints(rows)
        return Column(f"given {name}", real, self.cells(rows, make), schema=name)

    def epoch(self, ticks):
        n = self.rng.randint(-10**9, 4 * 10**9) * ticks + self.rng.choice([0, ticks // 2])
        at = EPOCH + datetime.timedelta(microseconds=n * (10**6 // ticks))
        return str(n), at.isoformat()

    def moment_text(self, digits):
        at = self.moment()
        fraction = f".{self.rng.randrange(10**digits):0{digits}}" if digits else ""
        return f"{at:%Y-%m-%d %H:%M:%S}{fraction}", f"{at:%Y-%m-%dT%H:%M:%S}{fraction}"

    # ---- words

    def bools(self, rows):
        words = self.rng.choice([("true", "false"), ("TRUE", "False"), ("yes", "no"), ("YES", "No"), ("t", "f"), ("T", "F")])
        make = lambda at: (lambda b: (words[0] if b else words[1], b))(self.rng.random() < 0.5)
        if words[0].lower() == "true":
            return Column("bools", "bool", self.cells(rows, make))
        column = Column("bools", "bool", self.cells(rows, make), note="taken for true and false")
        if rows < 2:
            return self.texts(rows)
        # Both words must be there.
        one, other = self.rng.sample(range(rows), 2)
        column.cells[one], column.cells[other] = Cell(words[0], True), Cell(words[1], False)
        column.keep = {one, other}
        return column

    def codes(self, rows):
        """Y and N, or one of two words alone: text."""
        some = self.rng.choice([["Y", "N"], ["n"], ["yes"], ["f"], ["No", "no"]])
        return Column("codes", "utf8", self.cells(rows, lambda at: (lambda t: (t, t))(self.rng.choice(some))))

    def texts(self, rows):
        column = Column("texts", "utf8", self.cells(rows, lambda at: (lambda t: (t, t))(self.text())))
        for cell in column.cells:
            if cell.text == "" or cell.text in self.world.nulls:
                cell.quoted = True
        word = self.rng.choice(["word", "Zoë", "twowords", "a1"]) if self.world.has_letters("Zoë") else "word"
        return self.with_first(column, rows, word, word)

    def text(self):
        rng, choice = self.rng, self.rng.randrange(12)
        if choice < 4:
            return "".join(rng.choice(string.ascii_letters) for _ in range(rng.randint(1, 12)))
        if choice == 4:
            return rng.choice(["NA", "null", "-", "1", "2.5", "2020-01-02", "true", "inf"])
        if choice == 5:
            return "" if self.world.quote else "x"
        text = "".join(rng.choice(self.world.letters) for _ in range(rng.randint(1, rng.choice([3, 12, 40]))))
        return text or "x"

    def doubtful(self, rows):
        """Texts among which there is one value of another kind: the whole column is text."""
        others = [self.ints, self.floats, self.dates, self.times, self.moments]
        column = self.rng.choice(others)(rows)
        cells = [Cell(cell.text, cell.text) for cell in column.cells]
        made = Column("doubtful", "utf8", cells)
        return self.with_first(made, rows, "unknown", "unknown")

    def nothing(self, rows):
        words = ["", *self.world.nulls]
        return Column("nothing", "null", [self.null(words) for _ in range(rows)])

    # ---- days and times

    def day(self):
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=self.rng.randint(-30000, 30000))

    def moment(self):
        return EPOCH + datetime.timedelta(seconds=self.rng.randint(-10**9, 4 * 10**9))

    def dates(self, rows):
        make = lambda at: (lambda d: (d.isoformat(), d.isoformat()))(self.day())
        return Column("dates", "date", self.cells(rows, make))

    def times(self, rows):
        digits = self.rng.choice([0, 0, 3, 6, 9])

        def make(at):
            text = f"{self.rng.randint(0, 23):02}:{self.rng.randint(0, 59):02}:{self.rng.randint(0, 59):02}"
            text += f".{self.rng.randrange(10**digits):0{digits}}" if digits else ""
            return text, text
        return Column("times", "time(ns)" if digits == 9 else "time(us)", self.cells(rows, make))

    def moments(self, rows):
        """ISO 8601 with dates beside, fractions and zones."""
        zone, digits = self.rng.random() < 0.4, self.rng.choice([0, 0, 3, 6, 9])
        mixed = not zone and self.rng.random() < 0.3
        between = self.rng.choice([" ", "T"])

        def make(at):
            moment = self.moment()
            if digits == 9:
                moment = moment.replace(year=1990 + moment.year % 100, day=min(moment.day, 28))
            if mixed and self.rng.random() < 0.5:
                return moment.date().isoformat(), moment.date().isoformat() + "T00:00:00"
            fraction = f".{self.rng.randrange(10**digits):0{digits}}" if digits else ""
            value = f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}"
            text = value.replace("T", between)
            if not zone:
                return text, value
            hours = self.rng.choice([0, 0, 2, -5, 11])
            offset = self.rng.choice(["Z", "+00:00"]) if hours == 0 else f"{hours:+03}:00"
            utc = moment - datetime.timedelta(hours=hours)
            return text + offset, f"{utc:%Y-%m-%dT%H:%M:%S}{fraction}+00:00"
        column = Column("moments", f"timestamp({'ns' if digits == 9 else 'us'}{',UTC' if zone else ''})", self.cells(rows, make))
        text, value = "2001-02-03T04:05:06" + ("." + "7" * digits if digits else ""), ""
        value = text + ("+00:00" if zone else "")
        return self.with_first(column, rows, text + ("Z" if zone else ""), value)

    def layouts(self, rows):
        """Dates and timestamps that are not in ISO 8601."""
        rng = self.rng
        order = self.world.date_order
        kind = rng.choice(["year", "slash", "hyphen", "point", "name", "long", "mail", "minutes"])
        first = rng.choice(["dmy", "mdy"]) if not order else order
        clock = rng.choice([None, None, "%H:%M", "%H:%M:%S", "%I:%M:%S %p"]) if kind not in ("mail", "minutes") else None
        pad = rng.choice([str, "{:02}".format])

        def date_text(day):
            parts = [pad(day.day), pad(day.month)] if first == "dmy" else [pad(day.month), pad(day.day)]
            month = MONTHS[day.month - 1]
            return {"year": f"{day.year}/{pad(day.month)}/{pad(day.day)}", "slash": f"{'/'.join(parts)}/{day.year}",
                    "hyphen": f"{'-'.join(parts)}-{day.year}", "point": f"{pad(day.day)}.{pad(day.month)}.{day.year}",
                    "name": f"{day.day:02}-{month[:3]}-{day.year}", "long": f"{day.day} {month} {day.year}", "mail": "",
                    "minutes": day.strftime("%Y-%m-%d")}[kind]

        def both(moment):
            if kind == "mail":
                hours = rng.choice([0, 2, -5])
                utc = moment - datetime.timedelta(hours=hours)
                text = f"{WEEKDAYS[moment.weekday()]}, {moment.day} {MONTHS[moment.month - 1][:3]} {moment.year} {moment:%H:%M:%S} {hours:+03}00"
                return text, f"{utc:%Y-%m-%dT%H:%M:%S}+00:00"
            how = "%H:%M" if kind == "minutes" else clock
            if not how:
                return date_text(moment), moment.date().isoformat()
            cut = moment.replace(second=0) if "%S" not in how else moment
            return f"{date_text(moment)} {moment.strftime(how)}", f"{cut:%Y-%m-%dT%H:%M:%S}"
        moments = [self.moment().replace(microsecond=0) for _ in range(rows)]
        column = Column(f"layouts {kind}", "timestamp(us,UTC)" if kind == "mail" else "timestamp(us)" if clock or kind == "minutes" else "date", [])
        if kind == "point" and order == "mdy":
            return self.dates(rows)
        if kind in ("slash", "hyphen", "point"):
            sure = any(moment.day > 12 for moment in moments)
            if rows and not sure and not order and kind != "point":
                if rng.random() < 0.5:
                    moments = [moment.replace(day=min(moment.day, 12)) for moment in moments]
                    cells = [Cell(text, text) for text, _ in map(both, moments)]
                    return Column("layouts ambiguous", "utf8", cells, note="may have the day or the month first")
                moments[0] = moments[0].replace(day=13)
                sure = True
            if not order and kind != "point":
                # The one that decides must not become null.
                column.keep = {next(at for at, moment in enumerate(moments) if moment.day > 12)} if rows else set()
        column.cells = [Cell(*both(moment)) for moment in moments]
        return column


# How often each kind of column is made.
KINDS = {"ints": 5, "unsigned": 1, "floats": 4, "unfit": 2, "given": 4, "bools": 2, "codes": 1, "texts": 8, "doubtful": 1.5, "nothing": 1,
         "dates": 2, "times": 1, "moments": 3, "layouts": 4}
