//! Counters of runs.

use std::time::Duration;

use super::stats::*;

#[test]
fn statistics_and_forms_have_the_places_of_their_numbers() {
    assert!(Statistic::ALL.iter().enumerate().all(|(at, statistic)| *statistic as usize == at));
    assert!(Form::ALL.iter().enumerate().all(|(at, form)| *form as usize == at));
}

#[test]
fn sums_of_threads_are_those_of_all_their_counters() {
    let one = |n: u64| {
        let mut counters = Counters::new(2);
        counters.prune(
            Statistic::ZoneBounds,
            Some(1),
            Pruned { segments: 0, blocks: n, rows: 9, bytes: 7 },
        );
        counters.tested(0, 10, 3, Duration::from_nanos(n));
        counters.proven(1, 5);
        counters.form(0, Form::CodeSet);
        counters.memory = n;
        counters
    };
    let mut sum = Counters::default();
    sum.add(&one(1));
    sum.add(&one(2));
    assert_eq!(
        sum.pruned_by(Statistic::ZoneBounds),
        Pruned { segments: 0, blocks: 3, rows: 18, bytes: 14 }
    );
    assert_eq!(sum.pruned(), sum.pruned_by(Statistic::ZoneBounds));
    assert_eq!(
        sum.conditions[0].step,
        Step { rows_in: 20, rows_out: 6, time: Duration::from_nanos(3) }
    );
    assert_eq!(sum.conditions[0].blocks, [0, 0, 0, 2, 0, 0, 0, 0]);
    assert_eq!((sum.conditions[1].rows_proven, sum.conditions[1].blocks_pruned), (10, 3));
    assert_eq!(sum.memory, 2);
}

#[test]
fn conditions_that_came_later_are_one() {
    let mut counters = Counters::new(4);
    counters.tested(0, 100, 50, Duration::ZERO);
    counters.tested(2, 50, 20, Duration::from_nanos(1));
    counters.tested(3, 20, 5, Duration::from_nanos(2));
    counters.proven(1, 50);
    counters.fold_conditions(1);
    let step = Step { rows_in: 50, rows_out: 5, time: Duration::from_nanos(3) };
    assert_eq!(
        counters.conditions.iter().map(|tested| tested.step.rows_in).collect::<Vec<_>>(),
        [100, 50]
    );
    assert_eq!((counters.conditions[1].step, counters.conditions[1].rows_proven), (step, 50));
    let before = counters.clone();
    counters.fold_conditions(2);
    assert_eq!(counters, before);
}
