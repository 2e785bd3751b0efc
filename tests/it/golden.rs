//! Golden files: segments as version 1 of the format writes them, read by every later version.
//!
//! `STY_WRITE_GOLDEN=1 cargo test --no-default-features --test it` writes them again. Do that only
//! while the version is not released; afterwards a new version gets a directory of its own, and
//! these files stay as they are.

use std::path::PathBuf;

use stylobate::internal::encoding::{Encoding, Options};
use stylobate::internal::segment::{SegmentInput, encode};
use stylobate::{DataType, Profile};

use crate::columns::{
    LATER_TYPES, LONG, SHAPES, TYPES, assert_same, bytes_of, expected, input, open, read_all,
};
use crate::project;
use crate::values::{self, NamedColumn};

/// One golden segment.
pub(crate) struct Golden {
    pub(crate) name: String,
    pub(crate) input: SegmentInput,
    options: Options,
}

impl Golden {
    fn path(&self) -> PathBuf {
        project().join("tests/golden/v1").join(format!("{}.sty", self.name))
    }

    /// The committed bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let path = self.path();
        std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    fn encode(&self) -> Vec<u8> {
        bytes_of(&encode(&self.input, &self.options).unwrap())
    }
}

/// Every type under each profile, each time with other shapes.
fn profiles() -> impl Iterator<Item = Golden> {
    [Profile::Fast, Profile::Balanced, Profile::Small].into_iter().enumerate().map(
        |(p, profile)| {
            let shape = |(i, name): (usize, &&str)| (name.parse().unwrap(), (i + 3 * p) % SHAPES);
            let columns: Vec<_> = TYPES.iter().enumerate().map(shape).collect();
            Golden {
                name: format!("types-{profile}"),
                input: input(&columns, 300),
                options: Options::new(profile),
            }
        },
    )
}

/// The types that came later, in some shapes, under each profile.
fn later_types() -> impl Iterator<Item = Golden> {
    [Profile::Fast, Profile::Balanced, Profile::Small].into_iter().map(|profile| {
        let each = |name: &&str| {
            let data_type: DataType = name.parse().unwrap();
            [0, 1, 5, 7].map(move |shape| (data_type.clone(), shape))
        };
        let columns: Vec<_> = LATER_TYPES.iter().flat_map(each).collect();
        Golden {
            name: format!("later-types-{profile}"),
            input: input(&columns, 300),
            options: Options::new(profile),
        }
    })
}

/// Every encoding, forced on values that it can hold: a full vector and a short one.
fn encodings() -> impl Iterator<Item = Golden> {
    Encoding::ALL.iter().map(|&encoding| {
        let (types, shapes): (&[&str], &[usize]) = match encoding {
            Encoding::Fsst | Encoding::Front => (&["utf8"], &[0, 7]),
            Encoding::Packed => (&["utf8"], &[3, 6]),
            Encoding::Hexadecimal | Encoding::Constant => (&["utf8", "int16"], &[3, 4]),
            Encoding::Alp | Encoding::AlpRd | Encoding::Bits => (&["float64", "float32"], &[0, 5]),
            Encoding::Dyadic => (&["float64", "float32"], &[5, 6]),
            Encoding::Bitmap => (&["bool"], &[1, 7]),
            Encoding::Sequence => (&["int32", "decimal(38,10)"], &[3]),
            Encoding::RunLength => (&["bool", "int32", "utf8"], &[2]),
            Encoding::Dictionary => (&["utf8", "float32", "int16"], &[1]),
            Encoding::Plain => (&["uint16", "utf8"], &[1]),
            Encoding::Frame | Encoding::Delta | Encoding::Planes => {
                (&["int32", "uint64", "uint8"], &[0, 6])
            }
        };
        let columns: Vec<_> = types
            .iter()
            .flat_map(|name| shapes.iter().map(|&shape| (name.parse().unwrap(), shape)))
            .collect();
        let options = Options { force: Some(encoding), ..Options::new(Profile::Balanced) };
        Golden {
            name: format!("forced-{}", encoding.name()),
            input: input(&columns, 1100),
            options,
        }
    })
}

/// Buffers of several chunks, under LZ4 and zstd.
fn chunks() -> impl Iterator<Item = Golden> {
    [(Profile::Balanced, "lz4"), (Profile::Small, "zstd")].into_iter().map(|(profile, name)| {
        Golden {
            name: format!("chunks-{name}"),
            input: SegmentInput { block_rows: 4096, ..input(&[(DataType::Utf8, LONG)], 3000) },
            options: Options { force: Some(Encoding::Plain), ..Options::new(profile) },
        }
    })
}

/// All golden segments of version 1.
pub(crate) fn all() -> Vec<Golden> {
    profiles().chain(later_types()).chain(encodings()).chain(chunks()).collect()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "golden files are written by hand, and need not be durable"
)]
fn golden_segments_read_as_they_were_written() {
    for golden in all() {
        if std::env::var_os("STY_WRITE_GOLDEN").is_some() {
            std::fs::write(golden.path(), golden.encode()).unwrap();
        }
        let bytes = golden.bytes();
        assert!(bytes.len() <= 24 << 10, "{}: {} bytes", golden.name, bytes.len());
        let right = expected(&golden.input);
        let read = read_all(&bytes, &golden.input).unwrap();
        assert_same(&read, &right, &golden.name);
        let blocks = golden.input.rows.div_ceil(golden.input.block_rows);
        let columns = golden.input.columns.iter().zip(read.chunks(blocks));
        let columns = columns.map(|(column, arrays)| NamedColumn {
            name: column.id.0.to_string(),
            data_type: column.data_type.to_string(),
            arrays: arrays.to_vec(),
        });
        values::check(&golden.path().with_extension("json"), &columns.collect::<Vec<_>>());
        let segment = open(&bytes).unwrap();
        assert_eq!(segment.verify().unwrap(), bytes.len() as u64);
        for column in &golden.input.columns {
            let read = segment.column(column.id).unwrap().unwrap();
            for row in [0, 299, 1023, 1099].into_iter().filter(|&row| row < golden.input.rows) {
                let (block, at) = (row / golden.input.block_rows, row % golden.input.block_rows);
                let one =
                    read.block(block).unwrap().gather(&[at as u32], &column.data_type).unwrap();
                assert_same(
                    &[one],
                    &[column.arrays[0].slice(row, 1)],
                    &format!("{} row {row}", golden.name),
                );
            }
        }
    }
}

#[test]
fn golden_files_cover_every_encoding() {
    let mut seen = String::new();
    for golden in all() {
        let segment = open(&golden.bytes()).unwrap();
        for column in &golden.input.columns {
            let read = segment.column(column.id).unwrap().unwrap();
            for b in 0..read.blocks() {
                seen += &format!("{} {} {b}: ", golden.name, column.data_type);
                seen += &read.block(b).unwrap().reader().describe();
                seen += "\n";
            }
        }
    }
    for encoding in Encoding::ALL {
        assert!(
            seen.contains(&format!(": {}", encoding.name())),
            "no block is {} in:\n{seen}",
            encoding.name()
        );
    }
    for part in ["patches", "lz4", "zstd", "wide(", "symbols, lengths", "chars, "] {
        assert!(seen.contains(part), "no block has {part} in:\n{seen}");
    }
}

/// The same rows and options give the same bytes today as when version 1 was fixed. A better choice
/// of encodings does not break the format, but changes these files: write them again, and look at
/// what grew.
#[test]
fn todays_writer_writes_the_golden_bytes() {
    for golden in all() {
        let (now, then) = (golden.encode(), golden.bytes());
        let differs = now.iter().zip(&then).position(|(a, b)| a != b);
        assert!(
            now == then,
            "{}: {} bytes written, {} committed, first difference at {differs:?}",
            golden.name,
            now.len(),
            then.len()
        );
    }
}
