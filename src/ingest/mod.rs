//! x
pub mod columns;
pub mod pipeline;
