//! Executions of a leaf whose partitions share their work.
//!
//! DataFusion may run a plan again: a nested-loop join whose build side did not fit in memory
//! starts it anew and spills. What the first execution has taken is gone for the second one, so
//! each execution has a queue of its own.

use std::sync::{Arc, Mutex, PoisonError};

/// What the partitions of each execution share.
#[derive(Debug)]
pub(crate) struct Executions<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    /// How often each partition was started.
    started: Vec<usize>,
    executions: Vec<Arc<T>>,
}

impl<T> Executions<T> {
    pub(crate) fn new(partitions: usize) -> Self {
        Executions {
            state: Mutex::new(State { started: vec![0; partitions], executions: Vec::new() }),
        }
    }

    /// What the next execution of `partition` shares with the others, made by the first of them.
    pub(crate) fn start(&self, partition: usize, make: impl FnOnce() -> T) -> Arc<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let execution = match state.started.get_mut(partition) {
            Some(started) => {
                *started += 1;
                *started - 1
            }
            None => 0,
        };
        if let Some(shared) = state.executions.get(execution) {
            return Arc::clone(shared);
        }
        let shared = Arc::new(make());
        state.executions.push(Arc::clone(&shared));
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_starts_from_the_beginning() {
        let executions = Executions::new(2);
        let mut made = 0;
        let mut start = |partition| {
            let shared = executions.start(partition, || {
                made += 1;
                made
            });
            *shared
        };
        assert_eq!([start(0), start(1), start(1), start(0), start(0)], [1, 1, 2, 2, 3]);
    }
}
