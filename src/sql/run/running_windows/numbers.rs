//! `row_number`, `rank` and `dense_rank`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};

use super::bounds::Bounds;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Row,
    Rank,
    DenseRank,
}

/// How far the numbers of a partition have come.
#[derive(Default)]
pub(super) struct Numbers {
    rows: i64,
    rank: i64,
    dense: i64,
}

impl Numbers {
    pub(super) fn evaluate(&mut self, number: Number, bounds: &Bounds, rows: usize) -> ArrayRef {
        let mut numbers: Vec<i64> = Vec::with_capacity(rows);
        let mut peers = bounds.peers().peekable();
        for (partition, begins) in bounds.partitions() {
            if begins {
                *self = Numbers::default();
            }
            if number == Number::Row {
                let before = self.rows;
                self.rows += partition.len() as i64;
                numbers.extend(before + 1..=self.rows);
                continue;
            }
            while let Some((peers, begin)) = peers.next_if(|(peers, _)| peers.end <= partition.end)
            {
                if begin {
                    self.rank = self.rows + 1;
                    self.dense += 1;
                }
                self.rows += peers.len() as i64;
                let number = match number {
                    Number::DenseRank => self.dense,
                    Number::Rank | Number::Row => self.rank,
                };
                numbers.resize(peers.end, number);
            }
        }
        Arc::new(Int64Array::from(numbers))
    }
}
