//! Parsing tasks on their way: handed out ahead, taken in order.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::ThreadPool;

use super::options::PipelineOptions;
use super::task::{Parsed, Task};
use crate::error::Result;

/// Tasks in order, some of them being worked on.
#[derive(Debug)]
pub struct Feed<I> {
    tasks: I,
    /// Whether there are no more to hand out.
    exhausted: bool,
    /// One that is too heavy for now.
    postponed: Option<Task>,
    pub(super) in_flight: VecDeque<InFlight>,
    weight: usize,
    /// The input that the last task taken is of, and how many of its pieces were taken.
    taken: (usize, u64),
}

impl<I: Iterator<Item = Result<Task>>> Feed<I> {
    /// Of which none is begun.
    pub fn new(tasks: I) -> Self {
        Feed {
            tasks,
            exhausted: false,
            postponed: None,
            in_flight: VecDeque::new(),
            weight: 0,
            taken: (0, 0),
        }
    }

    /// After [`run_part`]: the input of the task that would be taken next, and how many pieces of
    /// that were taken; `None` at the end. All inputs before it are read to their ends.
    pub fn position(&self) -> Option<(usize, u64)> {
        let next = self.in_flight.front()?.input;
        Some((next, if next == self.taken.0 { self.taken.1 } else { 0 }))
    }

    /// Hands out tasks until enough are in flight. An error in making one takes its turn as a task
    /// would.
    pub(super) fn fill(&mut self, pool: &ThreadPool, options: &PipelineOptions) {
        while !self.exhausted {
            let (done, result) = sync_channel(1);
            match self.postponed.take().map(Ok).or_else(|| self.tasks.next()) {
                None => self.exhausted = true,
                Some(Err(error)) => {
                    self.exhausted = true;
                    send_result(&done, Err(error));
                    // A commit that is due comes first.
                    let input = self.in_flight.back().map_or(self.taken.0, |last| last.input);
                    self.in_flight.push_back(InFlight {
                        weight: 0,
                        bytes: 0,
                        input,
                        starts_piece: true,
                        result,
                    });
                }
                Some(Ok(task)) => {
                    let full = self.in_flight.len() >= options.in_flight
                        || self.weight + task.weight > options.in_flight_bytes;
                    if full && !self.in_flight.is_empty() {
                        self.postponed = Some(task);
                        return;
                    }
                    let Task { weight, bytes, input, starts_piece, work } = task;
                    pool.spawn(move || send_result(&done, work()));
                    self.weight += weight;
                    self.in_flight.push_back(InFlight {
                        weight,
                        bytes,
                        input,
                        starts_piece,
                        result,
                    });
                }
            }
        }
    }

    pub(super) fn take(&mut self) -> Option<InFlight> {
        let oldest = self.in_flight.pop_front()?;
        self.weight -= oldest.weight;
        if oldest.input != self.taken.0 {
            self.taken = (oldest.input, 0);
        }
        self.taken.1 += u64::from(oldest.starts_piece);
        Some(oldest)
    }
}

/// A task that a worker has, or has done.
#[derive(Debug)]
pub(super) struct InFlight {
    weight: usize,
    pub(super) bytes: u64,
    pub(super) input: usize,
    pub(super) starts_piece: bool,
    pub(super) result: Receiver<Result<Parsed>>,
}

/// Sends a result; a coordinator that has given up no longer listens, which is fine.
pub(super) fn send_result<T>(to: &SyncSender<T>, result: T) {
    let _ = to.send(result);
}
