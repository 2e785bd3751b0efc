//! A single value without its type: bounds of zone maps, literals of predicates.

use std::cmp::Ordering;

/// One value; the column's [`DataType`](super::DataType) says how to read it.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// Booleans (0, 1), integers, dates, times, timestamps and decimals, as the stored whole number.
    Int(i128),
    /// Floats of either width.
    Float(f64),
    /// Text and binary.
    Bytes(Box<[u8]>),
}

impl Scalar {
    /// The total order of stored values: floats by IEEE 754 `totalOrder`, text by bytes. `None` across kinds.
    pub fn total_cmp(&self, other: &Scalar) -> Option<Ordering> {
        Some(match (self, other) {
            (Scalar::Int(a), Scalar::Int(b)) => a.cmp(b),
            (Scalar::Float(a), Scalar::Float(b)) => a.total_cmp(b),
            (Scalar::Bytes(a), Scalar::Bytes(b)) => a.cmp(b),
            _ => return None,
        })
    }
}
