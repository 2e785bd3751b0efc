//! Any bytes as the statistics of a block: what parses is written again as it was, and two of them
//! can be united.

use stylobate::DataType;
use stylobate::internal::block::Stats;
use stylobate::internal::bytes::{Cursor, Writer};

/// Types of every representation in memory.
const TYPES: [&str; 7] = ["bool", "int32", "uint64", "float32", "float64", "decimal(38,2)", "utf8"];

/// The target. The first byte chooses what the statistics are of.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let name = TYPES[usize::from(*kind) % TYPES.len()];
    let physical = name.parse::<DataType>().unwrap().physical();
    let mut cursor = Cursor::new(rest);
    let Ok(stats) = Stats::read(physical, &mut cursor) else { return };
    let mut written = Writer::new();
    stats.write(physical, &mut written);
    let mut cursor = Cursor::new(written.as_slice());
    let again = Stats::read(physical, &mut cursor).unwrap();
    cursor.finish().unwrap();
    assert_eq!(format!("{again:?}"), format!("{stats:?}"));
    let _ = stats.followed_by(&again);
}
