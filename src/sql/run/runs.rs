//! Executions of a leaf whose partitions share their work.
//!
//! DataFusion may run a plan again: a nested-loop join whose build side did not fit in memory
//! starts it anew and spills. What the first run has taken is gone for the second one, so each run
//! has a queue of its own.

use std::sync::{Arc, Mutex, PoisonError};

/// What the partitions of each run share.
#[derive(Debug)]
pub(crate) struct Runs<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    /// How often each partition was started.
    started: Vec<usize>,
    runs: Vec<Arc<T>>,
}

impl<T> Runs<T> {
    pub(crate) fn new(partitions: usize) -> Self {
        Runs { state: Mutex::new(State { started: vec![0; partitions], runs: Vec::new() }) }
    }

    /// What the next run of `partition` shares with the others, made by the first of them.
    pub(crate) fn start(&self, partition: usize, make: impl FnOnce() -> T) -> Arc<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let run = match state.started.get_mut(partition) {
            Some(started) => {
                *started += 1;
                *started - 1
            }
            None => 0,
        };
        if let Some(shared) = state.runs.get(run) {
            return Arc::clone(shared);
        }
        let shared = Arc::new(make());
        state.runs.push(Arc::clone(&shared));
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_starts_from_the_beginning() {
        let runs = Runs::new(2);
        let mut made = 0;
        let mut start = |partition| {
            let shared = runs.start(partition, || {
                made += 1;
                made
            });
            *shared
        };
        assert_eq!([start(0), start(1), start(1), start(0), start(0)], [1, 1, 2, 2, 3]);
    }
}
