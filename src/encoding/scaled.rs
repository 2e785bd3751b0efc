//! Doubles as scaled integers, in the narrowest words that hold them.

/// Integers that stand for `int · 10^-exponent`; who holds them knows the exponent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaledInts {
    /// All fit 32 bits.
    Narrow(Vec<i32>),
    /// Some do not.
    Wide(Vec<i64>),
}

impl ScaledInts {
    /// `most` is at least the absolute value of each integer.
    pub(crate) fn new(ints: Vec<i64>, most: u64) -> Self {
        match i32::try_from(most) {
            Ok(_) => ScaledInts::Narrow(ints.into_iter().map(|int| int as i32).collect()),
            Err(_) => ScaledInts::Wide(ints),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            ScaledInts::Narrow(ints) => ints.len(),
            ScaledInts::Wide(ints) => ints.len(),
        }
    }

    /// The integer at a position.
    pub(crate) fn get(&self, at: usize) -> Option<i64> {
        match self {
            ScaledInts::Narrow(ints) => ints.get(at).map(|int| i64::from(*int)),
            ScaledInts::Wide(ints) => ints.get(at).copied(),
        }
    }
}
