//! Values of groups in the order in which they come, and in that of their groups and keys.

use std::sync::Arc;

use arrow_array::builder::LargeStringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, LargeStringArray, ListArray, StringArray, StringViewArray, new_empty_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_row::{Row, RowConverter, Rows};
use arrow_schema::{DataType, Field};
use arrow_select::interleave::interleave;
use datafusion::common::exec_err;
use datafusion::error::Result as DataFusionResult;

/// All values, in the order in which they have come.
#[derive(Default)]
pub(super) struct Ordered {
    pub(super) chunks: Vec<Arc<Chunk>>,
    pub(super) places: Vec<Place>,
    /// The bytes of the chunks.
    pub(super) bytes: usize,
}

pub(super) struct Chunk {
    pub(super) values: ArrayRef,
    pub(super) keys: Rows,
}

#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) group: u32,
    pub(super) chunk: u32,
    pub(super) row: u32,
}

/// The values of some groups, group by group.
pub(super) struct Sorted {
    pub(super) chunks: Vec<Arc<Chunk>>,
    pub(super) places: Vec<Place>,
    /// How many values each group has.
    pub(super) lengths: Vec<usize>,
}

impl Ordered {
    pub(super) fn push(&mut self, chunk: Chunk, groups: Vec<u32>) {
        let number = self.chunks.len() as u32;
        let place = |(row, group)| Place { group, chunk: number, row };
        self.places.extend((0..).zip(groups).map(place));
        self.bytes += chunk.values.get_array_memory_size() + chunk.keys.size();
        self.chunks.push(Arc::new(chunk));
    }

    /// Bytes in memory, with the places that are sorted.
    pub(super) fn size(&self) -> usize {
        self.bytes + self.places.capacity() * (2 * size_of::<Place>())
    }

    /// Hands out the first groups.
    pub(super) fn emit(
        &mut self,
        emitted: usize,
        converter: &RowConverter,
    ) -> DataFusionResult<Sorted> {
        let (places, mut rest): (Vec<Place>, Vec<Place>) =
            self.places.drain(..).partition(|place| (place.group as usize) < emitted);
        rest.iter_mut().for_each(|place| place.group -= emitted as u32);
        let sorted = Sorted::of(self.chunks.clone(), &places, emitted);
        (self.places, self.bytes) = (Vec::new(), 0);
        let chunks = std::mem::take(&mut self.chunks);
        if !rest.is_empty() {
            let values = gather(&chunks, rest.iter())?;
            let mut keys = converter.empty_rows(rest.len(), 0);
            let of_rest = rest.iter().filter_map(|place| key(&chunks, place));
            of_rest.for_each(|key| keys.push(key));
            self.push(Chunk { values, keys }, rest.iter().map(|place| place.group).collect());
        }
        Ok(sorted)
    }
}

/// The key at a place.
pub(super) fn key<'a>(chunks: &'a [Arc<Chunk>], place: &Place) -> Option<Row<'a>> {
    Some(chunks.get(place.chunk as usize)?.keys.row(place.row as usize))
}

fn gather<'a>(
    chunks: &[Arc<Chunk>],
    places: impl Iterator<Item = &'a Place>,
) -> DataFusionResult<ArrayRef> {
    let values: Vec<&dyn Array> = chunks.iter().map(|chunk| chunk.values.as_ref()).collect();
    let places = places.map(|place| (place.chunk as usize, place.row as usize));
    Ok(owned(interleave(&values, &places.collect::<Vec<_>>())?))
}

impl Sorted {
    /// Equal keys stay in the order in which they have come.
    pub(super) fn of(chunks: Vec<Arc<Chunk>>, unordered: &[Place], groups: usize) -> Sorted {
        let mut lengths = vec![0; groups];
        for place in unordered {
            lengths[place.group as usize] += 1;
        }
        let mut next: Vec<usize> = lengths
            .iter()
            .scan(0, |end, length| Some(std::mem::replace(end, *end + length)))
            .collect();
        let mut places = unordered.to_vec();
        for place in unordered {
            let at = &mut next[place.group as usize];
            places[*at] = *place;
            *at += 1;
        }
        let mut rest = places.as_mut_slice();
        for length in &lengths {
            let group;
            (group, rest) = rest.split_at_mut(*length);
            group.sort_by(|a, b| key(&chunks, a).cmp(&key(&chunks, b)));
        }
        Sorted { chunks, places, lengths }
    }

    pub(super) fn lists(&self, values_type: &DataType) -> DataFusionResult<ArrayRef> {
        if i32::try_from(self.places.len()).is_err() {
            return exec_err!("lists of groups with more than 2^31 values in all");
        }
        let values = match self.places.is_empty() {
            true => new_empty_array(values_type),
            false => gather(&self.chunks, self.places.iter())?,
        };
        let nulls = self.lengths.iter().map(|length| *length > 0).collect();
        list_array(values, self.lengths.iter().copied(), Some(nulls))
    }

    pub(super) fn texts(&self, separator: &str) -> DataFusionResult<ArrayRef> {
        let values: Vec<Texts<'_>> = self
            .chunks
            .iter()
            .map(|chunk| Texts::of(&chunk.values))
            .collect::<DataFusionResult<_>>()?;
        let (mut texts, mut text) = (LargeStringBuilder::new(), String::new());
        let mut places = self.places.iter();
        for length in &self.lengths {
            text.clear();
            for (at, place) in places.by_ref().take(*length).enumerate() {
                if at > 0 {
                    text.push_str(separator);
                }
                text.push_str(values[place.chunk as usize].get(place.row as usize));
            }
            texts.append_option((*length > 0).then_some(&text));
        }
        Ok(Arc::new(texts.finish()))
    }
}

/// Texts of any type.
enum Texts<'a> {
    Short(&'a StringArray),
    Long(&'a LargeStringArray),
    Views(&'a StringViewArray),
}

impl<'a> Texts<'a> {
    fn of(values: &'a ArrayRef) -> DataFusionResult<Texts<'a>> {
        Ok(match values.data_type() {
            DataType::Utf8 => Texts::Short(values.as_string()),
            DataType::LargeUtf8 => Texts::Long(values.as_string()),
            DataType::Utf8View => Texts::Views(values.as_string_view()),
            other => return exec_err!("string_agg takes texts, not {other}"),
        })
    }

    fn get(&self, row: usize) -> &'a str {
        match self {
            Texts::Short(texts) => texts.value(row),
            Texts::Long(texts) => texts.value(row),
            Texts::Views(texts) => texts.value(row),
        }
    }
}

/// Lists of these lengths.
pub(super) fn list_array(
    values: ArrayRef,
    lengths: impl IntoIterator<Item = usize>,
    nulls: Option<NullBuffer>,
) -> DataFusionResult<ArrayRef> {
    let offsets = OffsetBuffer::from_lengths(lengths);
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(item, offsets, values, nulls)?))
}

/// Values that do not refer to the texts of those they were taken from.
pub(super) fn owned(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        _ => values,
    }
}
