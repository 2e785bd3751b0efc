//! Sets of the three truth values of SQL: what a predicate may come to over some rows.

/// What a predicate is for one row.
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

    /// SQL's AND: false wins, then null.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Outcome::False, _) | (_, Outcome::False) => Outcome::False,
            (Outcome::Null, _) | (_, Outcome::Null) => Outcome::Null,
            (Outcome::True, Outcome::True) => Outcome::True,
        }
    }
}

/// A set of [`Outcome`]s: each that some row may have. Too large a set is safe, too small a one is
/// a wrong answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcomes(u8);

impl Outcomes {
    /// No outcome: there are no rows.
    pub const NONE: Outcomes = Outcomes(0);
    /// Anything may be.
    pub const ANY: Outcomes = Outcomes(7);

    /// The set of one outcome.
    pub fn only(outcome: Outcome) -> Self {
        Outcomes(outcome.bit())
    }

    /// Adds `outcome` where `possible`.
    #[must_use]
    pub fn with(self, outcome: Outcome, possible: bool) -> Self {
        if possible { Outcomes(self.0 | outcome.bit()) } else { self }
    }

    /// Whether some row may have this outcome.
    pub fn contains(self, outcome: Outcome) -> bool {
        self.0 & outcome.bit() != 0
    }

    /// Whether every row has this outcome (and there may be rows).
    pub fn is_only(self, outcome: Outcome) -> bool {
        self.0 == outcome.bit()
    }

    /// What NOT makes of each.
    #[must_use]
    pub fn negated(self) -> Self {
        self.map(Outcome::negated)
    }

    /// What AND makes of each pair.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut all = Outcomes::NONE;
        for a in Outcome::ALL.into_iter().filter(|a| self.contains(*a)) {
            for b in Outcome::ALL.into_iter().filter(|b| other.contains(*b)) {
                all = all.with(a.and(b), true);
            }
        }
        all
    }

    /// What OR makes of each pair.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.negated().and(other.negated()).negated()
    }

    /// What `IS [expected]` makes of each: never null.
    #[must_use]
    pub fn is(self, expected: Outcome) -> Self {
        self.map(|outcome| if outcome == expected { Outcome::True } else { Outcome::False })
    }

    fn map(self, change: impl Fn(Outcome) -> Outcome) -> Self {
        Outcome::ALL
            .into_iter()
            .filter(|outcome| self.contains(*outcome))
            .fold(Outcomes::NONE, |all, outcome| all.with(change(outcome), true))
    }
}
