"""Random Parquet and Arrow files as pyarrow, Polars and DuckDB write them, whose rows are known."""

import datetime
import math
from decimal import Context, Decimal

import duckdb
import pyarrow
import pyarrow.parquet as parquet

from csv_files import COMPRESSIONS, Case, stream

try:
    import polars
except ImportError:
    polars = None

WIDE = Context(prec=60)
EPOCH = datetime.datetime(1970, 1, 1)
TEXTS = ["", "a", "word", "two words", "äé", "日本", "😀", "NA", "1", "a\nb", "a,b", "\"q\"", "x" * 300]
SECONDS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
NUMBERS = {"int8": (-128, 127), "int16": (-2**15, 2**15 - 1), "int32": (-2**31, 2**31 - 1), "int64": (-2**63, 2**63 - 1),
           "uint8": (0, 255), "uint16": (0, 65535), "uint32": (0, 2**32 - 1), "uint64": (0, 2**64 - 1)}


class ColumnarFiles:
    def __init__(self, rng, folder):
        self.rng, self.folder = rng, folder

    def case(self, number):
        rng = self.rng
        rows = rng.choice([0, 1, 2, 5, 30, 300, 3000])
        how = rng.choices(["parquet", "arrow", "polars parquet", "polars arrow", "duckdb parquet"], [5, 4, 2 if polars else 0, 2 if polars else 0, 2])[0]
        case = Case(how)
        count = rng.choice([1, 2, 4, 8])
        case.names = rng.sample(["id", "name", "n", "a b", "Größe", "x\"y", "day", "日本", "Id2", "at"], count)
        arrays = [self.column(rows, how) for _ in range(count)]
        case.types = [data_type for data_type, _, _ in arrays]
        table = pyarrow.table({name: array for name, (_, array, _) in zip(case.names, arrays)})
        values = [found for _, _, found in arrays]
        file = getattr(self, how.replace(" ", "_"))(case, f"c{number}", table)
        case.rows = list(zip(*values)) if rows else []
        case.files.append(file)
        if how.endswith("arrow") and rng.random() < 0.2:
            compression = rng.choice(list(COMPRESSIONS))
            file.write_bytes(stream(file.read_bytes(), compression))
        else:
            case.sql = f"'{file}'"
            case.duck = f"read_parquet('{file}')" if how.endswith("parquet") else None
        return case

    # ---- writers

    def parquet(self, case, name, table):
        rng = self.rng
        file = self.folder / f"{name}.parquet"
        dictionary = rng.choice([True, True, False])
        encodings = None
        if not dictionary and rng.random() < 0.6:
            encodings = {}
            for field in table.schema:
                if pyarrow.types.is_integer(field.type) or pyarrow.types.is_timestamp(field.type):
                    encodings[field.name] = "DELTA_BINARY_PACKED"
                elif pyarrow.types.is_string(field.type):
                    encodings[field.name] = rng.choice(["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
                elif pyarrow.types.is_floating(field.type) and not pyarrow.types.is_float16(field.type):
                    encodings[field.name] = rng.choice(["BYTE_STREAM_SPLIT", "PLAIN"])
        options = {"compression": rng.choice(["none", "snappy", "gzip", "brotli", "lz4", "zstd"]), "use_dictionary": dictionary,
                   "data_page_size": rng.choice([1, 100, 4096, 2**20]), "data_page_version": rng.choice(["1.0", "2.0"]),
                   "row_group_size": rng.choice([1, 7, 1000, 2**20]) if len(table) < 1000 else rng.choice([700, 2**20]),
                   "write_statistics": rng.random() < 0.7, "write_page_index": rng.random() < 0.3, "store_schema": rng.random() < 0.7,
                   "dictionary_pagesize_limit": rng.choice([1, 2**20]), "write_page_checksum": rng.random() < 0.2}
        if encodings:
            options["column_encoding"] = encodings
        # Parquet has no seconds.
        case.types = [data_type.replace("(s)", "(ms)").replace("(s,", "(ms,") for data_type in case.types]
        parquet.write_table(table, file, **options)
        return file

    def arrow(self, case, name, table):
        rng = self.rng
        file = self.folder / f"{name}{rng.choice(['.arrow', '.feather', '.ipc', '.arrows'])}"
        writer = rng.choice([pyarrow.ipc.new_file, pyarrow.ipc.new_stream])
        options = pyarrow.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]))
        with writer(file, table.schema, options=options) as out:
            out.write_table(table, max_chunksize=rng.choice([1, 100, 10**6]) if len(table) < 1000 else 1000)
        return file

    def polars_parquet(self, case, name, table):
        file = self.folder / f"{name}.parquet"
        frame = polars.from_arrow(table)
        frame.write_parquet(file, compression=self.rng.choice(["zstd", "snappy", "lz4", "gzip", "uncompressed"]),
                            row_group_size=self.rng.choice([None, 100]), statistics=self.rng.random() < 0.5)
        self.types_of_polars(case, frame)
        return file

    def polars_arrow(self, case, name, table):
        file = self.folder / f"{name}.arrow"
        frame = polars.from_arrow(table)
        compression = self.rng.choice(["uncompressed", "lz4", "zstd"])
        if self.rng.random() < 0.3:
            frame.write_ipc_stream(file, compression=compression)
        elif self.rng.random() < 0.3:
            frame.lazy().sink_ipc(file, compression=compression)
        else:
            frame.write_ipc(file, compression=compression)
        self.types_of_polars(case, frame)
        return file

    def types_of_polars(self, case, frame):
        """Polars has no seconds, and times in nanoseconds alone."""
        found = []
        for data_type, column in zip(case.types, frame.dtypes):
            if data_type.startswith("timestamp("):
                unit = column.time_unit
                data_type = f"timestamp({unit}{',' + column.time_zone if column.time_zone else ''})"
            elif data_type.startswith("time("):
                data_type = "time(ns)"
            elif data_type.startswith("decimal"):
                data_type = f"decimal({column.precision},{column.scale})"
            found.append(data_type)
        case.types = found

    def duckdb_parquet(self, case, name, table):
        file = self.folder / f"{name}.parquet"
        connection = duckdb.connect(config={"threads": 1})
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("arriving", table)
        compression, version = self.rng.choice(["snappy", "zstd", "gzip", "uncompressed", "brotli", "lz4"]), self.rng.choice(["V1", "V2"])
        size = self.rng.choice([2048, 100000])
        # Deltas of its V2 may take 33 bits for integers of 32, which pyarrow and we refuse.
        case.may_refuse = "Parquet error" if version == "V2" else None
        connection.execute(f"COPY arriving TO '{file}' (FORMAT parquet, COMPRESSION {compression}, PARQUET_VERSION {version}, ROW_GROUP_SIZE {size})")
        for at, column in enumerate(parquet.read_schema(file).types):
            if pyarrow.types.is_timestamp(column):
                case.types[at] = f"timestamp({column.unit}{',UTC' if column.tz else ''})"
            elif case.types[at] == "null":
                case.types[at] = str(column)
        return file

    # ---- columns: the type, the Arrow array, and the values as JSON has them

    def column(self, rows, how):
        kind = self.rng.choice(["number", "number", "float", "bool", "text", "text", "text", "categories", "binary", "date", "timestamp", "timestamp", "time",
                                "decimal", "null"])
        share = self.rng.choice([0, 0, 0.1, 0.5, 1])
        found = getattr(self, kind)(lambda make: [None if self.rng.random() < share else make() for _ in range(rows)])
        # DuckDB writes times as text, and cuts nanoseconds where there is a zone.
        return self.column(rows, how) if how.startswith("duckdb") and (kind == "time" or found[0] == "timestamp(ns,UTC)") else found

    def number(self, fill):
        name = self.rng.choice(list(NUMBERS))
        low, high = NUMBERS[name]
        few = self.rng.random() < 0.5
        values = fill(lambda: self.rng.choice([low, high, 0, 1, 7]) if few else self.rng.randint(low, high))
        return name, pyarrow.array(values, getattr(pyarrow, name)()), values

    def float(self, fill):
        name = self.rng.choice(["float32", "float64"])
        some = [0.0, -0.0, 0.5, -2.25, 1e30 if name == "float64" else 2.0**100, math.nan, math.inf, -math.inf]
        values = fill(lambda: self.rng.choice(some) if self.rng.random() < 0.5 else self.rng.randint(-10**6, 10**6) / 64)
        known = {math.inf: "Infinity", -math.inf: "-Infinity"}
        shown = [value if value is None else "NaN" if math.isnan(value) else known.get(value, value) for value in values]
        return name, pyarrow.array(values, getattr(pyarrow, name)()), shown

    def bool(self, fill):
        values = fill(lambda: self.rng.random() < 0.5)
        return "bool", pyarrow.array(values, pyarrow.bool_()), values

    def texts(self, fill):
        few = self.rng.random() < 0.6
        return fill(lambda: self.rng.choice(TEXTS) if few else f"text {self.rng.randrange(10**6)} {self.rng.choice(TEXTS)}")

    def text(self, fill):
        values = self.texts(fill)
        kind = self.rng.choice([pyarrow.string(), pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()])
        return "utf8", pyarrow.array(values, kind), values

    def categories(self, fill):
        values = self.texts(fill)
        array = pyarrow.array(values, pyarrow.string())
        return "utf8", array.dictionary_encode(), values

    def binary(self, fill):
        values = fill(lambda: self.rng.randbytes(self.rng.choice([0, 1, 4, 40])))
        array = pyarrow.array(values, self.rng.choice([pyarrow.binary(), pyarrow.large_binary()]))
        return "binary", array, [value if value is None else "\\x" + value.hex() for value in values]

    def date(self, fill):
        values = fill(lambda: datetime.date(1970, 1, 1) + datetime.timedelta(days=self.rng.randint(-200_000, 200_000)))
        return "date", pyarrow.array(values, pyarrow.date32()), [value and value.isoformat() for value in values]

    def timestamp(self, fill):
        unit, zone = self.rng.choice(list(SECONDS)), self.rng.choice([None, None, "UTC"])
        ticks, years = SECONDS[unit], (200 if unit == "ns" else 3000)
        numbers = fill(lambda: self.rng.randint(-years * 31_000_000 // 2 if unit != "ns" else -10**9, years * 31_000_000 // 2) * ticks + self.rng.choice(
            [0, self.rng.randrange(ticks)]))

        def shown(number):
            whole, part = divmod(number, ticks)
            at = EPOCH + datetime.timedelta(seconds=whole)
            fraction = f".{part:0{len(str(ticks)) - 1}}" if ticks > 1 else ""
            return f"{at.year:04}-{at:%m-%dT%H:%M:%S}{fraction}{'+00:00' if zone else ''}"
        data_type = f"timestamp({unit}{',UTC' if zone else ''})"
        return data_type, pyarrow.array(numbers, pyarrow.timestamp(unit, zone)), [None if number is None else shown(number) for number in numbers]

    def time(self, fill):
        unit = self.rng.choice(list(SECONDS))
        ticks = SECONDS[unit]
        numbers = fill(lambda: self.rng.randrange(86_400) * ticks + self.rng.choice([0, self.rng.randrange(ticks)]))

        def shown(number):
            whole, part = divmod(number, ticks)
            fraction = f".{part:0{len(str(ticks)) - 1}}" if ticks > 1 else ""
            return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{fraction}"
        kind = pyarrow.time32(unit) if unit in ("s", "ms") else pyarrow.time64(unit)
        return f"time({unit})", pyarrow.array(numbers, kind), [None if number is None else shown(number) for number in numbers]

    def decimal(self, fill):
        precision = self.rng.choice([4, 9, 18, 38])
        scale = self.rng.choice([0, 2, 4])
        values = fill(lambda: Decimal(self.rng.randint(-10**precision + 1, 10**precision - 1)).scaleb(-scale, context=WIDE))
        return f"decimal({precision},{scale})", pyarrow.array(values, pyarrow.decimal128(precision, scale)), values

    def null(self, fill):
        values = fill(lambda: None)
        return "null", pyarrow.nulls(len(values)), values
