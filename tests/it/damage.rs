//! A damaged golden segment gives an error or the right answer: no panic, no wrong value, no memory
//! allocated for a false length.
//!
//! `STY_DAMAGE=n` makes n times as many attempts.

use arrow_array::{Array, ArrayRef};
use stylobate::DataType;
use stylobate::internal::block::{self, Stats};
use stylobate::internal::segment::{BlockPlace, ColumnRecord, Footer, TAIL_BYTES};

use crate::columns::{assert_same, expected, open, read_all};
use crate::golden::all;

/// The number of bit flips and truncations to try on a file of `rows` rows, spread over the file:
/// fewer where reading takes longer.
fn tries(rows: usize) -> usize {
    1200 * 300 / rows.max(300) * effort()
}

fn effort() -> usize {
    std::env::var("STY_DAMAGE").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[test]
fn flipped_bits_are_caught_or_harmless() {
    for (number, golden) in all().iter().enumerate() {
        let (mut bytes, right) = (golden.bytes(), expected(&golden.input));
        let (bits, tries) = (bytes.len() * 8, tries(golden.input.rows));
        for k in 0..tries {
            let bit = (k * bits / tries + (k * 31 + number) % 97) % bits;
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = read_all(&bytes, &golden.input) {
                assert_same(&read, &right, &format!("{} with bit {bit} flipped", golden.name));
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert_little_memory();
}

#[test]
fn truncated_segments_are_refused() {
    for golden in all() {
        let bytes = golden.bytes();
        let tries = tries(golden.input.rows);
        for k in 0..tries {
            let cut = k * bytes.len() / tries;
            assert!(
                read_all(&bytes[..cut], &golden.input).is_err(),
                "{} cut at {cut}",
                golden.name
            );
        }
    }
}

/// No length in a damaged file made us allocate much more than the file could justify. (Only Linux
/// reports the peak.)
fn assert_little_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
    assert!(peak.unwrap_or(0) < 256 << 10, "{peak:?} KiB of memory at the peak");
}

/// Decodes a block without comparing checksums, as if a mapped byte changed under the reader, or a
/// hostile writer had made the file.
fn decode(
    bytes: &[u8],
    place: &BlockPlace,
    rows: usize,
    data_type: &DataType,
    dictionary: Option<&ArrayRef>,
) {
    let Ok(reader) = block::Reader::parse(bytes, place.head_len as usize, rows, data_type, false)
    else {
        return;
    };
    let _ = reader.describe();
    if let Ok(array) = reader.decode(0..rows, data_type, dictionary) {
        assert_eq!(array.len(), rows);
    }
    for row in [0, rows / 2, rows - 1] {
        let _ = reader.gather(&[row as u32], data_type, dictionary);
    }
}

/// Changes to a block, one at a time: every bit of its head (or part of a long head), every byte of
/// the head set to extreme values, some bits of the payload, and a few bytes of the head at once.
fn changes(head: usize, all: usize) -> Vec<Vec<(usize, u8)>> {
    let step = 1 + head / (80 * effort());
    let mut changes: Vec<Vec<(usize, u8)>> = Vec::new();
    for at in (0..head).step_by(step) {
        changes.extend((0..8).map(|bit| vec![(at, 1 << bit)]));
        changes.extend([0x7F, 0x81, 0xFF].map(|mask| vec![(at, mask)]));
    }
    changes
        .extend((head..all).step_by(1 + all / (8 * effort())).map(|at| vec![(at, 1 << (at % 8))]));
    let mut state = all as u64 | 1;
    let mut next = |below: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) as usize % below.max(1)
    };
    changes.extend(
        (0..20 * effort()).map(|_| (0..4).map(|_| (next(head), next(256) as u8)).collect()),
    );
    changes
}

/// Damage against which checksums do not help.
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
                .map(|(b, place)| {
                    (*place, (segment.block_range(b).end - segment.block_range(b).start) as usize)
                })
                .chain(record.dictionary.map(|d| (d.place, d.values as usize)));
            for (place, rows) in places {
                let mut block = bytes[place.range()].to_vec();
                for change in changes(place.head_len as usize, block.len()) {
                    change.iter().for_each(|&(at, mask)| block[at] ^= mask);
                    decode(&block, &place, rows, &record.data_type, dictionary.as_ref());
                    change.iter().rev().for_each(|&(at, mask)| block[at] ^= mask);
                }
            }
        }
    }
    assert_little_memory();
}

/// Footers and column records of a hostile writer, who fixes the checksums.
#[test]
fn footers_and_records_stand_any_bytes() {
    for golden in all() {
        let bytes = golden.bytes();
        let segment = open(&bytes).unwrap();
        let (rows, block_rows) = (segment.rows(), segment.footer().block_rows);
        for entry in &segment.footer().columns {
            let mut record = bytes[entry.offset as usize..][..entry.len as usize].to_vec();
            for change in changes(record.len(), record.len()) {
                change.iter().for_each(|&(at, mask)| record[at] ^= mask);
                if let Ok(read) =
                    ColumnRecord::decode(&record, bytes.len() as u64, rows, block_rows)
                {
                    let all = read
                        .block_stats
                        .iter()
                        .fold(Stats::default(), |sum, block| sum.followed_by(block));
                    assert_eq!(all.rows, rows);
                }
                change.iter().rev().for_each(|&(at, mask)| record[at] ^= mask);
            }
        }
        let footer = segment.footer().encode();
        let start = bytes.len() - TAIL_BYTES - footer.len();
        assert_eq!(bytes[start..][..footer.len()], footer);
        for change in changes(footer.len(), footer.len()) {
            let mut changed = footer.clone();
            change.iter().for_each(|&(at, mask)| changed[at] ^= mask);
            let tail = Footer::tail(&changed);
            let _ = read_all(&[&bytes[..start], &changed, &tail].concat(), &golden.input);
        }
    }
    assert_little_memory();
}
