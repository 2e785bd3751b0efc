//! Micro-benchmarks of the loops over encoded data; see `benches/`.
