//! Damaged golden segments give an error or the right answer: no panic, no wrong value.

use arrow_array::{Array, ArrayRef};
use stylobate::block;
use stylobate::model::DataType;
use stylobate::segment::BlockPlace;

use crate::columns::{assert_same, expected, open, read_all};
use crate::golden::all;

/// Flips and cuts tried for each file, spread over it.
const TRIES: usize = 900;

#[test]
fn flipped_bits_are_caught_or_harmless() {
    for (number, golden) in all().iter().enumerate() {
        let (mut bytes, right) = (golden.bytes(), expected(&golden.input));
        let bits = bytes.len() * 8;
        for k in 0..TRIES {
            let bit = (k * bits / TRIES + (k * 31 + number) % 97) % bits;
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = read_all(&bytes, &golden.input) {
                assert_same(&read, &right, &format!("{} with bit {bit} flipped", golden.name));
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn truncated_segments_are_refused() {
    for golden in all() {
        let bytes = golden.bytes();
        for k in 0..TRIES {
            let cut = k * bytes.len() / TRIES;
            assert!(read_all(&bytes[..cut], &golden.input).is_err(), "{} cut at {cut}", golden.name);
        }
    }
}

/// Decodes a block without comparing checksums, as after a mapped byte changed under the reader, or as a hostile
/// writer would have it.
fn decode(bytes: &[u8], place: &BlockPlace, rows: usize, data_type: &DataType, dictionary: Option<&ArrayRef>) {
    let Ok(reader) = block::Reader::parse(bytes, place.head_len as usize, rows, data_type, false) else { return };
    let _ = reader.describe();
    if let Ok(array) = reader.decode(0..rows, data_type, dictionary) {
        assert_eq!(array.len(), rows);
    }
    for row in [0, rows / 2, rows - 1] {
        let _ = reader.get(row, data_type, dictionary);
    }
}

/// What remains when checksums do not help: every bit of each block's head, and some of its payload.
#[test]
fn decoders_stand_any_bytes() {
    for golden in all() {
        let bytes = golden.bytes();
        let segment = open(&bytes).unwrap();
        for input in &golden.input.columns {
            let column = segment.column(input.id).unwrap().unwrap();
            let (record, dictionary) = (column.record(), column.dictionary().unwrap());
            let blocks = record.blocks.iter().enumerate();
            let places = blocks
                .map(|(b, place)| (*place, (segment.block_range(b).end - segment.block_range(b).start) as usize))
                .chain(record.dictionary.map(|d| (d.place, d.values as usize)));
            for (place, rows) in places {
                let mut block = bytes[place.range()].to_vec();
                let head = place.head_len as usize * 8;
                let payload = (head..block.len() * 8).step_by(block.len() / 8 + 1);
                for bit in (0..head).step_by(1 + head / 600).chain(payload) {
                    block[bit / 8] ^= 1 << (bit % 8);
                    decode(&block, &place, rows, &record.data_type, dictionary);
                    block[bit / 8] ^= 1 << (bit % 8);
                }
            }
        }
    }
}
