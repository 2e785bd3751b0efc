//! What a run of a fragment or a scan has looked at: counters for `EXPLAIN ANALYZE` and `--stats`.
//!
//! Where this stands on the road of a query: beside all of it. Each thread counts in a [`Tally`] of
//! its own, without atomics, once a block or once a slice; when it ends, its counters are added to
//! those of the run ([`Recorder`]). Counting is always on, for it costs next to nothing. Times, and
//! the sizes of what nothing else needs to look up, are taken only where somebody asked for them.
//!
//! The number of rows that pass a condition is free: the filter counts what is left anyway. Times
//! cost two clock reads for each slice and step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What ruled rows out before they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The values of its partition's keys.
    Partition,
    /// It has no row of the sample that is asked for.
    Sample,
    /// Minimum and maximum of a segment, in the manifest.
    ManifestBounds,
    /// How many nulls a segment has, in the manifest.
    ManifestNulls,
    /// Minimum and maximum of a block, in the zone map of its segment.
    ZoneBounds,
    /// How many nulls a block has, in the zone map of its segment.
    ZoneNulls,
    /// No value of the segment's dictionary meets the condition, or all of them were counted.
    Dictionary,
    /// An earlier statement found no row that meets the same conditions.
    KnownRows,
    /// The zone map says that all rows come after those already found of the first rows of an
    /// order.
    Threshold,
    /// The zone map holds the counts, sums and bounds that the query asks for, and every row of the
    /// block counts.
    ZoneTotals,
}

impl Statistic {
    /// All of them, in the order in which they are asked.
    pub const ALL: [Statistic; 10] = [
        Statistic::Partition,
        Statistic::Sample,
        Statistic::ManifestBounds,
        Statistic::ManifestNulls,
        Statistic::ZoneBounds,
        Statistic::ZoneNulls,
        Statistic::Dictionary,
        Statistic::KnownRows,
        Statistic::Threshold,
        Statistic::ZoneTotals,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Statistic::Partition => "partition",
            Statistic::Sample => "sample",
            Statistic::ManifestBounds => "manifest_min_max",
            Statistic::ManifestNulls => "manifest_null_count",
            Statistic::ZoneBounds => "zone_map_min_max",
            Statistic::ZoneNulls => "zone_map_null_count",
            Statistic::Dictionary => "dictionary",
            Statistic::KnownRows => "known_rows",
            Statistic::Threshold => "top_n_threshold",
            Statistic::ZoneTotals => "zone_map_totals",
        }
    }
}

/// What one statistic ruled out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Segments as a whole: those that the manifest ruled out, and that were not opened.
    pub segments: u64,
    /// Blocks, also those of the segments.
    pub blocks: u64,
    /// Their rows.
    pub rows: u64,
    /// Their stored bytes: of whole segments all, of blocks those of the columns that the query
    /// reads.
    pub bytes: u64,
}

impl Pruned {
    fn add(&mut self, more: &Pruned) {
        self.segments += more.segments;
        self.blocks += more.blocks;
        self.rows += more.rows;
        self.bytes += more.bytes;
    }
}

/// One step on the road of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Rows that came to it.
    pub rows_in: u64,
    /// Rows that it let through, or made.
    pub rows_out: u64,
    /// The time of all threads together; zero where nobody asked.
    pub time: Duration,
}

impl Step {
    /// The share of rows that it has dropped, never none at all; a guess while none came.
    pub(crate) fn dropped(&self) -> f64 {
        match self.rows_in {
            0 => 0.5,
            rows => (rows.saturating_sub(self.rows_out) as f64 / rows as f64).max(0.001),
        }
    }

    fn add(&mut self, more: &Step) {
        self.rows_in += more.rows_in;
        self.rows_out += more.rows_out;
        self.time += more.time;
    }
}

/// In which form a condition was tested on the rows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A range of dictionary codes.
    Codes,
    /// A range of stored whole numbers.
    Words,
    /// A range of the whole numbers behind decimal floats.
    Decimals,
    /// A set of dictionary codes.
    CodeSet,
    /// A pattern, on the bytes of texts.
    Pattern,
    /// The place of rows, without a look at them.
    Place,
    /// The rows that an earlier statement found to pass.
    Known,
    /// The expression itself, on decoded columns.
    Decoded,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 8] = [
        Form::Codes,
        Form::Words,
        Form::Decimals,
        Form::CodeSet,
        Form::Pattern,
        Form::Place,
        Form::Known,
        Form::Decoded,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Form::Codes => "code_range",
            Form::Words => "integer_range",
            Form::Decimals => "decimal_range",
            Form::CodeSet => "code_set",
            Form::Pattern => "pattern",
            Form::Place => "place",
            Form::Known => "known_rows",
            Form::Decoded => "decoded",
        }
    }
}

/// What became of one condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tested {
    /// Rows that were tested, and rows that passed.
    pub step: Step,
    /// Rows among them that were not tested, because zone maps proved that they pass.
    pub rows_proven: u64,
    /// Segments that it ruled out in the manifest.
    pub segments_pruned: u64,
    /// Blocks that it ruled out, also those of such segments.
    pub blocks_pruned: u64,
    /// Blocks tested, by [`Form`].
    pub blocks: [u64; Form::ALL.len()],
}

impl Tested {
    fn add(&mut self, more: &Tested) {
        self.step.add(&more.step);
        self.rows_proven += more.rows_proven;
        self.segments_pruned += more.segments_pruned;
        self.blocks_pruned += more.blocks_pruned;
        self.blocks.iter_mut().zip(more.blocks).for_each(|(sum, more)| *sum += more);
    }
}

/// What a run, or one thread of it, has looked at. Blocks that are neither pruned nor read were not
/// needed any more: a limit was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments of the table.
    pub segments: u64,
    /// Segments with a block that was read.
    pub segments_read: u64,
    /// Blocks of the table.
    pub blocks: u64,
    /// Blocks whose rows were looked at.
    pub blocks_read: u64,
    /// What was not read, by [`Statistic`].
    pub pruned: [Pruned; Statistic::ALL.len()],
    /// Stored bytes of the columns' blocks that were opened.
    pub bytes_read: u64,
    /// Stored bytes of the dictionaries that were decoded.
    pub dictionary_bytes: u64,
    /// Values decoded to arrays, by slices. What is tested, grouped or summed as it is stored does
    /// not count.
    pub values_decoded: u64,
    /// Values fetched one by one.
    pub values_fetched: u64,
    /// Bytes of the arrays that these became.
    pub bytes_decoded: u64,
    /// The answer was known from the manifest: no row was looked at.
    pub from_metadata: bool,
    /// The time of pruning and of opening segments.
    pub prune: Duration,
    /// Opening blocks: rows of the table, and rows of the blocks that were read.
    pub scan: Step,
    /// The conditions, in the order of the fragment.
    pub conditions: Vec<Tested>,
    /// Grouping, ordering or decoding the rows that passed: rows in, and rows of the answer.
    pub output: Step,
    /// How groups were made.
    pub grouping: Option<&'static str>,
    /// How long what is not done block by block took: uniting dictionaries, merging the threads'
    /// results, making the answer.
    pub finish: Duration,
    /// How long the threads were at work on blocks.
    pub work: Duration,
    /// Threads that took part.
    pub threads: u64,
    /// The most memory that groups took.
    pub memory: u64,
    /// Bytes written to temporary files.
    pub spilled_bytes: u64,
    /// Temporary files.
    pub spill_files: u64,
}

impl Counters {
    /// All zero, for a number of conditions.
    pub fn new(conditions: usize) -> Self {
        Counters { conditions: vec![Tested::default(); conditions], ..Counters::default() }
    }

    /// Adds what another thread, or another run, has counted.
    pub fn add(&mut self, more: &Counters) {
        self.segments += more.segments;
        self.segments_read += more.segments_read;
        self.blocks += more.blocks;
        self.blocks_read += more.blocks_read;
        self.pruned.iter_mut().zip(&more.pruned).for_each(|(sum, more)| sum.add(more));
        self.bytes_read += more.bytes_read;
        self.dictionary_bytes += more.dictionary_bytes;
        self.values_decoded += more.values_decoded;
        self.values_fetched += more.values_fetched;
        self.bytes_decoded += more.bytes_decoded;
        self.from_metadata |= more.from_metadata;
        self.prune += more.prune;
        self.scan.add(&more.scan);
        if self.conditions.len() < more.conditions.len() {
            self.conditions.resize(more.conditions.len(), Tested::default());
        }
        self.conditions.iter_mut().zip(&more.conditions).for_each(|(sum, more)| sum.add(more));
        self.output.add(&more.output);
        self.grouping = self.grouping.or(more.grouping);
        self.finish += more.finish;
        self.work += more.work;
        self.threads = self.threads.max(more.threads);
        self.memory = self.memory.max(more.memory);
        self.spilled_bytes += more.spilled_bytes;
        self.spill_files += more.spill_files;
    }

    /// Makes one of all conditions from a number on: of what came to the first of them, what the
    /// last one left.
    pub fn fold_conditions(&mut self, from: usize) {
        let later = self.conditions.split_off(from.min(self.conditions.len()));
        let Some((first, others)) = later.split_first() else { return };
        let mut sum = *first;
        for tested in others {
            let before = sum.step;
            sum.add(tested);
            sum.step.rows_in = before.rows_in.max(tested.step.rows_in);
            sum.step.rows_out = before.rows_out.min(tested.step.rows_out);
        }
        self.conditions.push(sum);
    }

    /// What a statistic ruled out.
    pub fn pruned_by(&self, statistic: Statistic) -> Pruned {
        self.pruned.get(statistic as usize).copied().unwrap_or_default()
    }

    /// What all of them ruled out; bytes are those of whole segments and of single blocks together.
    pub fn pruned(&self) -> Pruned {
        let mut sum = Pruned::default();
        self.pruned.iter().for_each(|pruned| sum.add(pruned));
        sum
    }

    /// Notes what a statistic ruled out, with the number of the condition that it was asked for.
    pub(crate) fn prune(&mut self, statistic: Statistic, condition: Option<usize>, pruned: Pruned) {
        if let Some(sum) = self.pruned.get_mut(statistic as usize) {
            sum.add(&pruned);
        }
        if let Some(tested) = condition.and_then(|number| self.conditions.get_mut(number)) {
            tested.segments_pruned += pruned.segments;
            tested.blocks_pruned += pruned.blocks;
        }
    }

    /// Notes that a condition let `rows_out` of `rows_in` rows pass.
    pub(crate) fn tested(
        &mut self,
        number: usize,
        rows_in: usize,
        rows_out: usize,
        time: Duration,
    ) {
        if let Some(tested) = self.conditions.get_mut(number) {
            tested.step.add(&Step { rows_in: rows_in as u64, rows_out: rows_out as u64, time });
        }
    }

    /// Notes that a condition holds of all rows of a block.
    pub(crate) fn proven(&mut self, number: usize, rows: usize) {
        self.tested(number, rows, rows, Duration::ZERO);
        if let Some(tested) = self.conditions.get_mut(number) {
            tested.rows_proven += rows as u64;
        }
    }

    /// Notes the form in which a condition is tested on a block.
    pub(crate) fn form(&mut self, number: usize, form: Form) {
        let blocks =
            self.conditions.get_mut(number).and_then(|tested| tested.blocks.get_mut(form as usize));
        if let Some(blocks) = blocks {
            *blocks += 1;
        }
    }
}

/// One thread's counters, and its clock.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counters: Counters,
    pub(crate) clock: Clock,
}

impl Tally {
    pub(crate) fn new(conditions: usize, timed: bool) -> Self {
        Tally { counters: Counters::new(conditions), clock: Clock::start(timed) }
    }
}

/// A clock that runs only if somebody asked for times.
#[derive(Debug, Default)]
pub(crate) struct Clock(Option<Instant>);

impl Clock {
    pub(crate) fn start(timed: bool) -> Self {
        Clock(timed.then(Instant::now))
    }

    /// The time since the last lap; zero if nobody asked.
    pub(crate) fn lap(&mut self) -> Duration {
        let Some(last) = &mut self.0 else { return Duration::ZERO };
        let now = Instant::now();
        now.duration_since(std::mem::replace(last, now))
    }
}

/// The counters of a run, to which its threads add theirs.
#[derive(Debug, Default)]
pub struct Recorder {
    counters: Mutex<Counters>,
    /// Rows of the blocks that are done with: threads add their counters only when they end.
    passed: AtomicU64,
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the counters.
    pub fn update(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.lock());
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.lock().clone()
    }

    /// Notes rows of a block that is done with, whether it was read or left out.
    pub(crate) fn pass(&self, rows: u64) {
        self.passed.fetch_add(rows, Ordering::Relaxed);
    }

    /// What [`Recorder::go_back`] goes back to.
    pub(crate) fn mark(&self) -> (Counters, u64) {
        (self.counters(), self.passed.load(Ordering::Relaxed))
    }

    /// Forgets what was counted since a mark.
    pub(crate) fn go_back(&self, (counters, passed): (Counters, u64)) {
        self.update(|sum| *sum = counters);
        self.passed.store(passed, Ordering::Relaxed);
    }

    /// Forgets which rows were counted since a mark, and not what was read and taken for them.
    pub(crate) fn forget_rows(&self, (before, passed): (Counters, u64)) {
        let Counters { segments, blocks, blocks_read, pruned, prune, .. } = before;
        let Counters { scan, conditions, output, grouping, .. } = before;
        self.update(|sum| {
            let now = std::mem::take(sum);
            let rows = Counters { segments, blocks, blocks_read, pruned, prune, ..now };
            *sum = Counters { scan, conditions, output, grouping, ..rows };
        });
        self.passed.store(passed, Ordering::Relaxed);
    }

    /// How many rows the run is done with, and of how many: those that statistics have left of the
    /// table so far. `None` before it has begun.
    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        let counters = self.lock();
        if counters.from_metadata {
            return Some((0, 0));
        }
        // These are asked block by block, and such blocks are passed.
        let later = [Statistic::Dictionary, Statistic::Threshold, Statistic::ZoneTotals];
        let before = Statistic::ALL.iter().filter(|statistic| !later.contains(statistic));
        let pruned = before.map(|statistic| counters.pruned_by(*statistic).rows).sum();
        let left = counters.scan.rows_in.saturating_sub(pruned);
        let passed = self.passed.load(Ordering::Relaxed).min(left);
        (counters.segments > 0).then_some((passed, left))
    }
}
