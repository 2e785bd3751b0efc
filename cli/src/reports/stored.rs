//! How the columns of a segment are stored, read from the segment.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray as _;
use stylobate::Column;
use stylobate::internal::block::Stats;
use stylobate::internal::model::Physical;
use stylobate::internal::segment;

/// One column of one segment.
pub(crate) struct SegmentColumn {
    /// Absent if the segment was written before the column was added.
    pub(crate) column: Option<Arc<segment::Column>>,
    /// The bytes of the values as plain arrays: fixed widths, and the bytes of text.
    pub(crate) raw: u64,
    /// Its blocks, in order.
    pub(crate) blocks: Vec<Block>,
}

/// One block of a column.
pub(crate) struct Block {
    /// What its encoding says of itself.
    pub(crate) encoding: String,
    /// Its rows.
    pub(crate) rows: usize,
    /// Its stored bytes.
    pub(crate) bytes: u64,
    /// Its zone map.
    pub(crate) stats: Stats,
}

impl SegmentColumn {
    /// Reads all blocks, to measure the values.
    pub(crate) fn read(
        segment: &segment::Segment,
        column: &Column,
    ) -> stylobate::Result<SegmentColumn> {
        let Some(stored) = segment.column(column.id)? else {
            return Ok(SegmentColumn { column: None, raw: 0, blocks: Vec::new() });
        };
        let (mut raw, mut blocks) = (0, Vec::new());
        for b in 0..stored.blocks() {
            let block = stored.block(b)?;
            let rows = block.reader().rows();
            raw += match stored.data_type().physical() {
                Physical::Bytes => text_bytes(&block.decode(0..rows)?),
                Physical::Null => 0,
                Physical::Bool => rows as u64 / 8,
                _ => {
                    stored.data_type().to_arrow().primitive_width().unwrap_or(0) as u64
                        * rows as u64
                }
            };
            blocks.push(Block {
                encoding: block.reader().describe(),
                rows,
                bytes: stored.block_bytes(b),
                stats: stored.block_stats(b).cloned().unwrap_or_default(),
            });
        }
        Ok(SegmentColumn { column: Some(stored), raw, blocks })
    }

    /// The bytes that are stored.
    pub(crate) fn bytes(&self) -> u64 {
        self.column.as_ref().map_or(0, |column| column.stored_bytes())
    }
}

/// The bytes of all texts or byte strings, from the low half of each view.
fn text_bytes(array: &ArrayRef) -> u64 {
    let length = |view: &u128| u64::from(*view as u32);
    match array.as_string_view_opt() {
        Some(text) => text.views().iter().map(length).sum(),
        None => {
            array.as_binary_view_opt().map_or(0, |bytes| bytes.views().iter().map(length).sum())
        }
    }
}

/// How often each encoding occurs, without its parameters.
pub(crate) type Encodings = BTreeMap<String, usize>;

/// The encodings of the blocks of some parts.
pub(crate) fn encodings_of<'a>(parts: impl Iterator<Item = &'a SegmentColumn>) -> Encodings {
    let mut counts = Encodings::new();
    for block in parts.flat_map(|part| &part.blocks) {
        *counts.entry(without_parameters(&block.encoding)).or_default() += 1;
    }
    counts
}

/// The two most common encodings: `dictionary(frame) 60%, dictionary(constant) 40%`.
pub(crate) fn usual_encodings(counts: &Encodings) -> String {
    let all: usize = counts.values().sum();
    let mut counts: Vec<(&String, usize)> = counts.iter().map(|(kind, n)| (kind, *n)).collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let share = |(kind, n): &(&String, usize)| match n * 100 / all.max(1) {
        100 => (*kind).clone(),
        percent => format!("{kind} {percent}%"),
    };
    counts.iter().take(2).map(share).collect::<Vec<_>>().join(", ")
}

/// An encoding's description without its parameters: `delta(frame 5 bit + 3 patches)` is
/// `delta(frame)`.
fn without_parameters(encoding: &str) -> String {
    let mut out = String::new();
    for token in encoding.split_whitespace() {
        let word = token.trim_end_matches([')', ',']);
        let is_parameter = word.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '×')
            || ["bit", "patches", "patch", "decimals", "exceptions"].contains(&word);
        if !is_parameter {
            out.push_str(if out.is_empty() || out.ends_with('(') { "" } else { " " });
            out.push_str(word);
        }
        out.push_str(&token[word.len()..]);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn parameters_are_left_out() {
        let kind = super::without_parameters;
        assert_eq!(
            kind("run-length(delta(frame 5 bit + 155 patches), constant)"),
            "run-length(delta(frame), constant)"
        );
        assert_eq!(kind("dictionary(planes 2)"), "dictionary(planes)");
        assert_eq!(kind("bits(frame 15 bit)"), "bits(frame)");
    }
}
