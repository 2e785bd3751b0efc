//! Round trips of 128-bit values.

use super::*;
use crate::encoding::Profile;

#[test]
fn wide_values_round_trip() {
    let power = 10i128.pow(20);
    let sets: [Vec<i128>; 6] = [
        vec![],
        vec![i128::MIN, i128::MAX, 0, -1],
        (0..5000).map(|i| i * 37 - 70_000).collect(),
        (0..5000).map(|i| power + i % 100).collect(),
        (0..3000).map(|i| (i % 3 - 1) * power * 10i128.pow(17)).collect(),
        vec![-5; 2000],
    ];
    for values in sets {
        let mut sink = Sink::new();
        encode(&values, &Options::new(Profile::Balanced), &mut sink);
        let (head, payload) = sink.into_parts();
        let mut source = Source::new(&head, &payload);
        let wide = Wide::parse(&mut source, values.len()).unwrap();
        source.cursor.finish().unwrap();
        let mut out = Vec::new();
        wide.decode(0..values.len(), &mut out).unwrap();
        assert_eq!(out, values);
        for row in (0..values.len()).step_by(101) {
            assert_eq!(wide.get(row).unwrap(), values[row]);
        }
        assert!(wide.get(values.len()).is_err());
    }
    let mut sink = Sink::new();
    encode(&vec![-5; 2000], &Options::new(Profile::Balanced), &mut sink);
    assert!(sink.len() <= 16);
}
