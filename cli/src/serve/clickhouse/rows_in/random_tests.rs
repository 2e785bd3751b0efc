//! Rows of random types: what is written is read back, and what is damaged does no harm.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use super::{BodyFormat, Reader};
use crate::errors::Failure;
use crate::serve::clickhouse::formats::{Finished, Format, Writer};
use crate::serve::clickhouse::types::Type;

/// Knuth's linear congruential generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    fn scalar(&mut self) -> Type {
        let zone = Some("Asia/Kolkata".into());
        self.pick(&[
            Type::Bool,
            Type::Int8,
            Type::Int16,
            Type::Int32,
            Type::Int64,
            Type::UInt8,
            Type::UInt16,
            Type::UInt32,
            Type::UInt64,
            Type::Float32,
            Type::Float64,
            Type::Decimal { precision: 9, scale: 2 },
            Type::Decimal { precision: 18, scale: 18 },
            Type::Decimal { precision: 38, scale: 0 },
            Type::Decimal { precision: 76, scale: 20 },
            Type::String,
            Type::Date32,
            Type::DateTime64(0, None),
            Type::DateTime64(6, zone),
            Type::DateTime64(9, None),
        ])
    }

    fn type_of(&mut self, depth: usize) -> Type {
        match self.below(if depth == 0 { 2 } else { 5 }) {
            0 => self.scalar(),
            1 => Type::Nullable(Box::new(self.scalar())),
            2 => Type::Array(Box::new(self.type_of(depth - 1))),
            3 => {
                let named = self.below(2) == 0;
                let count = 1 + self.below(3);
                let element = |at: u64| (named.then(|| format!("e{at}")), self.type_of(depth - 1));
                Type::Tuple((0..count).map(element).collect())
            }
            _ => Type::Map(Box::new(self.scalar()), Box::new(self.type_of(depth - 1))),
        }
    }

    /// Appends a value as `RowBinary` has it.
    fn value(&mut self, found: &Type, out: &mut Vec<u8>) {
        let width = match found {
            Type::Bool => return out.push(self.below(2) as u8),
            Type::String => {
                let length = self.pick(&[0, 1, 5, 12, 13, 127]);
                out.push(length as u8);
                return out.extend((0..length).map(|_| b' ' + self.below(95) as u8));
            }
            Type::Nullable(inner) => {
                let is_null = self.below(3) == 0;
                out.push(u8::from(is_null));
                if !is_null {
                    self.value(inner, out);
                }
                return;
            }
            Type::Array(item) => {
                let count = self.below(4);
                out.push(count as u8);
                return (0..count).for_each(|_| self.value(item, out));
            }
            Type::Tuple(elements) => {
                return elements.iter().for_each(|(_, element)| self.value(element, out));
            }
            Type::Map(key, value) => {
                let count = self.below(4);
                out.push(count as u8);
                return (0..count).for_each(|_| {
                    self.value(key, out);
                    self.value(value, out);
                });
            }
            Type::Decimal { precision, .. } => match precision {
                0..=9 => 4,
                10..=18 => 8,
                19..=38 => 16,
                _ => 32,
            },
            Type::Int8 | Type::UInt8 => 1,
            Type::Int16 | Type::UInt16 => 2,
            Type::Int32 | Type::UInt32 | Type::Float32 | Type::Date32 => 4,
            _ => 8,
        };
        // All bits of numbers; decimals and times stay in their range.
        let is_whole = matches!(found, Type::Decimal { .. } | Type::DateTime64(..) | Type::Date32);
        let used = if is_whole { width.min(3) } else { width };
        let sign = if is_whole && self.below(2) == 0 { 0xFF } else { 0 };
        out.extend((0..used).map(|_| self.next() as u8));
        out.resize(out.len() + width - used, sign);
    }
}

fn read(
    format: BodyFormat,
    declared: &SchemaRef,
    revision: u32,
    body: &[u8],
) -> Result<Vec<RecordBatch>, Failure> {
    let mut reader = Reader::new(format, declared, revision, 1 << 20, body);
    std::iter::from_fn(|| reader.next_batch().transpose()).collect()
}

fn written(format: Format, batches: &[RecordBatch], revision: u32) -> Vec<u8> {
    let mut writer = Writer::new(format, &batches[0].schema(), revision).unwrap();
    let mut out = Vec::new();
    for batch in batches {
        writer.write(batch, &mut out).unwrap();
    }
    writer.finish(&Finished::default(), &mut out).unwrap();
    out
}

#[test]
fn rows_of_random_types_are_read_back() {
    for seed in 0..300 {
        let random = &mut Random(seed);
        let types: Vec<Type> = (0..1 + random.below(4)).map(|_| random.type_of(3)).collect();
        let fields = types.iter().enumerate().map(|(at, found)| found.field(&format!("c{at}")));
        let declared: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut body = Vec::new();
        for _ in 0..1 + random.below(20) {
            types.iter().for_each(|found| random.value(found, &mut body));
        }
        let rows = read(BodyFormat::RowBinary, &declared, 0, &body).unwrap();
        assert!(written(Format::RowBinary, &rows, 0) == body, "{types:?}");
        for (format, to, revision) in [
            (BodyFormat::Native, Format::Native, 0),
            (BodyFormat::Native, Format::Native, 54_460),
            (BodyFormat::RowBinaryWithNamesAndTypes, Format::RowBinaryWithNamesAndTypes, 0),
        ] {
            let mut bytes = written(to, &rows, revision);
            let again = read(format, &declared, revision, &bytes).unwrap();
            assert!(written(Format::RowBinary, &again, 0) == body, "{types:?}");
            for _ in 0..100 {
                let at = random.below(bytes.len() as u64) as usize;
                let any = random.next() as u8;
                bytes[at] = random.pick(&[0, 1, 0x7F, 0x80, 0xFF, any]);
                let _ = read(format, &declared, revision, &bytes);
            }
        }
        for format in Format::ALL {
            let _ = written(format, &rows, 0);
        }
        let lines = written(Format::JsonCompactEachRow, &rows, 0);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            serde_json::from_slice::<serde_json::Value>(line).unwrap();
        }
        serde_json::from_slice::<serde_json::Value>(&written(Format::Json, &rows, 0)).unwrap();
    }
}
