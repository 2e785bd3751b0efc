//! The choice among the encodings of byte strings.

use fsst::Compressor;

use super::{Encoding, Options, Profile, Sink};
use super::{fsst as fsst_strings, hexadecimal, packed, plain_strings};

/// Runs of neighbouring values that make up a sample.
const RUNS: usize = 4;
/// The part of the raw bytes below which FSST is not tried any more.
const PACKED_WELL: f64 = 0.3;

/// An encoding together with what it has learnt about the values: it can hold them all.
pub(super) enum Plan {
    Plain,
    Fsst(Box<Compressor>),
    Packed(packed::Plan),
    Hexadecimal(hexadecimal::Plan),
}

impl Plan {
    /// A plan for one encoding, or `None` where it cannot hold `values`.
    pub(super) fn new(encoding: Encoding, values: &[&[u8]], sample: &[&[u8]]) -> Option<Self> {
        match encoding {
            Encoding::Plain => Some(Plan::Plain),
            Encoding::Fsst => {
                fsst_strings::plan(values.iter().map(|v| v.len()).sum(), sample).map(Plan::Fsst)
            }
            Encoding::Packed => {
                packed::plan(sample).and_then(|_| packed::plan(values)).map(Plan::Packed)
            }
            Encoding::Hexadecimal => hexadecimal::plan(values).map(Plan::Hexadecimal),
            _ => None,
        }
    }

    /// Appends `values`.
    pub(super) fn encode(&self, values: &[&[u8]], options: &Options, sink: &mut Sink) {
        match self {
            Plan::Plain => plain_strings::encode(values, options, sink),
            Plan::Fsst(compressor) => fsst_strings::encode(compressor, values, options, sink),
            Plan::Packed(plan) => packed::encode(plan, values, options, sink),
            Plan::Hexadecimal(plan) => hexadecimal::encode(*plan, values, options, sink),
        }
    }

    /// What a byte costs under this encoding, to put a price on slow reading. Plain text costs most
    /// where it is entropy-coded or LZ4 runs over all of it, and least where it is left as it is.
    fn price(&self, options: &Options) -> f64 {
        match (options.profile, self) {
            (Profile::Small, _) => 1.0,
            // Words of hexadecimal digits are spelt faster than any table tells.
            (_, Plan::Packed(_)) => 1.03,
            (Profile::Fast, Plan::Plain) => 0.6,
            (Profile::Balanced, Plan::Plain) if !options.heavy => 1.1,
            _ => 1.0,
        }
    }
}

/// The cheapest plan for `values`.
pub(super) fn choose(values: &[&[u8]], options: &Options) -> Plan {
    let sample = sample(values, options);
    let raw = sample.iter().map(|v| v.len()).sum::<usize>() as f64 * values.len() as f64
        / sample.len().max(1) as f64;
    let mut best = (f64::INFINITY, Plan::Plain);
    for encoding in [Encoding::Hexadecimal, Encoding::Packed, Encoding::Plain, Encoding::Fsst] {
        // Training costs more than all the rest, and does not reach what packing digits does.
        let packed = matches!(best.1, Plan::Packed(_) | Plan::Hexadecimal(_));
        if encoding == Encoding::Fsst && packed && best.0 < PACKED_WELL * raw && !options.heavy {
            break;
        }
        if let Some(plan) = Plan::new(encoding, values, &sample) {
            let cost = cost(&plan, &sample, values.len(), options);
            if cost < best.0 {
                best = (cost, plan);
            }
        }
    }
    best.1
}

/// The bytes that all values would take, told from the sample, times their price.
fn cost(plan: &Plan, sample: &[&[u8]], rows: usize, options: &Options) -> f64 {
    let mut sink = Sink::new();
    plan.encode(sample, options, &mut sink);
    let (head, payload) = sink.into_parts();
    let scale = rows as f64 / sample.len().max(1) as f64;
    (head.len() as f64 + payload.len() as f64 * scale) * plan.price(options)
}

/// A few runs of neighbouring values from all over the block, of bounded bytes.
fn sample<'a>(values: &[&'a [u8]], options: &Options) -> Vec<&'a [u8]> {
    let (run, most_bytes) = match options.profile {
        Profile::Small => (4096, 256 << 10),
        _ => (512, 32 << 10),
    };
    if values.len() <= RUNS * run {
        return values.to_vec();
    }
    let starts = (0..RUNS).map(|i| i * (values.len() - run) / (RUNS - 1));
    let mut sample = Vec::with_capacity(RUNS * run);
    for start in starts {
        let mut bytes = 0;
        sample.extend(values[start..start + run].iter().copied().take_while(|v| {
            let take = bytes == 0 || bytes + v.len() <= most_bytes;
            bytes += v.len();
            take
        }));
    }
    sample
}
