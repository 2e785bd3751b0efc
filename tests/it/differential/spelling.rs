//! Ways to say the same: what a statement means depends on none of them.

use super::random::Random;

/// How a statement is spelled. The same seed makes the same statement in each spelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spelling {
    /// All columns of all tables have names of their own, given in a subquery.
    pub(crate) renamed: bool,
    /// The sides of joins change places.
    pub(crate) commuted: bool,
    /// IN, BETWEEN and EXISTS are said by other means.
    pub(crate) plain: bool,
    /// What stands in a WITH is written out where it is used.
    pub(crate) inlined: bool,
}

impl Spelling {
    /// All of them: what the usual spelling meets is in none of its places.
    pub(crate) const OTHER: Spelling =
        Spelling { renamed: true, commuted: true, plain: true, inlined: true };

    /// Some of them.
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
