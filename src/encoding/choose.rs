//! The choice among the encodings of integers. One pass over the block finds the facts that every
//! estimate needs; samples of 1,024 rows feed the estimates of frame and delta; encodings whose
//! size a sample cannot tell (runs of runs, entropy) are tried in place and rolled back if they are
//! not smaller. The smallest wins, except that a heavier encoding must save at least 2 %.

use super::frame::{self, FramePlan};
use super::kernels::dispatch::simd;
use super::{
    Encoding, Options, Profile, Sink, Word, constant, delta, plain, planes, run_length, sequence,
};

/// A heavier encoding must be smaller than this fraction of a lighter one.
const HEAVIER_SIZE: f64 = 0.98;
/// The most rows of a sample; short streams (patches, runs) take a quarter of it.
const SAMPLE: usize = 1024;

/// What an encoder may use at its place in the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    pub(super) options: Options,
    level: u32,
    refused: u32,
}

impl Scope {
    /// The scope at the top of a stream.
    pub(super) fn top(options: &Options) -> Self {
        Scope { options: *options, level: 0, refused: 0 }
    }

    /// The scope of a child that must not use `refused`. Nesting is bounded: the third level is the
    /// last.
    pub(super) fn child(self, refused: &[Encoding]) -> Self {
        let level = self.level + 1;
        let deep: &[Encoding] = match level {
            0 | 1 => &[],
            2 => &[Encoding::Delta, Encoding::RunLength],
            _ => &[Encoding::Delta, Encoding::RunLength, Encoding::Planes],
        };
        let bits = refused.iter().chain(deep).fold(0, |bits, &e| bits | 1 << e as u32);
        Scope { options: self.options.child(), level, refused: self.refused | bits }
    }

    fn allows(&self, encoding: Encoding) -> bool {
        self.refused & 1 << encoding as u32 == 0
    }

    /// Whether an encoding here may have children.
    pub(super) fn may_nest(&self) -> bool {
        self.level < 3
    }
}

/// `v` as a word whose unsigned order is the order of the values; its own inverse.
#[inline(always)]
pub(super) fn to_unsigned_order<W: Word>(v: W, signed: bool) -> W {
    if signed { v ^ (W::one() << (W::BITS as usize - 1)) } else { v }
}

/// Rows of a sample, spread evenly with some jitter so that it cannot miss a period of the data.
pub(super) fn sample(rows: usize) -> impl Iterator<Item = usize> {
    let n = rows.min((rows / 32).clamp(SAMPLE / 4, SAMPLE));
    (0..n).map(move |k| {
        let (from, to) = (k * rows / n, (k + 1) * rows / n);
        let jitter = ((k as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
        from + jitter % (to - from).max(1)
    })
}

/// Facts found by one pass over the values.
#[derive(Debug)]
pub(super) struct Facts<W> {
    pub(super) min: W,
    pub(super) max: W,
    pub(super) runs: usize,
}

impl<W: Word> Facts<W> {
    pub(super) fn gather(values: &[W], signed: bool) -> Self {
        simd(
            #[inline(always)]
            || Facts::gathered(values, signed),
        )
    }

    #[inline(always)]
    fn gathered(values: &[W], signed: bool) -> Self {
        let (mut min, mut max, mut changes) = (W::max_value(), W::default(), 0usize);
        let mut last = values.first().copied().unwrap_or_default();
        for chunk in values.chunks(SAMPLE) {
            for &v in chunk {
                let v = to_unsigned_order(v, signed);
                min = Ord::min(min, v);
                max = Ord::max(max, v);
            }
            changes += usize::from(chunk.first() != Some(&last));
            changes += chunk
                .iter()
                .zip(chunk.iter().skip(1))
                .map(|(a, b)| usize::from(a != b))
                .sum::<usize>();
            last = chunk.last().copied().unwrap_or(last);
        }
        Facts {
            min: to_unsigned_order(min, signed),
            max: to_unsigned_order(max, signed),
            runs: changes + 1,
        }
    }
}

/// Appends `values` under the smallest encoding that the scope allows.
pub(super) fn encode<W: Word>(values: &[W], signed: bool, scope: Scope, sink: &mut Sink) {
    let Some(&first) = values.first() else { return constant::encode(W::default(), sink) };
    let facts = Facts::gather(values, signed);
    let forced = scope.options.force.is_some_and(|e| force(e, values, signed, &facts, scope, sink));
    if forced {
        return;
    }
    if facts.min == facts.max {
        return constant::encode(first, sink);
    }
    if let Some(step) = sequence::step(values) {
        return sequence::encode(first, step, sink);
    }
    let light = Light::choose(values, &facts, scope);
    if try_heavier(values, signed, &facts, light.bits(), scope, sink) {
        return;
    }
    match light {
        Light::Plain(_) => plain::encode(values, &scope.options, sink),
        Light::Frame(plan) => frame::encode(values, plan, scope, sink),
        Light::Delta(_) => delta::encode(values, signed, scope, sink),
    }
}

/// The encodings whose size can be estimated from a sample.
enum Light<W> {
    Plain(f64),
    Frame(FramePlan<W>),
    Delta(f64),
}

impl<W: Word> Light<W> {
    fn choose(values: &[W], facts: &Facts<W>, scope: Scope) -> Self {
        let plan = FramePlan::new(values, facts, scope.may_nest());
        let (width, frame) = (plan.full, plan.bits);
        let plain = plain::estimate::<W>(values.len());
        let mut best = if frame < plain { Light::Frame(plan) } else { Light::Plain(plain) };
        if values.len() >= 32 && scope.allows(Encoding::Delta) {
            let delta = delta::estimate(values, width);
            if delta < HEAVIER_SIZE * best.bits() {
                best = Light::Delta(delta);
            }
        }
        best
    }

    fn bits(&self) -> f64 {
        match self {
            Light::Plain(bits) | Light::Delta(bits) => *bits,
            Light::Frame(plan) => plan.bits,
        }
    }
}

/// Tries run-length and planes where they may be smaller than `bits`, and keeps the smallest of
/// those that are. Returns whether one was kept.
fn try_heavier<W: Word>(
    values: &[W],
    signed: bool,
    facts: &Facts<W>,
    mut bits: f64,
    scope: Scope,
    sink: &mut Sink,
) -> bool {
    let start = sink.mark();
    let mut kept = false;
    let rows = values.len();
    if scope.allows(Encoding::RunLength)
        && facts.runs <= rows / 2
        && run_length::lower_bound(rows, facts.runs) < HEAVIER_SIZE * bits
    {
        run_length::encode(values, signed, scope, sink);
        let taken = 8.0 * sink.bytes_since(start) as f64;
        kept = taken < HEAVIER_SIZE * bits;
        if kept {
            bits = taken;
        } else {
            sink.rollback(start);
        }
    }
    let options = &scope.options;
    if options.heavy
        && options.profile != Profile::Fast
        && scope.allows(Encoding::Planes)
        && rows >= SAMPLE
    {
        let middle = sink.mark();
        planes::encode(values, facts, options, sink);
        if 8.0 * (sink.bytes_since(middle) as f64) >= HEAVIER_SIZE * bits {
            sink.rollback(middle);
        } else {
            if kept {
                sink.rollback(start);
                planes::encode(values, facts, options, sink);
            }
            kept = true;
        }
    }
    kept
}

/// Encodes with `encoding` if it can hold the values; returns whether it did.
fn force<W: Word>(
    encoding: Encoding,
    values: &[W],
    signed: bool,
    facts: &Facts<W>,
    scope: Scope,
    sink: &mut Sink,
) -> bool {
    match (encoding, values.first()) {
        (Encoding::Plain, _) => plain::encode(values, &scope.options, sink),
        (Encoding::Constant, Some(&first)) if facts.min == facts.max => {
            constant::encode(first, sink)
        }
        (Encoding::Sequence, Some(&first)) => match sequence::step(values) {
            Some(step) => sequence::encode(first, step, sink),
            None => return false,
        },
        (Encoding::RunLength, _) => run_length::encode(values, signed, scope, sink),
        (Encoding::Frame, _) => {
            frame::encode(values, FramePlan::new(values, facts, scope.may_nest()), scope, sink)
        }
        (Encoding::Delta, _) => delta::encode(values, signed, scope, sink),
        (Encoding::Planes, _) => planes::encode(values, facts, &scope.options, sink),
        _ => return false,
    }
    true
}
