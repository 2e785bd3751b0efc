//! A stream that may never end, such as the output of `tail -F`.
//!
//! A thread reads it, so that the load can do two things while nothing comes: look at the clock,
//! and end. At each tick, [`Live::read`] fails once with `WouldBlock`; the cutters of text then
//! hand on the rows that they have. When the load is asked to end, what has come is the whole
//! input.

use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use super::stream::{Bytes, Filled};

/// The most bytes that the thread reads at once.
const BLOCK_BYTES: usize = 256 << 10;
/// How many blocks may be queued.
const BLOCKS_WAITING: usize = 4;
/// Lines by which columns are decided at once.
const MANY_LINES: usize = 1000;
/// How long fewer lines wait for more, in ticks.
const ENOUGH_PAUSES: u32 = 8;
/// How long the end of an input waits for a signal that has ended its writer.
const GRACE: Duration = Duration::from_millis(100);
/// How often the reader looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What a load knows of its live input.
#[derive(Clone, Debug)]
pub(crate) struct Liveness {
    /// Whether reads fail at ticks: only once text is cut, and not within a decompressor.
    ticks: Arc<AtomicBool>,
    /// Whether the input was ended before it ended itself.
    cut_off: Arc<AtomicBool>,
}

impl Liveness {
    /// Whether reads fail at ticks from now on.
    pub(super) fn set_ticks(&self, may_fail: bool) {
        self.ticks.store(may_fail, Ordering::Relaxed);
    }

    /// Whether the input was ended from outside, perhaps within a row.
    fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }
}

/// Decides when enough of a live input has come to know its columns by.
#[derive(Debug, Default)]
struct FirstLines {
    /// Pauses since there was a line.
    pauses: u32,
}

impl FirstLines {
    /// Asked at each pause: whether the text has many lines, or some for a while.
    fn are_enough(&mut self, text: &[u8]) -> bool {
        let lines = memchr::memchr2_iter(b'\n', b'\r', text).take(MANY_LINES).count();
        self.pauses += u32::from(lines > 0);
        lines >= MANY_LINES || lines > 1 && self.pauses >= ENOUGH_PAUSES
    }
}

/// What a cutter of text knows of an input that may never end.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    liveness: Option<Liveness>,
    first_lines: FirstLines,
    is_paused: bool,
}

impl Pauses {
    /// Lets reads of a live input pause from now on.
    pub(super) fn start(liveness: Option<Liveness>) -> Self {
        liveness.iter().for_each(|live| live.set_ticks(true));
        Pauses { liveness, ..Pauses::default() }
    }

    /// Whether the columns of the `first` chunk wait for more text.
    pub(super) fn wait_for_lines(&mut self, filled: Filled, first: bool, text: &[u8]) -> bool {
        filled == Filled::Paused && first && !self.first_lines.are_enough(text)
    }

    /// Whether the input was ended from outside, perhaps within a row.
    pub(super) fn is_cut_off(&self) -> bool {
        self.liveness.as_ref().is_some_and(Liveness::is_cut_off)
    }

    /// Notes whether a read ended because there was no more yet.
    pub(super) fn note(&mut self, filled: Filled) {
        self.is_paused = filled == Filled::Paused;
    }

    /// Whether the last chunk ended because there was no more yet.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }
}

/// The consumer's end.
pub(super) struct Live {
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: Cursor<Vec<u8>>,
    /// No more is read.
    ended: bool,
    tick: Duration,
    next_tick: Instant,
    /// Set from outside to end the input.
    end: Arc<AtomicBool>,
    /// How many blocks are taken after that: those that had come by then.
    last_blocks: usize,
    /// Whether anything has come.
    has_begun: bool,
    liveness: Liveness,
}

impl Live {
    /// Reads `source` on a thread, with these times between ticks, until `end` is set.
    pub(super) fn start(source: Bytes, tick: Duration, end: Arc<AtomicBool>) -> io::Result<Live> {
        let (sender, blocks) = sync_channel(BLOCKS_WAITING);
        // The thread ends with its input, or with the process: it may wait in a read.
        std::thread::Builder::new().name("sty-live".into()).spawn(move || pump(source, &sender))?;
        let liveness = Liveness { ticks: Arc::default(), cut_off: Arc::default() };
        let next_tick = Instant::now() + tick;
        Ok(Live {
            blocks,
            block: Cursor::default(),
            ended: false,
            tick,
            next_tick,
            end,
            last_blocks: BLOCKS_WAITING + 1,
            has_begun: false,
            liveness,
        })
    }

    pub(super) fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    /// The next block; an empty one at the end.
    fn next_block(&mut self) -> io::Result<Vec<u8>> {
        loop {
            // What has come is taken before the clock is looked at, so that reading goes on however
            // slow the rest is.
            match self.blocks.try_recv() {
                Ok(Ok(block)) if block.is_empty() => return self.end_of_input(),
                Ok(Err(error)) => return self.failed(error),
                Ok(block) if !self.is_to_end() => return block,
                Ok(Ok(block)) if self.last_blocks > 0 => {
                    self.last_blocks -= 1;
                    return Ok(block);
                }
                Ok(_) => return self.cut_off(),
                Err(TryRecvError::Empty) if self.is_to_end() => return self.cut_off(),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    return Err(io::Error::other("the thread that reads the input has stopped"));
                }
            }
            let ticks = self.liveness.ticks.load(Ordering::Relaxed);
            let until_tick = self.next_tick.saturating_duration_since(Instant::now());
            if ticks && until_tick.is_zero() {
                self.next_tick = Instant::now() + self.tick;
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let wait = if ticks { LOOK.min(until_tick) } else { LOOK };
            match self.blocks.recv_timeout(wait) {
                Ok(Ok(block)) if block.is_empty() => return self.end_of_input(),
                Ok(Err(error)) => return self.failed(error),
                Ok(block) => return block,
                // The loop finds out which.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    fn is_to_end(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    /// Where nobody cuts rows, as within a decompressor, the end of the input would be damage,
    /// unless there was no input at all.
    fn cut_off(&self) -> io::Result<Vec<u8>> {
        if self.has_begun && !self.liveness.ticks.load(Ordering::Relaxed) {
            return Err(io::Error::other("the load was ended while it read this input"));
        }
        self.liveness.cut_off.store(true, Ordering::Relaxed);
        Ok(Vec::new())
    }

    /// The end of the input, which may be that of a writer that the same signal has ended within a
    /// row.
    fn end_of_input(&self) -> io::Result<Vec<u8>> {
        let ticks = self.liveness.ticks.load(Ordering::Relaxed);
        if ticks && self.is_soon_to_end() { self.cut_off() } else { Ok(Vec::new()) }
    }

    /// An error, which may be that of another reader below, which ends as well; or that of a
    /// decompressor whose writer the same signal has ended.
    fn failed(&self, error: io::Error) -> io::Result<Vec<u8>> {
        if self.is_soon_to_end() { self.cut_off() } else { Err(error) }
    }

    /// Whether the load is to end, now or in a moment: a signal reaches the processes of a pipeline
    /// one after the other.
    fn is_soon_to_end(&self) -> bool {
        let started = Instant::now();
        loop {
            match self.is_to_end() {
                false if started.elapsed() < GRACE => std::thread::sleep(GRACE / 10),
                ends => return ends,
            }
        }
    }
}

impl Read for Live {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.block.read(buffer)?;
        if n > 0 || buffer.is_empty() || self.ended {
            return Ok(n);
        }
        let block = self.next_block()?;
        self.ended = block.is_empty();
        self.has_begun |= !self.ended;
        self.block = Cursor::new(block);
        self.block.read(buffer)
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

    /// What it fails with.
    const DAMAGE: &str = "damage";

    impl Read for Pipe {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.recv() {
                Ok(DAMAGE) => Err(io::ErrorKind::UnexpectedEof.into()),
                text => text.map_or(Ok(0), |text| text.as_bytes().read(buffer)),
            }
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
        live.liveness().set_ticks(true);
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
        live.liveness().set_ticks(true);
        sender.send("a\nb").unwrap();
        assert_eq!(read(&mut live).unwrap(), "a\nb");
        end.store(true, Ordering::Relaxed);
        assert_eq!(read(&mut live).unwrap(), "");
        assert_eq!(read(&mut live).unwrap(), "");
        assert!(live.liveness().is_cut_off());
    }

    /// The signal that ends a load has ended its writer, too, perhaps a moment before.
    #[test]
    fn an_end_beside_a_signal_is_within_a_row() {
        let (sender, end, mut live) = live(Duration::from_secs(60));
        live.liveness().set_ticks(true);
        sender.send("a").unwrap();
        drop(sender);
        assert_eq!(read(&mut live).unwrap(), "a");
        let signal = std::thread::spawn(move || {
            std::thread::sleep(GRACE / 4);
            end.store(true, Ordering::Relaxed);
        });
        assert_eq!(read(&mut live).unwrap(), "");
        signal.join().unwrap();
        assert!(live.liveness().is_cut_off());
    }

    /// A decompressor whose writer has gone fails, and so may end beside a signal.
    #[test]
    fn an_error_beside_a_signal_is_the_end() {
        for has_signal in [true, false] {
            let (sender, end, mut live) = live(Duration::from_secs(60));
            live.liveness().set_ticks(true);
            sender.send("a").unwrap();
            sender.send(DAMAGE).unwrap();
            assert_eq!(read(&mut live).unwrap(), "a");
            let signal = std::thread::spawn(move || {
                std::thread::sleep(GRACE / 4);
                end.store(has_signal, Ordering::Relaxed);
            });
            let last = read(&mut live).map_err(|error| error.kind());
            let expected =
                if has_signal { Ok(String::new()) } else { Err(io::ErrorKind::UnexpectedEof) };
            assert_eq!(last, expected);
            signal.join().unwrap();
            assert_eq!(live.liveness().is_cut_off(), has_signal);
        }
    }

    #[test]
    fn what_nobody_cuts_is_not_ended_within() {
        let (sender, end, mut live) = live(Duration::from_secs(60));
        sender.send("a").unwrap();
        assert_eq!(read(&mut live).unwrap(), "a");
        end.store(true, Ordering::Relaxed);
        assert!(read(&mut live).unwrap_err().to_string().contains("ended"));
    }

    #[test]
    fn an_input_that_has_not_begun_ends_empty() {
        let (_sender, end, mut live) = live(Duration::from_secs(60));
        end.store(true, Ordering::Relaxed);
        assert_eq!(read(&mut live).unwrap(), "");
    }

    #[test]
    fn columns_wait_for_rows() {
        let mut few = FirstLines::default();
        assert!((0..100).all(|_| !few.are_enough(b"a,b\n1")));
        assert!(few.are_enough(b"a,b\n1,2\n"));
        assert!(FirstLines::default().are_enough("1\n".repeat(MANY_LINES).as_bytes()));
    }
}
