//! One table of up to thousands of rows, in segments of different kinds: missing and narrower
//! columns, forced encodings.

use stylobate::internal::encoding::{Encoding, Options};
use stylobate::{DataType, Profile, Schema};

use super::random::Random;
use super::tables::{Database, Part, store};
use super::types;
use super::values::Values;

/// Makes a table `t`.
pub(crate) fn generate(r: &mut Random) -> Database {
    let block_rows = r.choose(&[1024, 1024, 2048, 65536]);
    let sizes: Vec<usize> = (0..1 + r.below(5)).map(|_| size(r)).collect();
    let mut schema = Schema::default();
    let mut text = format!("blocks of {block_rows} rows; segments of {sizes:?} rows");
    let mut kinds = Vec::new();
    for at in 0..5 + r.below(8) {
        let name = types::any(r);
        let values = Values::random(r);
        text += &format!("\n  c{at} {name}: {values:?}");
        schema.add(&format!("c{at}"), name.clone()).unwrap();
        // The segment from which on the column exists, and the one until which it is narrow.
        let there = if r.chance(15) { r.below(sizes.len() + 1) } else { 0 };
        let wide = if r.chance(30) { r.below(sizes.len() + 1) } else { 0 };
        kinds.push((name, values, there, wide));
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for (number, rows) in sizes.iter().copied().enumerate() {
        let mut columns = Vec::new();
        for (at, (name, values, there, wide)) in kinds.iter().enumerate() {
            let data_type: DataType =
                if number < *wide { types::narrower(r, name) } else { name.clone() };
            let column = (number >= *there).then(|| {
                if data_type != *name {
                    text += &format!("\n  c{at} is {data_type} in segment {number}");
                }
                (data_type.clone(), values.array(r, &data_type, start, rows))
            });
            if column.is_none() {
                text += &format!("\n  c{at} is missing in segment {number}");
            }
            columns.push(column);
        }
        let profile =
            r.choose(&[Profile::Fast, Profile::Balanced, Profile::Balanced, Profile::Small]);
        let force = if r.chance(60) { Some(r.choose(Encoding::ALL)) } else { None };
        let options = Options { force, ..Options::new(profile) };
        text += &format!("\n  segment {number}: {profile:?}, {force:?}");
        parts.push(Part { columns, rows, options, commits: r.chance(50) });
        start += rows;
    }
    store(&schema, block_rows, parts, text, r)
}

fn size(r: &mut Random) -> usize {
    match r.below(12) {
        0 => 1,
        1 => 1 + r.below(10),
        2 => 1023 + r.below(3),
        3..=5 => 100 + r.below(900),
        6 => 8_000 + r.below(3_000),
        _ => 1_000 + r.below(3_000),
    }
}
