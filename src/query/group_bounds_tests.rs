use std::collections::BTreeMap;

use proptest::prelude::*;

use super::group_bounds::BestRanks;
use super::group_top::Ranking;

/// The rows, by their places, with numbers up to a limit, as they come in slices.
fn expected(rows: &[(u32, i64)], ranking: Ranking, limit: usize) -> Vec<usize> {
    let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    (0..rows.len()).for_each(|at| groups.entry(rows[at].0).or_default().push(at));
    let mut first = Vec::new();
    for mut of in groups.into_values() {
        of.sort_by_key(|at| rows[*at].1);
        let better = |at: usize| of.iter().filter(move |other| rows[**other].1 < rows[at].1);
        for (number, at) in of.iter().enumerate() {
            let mut distinct: Vec<i64> = better(*at).map(|other| rows[*other].1).collect();
            distinct.dedup();
            let before = match ranking {
                Ranking::RowNumber => number,
                Ranking::Rank => better(*at).count(),
                Ranking::DenseRank => distinct.len(),
            };
            first.extend((before < limit).then_some(*at));
        }
    }
    first.sort_unstable();
    first
}

/// The rows that are let through.
fn admitted(slices: &[Vec<(u32, i64)>], ranks: &mut BestRanks, backwards: bool) -> Vec<usize> {
    let (mut start, mut found) = (0, Vec::new());
    for slice in slices {
        let (groups, keys): (Vec<u32>, Vec<i64>) = slice.iter().copied().unzip();
        ranks.grow(groups.iter().max().map_or(0, |group| *group as usize + 1).max(8));
        let places = ranks.admit(&groups, &keys, backwards);
        assert!(places.is_sorted());
        found.extend(places.iter().map(|place| start + *place as usize));
        start += slice.len();
    }
    found
}

fn slices() -> impl Strategy<Value = Vec<Vec<(u32, i64)>>> {
    let rank = prop_oneof![8 => -4..5i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
    prop::collection::vec(prop::collection::vec((0..4u32, rank), 0..40), 0..6)
}

fn ranking() -> impl Strategy<Value = Ranking> {
    prop_oneof![Just(Ranking::RowNumber), Just(Ranking::Rank), Just(Ranking::DenseRank)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_row_is_missing_that_is_among_the_first(
        slices in slices(),
        ranking in ranking(),
        limit in 1..5usize,
        says_all in any::<bool>(),
    ) {
        let rows: Vec<(u32, i64)> = slices.iter().flatten().copied().collect();
        let found = admitted(&slices, &mut BestRanks::new(limit, ranking, says_all), false);
        // Of rows with equal ranks, those that come first are taken.
        let expected = expected(&rows, ranking, limit);
        prop_assert!(expected.iter().all(|at| found.contains(at)), "{expected:?} of {found:?}");
        // The same from the last row to the first.
        let turned: Vec<Vec<(u32, i64)>> = slices
            .iter()
            .map(|slice| slice.iter().rev().copied().collect())
            .collect();
        let mut backwards = admitted(&turned, &mut BestRanks::new(limit, ranking, says_all), true);
        let mut start = 0;
        for slice in &slices {
            let inside = start..start + slice.len();
            for at in backwards.iter_mut().filter(|at| inside.contains(at)) {
                *at = inside.end - 1 - (*at - start);
            }
            start = inside.end;
        }
        backwards.sort_unstable();
        prop_assert_eq!(backwards, found);
    }
}

#[test]
fn few_rows_pass_where_each_slice_has_better_ones() {
    let slice = |number: i64| (0..1000).map(move |at| (at % 10, -(number * 1000 + i64::from(at))));
    let slices: Vec<Vec<(u32, i64)>> = (0..5).map(|number| slice(number).collect()).collect();
    let passed = |limit: usize| {
        let mut ranks = BestRanks::new(limit, Ranking::RowNumber, true);
        admitted(&slices, &mut ranks, false).len()
    };
    assert_eq!([passed(1), passed(3)], [50, 150]);
    // Rows of one rank come too late, but where others may stand between them by another key.
    let equal = vec![vec![(0, 7); 100]; 2];
    for (says_all, ranking, most) in [
        (true, Ranking::RowNumber, 2),
        (true, Ranking::Rank, 200),
        (false, Ranking::RowNumber, 200),
    ] {
        let mut ranks = BestRanks::new(2, ranking, says_all);
        assert_eq!(admitted(&equal, &mut ranks, false).len(), most);
    }
}
