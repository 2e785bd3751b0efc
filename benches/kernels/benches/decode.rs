//! Decoding a block of integers, in the caches, on one core; and summing memory, as an upper bound
//! for anything that reads it.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use stylobate::Profile;
use stylobate::internal::encoding::ints::{self, Ints};
use stylobate::internal::encoding::{Options, Sink, Source};

/// Rows of a block.
const ROWS: usize = 1 << 16;
/// Rows that the executor decodes at a time.
const SLICE: usize = 1 << 13;

fn random(rows: usize, width: u32) -> Vec<u64> {
    let mut state = 1u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> (64 - width)
    };
    (0..rows).map(|_| next()).collect()
}

fn encoded(values: &[u64]) -> (Vec<u8>, Vec<u8>) {
    let mut sink = Sink::new();
    ints::encode(values, false, &Options::new(Profile::Balanced), &mut sink);
    sink.into_parts()
}

fn memory(criterion: &mut Criterion) {
    let words: Vec<u64> = (0..1 << 26).collect();
    let mut group = criterion.benchmark_group("memory");
    group.sample_size(10).throughput(Throughput::Bytes(size_of_val(words.as_slice()) as u64));
    group.bench_function("sum", |bencher| {
        bencher.iter(|| black_box(&words).iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
    });
    group.finish();
}

/// Decodes into words of the width that the executor asks for: the narrowest that holds the values.
fn decode(criterion: &mut Criterion) {
    for width in [3, 8, 11, 16, 20] {
        let (head, payload) = encoded(&random(ROWS, width));
        let stream: Ints<'_, u64> = Ints::parse(&mut Source::new(&head, &payload), ROWS).unwrap();
        let mut group = criterion.benchmark_group("decode");
        group.throughput(Throughput::Elements(ROWS as u64));
        group.bench_function(format!("{width} bit"), |bencher| match width {
            0..=8 => bencher.iter(|| slices::<u8>(&stream)),
            9..=16 => bencher.iter(|| slices::<u16>(&stream)),
            _ => bencher.iter(|| slices::<u32>(&stream)),
        });
        group.finish();
    }
}

fn slices<W: stylobate::internal::encoding::Word>(stream: &Ints<'_, u64>) {
    let mut out: Vec<W> = Vec::with_capacity(SLICE);
    for start in (0..ROWS).step_by(SLICE) {
        out.clear();
        stream.decode_narrow(start..start + SLICE, 0, false, &mut out).unwrap();
        black_box(&out);
    }
}

criterion_group!(benches, memory, decode);
criterion_main!(benches);
