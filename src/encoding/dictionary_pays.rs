//! Predicts from a column's first rows whether a dictionary will pay. See [`super::dictionary`].

use super::dictionary::{DictionaryBuilder, DictionaryLimits, WordDictionaryBuilder};

/// Whether a dictionary will pay for a column of `rows` byte strings that starts with `sample`.
///
/// Codes must cost less than values under encodings per block, which are assumed to halve their
/// size.
pub fn pays(sample: &[&[u8]], rows: usize) -> bool {
    let mut builder = DictionaryBuilder::new(DictionaryLimits::default());
    let mut half = 0;
    let mut bytes = 0;
    for (i, value) in sample.iter().enumerate() {
        if builder.insert(value).is_none() {
            return false;
        }
        bytes += value.len();
        if i == sample.len() / 2 {
            half = builder.len();
        }
    }
    let distinct = expected_distinct(half, builder.len(), sample.len(), rows);
    let value_bytes = bytes as f64 / sample.len().max(1) as f64;
    worthwhile(distinct, rows, value_bytes / 2.0 + 0.5)
}

/// The same for words that cost `value_bits` each outside a dictionary.
pub fn pays_words(sample: &[u64], rows: usize, value_bits: f64) -> bool {
    let mut builder = WordDictionaryBuilder::new(usize::MAX);
    let mut half = 0;
    for (i, &word) in sample.iter().enumerate() {
        builder.insert(word);
        if i == sample.len() / 2 {
            half = builder.len();
        }
    }
    worthwhile(expected_distinct(half, builder.len(), sample.len(), rows), rows, value_bits / 8.0)
}

/// The expected number of distinct values in `rows` rows when half of `seen` rows had `half` and
/// all of them had `full`: Heaps' law, with the exponent fitted to the two counts.
pub fn expected_distinct(half: usize, full: usize, seen: usize, rows: usize) -> f64 {
    if seen == 0 || full == 0 {
        return 0.0;
    }
    let exponent = (full as f64 / half.max(1) as f64).log2().clamp(0.0, 1.0);
    let factor = (rows as f64 / seen as f64).max(1.0).powf(exponent);
    (full as f64 * factor).min(rows as f64)
}

/// Whether storing `distinct` values once and a code per row costs less than `value_bytes` per row.
fn worthwhile(distinct: f64, rows: usize, value_bytes: f64) -> bool {
    let code_bytes = (distinct + 1.0).log2().max(1.0) / 8.0;
    distinct * value_bytes + rows as f64 * code_bytes < rows as f64 * value_bytes
        && distinct <= crate::limits::MAX_DICTIONARY_VALUES as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pays() {
        let few: Vec<String> = (0..5000).map(|i| format!("neighbourhood {}", i * i % 97)).collect();
        let many: Vec<String> = (0..5000).map(|i| format!("value {i}")).collect();
        let slices = |v: &'static [String]| v.iter().map(|s| s.as_bytes()).collect::<Vec<_>>();
        assert!(pays(&slices(few.leak()), 1_000_000));
        assert!(!pays(&slices(many.leak()), 1_000_000));
        assert!(pays_words(
            &(0..5000).map(|i| (i % 9) << 40).collect::<Vec<u64>>(),
            1_000_000,
            20.0
        ));
        assert!(!pays_words(&(0..5000).collect::<Vec<u64>>(), 1_000_000, 13.0));
    }
}
