//! A stream that may never end, such as the output of `tail -F`.
//!
//! A thread reads it, so that the load can do two things while nothing comes: look at the clock, and
//! end. At each tick, [`Live::read`] fails once with `WouldBlock`; the cutters of text then hand on
//! the rows that they have. When the load is asked to end, what has come is the whole input.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::stream::Bytes;

/// The most bytes that the thread reads at once.
const BLOCK_BYTES: usize = 256 << 10;
/// How many blocks may be queued.
const BLOCKS_WAITING: usize = 4;
/// How often the reader looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What a load knows of its live input.
#[derive(Clone, Debug)]
pub(in crate::ingest) struct Liveness {
    /// Whether reads fail at ticks: only once text is cut, and not within a decompressor.
    ticks: Arc<AtomicBool>,
    /// Whether the input was ended before it ended itself.
    cut_off: Arc<AtomicBool>,
}

impl Liveness {
    /// From now on, reads fail at ticks.
    pub(in crate::ingest) fn start_ticks(&self) {
        self.ticks.store(true, Ordering::Relaxed);
    }

    /// Whether the input was ended from outside, perhaps within a row.
    pub(in crate::ingest) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }
}

/// The consumer's end.
pub(super) struct Live {
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: Vec<u8>,
    at: usize,
    /// No more is read.
    ended: bool,
    tick: Duration,
    next_tick: Instant,
    /// Set from outside to end the input.
    end: Arc<AtomicBool>,
    /// How many blocks are taken after that: those that had come by then.
    last_blocks: usize,
    liveness: Liveness,
}

impl Live {
    /// Reads `source` on a thread, with these times between ticks, until `end` is set.
    pub(super) fn start(source: Bytes, tick: Duration, end: Arc<AtomicBool>) -> io::Result<Live> {
        let (sender, blocks) = sync_channel(BLOCKS_WAITING);
        // The thread ends with its input, or with the process: it may wait in a read.
        std::thread::Builder::new()
            .name("sty-live".into())
            .spawn(move || pump(source, &sender))?;
        let liveness = Liveness { ticks: Arc::default(), cut_off: Arc::default() };
        let next_tick = Instant::now() + tick;
        Ok(Live {
            blocks,
            block: Vec::new(),
            at: 0,
            ended: false,
            tick,
            next_tick,
            end,
            last_blocks: BLOCKS_WAITING + 1,
            liveness,
        })
    }

    pub(super) fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    /// The next block; an empty one at the end.
    fn next_block(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let is_to_end = self.end.load(Ordering::Relaxed);
            let until_tick = self.next_tick.saturating_duration_since(Instant::now());
            if until_tick.is_zero() && !is_to_end && self.liveness.ticks.load(Ordering::Relaxed) {
                self.next_tick = Instant::now() + self.tick;
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if is_to_end {
                if self.last_blocks == 0 {
                    self.liveness.cut_off.store(true, Ordering::Relaxed);
                    return Ok(Vec::new());
                }
                self.last_blocks -= 1;
            }
            let wait = if is_to_end { Duration::ZERO } else { LOOK.min(until_tick.max(LOOK / 4)) };
            match self.blocks.recv_timeout(wait) {
                Ok(block) => return block,
                Err(RecvTimeoutError::Timeout) if is_to_end => {
                    self.liveness.cut_off.store(true, Ordering::Relaxed);
                    return Ok(Vec::new());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the thread that reads the input has stopped"));
                }
            }
        }
    }
}

impl Read for Live {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.block.len() && !self.ended {
            (self.block, self.at) = (self.next_block()?, 0);
            self.ended = self.block.is_empty();
        }
        let rest = self.block.get(self.at..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..n), rest.get(..n)) {
            to.copy_from_slice(from);
        }
        self.at += n;
        Ok(n)
    }
}

fn pump(mut source: Bytes, sender: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut block = vec![0; BLOCK_BYTES];
        let read = match source.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read,
        };
        let is_last = !matches!(read, Ok(1..));
        let message = read.map(|n| {
            block.truncate(n);
            block
        });
        if sender.send(message).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A source whose bytes come through a channel; it ends when the sender is gone.
    struct Pipe(Receiver<&'static str>);

    impl Read for Pipe {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.recv().map_or(Ok(0), |text| text.as_bytes().read(buffer))
        }
    }

    fn live(tick: Duration) -> (Sender<&'static str>, Arc<AtomicBool>, Live) {
        let ((sender, source), end) = (channel(), Arc::new(AtomicBool::new(false)));
        let live = Live::start(Box::new(Pipe(source)), tick, Arc::clone(&end)).unwrap();
        (sender, end, live)
    }

    fn read(live: &mut Live) -> io::Result<String> {
        let mut buffer = [0; 64];
        live.read(&mut buffer).map(|n| String::from_utf8_lossy(&buffer[..n]).into_owned())
    }

    #[test]
    fn reads_fail_at_ticks_once_they_are_started() {
        let (sender, _, mut live) = live(Duration::from_millis(1));
        sender.send("a").unwrap();
        assert_eq!(read(&mut live).unwrap(), "a");
        live.liveness().start_ticks();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(read(&mut live).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(sender);
        let rest = std::iter::repeat_with(|| read(&mut live)).find(Result::is_ok);
        assert_eq!(rest.unwrap().unwrap(), "");
        assert!(!live.liveness().is_cut_off());
    }

    #[test]
    fn an_input_ends_with_what_has_come() {
        let (sender, end, mut live) = live(Duration::from_secs(60));
        sender.send("a\nb").unwrap();
        assert_eq!(read(&mut live).unwrap(), "a\nb");
        end.store(true, Ordering::Relaxed);
        assert_eq!(read(&mut live).unwrap(), "");
        assert_eq!(read(&mut live).unwrap(), "");
        assert!(live.liveness().is_cut_off());
    }
}
