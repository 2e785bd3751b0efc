//! Ways to write the same statement; the meaning depends on none of them.

use super::random::Random;

/// How a statement is spelled. The same seed makes the same statement in each spelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spelling {
    /// All columns of all tables are renamed in a subquery.
    pub(crate) renamed: bool,
    /// The sides of joins are swapped.
    pub(crate) commuted: bool,
    /// IN, BETWEEN and EXISTS are written in other terms.
    pub(crate) plain: bool,
    /// Queries of a WITH are written out where they are used.
    pub(crate) inlined: bool,
}

impl Spelling {
    /// All changes, so that none of the usual constructs is left.
    pub(crate) const OTHER: Spelling =
        Spelling { renamed: true, commuted: true, plain: true, inlined: true };

    /// At least one of the changes.
    pub(crate) fn random(r: &mut Random) -> Self {
        let mut some = || Spelling {
            renamed: r.chance(50),
            commuted: r.chance(50),
            plain: r.chance(50),
            inlined: r.chance(50),
        };
        let spelling = some();
        if spelling == Spelling::default() { Spelling::OTHER } else { spelling }
    }
}
