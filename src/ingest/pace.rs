//! When commits by time begin: a row should be visible within the interval after it came, so a
//! commit begins earlier by what the longest of the last ones took, which may merge segments.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many commits are looked back on: with tiers of segments, one in eight merges some.
const LAST_COMMITS: usize = 16;

#[derive(Debug)]
pub(super) struct Pace {
    every: Duration,
    /// Since when rows have waited, at most.
    since: Instant,
    /// What the last commits took.
    took: VecDeque<Duration>,
}

impl Pace {
    pub(super) fn new(every: Duration) -> Pace {
        Pace { every, since: Instant::now(), took: VecDeque::new() }
    }

    /// How long rows are still taken before the next commit.
    pub(super) fn left(&self) -> Duration {
        let took = self.took.iter().max().copied().unwrap_or_default();
        let begin = self.every - took.min(self.every / 2);
        begin.saturating_sub(self.since.elapsed())
    }

    /// Notes that a commit is done for which no more rows were taken after `cut`.
    pub(super) fn committed(&mut self, cut: Instant) {
        self.since = cut;
        self.took.push_back(cut.elapsed());
        if self.took.len() > LAST_COMMITS {
            self.took.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_begins_earlier_by_what_the_last_ones_took() {
        let every = Duration::from_secs(1000);
        let ago = |seconds| Instant::now() - Duration::from_secs(seconds);
        let within = |pace: &Pace, seconds: u64| {
            let left = pace.left().as_secs();
            assert!(left <= seconds && left + 30 >= seconds, "{left} {seconds}");
        };
        let mut pace = Pace::new(every);
        within(&pace, 1000);
        pace.committed(ago(100));
        // Rows have waited for 100 s, and the next commit may take as long.
        within(&pace, 800);
        for _ in 0..LAST_COMMITS {
            pace.committed(ago(2));
        }
        within(&pace, 996);
        // However long commits take, rows are taken for half of the interval.
        pace.committed(ago(5000));
        pace.committed(ago(0));
        within(&pace, 500);
        pace.committed(ago(600));
        within(&pace, 0);
    }
}
