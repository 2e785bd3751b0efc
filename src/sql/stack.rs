//! Stack for deep statements.
//!
//! Parsers, planners and operators go through expressions by recursion, and drop them so. The depth
//! of statements is limited (`syntax/chains`), and here is the stack that the deepest need: by a
//! thread's size where the threads are ours, by a piece of memory where a caller's are too small.

/// What one level of an expression takes at most, in all that is done to it: measured with a
/// thousand times as many levels.
const LEVEL_BYTES: usize = 4 << 10;

/// What is needed besides.
const SPARE_BYTES: usize = 512 << 10;

/// The size of the stacks of worker threads, of which only what is used takes memory.
pub(in crate::sql) const WORKER_BYTES: usize = 64 << 20;

/// Runs `work` with a stack for expressions of that many levels.
pub(in crate::sql) fn with_levels<T>(levels: usize, work: impl FnOnce() -> T) -> T {
    let bytes = levels.saturating_mul(LEVEL_BYTES).saturating_add(SPARE_BYTES);
    stacker::maybe_grow(bytes, bytes.saturating_add(SPARE_BYTES), work)
}

/// Runs `work`, which makes and drops a syntax tree of that many levels, and nothing else.
pub(in crate::sql) fn with_syntax_levels<T>(levels: usize, work: impl FnOnce() -> T) -> T {
    with_levels(levels / 8, work)
}
