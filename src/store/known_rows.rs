//! Rows known to meet conditions: what a statement has found out of segments, which never change,
//! serves all later ones with the same conditions, such as the panels of a dashboard.
//!
//! Where this stands on the road of a query: `query/open` leaves out the blocks in which no row is
//! known to pass, and `query/walk` selects the known rows of others without a test, and notes those
//! of blocks that it has tested. The idea is Schmidt, Kipf, Horn, Saxena and Kraska, "Predicate
//! Caching" (SIGMOD 2024); they keep ranges of rows, and this keeps the rows.
//!
//! Rows are kept where few of a block pass: of conditions that most rows meet, a test costs less
//! than what comes after it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::disk::memory;
use crate::limits::BLOCK_ROWS;
use crate::manifest::{SegmentEntry, SegmentKey};

/// Rows of a block are kept if they are at most one in this many.
const FEW: usize = 16;
/// Rows are kept for at most this many sets of conditions.
const CONDITIONS: usize = 256;
/// The part of the memory that the rows may take, and the most bytes.
const SHARE: usize = 64;
const BYTES: usize = 64 << 20;
/// About what an allocation takes beside its bytes.
const ALLOCATION: usize = 16;

/// The known rows of all tables of a store, by the table and the text of the conditions. Those that
/// were used longest ago are forgotten first.
#[derive(Debug)]
pub(crate) struct KnownRows {
    /// About the most bytes: a run may take half as many before it is noticed.
    most: AtomicUsize,
    /// The last one was asked for last.
    conditions: Mutex<Vec<(Box<str>, Arc<OfConditions>)>>,
}

/// The rows that meet some conditions.
#[derive(Debug)]
pub(crate) struct OfConditions {
    segments: Mutex<HashMap<SegmentKey, Arc<OfSegment>>>,
    room: Arc<Room>,
    /// The last generation whose predecessors' segments were forgotten.
    generation: AtomicU64,
}

/// About the bytes that the rows of some conditions take, and the most.
#[derive(Debug)]
struct Room {
    taken: AtomicUsize,
    most: usize,
}

/// The rows of a segment that meet some conditions.
#[derive(Debug)]
pub(crate) struct OfSegment {
    room: Arc<Room>,
    /// What it has taken of the room, and gives back.
    bytes: AtomicUsize,
    /// The rows of each block, once they are known.
    blocks: Vec<OnceLock<BlockRows>>,
}

/// What is known of a block.
#[derive(Debug)]
enum BlockRows {
    /// These rows pass, rising.
    Few(Box<[u16]>),
    /// Too many pass.
    Many,
}

impl Drop for OfSegment {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

impl Default for KnownRows {
    fn default() -> Self {
        let known = KnownRows { most: AtomicUsize::new(0), conditions: Mutex::default() };
        known.within(usize::try_from(memory::default_limit()).unwrap_or(usize::MAX));
        known
    }
}

impl KnownRows {
    /// Takes no more than a part of this memory from now on.
    pub(crate) fn within(&self, memory: usize) {
        self.most.store((memory / SHARE).min(BYTES), Ordering::Relaxed);
    }

    /// The rows that meet these conditions; their text names the table, and no others have it.
    pub(crate) fn of(&self, conditions: &str) -> Arc<OfConditions> {
        let most = self.most.load(Ordering::Relaxed);
        let mut all = self.conditions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().rposition(|(text, _)| **text == *conditions);
        let asked = match known {
            Some(at) => all.remove(at),
            None => (conditions.into(), Arc::new(OfConditions::new(most / 2))),
        };
        let found = Arc::clone(&asked.1);
        all.push(asked);
        // From the last one back, as many as there is room for.
        let mut bytes = 0;
        let fits = |(text, of): &&(Box<str>, Arc<OfConditions>)| {
            bytes += text.len() + of.bytes();
            bytes <= most
        };
        let kept = all.iter().rev().take_while(fits).count().clamp(1, CONDITIONS);
        let forgotten = all.len().saturating_sub(kept);
        all.drain(..forgotten);
        found
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl OfConditions {
    fn new(most: usize) -> Self {
        let room = Arc::new(Room { taken: AtomicUsize::new(0), most });
        OfConditions { segments: Mutex::default(), room, generation: AtomicU64::new(0) }
    }

    /// Forgets segments that a generation does not have any more, once they take half of the room.
    pub(crate) fn forget_replaced<'e>(
        &self,
        generation: u64,
        entries: impl Iterator<Item = &'e SegmentEntry>,
    ) {
        let is_full = self.bytes() >= self.room.most / 2;
        if is_full && self.generation.fetch_max(generation, Ordering::Relaxed) < generation {
            let living: HashSet<SegmentKey> = entries.map(SegmentEntry::key).collect();
            let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
            segments.retain(|key, _| living.contains(key));
        }
    }

    fn bytes(&self) -> usize {
        self.room.taken.load(Ordering::Relaxed)
    }

    /// The rows of a segment with this number of blocks; `None` if there is no room for more.
    pub(crate) fn of_segment(&self, key: SegmentKey, blocks: usize) -> Option<Arc<OfSegment>> {
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = segments.get(&key) {
            return Some(Arc::clone(known));
        }
        let slots = blocks * size_of::<OnceLock<BlockRows>>();
        let bytes = size_of::<(SegmentKey, OfSegment)>() + slots;
        if !self.room.take(bytes) {
            return None;
        }
        let (bytes, room) = (AtomicUsize::new(bytes), Arc::clone(&self.room));
        let blocks = (0..blocks).map(|_| OnceLock::new()).collect();
        let new = Arc::new(OfSegment { room, bytes, blocks });
        segments.insert(key, Arc::clone(&new));
        Some(new)
    }
}

impl Room {
    /// Takes bytes, if there are as many left.
    fn take(&self, bytes: usize) -> bool {
        let more = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

impl OfSegment {
    /// The rows of a block that pass, rising, where they are known and few.
    pub(crate) fn rows(&self, block: usize) -> Option<&[u16]> {
        match self.blocks.get(block)?.get()? {
            BlockRows::Few(rows) => Some(rows),
            BlockRows::Many => None,
        }
    }

    /// Begins to note the rows of a block; `None` if somebody has done it.
    pub(crate) fn begin(&self, block: usize, rows: usize) -> Option<FoundRows> {
        let is_new = self.blocks.get(block).is_some_and(|known| known.get().is_none());
        (is_new && rows <= BLOCK_ROWS).then(|| FoundRows {
            all: rows,
            next: Some(0),
            rows: Some(Vec::new()),
        })
    }

    /// Keeps what was found of a block, if it was looked at from its first to its last row.
    pub(crate) fn end(&self, block: usize, found: FoundRows) {
        let Some(slot) = self.blocks.get(block).filter(|_| found.next == Some(found.all)) else {
            return;
        };
        let rows = match found.rows {
            Some(rows) => BlockRows::Few(rows.into_boxed_slice()),
            None => BlockRows::Many,
        };
        let bytes = match &rows {
            BlockRows::Few(rows) if !rows.is_empty() => ALLOCATION + size_of_val(&**rows),
            _ => 0,
        };
        if self.room.take(bytes) {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            // Another statement may have been first, with the same rows; then these bytes count
            // twice until the segment is forgotten.
            let _ = slot.set(rows);
        }
    }
}

/// The rows of a block that have passed so far.
#[derive(Debug)]
pub(crate) struct FoundRows {
    /// Rows of the block.
    all: usize,
    /// The first that was not looked at; `None` where some were left out.
    next: Option<usize>,
    /// `None` if there are too many.
    rows: Option<Vec<u16>>,
}

impl FoundRows {
    /// Notes that of some rows `count` pass, and asks which, counted from the first of them, unless
    /// there are too many already; `None` are all. What does not go on where the last rows ended is
    /// not noted, nor what comes after it.
    pub(crate) fn note<'s>(
        &mut self,
        range: Range<usize>,
        count: usize,
        selected: impl FnOnce() -> Option<&'s [u32]>,
    ) {
        if self.next != Some(range.start) {
            self.next = None;
            return;
        }
        self.next = Some(range.end);
        let Some(rows) = self.rows.as_mut().filter(|rows| (rows.len() + count) * FEW <= self.all)
        else {
            self.rows = None;
            return;
        };
        match selected() {
            Some(selected) => {
                rows.extend(selected.iter().map(|row| (range.start as u32 + row) as u16));
            }
            None => rows.extend(range.map(|row| row as u16)),
        }
    }

    /// Notes that no row passes.
    pub(crate) fn none_pass(&mut self) {
        (self.next, self.rows) = (Some(self.all), Some(Vec::new()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SegmentKey = ([1; 16], 7, [2; 16]);

    fn note(found: &mut FoundRows, range: Range<usize>, selected: Option<&[u32]>) {
        let count = selected.map_or(range.len(), <[u32]>::len);
        found.note(range, count, || selected);
    }

    fn of(most: usize) -> KnownRows {
        KnownRows { most: AtomicUsize::new(most), conditions: Mutex::default() }
    }

    #[test]
    fn rows_are_known_once_the_whole_block_was_looked_at() {
        let known = of(1 << 20);
        let segment = known.of("a = 1").of_segment(KEY, 3).unwrap();
        assert_eq!(segment.rows(0), None);
        let mut found = segment.begin(0, 4000).unwrap();
        note(&mut found, 0..1024, Some(&[3, 1000]));
        note(&mut found, 1024..2048, Some(&[0]));
        segment.end(0, found);
        assert_eq!(segment.rows(0), None, "half of the block was not looked at");
        let mut found = segment.begin(0, 4000).unwrap();
        note(&mut found, 0..2048, Some(&[3, 1000]));
        note(&mut found, 2048..4000, Some(&[0, 1951]));
        segment.end(0, found);
        let again = known.of("a = 1").of_segment(KEY, 3).unwrap();
        assert_eq!(again.rows(0), Some(&[3, 1000, 2048, 3999][..]));
        assert!(again.begin(0, 4000).is_none());
        assert_eq!(known.of("a = 2").of_segment(KEY, 3).unwrap().rows(0), None);
    }

    #[test]
    fn slices_out_of_order_and_many_rows_are_not_kept() {
        let known = of(1 << 20);
        let segment = known.of("a = 1").of_segment(KEY, 3).unwrap();
        let mut backwards = segment.begin(1, 2048).unwrap();
        note(&mut backwards, 1024..2048, Some(&[]));
        note(&mut backwards, 0..1024, Some(&[]));
        segment.end(1, backwards);
        assert!(segment.begin(1, 2048).is_some(), "another run may note them");
        let mut many = segment.begin(2, 2048).unwrap();
        note(&mut many, 0..1024, None);
        note(&mut many, 1024..2048, Some(&[]));
        segment.end(2, many);
        assert_eq!(segment.rows(2), None);
        assert!(segment.begin(2, 2048).is_none(), "nobody has to count them again");
        assert!(segment.begin(0, BLOCK_ROWS + 1).is_none(), "rows of 16 bits");
        assert!(segment.begin(3, 10).is_none(), "there is no such block");
    }

    #[test]
    fn bytes_and_conditions_are_bounded_and_the_oldest_go() {
        let known = of(20_000);
        for number in 0..2 * CONDITIONS {
            known.of(&format!("a = {number}"));
            known.of("kept");
        }
        assert_eq!(known.conditions.lock().unwrap().len(), CONDITIONS);
        assert!(known.conditions.lock().unwrap().iter().any(|(text, _)| **text == *"kept"));
        let of = known.of("wide");
        let kept: Vec<_> =
            (0..100).map_while(|at| of.of_segment(([at; 16], 0, [0; 16]), 10)).collect();
        assert!((2..40).contains(&kept.len()), "{}", kept.len());
        assert!(of.bytes() <= 10_000);
        let others = known.of("wider");
        (0..100).map_while(|at| others.of_segment(([at; 16], 0, [0; 16]), 10)).count();
        known.of("the last one");
        let left = known.conditions.lock().unwrap();
        let bytes: usize = left.iter().map(|(text, of)| text.len() + of.bytes()).sum();
        assert!(bytes <= 20_000, "{bytes}");
        drop(left);
        known.clear();
        assert!(known.conditions.lock().unwrap().is_empty());
    }

    #[test]
    fn what_is_forgotten_is_given_back() {
        let known = of(2_000);
        let of = known.of("a = 1");
        let entry = |file| SegmentEntry {
            file: [file; 16],
            partition: "".into(),
            offset: 0,
            length: 1,
            uuid: [0; 16],
            footer_crc: 0,
            rows: 1,
        };
        let held = of.of_segment(entry(1).key(), 1).unwrap();
        let one = of.bytes();
        assert!(of.of_segment(entry(2).key(), 1).is_some());
        of.forget_replaced(1, [entry(3)].iter());
        assert_eq!(of.bytes(), 2 * one, "there is room");
        assert!((9..).any(|at| of.of_segment(entry(at).key(), 1).is_none()));
        of.forget_replaced(2, [entry(3)].iter());
        assert_eq!(of.bytes(), one, "a statement still has it");
        drop(held);
        assert_eq!(of.bytes(), 0);
    }
}
