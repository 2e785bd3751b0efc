//! Builds one column of a chunk: fields are parsed directly into the buffers of an Arrow array.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType,
};
use arrow_array::{ArrayRef, BooleanArray, NullArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};

use super::arrays::{BitmapBuilder, array, bytes_array, int_array, uint_array};
use super::rules::{FieldRules, Inner, unescape, unquoted};
use super::split::{Field, Tile};
use super::values::{
    AsIs, Spelling, Zone, epoch, laid_out_date, laid_out_timestamp, loose_float, loose_int,
    loose_uint, timestamp,
};
use crate::ingest::columns::texts_of;
use crate::ingest::text::interval::interval;
use crate::ingest::text::layout::{Layout, compact_date};
use crate::ingest::text::{Text, number, time};
use crate::model::{DataType, uuid};

enum Values {
    Null(usize),
    Bool(Vec<bool>),
    /// All signed integers and times; narrower types are cut down at the end.
    Int(Vec<i64>),
    UInt(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Date(Vec<i32>),
    Decimal(Vec<i128>),
    Bytes {
        offsets: Vec<i32>,
        bytes: Vec<u8>,
    },
    Uuid(Vec<[u8; 16]>),
    Interval(Vec<IntervalMonthDayNano>),
}

/// A column under construction.
pub(in crate::ingest::sources) struct ColumnBuilder {
    data_type: DataType,
    lenient: bool,
    layout: Layout,
    values: Values,
    valid: BitmapBuilder,
}

impl ColumnBuilder {
    /// An empty column; `lenient` accepts spellings that are ambiguous unless the user has named
    /// the type.
    pub(in crate::ingest::sources) fn new(data_type: &DataType, lenient: bool) -> Self {
        let values = match data_type {
            DataType::Null => Values::Null(0),
            DataType::Bool => Values::Bool(Vec::new()),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
                Values::UInt(Vec::new())
            }
            DataType::Float32 => Values::Float32(Vec::new()),
            DataType::Float64 => Values::Float64(Vec::new()),
            DataType::Date => Values::Date(Vec::new()),
            DataType::Decimal { .. } => Values::Decimal(Vec::new()),
            DataType::Utf8 | DataType::Binary => {
                Values::Bytes { offsets: vec![0], bytes: Vec::new() }
            }
            DataType::Uuid => Values::Uuid(Vec::new()),
            DataType::Interval => Values::Interval(Vec::new()),
            _ => Values::Int(Vec::new()),
        };
        ColumnBuilder {
            data_type: data_type.clone(),
            lenient,
            layout: Layout::Plain,
            values,
            valid: BitmapBuilder::default(),
        }
    }

    /// The column, with values in this layout.
    #[must_use]
    pub(super) fn laid_out(self, layout: Layout) -> Self {
        ColumnBuilder { layout, ..self }
    }

    pub(super) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Reserves space for `rows` more rows.
    pub(in crate::ingest::sources) fn reserve(&mut self, rows: usize) {
        match &mut self.values {
            Values::Null(_) => return,
            Values::Bool(v) => v.reserve(rows),
            Values::Int(v) => v.reserve(rows),
            Values::UInt(v) => v.reserve(rows),
            Values::Float32(v) => v.reserve(rows),
            Values::Float64(v) => v.reserve(rows),
            Values::Date(v) => v.reserve(rows),
            Values::Decimal(v) => v.reserve(rows),
            Values::Bytes { offsets, .. } => offsets.reserve(rows),
            Values::Uuid(v) => v.reserve(rows),
            Values::Interval(v) => v.reserve(rows),
        }
        self.valid.words.reserve(rows / 64 + 1);
    }

    /// Appends a column of a tile. The error is the first row that does not parse; rows before it
    /// have been appended.
    pub(super) fn push(
        &mut self,
        tile: Tile<'_>,
        index: usize,
        rules: &FieldRules,
    ) -> Result<(), usize> {
        self.push_fields(tile.text(), tile.column(index), rules)
    }

    /// Appends fields of `text`. The error is the first one that does not parse; those before it
    /// have been appended.
    pub(in crate::ingest::sources) fn push_fields(
        &mut self,
        text: &[u8],
        fields: impl Iterator<Item = Field>,
        rules: &FieldRules,
    ) -> Result<(), usize> {
        match self.layout {
            Layout::Plain => self.push_as(text, fields, rules, AsIs),
            Layout::Numbers(format) => self.push_as(text, fields, rules, format),
            layout => match self.data_type {
                DataType::Bool | DataType::Date | DataType::Timestamp { .. } => {
                    self.push_laid_out(text, fields, rules, layout)
                }
                // What became text, or has no value yet, has no layout.
                _ => self.push_as(text, fields, rules, AsIs),
            },
        }
    }

    /// [`ColumnBuilder::push_fields`] for numbers in some spelling.
    #[inline]
    fn push_as(
        &mut self,
        text: &[u8],
        fields: impl Iterator<Item = Field>,
        rules: &FieldRules,
        spelling: impl Spelling,
    ) -> Result<(), usize> {
        let lenient = self.lenient;
        let appender = FieldAppender { text, fields, rules, valid: &mut self.valid };
        let zoned = |zone: &Option<Arc<str>>| Zone::expected(zone.as_deref(), lenient);
        match (&mut self.values, &self.data_type) {
            (Values::Null(rows), _) => appender.nulls(rows),
            (Values::Bytes { offsets, bytes }, DataType::Binary) => {
                appender.bytes(offsets, bytes, take_hexadecimal)
            }
            (Values::Bytes { offsets, bytes }, _) => appender.bytes(offsets, bytes, |_, _| ()),
            (Values::Bool(out), _) => {
                appender.values(out, number::boolean, lenient.then_some(number::boolean_lenient))
            }
            (Values::Int(out), DataType::Timestamp { unit, zone }) => {
                let (unit, zone) = (*unit, zoned(zone));
                appender.values(out, |text| timestamp(text, unit, zone), strict_only())
            }
            (Values::Int(out), DataType::Time { unit }) => {
                appender.values(out, |text| time::time_of_day(text)?.ticks(*unit), strict_only())
            }
            (Values::Int(out), DataType::Int64) => {
                let loose = |text: Text<'_>| spelling.read(text, |text| loose_int(text, lenient));
                appender.values(out, |text| spelling.read(text, number::int64), Some(loose))
            }
            (Values::Int(out), narrow) => {
                let bounds = signed_bounds(narrow);
                let fits = |v: &i64| bounds.contains(v);
                let strict = |text: Text<'_>| spelling.read(text, number::int64).filter(fits);
                let loose = |text: Text<'_>| {
                    spelling.read(text, |text| loose_int(text, lenient)).filter(fits)
                };
                appender.values(out, strict, Some(loose))
            }
            (Values::UInt(out), data_type) => {
                let most = unsigned_bound(data_type);
                let fits = |v: &u64| *v <= most;
                let strict = |text: Text<'_>| spelling.read(text, number::uint64).filter(fits);
                let loose = |text: Text<'_>| {
                    spelling.read(text, |text| loose_uint(text, lenient)).filter(fits)
                };
                appender.values(out, strict, Some(loose))
            }
            (Values::Float32(out), _) => {
                let strict = |text: Text<'_>| spelling.read(text, number::float32);
                let loose = |text: Text<'_>| spelling.read(text, number::float32_lenient);
                appender.values(out, strict, lenient.then_some(loose))
            }
            (Values::Float64(out), _) => {
                let loose = |text: Text<'_>| spelling.read(text, |text| loose_float(text, lenient));
                appender.values(out, |text| spelling.read(text, number::float64), Some(loose))
            }
            (Values::Date(out), _) => {
                appender.values(out, time::date, lenient.then_some(compact_date))
            }
            (Values::Decimal(out), DataType::Decimal { precision, scale }) => {
                let decimal = |text: Text<'_>| number::decimal(text, *precision, *scale);
                appender.values(out, |text| spelling.read(text, decimal), strict_only())
            }
            (Values::Decimal(_), _) => Err(0),
            (Values::Interval(out), _) => appender.values(out, interval, strict_only()),
            (Values::Uuid(out), _) => {
                appender.values(out, |text| uuid::parse(text.bytes()), strict_only())
            }
        }
    }

    /// [`ColumnBuilder::push_fields`] for dates, timestamps and booleans that are not plain.
    fn push_laid_out(
        &mut self,
        text: &[u8],
        fields: impl Iterator<Item = Field>,
        rules: &FieldRules,
        layout: Layout,
    ) -> Result<(), usize> {
        let zone = match &self.data_type {
            DataType::Timestamp { zone, .. } => Zone::expected(zone.as_deref(), self.lenient),
            _ => Zone::Absent,
        };
        let appender = FieldAppender { text, fields, rules, valid: &mut self.valid };
        match (&mut self.values, &self.data_type) {
            (Values::Bool(out), _) => {
                appender.values(out, |text| layout.boolean(text.bytes()), strict_only())
            }
            (Values::Int(out), DataType::Timestamp { unit, .. }) => match layout {
                Layout::Epoch(ticks) => {
                    appender.values(out, |text| epoch(text, ticks, *unit), strict_only())
                }
                layout => {
                    let parse = |text: Text<'_>| laid_out_timestamp(text, layout, *unit, zone);
                    appender.values(out, parse, strict_only())
                }
            },
            (Values::Date(out), _) => {
                appender.values(out, |text| laid_out_date(text, layout), strict_only())
            }
            _ => Err(0),
        }
    }

    /// The Arrow array; the error is a row that is not UTF-8.
    pub(in crate::ingest::sources) fn finish(self) -> Result<ArrayRef, usize> {
        let nulls = self.valid.len - self.valid.ones;
        let nulls = (nulls > 0).then(|| NullBuffer::new(self.valid.finish()));
        Ok(match self.values {
            Values::Null(rows) => Arc::new(NullArray::new(rows)),
            Values::Bool(values) => Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)),
            Values::Int(values) => int_array(&self.data_type, values, nulls),
            Values::UInt(values) => uint_array(&self.data_type, values, nulls),
            Values::Float32(values) => array::<Float32Type>(values, nulls),
            Values::Float64(values) => array::<Float64Type>(values, nulls),
            Values::Date(values) => array::<Date32Type>(values, nulls),
            Values::Decimal(values) => {
                let array =
                    PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), nulls);
                Arc::new(array.with_data_type(self.data_type.to_arrow()))
            }
            Values::Interval(values) => array::<IntervalMonthDayNanoType>(values, nulls),
            Values::Uuid(values) => {
                let is_valid = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                let values = values.iter().enumerate();
                let values = values.map(|(row, bytes)| is_valid(row).then_some(*bytes));
                Arc::new(texts_of(values))
            }
            Values::Bytes { offsets, bytes } => {
                return bytes_array(&self.data_type, offsets, bytes, nulls);
            }
        })
    }
}

fn strict_only<T>() -> Option<fn(Text<'_>) -> Option<T>> {
    None
}

fn signed_bounds(data_type: &DataType) -> std::ops::RangeInclusive<i64> {
    match data_type {
        DataType::Int8 => i64::from(i8::MIN)..=i64::from(i8::MAX),
        DataType::Int16 => i64::from(i16::MIN)..=i64::from(i16::MAX),
        DataType::Int32 => i64::from(i32::MIN)..=i64::from(i32::MAX),
        _ => i64::MIN..=i64::MAX,
    }
}

fn unsigned_bound(data_type: &DataType) -> u64 {
    match data_type {
        DataType::UInt8 => u64::from(u8::MAX),
        DataType::UInt16 => u64::from(u16::MAX),
        DataType::UInt32 => u64::from(u32::MAX),
        _ => u64::MAX,
    }
}

/// Appends fields to the buffers of a column.
struct FieldAppender<'a, F> {
    text: &'a [u8],
    fields: F,
    rules: &'a FieldRules,
    valid: &'a mut BitmapBuilder,
}

impl<F: Iterator<Item = Field>> FieldAppender<'_, F> {
    /// Appends fixed-width values.
    #[inline]
    fn values<T: Copy + Default>(
        self,
        out: &mut Vec<T>,
        strict: impl Fn(Text<'_>) -> Option<T>,
        lenient: Option<impl Fn(Text<'_>) -> Option<T>>,
    ) -> Result<(), usize> {
        let text = self.text;
        let plain_nulls = self.rules.nulls.is_empty();
        let mut scratch = Vec::new();
        for (row, field) in self.fields.enumerate() {
            if field.len == 0 {
                // The empty text, which is no such value.
                if !field.quoted && !self.rules.empty_is_null && !self.rules.is_null(b"") {
                    return Err(row);
                }
                out.push(T::default());
                self.valid.push(false);
                continue;
            }
            if !field.escaped && (plain_nulls || field.quoted) {
                let tail = text.get(field.start..).unwrap_or_default();
                if let Some(value) = strict(Text::new(tail, field.len)) {
                    out.push(value);
                    self.valid.push(true);
                    continue;
                }
            }
            let value = unquoted(text, field, self.rules, &mut scratch);
            if !field.quoted && self.rules.is_null(value.bytes()) {
                out.push(T::default());
                self.valid.push(false);
                continue;
            }
            let parse = |value| {
                strict(value).or_else(|| lenient.as_ref().and_then(|lenient| lenient(value)))
            };
            let parsed = match parse(value) {
                Some(parsed) => Some(parsed),
                None => match self.rules.inner(value, field.quoted) {
                    Inner::Same => return Err(row),
                    Inner::Null => None,
                    Inner::Value(inner) => Some(parse(inner).ok_or(row)?),
                },
            };
            out.push(parsed.unwrap_or_default());
            self.valid.push(parsed.is_some());
        }
        Ok(())
    }

    /// Appends to a column without values.
    fn nulls(self, rows: &mut usize) -> Result<(), usize> {
        for (row, field) in self.fields.enumerate() {
            let bytes = self.text.get(field.start..field.start + field.len).unwrap_or_default();
            let null = !field.quoted
                && (field.len == 0 && self.rules.empty_is_null || self.rules.is_null(bytes));
            if !null {
                return Err(row);
            }
            *rows += 1;
        }
        Ok(())
    }

    /// Appends text or binary; `finish` is called with the start of each value.
    #[inline]
    fn bytes(
        self,
        offsets: &mut Vec<i32>,
        out: &mut Vec<u8>,
        finish: impl Fn(&mut Vec<u8>, usize),
    ) -> Result<(), usize> {
        let text = self.text;
        for (row, field) in self.fields.enumerate() {
            let start = out.len();
            let tail = text.get(field.start..).unwrap_or_default();
            let value = Text::new(tail, field.len);
            let empty_null = field.len == 0 && self.rules.empty_is_null;
            let null = !field.quoted && (empty_null || self.rules.is_null(value.bytes()));
            if field.escaped {
                unescape(value.bytes(), self.rules.quote, out);
            } else if !null {
                append(out, tail, field.len);
            }
            finish(out, start);
            offsets.push(i32::try_from(out.len()).map_err(|_| row)?);
            self.valid.push(!null);
        }
        Ok(())
    }
}

/// Decodes the value from `start` on if it is `\x` followed by pairs of hexadecimal digits, the
/// form in which bytes are printed.
fn take_hexadecimal(out: &mut Vec<u8>, start: usize) {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    let digits = out.get(start..).and_then(|value| value.strip_prefix(b"\\x"));
    if let Some(bytes) =
        digits.and_then(|digits| digits.chunks(2).map(pair).collect::<Option<Vec<u8>>>())
    {
        out.truncate(start);
        out.extend_from_slice(&bytes);
    }
}

/// Appends the first `len` bytes. Short values are copied as a whole word and truncated, which
/// needs no call.
#[inline]
fn append(out: &mut Vec<u8>, tail: &[u8], len: usize) {
    match tail.first_chunk::<16>() {
        Some(word) if len <= 16 => {
            let before = out.len();
            out.extend_from_slice(word);
            out.truncate(before + len);
        }
        _ => out.extend_from_slice(tail.get(..len).unwrap_or(tail)),
    }
}
