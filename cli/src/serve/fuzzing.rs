//! What reads the bytes of clients, as functions of any bytes that panic where something is wrong.
//!
//! The first byte of an input says which of them reads the rest. `fuzz/` calls [`run`] by
//! libFuzzer; the test below tries mutants of the seeds.

use super::{clickhouse, http, postgres};

/// A reader of bytes.
#[derive(Debug)]
pub struct Parser {
    /// What it reads.
    pub name: &'static str,
    /// It ends without a panic, in a time and in memory that the length of the bytes bounds.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: &'static [&'static [u8]],
}

/// All of them.
pub const PARSERS: [Parser; 12] = [
    Parser {
        name: "statement",
        run: http::fuzzing::statement,
        seeds: &[
            b"\0SELECT 'it\\'s', a.b, `c d`, {a:UInt8}, {b:String} FROM default.t # x\nFORMAT JSON;",
            b"\0SELECT a IN [1, 2], CAST(b AS Nullable(Int8)) AS Bee, revision() SETTINGS x = 'y'",
            b"\0CREATE TABLE t (a LowCardinality(Nullable(String))) ENGINE = MergeTree ORDER BY a",
            b"\x01INSERT INTO {t:Identifier} (a, b) VALUES (1, 'x'), (2, NULL)",
            b"\0INSERT INTO t SETTINGS a=1 FORMAT CSV\r\n1,2\n/* -- */ version() FROM system.one",
        ],
    },
    Parser {
        name: "request",
        run: http::fuzzing::request,
        seeds: &[
            b"/?query=SELECT+%7Bx%3AUInt8%7D&param_x=1&session_id=s&max_execution_time=1.5\nA: b",
            b"/?user=anna&password=x&compress=1&decompress=1\nContent-Encoding:zstd",
            b"/\nAuthorization: Basic YW5uYTpvbmU=\nAccept-Encoding: gzip;q=0, zstd",
        ],
    },
    Parser {
        name: "encoded",
        run: http::fuzzing::encoded,
        seeds: &[
            b"\0\x1f\x8b\x08\0\0\0\0\0\0\x03KL\x04\0\xf0L\xae\xf5\x02\0\0\0",
            b"\x02\x28\xb5\x2f\xfd\x04\x58\x29\0\0hello\x9e\xc4\x4d\x6e",
            b"\x03\x04\x22\x4d\x18\x60\x40\x82\x05\0\0\x80hello\0\0\0\0",
        ],
    },
    Parser {
        name: "json_rows",
        run: http::fuzzing::json_rows,
        seeds: &[
            b"\0[1, \"a\\\"]\", [2, {\"x\": 3}]],\n[null]",
            b"\x02[\"b\", \"a\"]\n[\"Int8\", \"String\"]\n[1, 2]\n",
        ],
    },
    Parser {
        name: "type_name",
        run: clickhouse::fuzzing::type_name,
        seeds: &[
            b"Tuple(a Nullable(DateTime64(3, 'Asia/Kolkata')), `b c` Map(LowCardinality(String), \
              Array(Decimal(38, 4))))",
            b"Enum8('a' = -1, 'b\\'' = 2)",
            b"Nested(x FixedString(16), y double precision)",
        ],
    },
    Parser {
        name: "parameter",
        run: clickhouse::fuzzing::parameter,
        seeds: &[
            b"Array(Tuple(Int8, Nullable(String)))\n[(1, 'a\\'b'), (2, NULL)]",
            b"DateTime64(9, 'Asia/Kolkata')\n2024-02-29 23:59:59.123456789",
            b"Map(String, Decimal(76, 20))\n{'a': 1.5}",
            b"Date32\n-1",
        ],
    },
    Parser {
        name: "blocks",
        run: clickhouse::fuzzing::blocks,
        seeds: &[
            b"\x02\x0e\0\0\0\x05\0\0\0hello",
            b"\x82\x10\0\0\0\x40\0\0\0\x1fa\x01\0\x20Paaaaa",
            b"\x90\x17\0\0\0\x05\0\0\0\x28\xb5\x2f\xfd\x20\x05\x29\0\0hello",
        ],
    },
    Parser {
        name: "body",
        run: clickhouse::fuzzing::body,
        seeds: &[
            b"\0\0\0\x02\x02\x02c0\x05Int64\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x02c1\x10Nullable(String)\0\x01\x01x\0",
            b"\0\0\0\x01\x02\x02c0\x0eEnum8('a' = 1)\x01\x01",
            b"\0\0\x02\x02\x01\x02c0\x0aDateTime64\x01\0\0\0\0\0\0\0\x02c1\x16LowCardinality(String)\x01\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01x\x01\0\0\0\0\0\0\0\0",
            b"\x01\0\0\x01\0\0\0\0\0\0\0\0\x01x\x01",
            b"\x01\0\x03\x02\0\x01a\x01\0\x01\0\0\0\0\x01b\0\x01z",
            b"\x03\0\0\x02\x02c1\x02c0\x06String\x05Int64\x01x\x07\0\0\0\0\0\0\0",
            b"\x04\0\0(1, 'a\\n', 1.5), (2, NULL, nan);",
            b"\x04\0\x03(['a', NULL], tuple(1, 'x'), 'y')",
            b"\x06\0\x01c0\tc3\tc4\n1\t2024-01-01 10:00:00\t1.5\n2\t\\N\t\\N\n",
        ],
    },
    Parser {
        name: "messages",
        run: postgres::fuzzing::messages,
        seeds: &[
            b"\x80\0\0\0\x17\0\x03\0\0user\0anna\0a\0b\0\0",
            b"\x40B\0\0\0\x20p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02\0\x07\xff\xff\xff\xff\0\x01\0\x01S\0\0\0\x04",
            b"\x10P\0\0\0\x1aname\0SELECT $1\0\0\x01\0\0\0\x17D\0\0\0\x06Sx\0E\0\0\0\x09\0\0\0\0\x05",
        ],
    },
    Parser {
        name: "statements",
        run: postgres::fuzzing::statements,
        seeds: &[
            b"SELECT pg_catalog.version(), E'a\\'' || $x$q$x$, format_type(format_type(a, b), c);",
            b"COPY t (\"A\", b) FROM STDIN WITH (FORMAT csv, HEADER true, DELIMITER ';', NULL '')",
            b"DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 1; FETCH FORWARD 10 FROM c; CLOSE ALL",
            b"BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; SET LOCAL statement_timeout TO '1s'",
            b"SELECT 'public.t'::regclass::oid, a OPERATOR(pg_catalog.~) '^b$' COLLATE \"C\", \
              current_setting('jit'), x::\"char\" FROM pg_catalog.pg_class /* a /* b */ */ -- c\n",
        ],
    },
    Parser {
        name: "copy",
        run: postgres::fuzzing::copy,
        seeds: &[
            b"\x06a\tb\\tc\n\\N\t\\x41\\102\n\\.\nx",
            b"\x01a,b\n\\.\r\n",
            b"\x05PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x01\0\0\0\x01x\0\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ],
    },
    Parser {
        name: "value",
        run: postgres::fuzzing::value,
        seeds: &[
            b"\x06\xa4\x01\0\x02\0\x01\x40\0\0\x02\0\x01\x09\xc4",
            b"\x06\xa4\0-12.5e3",
            b"\x03\xef\x01\0\0\0\x01\0\0\0\0\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff",
            b"\x03\xf1\0{a,NULL,\"b c\"}",
            b"\x04\x5a\x01\0\0\0\0\0\0\0\0",
            b"\x04\xa2\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ],
    },
];

/// Lets the parser that the first byte names read the others.
pub fn run(bytes: &[u8]) {
    let Some((parser, bytes)) = bytes.split_first() else { return };
    if let Some(parser) = PARSERS.get(usize::from(*parser) % PARSERS.len()) {
        (parser.run)(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Knuth's linear congruential generator.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
            self.0 = next.wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % bound.max(1)
        }

        fn part(&mut self, bytes: &[u8], most: usize) -> Vec<u8> {
            let from = self.below(bytes.len());
            bytes[from..(from + 1 + self.below(most)).min(bytes.len())].to_vec()
        }

        /// Changes, inserts, repeats or removes some bytes.
        fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
            for _ in 0..=self.below(3) {
                let at = self.below(bytes.len() + 1);
                let end = (at + self.below(6)).min(bytes.len());
                match self.below(12) {
                    0 => bytes.truncate(at),
                    1 => drop(bytes.drain(at..end)),
                    2 => drop(bytes.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0x7f])),
                    3 => {
                        let part = self.part(other, 40);
                        drop(bytes.splice(at..at, part));
                    }
                    4 => {
                        let part = self.part(bytes, 12);
                        drop(bytes.splice(at..at, part));
                    }
                    // What takes time that is not proportional shows where a part is repeated.
                    5 if self.below(20) == 0 => {
                        let part = self.part(bytes, 12).repeat(2000);
                        drop(bytes.splice(at..at, part));
                    }
                    6 => {
                        let signs = b"()[]{},;:'\"`$\\/*-#\n\t \0%&=ENabcx019".as_slice();
                        let sign = signs[self.below(signs.len())];
                        drop(bytes.splice(at..at, [sign]));
                    }
                    _ if at < bytes.len() => match self.below(3) {
                        0 => bytes[at] ^= 1 << self.below(8),
                        1 => bytes[at] = [0, 1, 2, 0x7f, 0x80, 0xff][self.below(6)],
                        _ => bytes[at] = self.below(256) as u8,
                    },
                    _ => {}
                }
            }
        }
    }

    /// `STY_MUTANTS=n` tries n of each parser, `STY_MUTANTS_SEED=n` others, `STY_PARSER=name` those
    /// of one; `STY_WRITE_SEEDS=DIR` writes the seeds as files, with which libFuzzer can begin.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "files of a developer are none of a store")]
    fn mutants_of_what_clients_send_do_no_harm() {
        let set = |name: &str| std::env::var(name).ok();
        let number = |name: &str| set(name).and_then(|value| value.parse::<u64>().ok());
        let mutants = number("STY_MUTANTS").unwrap_or(20_000);
        for (place, parser) in PARSERS.iter().enumerate() {
            if set("STY_PARSER").is_some_and(|name| name != parser.name) {
                continue;
            }
            let mut random = Random(number("STY_MUTANTS_SEED").unwrap_or(17) + place as u64);
            let (mut slowest, since) = (Duration::ZERO, Instant::now());
            for (at, seed) in parser.seeds.iter().enumerate() {
                (parser.run)(seed);
                if let Some(folder) = set("STY_WRITE_SEEDS") {
                    let bytes = [&[place as u8], *seed].concat();
                    std::fs::write(format!("{folder}/{}-{at}", parser.name), bytes).unwrap();
                }
            }
            for _ in 0..mutants {
                let mut bytes = parser.seeds[random.below(parser.seeds.len())].to_vec();
                let other = parser.seeds[random.below(parser.seeds.len())];
                random.mutate(&mut bytes, other);
                let begun = Instant::now();
                let shown = bytes.escape_ascii().to_string();
                let done = std::panic::catch_unwind(|| run(&[&[place as u8], &*bytes].concat()));
                let (taken, shown) = (begun.elapsed(), shown.get(..2000).unwrap_or(&shown));
                assert!(done.is_ok(), "{}: {shown}", parser.name);
                assert!(taken < Duration::from_secs(60), "{}: {taken:?}: {shown}", parser.name);
                slowest = slowest.max(taken);
            }
            println!("{}: {mutants} in {:?}, {slowest:?}", parser.name, since.elapsed());
        }
    }
}
