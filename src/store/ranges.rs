//! Numbers of generations as people write them.

/// Ascending numbers as text, those that follow each other as ranges: `1, 4-7`.
pub(super) fn as_ranges(numbers: &[u64]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let run = |run: &[u64]| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(u64::to_string).collect(),
    };
    runs.map(run).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        let shown = super::as_ranges;
        assert_eq!(shown(&[1, 4, 5, 6, 9]), "1, 4-6, 9");
        assert_eq!(
            (shown(&[]), shown(&[7]), shown(&[7, 8])),
            ("".into(), "7".into(), "7-8".into())
        );
    }
}
