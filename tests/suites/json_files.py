"""Random JSON files: lines, arrays, and objects one after the other, whose rows are known."""

import json

from csv_files import COMPRESSIONS, Case, stream
from csv_values import Values

# How often each kind of key is made.
KINDS = {"ints": 5, "floats": 4, "wide": 1, "bools": 2, "texts": 6, "digits": 1, "dates": 2, "moments": 2, "nested": 3, "mixed": 2,
         "nothing": 1, "given": 1}


class Plain:
    """What `Values` asks of a file."""

    nulls, quote, comment, thousands, decimal, date_order = (), '"', "", None, ".", None
    letters = "abcxyz 09,;\"'\\/\n\t\r\b\f\u2028äé日😀\u007f{}[]:"

    def has_letters(self, text):
        return True


class Value:
    """A value as JSON text, and what it means in its column; None for a key that is missing."""

    def __init__(self, text, value):
        self.text, self.value = text, value


class JsonFiles:
    def __init__(self, rng, folder):
        self.rng, self.folder = rng, folder
        self.values = Values(rng, Plain())

    def case(self, number):
        rng = self.rng
        bad = rng.random() < 0.1
        case = Case("json bad rows" if bad else "json")
        rows = rng.choice([1, 1, 2, 3, 5, 10, 40, 300])
        kinds = rng.choices(list(KINDS), list(KINDS.values()), k=rng.choice([1, 2, 3, 5, 8]))
        names = rng.sample(["id", "name", "n", "a b", "Größe", "x\"y", "tab\tkey", "day", "日本", "", "value", "Id2", "at", "b\\c"], len(kinds))
        columns, case.types, schema = [], [], []
        for name, kind in zip(names, kinds):
            if kind == "given" and not plain_name(name):
                kind = "texts"
            data_type, values = getattr(self, kind)(rows)
            if kind == "given":
                schema.append((name, data_type))
            share = rng.choice([0, 0, 0.2, 0.7])
            keep = rng.randrange(rows)
            for at in range(rows):
                if at != keep and values[at].text != "null" and not getattr(values[at], "keep", False) and rng.random() < share:
                    values[at] = Value(rng.choice([None, "null"]), None)
            columns.append((name, data_type, values))
        order = self.order(columns, rows)
        case.names = ["column0" if name == "" else name for name, _, _ in order]
        case.types = [data_type for _, data_type, _ in order]
        case.rows = [tuple(values[at].value for _, _, values in order) for at in range(rows)]
        shape = "lines" if bad else rng.choice(["lines", "lines", "lines", "array", "objects", "pretty"])
        text = self.write(case, columns, rows, shape, bad)
        if case.rejects:
            case.options = ["--rejects", "REJECTS"] if rng.random() < 0.7 else ["--on-error", "skip"]
        encoding = rng.choice(["utf-8"] * 12 + ["utf-8-sig", "utf-16", "utf-16-le"]) if not bad else "utf-8"
        if encoding == "utf-16-le":
            case.options.append("--encoding=utf-16le")
        ending = ".jsonl" if shape == "lines" and rng.random() < 0.7 else ".json"
        self.save(case, f"c{number}{ending}", text.encode(encoding))
        file = f"'{case.files[0]}'"
        if not case.options:
            case.sql = file if rng.random() < 0.7 else f"read_json({file})"
            case.duck = f"read_json_auto({file})"
        if schema:
            case.options.append("--schema=" + ",".join(f"{name}:{kind}" for name, kind in schema))
            case.sql = case.duck = None
        return case

    def order(self, columns, rows):
        """Columns come in the order in which their keys first appear; see `write`."""
        self.orders = []
        seen = []
        for at in range(rows):
            present = [column for column in columns if column[2][at].text is not None]
            if self.rng.random() < 0.3:
                self.rng.shuffle(present)
            self.orders.append(present)
            seen += [column for column in present if column not in seen]
        return seen

    def write(self, case, columns, rows, shape, bad):
        rng, line, parts = self.rng, 1, []
        between = {"lines": "\n", "array": rng.choice([",", ",\n", " , "]), "objects": rng.choice(["", " ", "\n"]), "pretty": "\n"}[shape]
        if shape == "lines" and rng.random() < 0.2:
            between = "\r\n"
        for at in range(rows):
            if shape == "lines" and rng.random() < 0.03:
                parts.append("")
                line += 1
            blank = (lambda: rng.choice(["", "", " ", "\t"])) if shape != "pretty" else (lambda: rng.choice(["", "\n  ", " "]))
            pairs = [f"{self.string(name)}{blank()}:{blank()}{values[at].text}" for name, _, values in self.orders[at]]
            opened = "\n" if shape == "pretty" and not at else blank()  # the first line shows that it is no row
            parts.append("{" + opened + f"{blank()},{blank()}".join(pairs) + blank() + "}")
            line += parts[-1].count("\n") + 1
            if bad and rng.random() < 0.3:
                text = rng.choice(["{", "{\"id\": 1,}", "{\"id\": 01}", "nonsense", "[1, 2]", "{\"a\": \"\\ud800\"}", "{'id': 1}", "5"])
                parts.append(text)
                case.rejects.append((line, text))
                line += 1
        text = between.join(parts)
        if shape == "array":
            return rng.choice(["", "\n"]) + "[" + text + "]" + rng.choice(["", "\n"])
        return text + rng.choice(["", between]) if shape == "lines" else text

    def string(self, text):
        """A string as JSON writes it, with escapes or without."""
        if self.rng.random() < 0.5:
            return json.dumps(text)
        found = json.dumps(text, ensure_ascii=False)
        return found.replace("/", "\\/") if self.rng.random() < 0.2 else found

    def save(self, case, name, data):
        rng = self.rng
        how = rng.choice([None] * 6 + list(COMPRESSIONS))
        if how:
            name += COMPRESSIONS[how]
            data = stream(data, how)
        file = self.folder / name
        file.write_bytes(data)
        case.files.append(file)

    # ---- values, each kind with its type

    def each(self, rows, make):
        return [Value(*make()) for _ in range(rows)]

    def ints(self, rows):
        edges = [0, 1, -1, 2**53 + 1, 2**63 - 1, -2**63]
        make = lambda: (lambda n: (str(n), n))(self.rng.choice(edges) if self.rng.random() < 0.2 else self.rng.randint(-999, 9999))
        return "int64", self.each(rows, make)

    def floats(self, rows):
        def make():
            number = self.rng.choice([0.0, -0.0, 0.1, -2.5, 1e300, 5e-324, 1.7976931348623157e308, float(self.rng.randint(-9, 9)), self.rng.uniform(-1e6, 1e6)])
            text = repr(number) if self.rng.random() < 0.7 else f"{number:.17e}".replace("e", self.rng.choice("eE"))
            if number == int(number) and abs(number) < 1e15 and str(number)[0] != "-" and self.rng.random() < 0.3:
                text = str(int(number))
            return text, number
        values = self.each(rows, make)
        self.put(values, "0.125", 0.125)
        return "float64", values

    def put(self, values, text, value):
        """Puts the value that gives the column its type anywhere."""
        at = self.rng.randrange(len(values))
        values[at] = Value(text, value)
        values[at].keep = True

    def wide(self, rows):
        if self.rng.random() < 0.5:
            values = self.each(rows, lambda: (lambda n: (str(n), n))(self.rng.choice([2**63, 2**64 - 1, 7])))
            self.put(values, str(2**64 - 2), 2**64 - 2)
            return "uint64", values
        values = self.each(rows, lambda: (lambda n: (str(n), n))(self.rng.choice([2**64 + 1, -2**64, 10**37 + 7, 3])))
        self.put(values, str(10**30 + 1), 10**30 + 1)
        return "decimal(38,0)", values

    def bools(self, rows):
        return "bool", self.each(rows, lambda: self.rng.choice([("true", True), ("false", False)]))

    def texts(self, rows):
        values = self.each(rows, lambda: (lambda t: (self.string(t), t))(self.values.text()))
        self.put(values, '"word"', "word")
        return "utf8", values

    def digits(self, rows):
        """Strings of digits and booleans, which are no numbers."""
        return "utf8", self.each(rows, lambda: (lambda t: (self.string(t), t))(self.rng.choice(["1", "2.5", "true", "NA", "null"])))

    def strings_of(self, column):
        return column.data_type, [Value(self.string(cell.text), cell.value) for cell in column.cells]

    def dates(self, rows):
        return self.strings_of(self.values.dates(rows))

    def moments(self, rows):
        data_type, values = self.strings_of(self.values.moments(rows))
        for value in values:
            value.keep = True
        return data_type, values

    def nested(self, rows):
        """Objects and arrays are their JSON text."""
        some = ["[]", "{}", "[1, 2]", "{\"a\":{\"b\": [null, true]}}", "[\"x,\\\"y\\\"\",  1.50]", "[[[]]]", "{\"ä\":\"😀\"}"]
        return "utf8", self.each(rows, lambda: (lambda t: (t, t))(self.rng.choice(some)))

    def mixed(self, rows):
        """Values of several kinds: text, as they were written."""
        some = [("1", "1"), ("2.50", "2.50"), ("true", "true"), ("[1]", "[1]"), ('"a"', "a"), ('"\\u00e4"', "ä")]
        values = self.each(rows, lambda: self.rng.choice(some))
        self.put(values, '"text"', "text")
        return "utf8", values

    def nothing(self, rows):
        return "null", [Value("null", None) for _ in range(rows)]

    def given(self, rows):
        """Types that --schema names; strings that spell the values are read too."""
        kind, make = self.rng.choice([("int16", lambda: (lambda n: (self.rng.choice(["{}", '"{}"']).format(n), n))(self.rng.randint(-99, 99))),
                                      ("utf8", lambda: (lambda n: (str(n), str(n)))(self.rng.randint(0, 99))),
                                      ("float32", lambda: (lambda n: (str(n), n))(self.rng.randint(-99, 99) / 4))])
        return kind, self.each(rows, make)


def plain_name(name):
    return name.isalnum() and name.isascii()
