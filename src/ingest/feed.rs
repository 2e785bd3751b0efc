//! Tasks in flight: handed to workers ahead of time, taken back in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use rayon::ThreadPool;

use super::options::PipelineOptions;
use super::origin::Origin;
use super::task::{Parsed, Task};
use crate::error::Result;

/// Tasks in order, some of which are in flight.
#[derive(Debug)]
pub(crate) struct Feed<I> {
    tasks: I,
    /// Whether `tasks` has ended.
    exhausted: bool,
    /// A task that exceeds the memory budget for now.
    postponed: Option<Task>,
    pub(super) in_flight: VecDeque<InFlight>,
    weight: usize,
    /// Whether what is in flight is taken before more is started.
    drains: bool,
    /// The input of the task that was taken last, and how many of its pieces have been taken.
    taken: (usize, u64),
    /// When [`super::pipeline::run_part`] last stopped taking tasks.
    pub(super) cut: Instant,
}

impl<I: Iterator<Item = Result<Task>>> Feed<I> {
    /// Starts nothing yet.
    pub(crate) fn new(tasks: I) -> Self {
        Feed {
            tasks,
            exhausted: false,
            postponed: None,
            in_flight: VecDeque::new(),
            weight: 0,
            drains: false,
            taken: (0, 0),
            cut: Instant::now(),
        }
    }

    /// After [`super::pipeline::run_part`]: the input of the next task, and how many pieces of that
    /// input have been taken; `None` at the end. All inputs before it have been read completely.
    pub(crate) fn position(&self) -> Option<(usize, u64)> {
        let next = self.in_flight.front()?.input;
        Some((next, if next == self.taken.0 { self.taken.1 } else { 0 }))
    }

    /// Starts tasks until enough are in flight. An error in making a task takes the place of that
    /// task.
    pub(super) fn fill(&mut self, pool: &ThreadPool, options: &PipelineOptions) {
        self.drains &= !self.in_flight.is_empty();
        while !self.exhausted && !self.drains {
            let (done, result) = sync_channel(1);
            match self.postponed.take().map(Ok).or_else(|| self.tasks.next()) {
                None => self.exhausted = true,
                Some(Err(error)) => {
                    self.exhausted = true;
                    send_result(&done, Err(error));
                    // A commit that is due happens before the error is reported.
                    let input = self.in_flight.back().map_or(self.taken.0, |last| last.input);
                    self.in_flight.push_back(InFlight {
                        weight: 0,
                        bytes: 0,
                        input,
                        origin: None,
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
                    let Task { weight, bytes, input, origin, waits, starts_piece, work } = task;
                    pool.spawn(move || send_result(&done, work()));
                    self.weight += weight;
                    self.in_flight.push_back(InFlight {
                        weight,
                        bytes,
                        input,
                        origin,
                        starts_piece,
                        result,
                    });
                    self.drains = waits;
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

/// A task that a worker is doing or has done.
#[derive(Debug)]
pub(super) struct InFlight {
    weight: usize,
    pub(super) bytes: u64,
    pub(super) input: usize,
    pub(super) origin: Option<Arc<Origin>>,
    pub(super) starts_piece: bool,
    pub(super) result: Receiver<Result<Parsed>>,
}

/// Sends a result. A coordinator that has given up no longer listens, which is fine.
pub(super) fn send_result<T>(to: &SyncSender<T>, result: T) {
    let _ = to.send(result);
}
