//! Sets of SQL's three truth values: the possible outcomes of a predicate over some rows.

/// The outcome of a predicate for one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The row is kept.
    True,
    /// The row is dropped.
    False,
    /// Unknown in SQL's sense; a filter drops the row.
    Null,
}

impl Outcome {
    const ALL: [Outcome; 3] = [Outcome::True, Outcome::False, Outcome::Null];

    fn bit(self) -> u8 {
        match self {
            Outcome::True => 1,
            Outcome::False => 2,
            Outcome::Null => 4,
        }
    }

    /// SQL's NOT.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Outcome::True => Outcome::False,
            Outcome::False => Outcome::True,
            Outcome::Null => Outcome::Null,
        }
    }

    /// SQL's AND: false dominates, then null.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Outcome::False, _) | (_, Outcome::False) => Outcome::False,
            (Outcome::Null, _) | (_, Outcome::Null) => Outcome::Null,
            (Outcome::True, Outcome::True) => Outcome::True,
        }
    }
}

/// The set of [`Outcome`]s that rows may have. Too large a set is safe; too small a set gives wrong
/// answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcomes(u8);

impl Outcomes {
    /// No outcome: there are no rows.
    pub(crate) const NONE: Outcomes = Outcomes(0);
    /// Every outcome is possible.
    pub(crate) const ANY: Outcomes = Outcomes(7);

    /// The set of one outcome.
    pub(crate) fn single(outcome: Outcome) -> Self {
        Outcomes(outcome.bit())
    }

    /// Adds `outcome` if it is `possible`.
    #[must_use]
    pub(crate) fn with(self, outcome: Outcome, possible: bool) -> Self {
        if possible { Outcomes(self.0 | outcome.bit()) } else { self }
    }

    /// Whether some row may have this outcome.
    pub(crate) fn contains(self, outcome: Outcome) -> bool {
        self.0 & outcome.bit() != 0
    }

    /// Whether every row has this outcome (and there may be rows).
    pub(crate) fn is_only(self, outcome: Outcome) -> bool {
        self.0 == outcome.bit()
    }

    /// The outcomes of NOT.
    #[must_use]
    pub(crate) fn negated(self) -> Self {
        self.map(Outcome::negated)
    }

    /// The outcomes of AND, for all pairs.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        let mut all = Outcomes::NONE;
        for a in Outcome::ALL.into_iter().filter(|a| self.contains(*a)) {
            for b in Outcome::ALL.into_iter().filter(|b| other.contains(*b)) {
                all = all.with(a.and(b), true);
            }
        }
        all
    }

    /// The outcomes of OR, for all pairs.
    #[must_use]
    pub(crate) fn or(self, other: Self) -> Self {
        self.negated().and(other.negated()).negated()
    }

    /// The outcomes of `IS [expected]`, which is never null.
    #[must_use]
    pub(crate) fn is(self, expected: Outcome) -> Self {
        self.map(|outcome| if outcome == expected { Outcome::True } else { Outcome::False })
    }

    fn map(self, change: impl Fn(Outcome) -> Outcome) -> Self {
        Outcome::ALL
            .into_iter()
            .filter(|outcome| self.contains(*outcome))
            .fold(Outcomes::NONE, |all, outcome| all.with(change(outcome), true))
    }
}
