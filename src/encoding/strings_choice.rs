//! The choice among the encodings of byte strings.

use fsst::Compressor;

use super::{Encoding, Options, Profile, Sink};
use super::{front, fsst as fsst_strings, hexadecimal, packed, plain_strings};

/// Runs of neighbouring values that make up a sample.
const RUNS: usize = 4;
/// FSST is not tried where packing leaves less than this fraction of the raw bytes.
const PACKED_WELL: f64 = 0.3;

/// An encoding that can hold all values of a block, with its parameters for them.
pub(super) enum StringEncoder {
    Plain,
    Fsst(Box<Compressor>),
    Packed(packed::Alphabets),
    Hexadecimal(hexadecimal::HexLayout),
    /// With an encoder for the suffixes.
    Front(Box<StringEncoder>),
}

impl StringEncoder {
    /// The encoder of one encoding, or `None` if it cannot hold `values`.
    pub(super) fn new(encoding: Encoding, values: &[&[u8]], sample: &[&[u8]]) -> Option<Self> {
        match encoding {
            Encoding::Plain => Some(StringEncoder::Plain),
            Encoding::Fsst => fsst_strings::train(values.iter().map(|v| v.len()).sum(), sample)
                .map(StringEncoder::Fsst),
            Encoding::Packed => packed::find_alphabets(sample)
                .and_then(|_| packed::find_alphabets(values))
                .map(StringEncoder::Packed),
            Encoding::Hexadecimal => {
                hexadecimal::find_layout(values).map(StringEncoder::Hexadecimal)
            }
            Encoding::Front => {
                let (_, suffixes) = front::split(sample);
                let inner = StringEncoder::new(Encoding::Fsst, values, &suffixes);
                Some(StringEncoder::Front(Box::new(inner.unwrap_or(StringEncoder::Plain))))
            }
            _ => None,
        }
    }

    /// Appends `values`.
    pub(super) fn encode(&self, values: &[&[u8]], options: &Options, sink: &mut Sink) {
        match self {
            StringEncoder::Plain => plain_strings::encode(values, options, sink),
            StringEncoder::Fsst(compressor) => {
                fsst_strings::encode(compressor, values, options, sink)
            }
            StringEncoder::Packed(alphabets) => packed::encode(alphabets, values, options, sink),
            StringEncoder::Hexadecimal(layout) => {
                hexadecimal::encode(*layout, values, options, sink)
            }
            StringEncoder::Front(inner) => front::encode(inner, values, options, sink),
        }
    }

    /// The cost of a stored byte under this encoding, which penalises slow reading. Plain text
    /// costs most where LZ4 runs over all of it, and least where it is not compressed.
    fn price(&self, options: &Options) -> f64 {
        match (options.profile, self) {
            (Profile::Small, _) => 1.0,
            // Hexadecimal text decodes faster than a look-up table can.
            (_, StringEncoder::Packed(_)) => 1.03,
            (_, StringEncoder::Front(inner)) => inner.price(options),
            (Profile::Fast, StringEncoder::Plain) => 0.6,
            (Profile::Balanced, StringEncoder::Plain) if !options.heavy => 1.1,
            _ => 1.0,
        }
    }
}

/// The cheapest encoder for `values`.
pub(super) fn choose(values: &[&[u8]], options: &Options) -> StringEncoder {
    let sample = sample(values, options);
    let best = cheapest(values, &sample, options);
    let (prefixes, suffixes) = front::split(&sample);
    if !front::may_pay(&prefixes, &sample) {
        return best;
    }
    let (_, all) = front::split(values);
    let front = StringEncoder::Front(Box::new(cheapest(&all, &suffixes, options)));
    let cost = |encoder: &StringEncoder| cost(encoder, &sample, values.len(), options);
    if cost(&front) < cost(&best) { front } else { best }
}

/// The cheapest encoder without front coding.
fn cheapest(values: &[&[u8]], sample: &[&[u8]], options: &Options) -> StringEncoder {
    let raw = sample.iter().map(|v| v.len()).sum::<usize>() as f64 * values.len() as f64
        / sample.len().max(1) as f64;
    let mut best = (f64::INFINITY, StringEncoder::Plain);
    for encoding in [Encoding::Hexadecimal, Encoding::Packed, Encoding::Plain, Encoding::Fsst] {
        // Training costs more than all other trials, and FSST does not beat well-packed digits.
        let packed = matches!(best.1, StringEncoder::Packed(_) | StringEncoder::Hexadecimal(_));
        if encoding == Encoding::Fsst && packed && best.0 < PACKED_WELL * raw && !options.heavy {
            break;
        }
        if let Some(encoder) = StringEncoder::new(encoding, values, sample) {
            let cost = cost(&encoder, sample, values.len(), options);
            if cost < best.0 {
                best = (cost, encoder);
            }
        }
    }
    best.1
}

/// The bytes that all values would take, extrapolated from the sample, times their price.
fn cost(encoder: &StringEncoder, sample: &[&[u8]], rows: usize, options: &Options) -> f64 {
    let mut sink = Sink::new();
    encoder.encode(sample, options, &mut sink);
    let (head, payload) = sink.into_parts();
    let scale = rows as f64 / sample.len().max(1) as f64;
    (head.len() as f64 + payload.len() as f64 * scale) * encoder.price(options)
}

/// A few runs of neighbouring values, spread over the block and bounded in bytes.
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
