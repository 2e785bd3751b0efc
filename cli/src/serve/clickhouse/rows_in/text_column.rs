//! Collects the values of a column that come as text, and casts them when the batch is complete.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{
    Array, ArrayRef, BinaryArray, IntervalMonthDayNanoArray, ListArray, MapArray, StringArray,
    StructArray, new_null_array,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_cast::CastOptions;
use arrow_schema::{DataType, Field, Fields, IntervalUnit};
use chrono::{DateTime, SecondsFormat};
use stylobate::internal::ingest::interval;

use super::literals::{Scanner, Word, unescaped};
use super::offsets::offsets;
use crate::errors::Failure;
use crate::serve::clickhouse::refusals::invalid;

/// The values of a column so far.
pub(super) struct TextColumn {
    target: DataType,
    valid: Vec<bool>,
    store: Store,
}

enum Store {
    Leaf { ends: Vec<usize>, bytes: Vec<u8> },
    List { ends: Vec<usize>, item: Arc<Field>, items: Box<TextColumn> },
    Struct { fields: Fields, elements: Vec<TextColumn> },
    Map { ends: Vec<usize>, entry: Arc<Field>, keys: Box<TextColumn>, values: Box<TextColumn> },
}

impl TextColumn {
    /// Starts a column of a type.
    pub(super) fn new(target: &DataType) -> TextColumn {
        let column = |field: &Arc<Field>| TextColumn::new(field.data_type());
        let store = match target {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => {
                let items = Box::new(column(item));
                Store::List { ends: Vec::new(), item: Arc::clone(item), items }
            }
            DataType::Struct(fields) => {
                let elements = fields.iter().map(column).collect();
                Store::Struct { fields: fields.clone(), elements }
            }
            DataType::Map(entry, _) => match entry.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => Store::Map {
                    ends: Vec::new(),
                    entry: Arc::clone(entry),
                    keys: Box::new(column(&pair[0])),
                    values: Box::new(column(&pair[1])),
                },
                _ => Store::Leaf { ends: Vec::new(), bytes: Vec::new() },
            },
            _ => Store::Leaf { ends: Vec::new(), bytes: Vec::new() },
        };
        TextColumn { target: target.clone(), valid: Vec::new(), store }
    }

    /// Adds a field of tab-separated values.
    pub(super) fn push_field(&mut self, field: &[u8], escaped: bool) -> Result<(), Failure> {
        if field == b"\\N" {
            self.push_null();
            return Ok(());
        }
        if let Store::Leaf { .. } = self.store {
            match escaped && field.contains(&b'\\') {
                true => self.push_text(&unescaped(field)),
                false => self.push_text(field),
            }
            return Ok(());
        }
        let mut scanner = Scanner::new(field);
        self.push_literal(&mut scanner)?;
        if scanner.peek().is_some() { Err(scanner.wrong("the end of the field")) } else { Ok(()) }
    }

    /// Adds a literal.
    pub(super) fn push_literal(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Failure> {
        if scanner.passes_name(b"NULL") {
            self.push_null();
            return Ok(());
        }
        match &mut self.store {
            Store::Leaf { .. } => match scanner.word()? {
                Word::Text(text) => self.push_text(&text),
                Word::Bare(word) => self.push_text(word),
            },
            Store::List { ends, items, .. } => {
                scanner.expect(b'[')?;
                let mut is_first = true;
                while !scanner.passes(b']') {
                    if !std::mem::take(&mut is_first) {
                        scanner.expect(b',')?;
                    }
                    items.push_literal(scanner)?;
                }
                ends.push(items.valid.len());
                self.valid.push(true);
            }
            Store::Struct { elements, .. } => {
                scanner.passes_name(b"tuple");
                scanner.expect(b'(')?;
                for (at, element) in elements.iter_mut().enumerate() {
                    if at > 0 {
                        scanner.expect(b',')?;
                    }
                    element.push_literal(scanner)?;
                }
                scanner.expect(b')')?;
                self.valid.push(true);
            }
            Store::Map { ends, keys, values, .. } => {
                let (between, end) = if scanner.passes_name(b"map") {
                    scanner.expect(b'(')?;
                    (b',', b')')
                } else {
                    scanner.expect(b'{')?;
                    (b':', b'}')
                };
                let mut is_first = true;
                while !scanner.passes(end) {
                    if !std::mem::take(&mut is_first) {
                        scanner.expect(b',')?;
                    }
                    keys.push_literal(scanner)?;
                    scanner.expect(between)?;
                    values.push_literal(scanner)?;
                }
                ends.push(keys.valid.len());
                self.valid.push(true);
            }
        }
        Ok(())
    }

    fn push_text(&mut self, text: &[u8]) {
        if let Store::Leaf { ends, bytes } = &mut self.store {
            match (&self.target, seconds(text)) {
                (DataType::Timestamp(..), Some(time)) => bytes.extend_from_slice(time.as_bytes()),
                _ => bytes.extend_from_slice(text),
            }
            ends.push(bytes.len());
            self.valid.push(true);
        }
    }

    fn push_null(&mut self) {
        self.valid.push(false);
        match &mut self.store {
            Store::Leaf { ends, bytes } => ends.push(bytes.len()),
            Store::List { ends, items, .. } => ends.push(items.valid.len()),
            Store::Map { ends, keys, .. } => ends.push(keys.valid.len()),
            Store::Struct { elements, .. } => elements.iter_mut().for_each(TextColumn::push_null),
        }
    }

    /// The column in its type.
    pub(super) fn finish(self) -> Result<ArrayRef, Failure> {
        let TextColumn { target, valid, store } = self;
        let rows = valid.len();
        let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
        let array: ArrayRef = match store {
            Store::Leaf { .. } if target == DataType::Null => new_null_array(&target, rows),
            Store::Leaf { ends, bytes } => {
                let (offsets, bytes) = (offsets(&ends)?, Buffer::from_vec(bytes));
                match target {
                    DataType::Binary
                    | DataType::LargeBinary
                    | DataType::BinaryView
                    | DataType::FixedSizeBinary(_) => {
                        Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?)
                    }
                    _ => Arc::new(StringArray::try_new(offsets, bytes, nulls).map_err(|_| {
                        invalid("a text is not UTF-8").hint("a column of bytes takes any bytes")
                    })?),
                }
            }
            Store::List { ends, item, items } => {
                let items = items.finish()?;
                Arc::new(ListArray::try_new(item, offsets(&ends)?, items, nulls)?)
            }
            Store::Struct { fields, elements } => {
                let elements = elements.into_iter().map(TextColumn::finish);
                let elements = elements.collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new_with_length(fields, elements, nulls, rows)?)
            }
            Store::Map { ends, entry, keys, values } => {
                let DataType::Struct(pair) = entry.data_type() else {
                    return Err(invalid("the entries of a map are no pairs"));
                };
                let columns = vec![keys.finish()?, values.finish()?];
                let entries = StructArray::try_new(pair.clone(), columns, None)?;
                Arc::new(MapArray::try_new(entry, offsets(&ends)?, entries, nulls, false)?)
            }
        };
        if *array.data_type() == target {
            return Ok(array);
        }
        if target == DataType::Interval(IntervalUnit::MonthDayNano)
            && let Some(texts) = array.as_string_opt::<i32>()
        {
            return intervals(texts);
        }
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        Ok(arrow_cast::cast_with_options(&array, &target, &strict)?)
    }
}

/// Intervals as everywhere else: Arrow's cast takes a number without a unit for months.
fn intervals(texts: &StringArray) -> Result<ArrayRef, Failure> {
    let read = |text: &str| {
        interval(text).ok_or_else(|| invalid(format!("'{text}' is no interval, such as 1 day")))
    };
    let values = texts.iter().map(|text| text.map(read).transpose());
    Ok(Arc::new(values.collect::<Result<IntervalMonthDayNanoArray, _>>()?))
}

/// A number of seconds since 1970, as ClickHouse's clients send times, too.
fn seconds(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = !whole.is_empty()
        && whole.len() <= 11
        && part.len() <= 9
        && part.bytes().all(|digit| digit.is_ascii_digit());
    // Eight digits may be a date.
    if !is_number || whole.len() == 8 {
        return None;
    }
    let nanos: u32 = format!("{part:0<9}").parse().ok()?;
    let time = DateTime::from_timestamp(whole.parse().ok()?, 0)?;
    let time = time + chrono::Duration::nanoseconds(i64::from(nanos));
    Some(time.to_rfc3339_opts(SecondsFormat::Nanos, true))
}
