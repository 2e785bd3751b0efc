//! Collects the values of a column, whether they come row by row (`RowBinary`) or column by column
//! (`Native`). Numbers stay bytes until the column is complete; `finish` makes an array of them.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;

use super::input::Input;
use crate::errors::Failure;
use crate::serve::clickhouse::refusals::{invalid, unsupported};
use crate::serve::clickhouse::types::Type;

/// The values of a column so far.
pub(super) struct Build {
    /// Without `Nullable` around it.
    pub(super) found: Type,
    /// For each row whether it is null, if there can be nulls.
    pub(super) nulls: Option<Vec<bool>>,
    pub(super) rows: usize,
    pub(super) store: Store,
    /// Whether texts are wanted as bytes.
    pub(super) as_bytes: bool,
}

pub(super) enum Store {
    Nothing,
    /// Values of this many bytes, one after the other.
    Fixed {
        width: usize,
        bytes: Vec<u8>,
    },
    /// Texts, and where each ends.
    Text {
        ends: Vec<usize>,
        bytes: Vec<u8>,
    },
    /// Items of arrays or maps, and where each row ends.
    Items {
        ends: Vec<usize>,
        items: Box<Build>,
    },
    Elements(Vec<Build>),
    /// Values with a dictionary: row by row without it, or a column that it has been applied to.
    Dictionary {
        plain: Box<Build>,
        column: Option<ArrayRef>,
    },
}

impl Build {
    /// Starts a column of a type, the values of which are stored in a column of the type `target`.
    pub(super) fn new(found: &Type, target: Option<&DataType>) -> Build {
        let (found, nulls) = match found {
            Type::Nullable(inner) => (inner.as_ref(), Some(Vec::new())),
            other => (other, None),
        };
        let fixed = |width| Store::Fixed { width, bytes: Vec::new() };
        let store = match found {
            Type::Nothing | Type::Nullable(_) => Store::Nothing,
            Type::Bool | Type::Int8 | Type::UInt8 | Type::Enum8(_) => fixed(1),
            Type::Int16 | Type::UInt16 | Type::Date | Type::Enum16(_) => fixed(2),
            Type::Int32 | Type::UInt32 | Type::Float32 | Type::Date32 | Type::DateTime(_) => {
                fixed(4)
            }
            Type::Int64 | Type::UInt64 | Type::Float64 | Type::DateTime64(..) => fixed(8),
            Type::Uuid => fixed(16),
            Type::Decimal { precision, .. } => fixed(match precision {
                0..=9 => 4,
                10..=18 => 8,
                19..=38 => 16,
                _ => 32,
            }),
            Type::FixedString(length) => fixed(*length as usize),
            Type::String => Store::Text { ends: Vec::new(), bytes: Vec::new() },
            Type::Array(item) => {
                let items = Box::new(Build::new(item, target.and_then(item_of)));
                Store::Items { ends: Vec::new(), items }
            }
            Type::Map(key, value) => {
                let elements = vec![(None, key.as_ref().clone()), (None, value.as_ref().clone())];
                let target = target.and_then(item_of);
                let items = Box::new(Build::new(&Type::Tuple(elements), target));
                Store::Items { ends: Vec::new(), items }
            }
            Type::Tuple(elements) => {
                let element = |(at, (_, element)): (usize, &(Option<String>, Type))| {
                    Build::new(element, target.and_then(|target| element_of(target, at)))
                };
                Store::Elements(elements.iter().enumerate().map(element).collect())
            }
            Type::LowCardinality(inner) => {
                Store::Dictionary { plain: Box::new(Build::new(inner, target)), column: None }
            }
        };
        let as_bytes = target.is_some_and(is_bytes);
        Build { found: found.clone(), nulls, rows: 0, store, as_bytes }
    }

    /// Reads a value as `RowBinary` has it.
    pub(super) fn row(&mut self, input: &mut Input<'_>) -> Result<(), Failure> {
        let is_null = match &mut self.nulls {
            None => false,
            Some(nulls) => {
                let is_null = flag(input)?;
                input.charge(1)?;
                nulls.push(is_null);
                is_null
            }
        };
        if is_null {
            return self.push_default(input);
        }
        self.rows += 1;
        match &mut self.store {
            Store::Nothing => Err(input.wrong("a value of type Nothing")),
            Store::Fixed { width, bytes } => input.append(*width as u64, bytes),
            Store::Text { ends, bytes } => text(input, ends, bytes),
            Store::Items { ends, items } => {
                let count = input.varuint()?;
                input.charge(size_of::<usize>() as u64)?;
                for _ in 0..count {
                    items.row(input)?;
                }
                ends.push(items.rows);
                Ok(())
            }
            Store::Elements(elements) => {
                elements.iter_mut().try_for_each(|element| element.row(input))
            }
            Store::Dictionary { plain, .. } => plain.row(input),
        }
    }

    /// Adds a value that stands in the place of a null.
    fn push_default(&mut self, input: &mut Input<'_>) -> Result<(), Failure> {
        self.rows += 1;
        match &mut self.store {
            Store::Fixed { width, bytes } => {
                input.charge(*width as u64)?;
                bytes.resize(bytes.len() + *width, 0);
            }
            Store::Text { ends, bytes } => {
                input.charge(size_of::<usize>() as u64)?;
                ends.push(bytes.len());
            }
            // What has other parts is never null.
            _ => {}
        }
        Ok(())
    }

    /// Reads what `Native` has before the data of a column: versions of dictionaries.
    pub(super) fn prefix(&self, input: &mut Input<'_>) -> Result<(), Failure> {
        match &self.store {
            Store::Items { items, .. } => items.prefix(input),
            Store::Elements(elements) => {
                elements.iter().try_for_each(|element| element.prefix(input))
            }
            Store::Dictionary { .. } => match input.u64()? {
                1 => Ok(()),
                other => Err(input.wrong(&format!("a dictionary of version {other}"))),
            },
            _ => Ok(()),
        }
    }

    /// Reads this many values as `Native` has them.
    pub(super) fn column(&mut self, input: &mut Input<'_>, rows: u64) -> Result<(), Failure> {
        if let Some(nulls) = &mut self.nulls {
            let mut flags = Vec::new();
            input.append(rows, &mut flags)?;
            if flags.iter().any(|flag| *flag > 1) {
                return Err(input.wrong("a null that is neither 0 nor 1"));
            }
            nulls.extend(flags.iter().map(|flag| *flag == 1));
        }
        match &mut self.store {
            // A byte for each, which means nothing.
            Store::Nothing => input.append(rows, &mut Vec::new())?,
            Store::Fixed { width, bytes } => {
                input.append(rows.saturating_mul(*width as u64), bytes)?;
            }
            Store::Text { ends, bytes } => {
                for _ in 0..rows {
                    text(input, ends, bytes)?;
                }
            }
            Store::Items { ends, items } => {
                let mut bytes = Vec::new();
                input.append(rows.saturating_mul(8), &mut bytes)?;
                let mut last = 0;
                for end in bytes.as_chunks().0 {
                    let end = u64::from_le_bytes(*end);
                    if end < last {
                        return Err(input.wrong("an array that ends before it starts"));
                    }
                    // If it does not fit, the items are more than any bound.
                    ends.push(usize::try_from(end).unwrap_or(usize::MAX));
                    last = end;
                }
                items.column(input, last)?;
            }
            Store::Elements(elements) => {
                elements.iter_mut().try_for_each(|element| element.column(input, rows))?;
            }
            Store::Dictionary { plain, column } => {
                *column = Some(dictionary(plain, input, rows)?);
            }
        }
        // As many bytes were read, at least.
        self.rows += usize::try_from(rows).unwrap_or(usize::MAX);
        Ok(())
    }
}

/// The type of the items of a list or a map.
fn item_of(target: &DataType) -> Option<&DataType> {
    match target {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => Some(item.data_type()),
        _ => None,
    }
}

fn element_of(target: &DataType, at: usize) -> Option<&DataType> {
    match target {
        DataType::Struct(fields) => fields.get(at).map(|field| field.data_type()),
        _ => None,
    }
}

fn is_bytes(target: &DataType) -> bool {
    match target {
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => true,
        DataType::Dictionary(_, values) => is_bytes(values),
        _ => false,
    }
}

fn flag(input: &mut Input<'_>) -> Result<bool, Failure> {
    match input.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(input.wrong("a null that is neither 0 nor 1")),
    }
}

fn text(input: &mut Input<'_>, ends: &mut Vec<usize>, bytes: &mut Vec<u8>) -> Result<(), Failure> {
    let length = input.varuint()?;
    input.charge(size_of::<usize>() as u64)?;
    input.append(length, bytes)?;
    ends.push(bytes.len());
    Ok(())
}

/// Reads a dictionary and the codes of the rows. In a dictionary with nulls, code 0 is null.
fn dictionary(plain: &mut Build, input: &mut Input<'_>, rows: u64) -> Result<ArrayRef, Failure> {
    const GLOBAL: u64 = 1 << 8;
    const OWN_KEYS: u64 = 1 << 9;
    let nullable = plain.nulls.is_some();
    let start = Build {
        found: plain.found.clone(),
        nulls: None,
        rows: 0,
        store: std::mem::replace(&mut plain.store, Store::Nothing),
        as_bytes: plain.as_bytes,
    };
    let mut keys = start;
    if rows == 0 {
        return keys.finish(input);
    }
    let kind = input.u64()?;
    if kind & GLOBAL != 0 {
        return Err(unsupported("a dictionary that several blocks share cannot be read"));
    }
    if kind & OWN_KEYS == 0 || kind & 0xFF > 3 {
        return Err(input.wrong("a dictionary of an unknown kind"));
    }
    let count = input.u64()?;
    keys.column(input, count)?;
    if input.u64()? != rows {
        return Err(input.wrong("codes of a dictionary that are not one for each row"));
    }
    let width = 1_usize << (kind & 3);
    let mut bytes = Vec::new();
    input.append(rows.saturating_mul(width as u64), &mut bytes)?;
    let codes = bytes.chunks_exact(width).map(|code| {
        let mut all = [0; 8];
        all[..width].copy_from_slice(code);
        let code = u64::from_le_bytes(all);
        match u32::try_from(code) {
            Ok(code) if u64::from(code) < count => Ok((!nullable || code != 0).then_some(code)),
            _ => Err(invalid(format!("a row has code {code} of a dictionary of {count} values"))),
        }
    });
    let codes: UInt32Array = codes.collect::<Result<_, Failure>>()?;
    let keys = keys.finish(input)?;
    input.charge(bytes_of_rows(&keys, &codes))?;
    arrow_select::take::take(&keys, &codes, None).map_err(Failure::from)
}

/// The bytes that the values of rows of a dictionary take.
fn bytes_of_rows(keys: &ArrayRef, codes: &UInt32Array) -> u64 {
    let of_texts = |length: &dyn Fn(usize) -> usize| -> u64 {
        codes.iter().flatten().map(|code| length(code as usize) as u64 + 4).sum()
    };
    match keys.data_type() {
        DataType::Utf8 => {
            let keys = keys.as_string::<i32>();
            of_texts(&|code| keys.value_length(code) as usize)
        }
        DataType::Binary => {
            let keys = keys.as_binary::<i32>();
            of_texts(&|code| keys.value_length(code) as usize)
        }
        other => codes.len() as u64 * other.primitive_width().unwrap_or(16) as u64,
    }
}
