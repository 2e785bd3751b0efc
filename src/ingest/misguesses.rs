//! Types that were taken from the first rows of an input and that later rows do not fit.
//!
//! Some types are more of a guess than others: those of columns in which words stand for null, or
//! whose dates and booleans are written in a layout of their own. Where a later value shows that
//! the guess was wrong, the load ends with an error as ever, but what would have been right is
//! known here. If nothing was committed and the inputs can be read again, it begins anew with that.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use crate::model::{DataType, Schema};

/// What is known of wrong guesses; clones share what a load finds.
#[derive(Clone, Debug, Default)]
pub struct Misguesses {
    /// Columns, and the types that hold all of their values, as far as they have been read.
    found: Arc<Mutex<BTreeMap<String, DataType>>>,
    known: Vec<(String, DataType)>,
}

impl Misguesses {
    /// Takes what the last load has found, for the next one; nothing where that would be no other.
    pub fn take(&mut self) -> Vec<(String, DataType)> {
        let mut found = match self.found.lock() {
            Ok(mut found) => std::mem::take(&mut *found),
            Err(_) => BTreeMap::new(),
        };
        found.retain(|name, _| self.known.iter().all(|(known, _)| known != name));
        let new: Vec<_> = found.into_iter().collect();
        self.known.extend(new.iter().cloned());
        new
    }

    /// What earlier loads of the same inputs have found.
    pub(super) fn known(&self) -> &[(String, DataType)] {
        &self.known
    }
}

/// Notes wrong guesses about columns that the table does not have yet: the types of others are
/// none.
#[derive(Debug)]
pub(super) struct GuessCheck {
    misguesses: Misguesses,
    stored: HashSet<String>,
}

impl GuessCheck {
    pub(super) fn new(misguesses: &Misguesses, table: &Schema) -> Self {
        let stored = table.columns().iter().map(|column| column.name.to_string()).collect();
        GuessCheck { misguesses: misguesses.clone(), stored }
    }

    /// Notes the type that a column should have had.
    pub(super) fn note(&self, name: &str, needed: DataType) {
        if self.stored.contains(name) {
            return;
        }
        if let Ok(mut found) = self.misguesses.found.lock() {
            found.insert(name.to_owned(), needed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_is_wrong_once() {
        let table = Schema::from_names(vec![("a", DataType::Int64)]).unwrap();
        let mut misguesses = Misguesses::default();
        let check = GuessCheck::new(&misguesses, &table);
        for name in ["a", "b"] {
            check.note(name, DataType::Utf8);
        }
        assert_eq!(misguesses.take(), [("b".to_owned(), DataType::Utf8)]);
        check.note("b", DataType::Utf8);
        assert_eq!(misguesses.take(), []);
        assert_eq!(misguesses.known().len(), 1);
    }
}
