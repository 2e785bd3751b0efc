//! Round trips of booleans.

use arrow_buffer::BooleanBuffer;

use super::*;
use crate::encoding::Profile;

fn round_trip(values: &BooleanBuffer, force: Option<Encoding>) -> Encoding {
    let options = Options { force, ..Options::new(Profile::Balanced) };
    let mut sink = Sink::new();
    encode(values, &options, &mut sink);
    let (head, payload) = sink.into_parts();
    let mut source = Source::new(&head, &payload);
    let bools = Bools::parse(&mut source, values.len()).unwrap();
    source.cursor.finish().unwrap();
    assert_eq!(&bools.decode(0..values.len()).unwrap(), values);
    for start in (0..values.len()).step_by(VECTOR) {
        let end = (start + 1500).min(values.len());
        assert_eq!(bools.decode(start..end).unwrap(), values.slice(start, end - start));
        let mut unset = Vec::new();
        bools.each_unset(start..end, |places| unset.extend(places)).unwrap();
        assert_eq!(
            unset,
            (0..end - start).filter(|at| !values.value(start + at)).collect::<Vec<_>>()
        );
    }
    for row in (0..values.len()).step_by(97) {
        assert_eq!(bools.get(row).unwrap(), values.value(row));
    }
    assert!(bools.get(values.len()).is_err());
    for at in 0..head.len() {
        let mut bad = head.clone();
        bad[at] ^= 0x41;
        if let Ok(bools) = Bools::parse(&mut Source::new(&bad, &payload), values.len()) {
            let _ = bools.decode(0..values.len());
            let _ = bools.each_unset(0..values.len(), |_| ());
            let _ = values.len().checked_sub(1).map(|row| bools.get(row));
        }
        let _ = Bools::parse(&mut Source::new(&head[..at], &payload), values.len()).map(|_| ());
    }
    bools.encoding()
}

#[test]
fn booleans_round_trip() {
    for rows in [0, 1, 7, 8, 63, 64, 65, 1023, 1024, 1025, 5000] {
        for period in [1, 2, 3, 63, 64, 700, 100_000] {
            let values =
                BooleanBuffer::collect_bool(rows + 3, |i| i / period % 2 == 0).slice(3, rows);
            for force in [None, Some(Encoding::RunLength), Some(Encoding::Bitmap)] {
                round_trip(&values, force);
            }
        }
    }
    let rare = BooleanBuffer::collect_bool(65_536, |i| i % 5000 == 17);
    assert_eq!(round_trip(&rare, None), Encoding::RunLength);
    let coin =
        BooleanBuffer::collect_bool(65_536, |i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 1);
    assert_eq!(round_trip(&coin, None), Encoding::Bitmap);
}
