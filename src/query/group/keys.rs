//! Keys of groups in the form in which they are hashed, compared, partitioned and spilled: numbers
//! of 64 or 128 bits, or bytes.
//!
//! Tables, partitions and files do not depend on the form. To add one: implement `KeyColumn`
//! (`key_column`; for integers of another width, `KeyWord` is enough), list it in `keys!` below,
//! and choose it in [`Keys::of_bits`]. The compiler then asks for its arms in [`of_words`] and
//! where pairs are joined and split (`pair`).

use super::index::Index;
use super::key_column::{Bytes, KeyColumn};
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};

/// Generates the enum of all forms of keys, and the functions that match on it.
macro_rules! keys {
    ($($form:ident($column:ty)),*) => {
        /// One key a group or a row.
        #[derive(Debug)]
        pub(crate) enum Keys {
            $($form($column),)*
        }

        impl Keys {
            fn get(&self) -> &dyn KeyColumn {
                match self {
                    $(Keys::$form(keys) => keys,)*
                }
            }

            fn get_mut(&mut self) -> &mut dyn KeyColumn {
                match self {
                    $(Keys::$form(keys) => keys,)*
                }
            }

            /// None of the same form.
            pub(crate) fn empty_like(&self) -> Keys {
                match self {
                    $(Keys::$form(_) => Keys::$form(<$column>::default()),)*
                }
            }

            /// Appends some of the other's keys; an error if they are of another form.
            pub(crate) fn append(&mut self, from: &Keys, at: &[u32]) -> Result<()> {
                match (self, from) {
                    $((Keys::$form(keys), Keys::$form(from)) => keys.gather(from, at),)*
                    _ => return Err(wrong_form_error()),
                }
                Ok(())
            }

            /// Appends to `groups` where each of the other's keys stands among these; those not
            /// yet there are appended. An error if they are of another form.
            pub(crate) fn find(
                &mut self,
                index: &mut Index,
                keys: &Keys,
                hashes: &[u64],
                groups: &mut Vec<u32>,
            ) -> Result<()> {
                match (self, keys) {
                    $((Keys::$form(known), Keys::$form(keys)) => {
                        known.find(index, keys, hashes, groups)
                    })*
                    _ => Err(wrong_form_error()),
                }
            }
        }

        $(impl<'k> TryFrom<&'k Keys> for &'k $column {
            type Error = Error;

            fn try_from(keys: &'k Keys) -> Result<Self> {
                let Keys::$form(keys) = keys else { return Err(wrong_form_error()) };
                Ok(keys)
            }
        }

        impl<'k> TryFrom<&'k mut Keys> for &'k mut $column {
            type Error = Error;

            fn try_from(keys: &'k mut Keys) -> Result<Self> {
                let Keys::$form(keys) = keys else { return Err(wrong_form_error()) };
                Ok(keys)
            }
        })*
    };
}

keys!(Narrow(Vec<u64>), Wide(Vec<u128>), Bytes(Bytes));

/// Does the same with keys of any word; bytes are an error.
macro_rules! of_words {
    ($keys:expr, $words:ident => $then:expr) => {
        match $keys {
            Keys::Narrow($words) => $then,
            Keys::Wide($words) => $then,
            Keys::Bytes(_) => Err(crate::query::group::keys::wrong_form_error()),
        }
    };
}
pub(crate) use of_words;

impl Keys {
    /// No keys yet, of `bits` bits each, at most 128; `None` for bytes.
    pub(crate) fn of_bits(bits: Option<u32>) -> Keys {
        match bits {
            Some(..=u64::BITS) => Keys::Narrow(Vec::new()),
            Some(_) => Keys::Wide(Vec::new()),
            None => Keys::Bytes(Bytes::default()),
        }
    }

    // What all forms do, as in `KeyColumn`.

    pub(crate) fn len(&self) -> usize {
        self.get().len()
    }

    pub(crate) fn clear(&mut self) {
        self.get_mut().clear();
    }

    pub(crate) fn memory(&self) -> usize {
        self.get().memory()
    }

    pub(crate) fn merge_runs(&mut self, ends: &mut Vec<u32>) {
        self.get_mut().merge_runs(ends);
    }

    pub(crate) fn hashes(&self, out: &mut Vec<u64>) {
        self.get().hashes(out);
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        self.get().write(out);
    }

    /// So many keys of this form.
    pub(crate) fn read(&self, count: usize, from: &mut Cursor<'_>) -> Result<Keys> {
        let mut keys = self.empty_like();
        keys.get_mut().read(count, from)?;
        Ok(keys)
    }

    pub(crate) fn width(&self) -> Option<usize> {
        self.get().width()
    }

    pub(crate) fn put(&self, at: usize, to: &mut Bytes) -> usize {
        self.get().put(at, to)
    }

    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.get_mut().push_bytes(bytes);
    }
}

pub(crate) fn wrong_form_error() -> Error {
    Error::InvalidInput("keys of another form than planned".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of each form, some of them equal.
    fn all() -> Vec<Keys> {
        let mut bytes = Bytes::default();
        ["a", "", "bc", "a", "a"].iter().for_each(|key| bytes.push(key.as_bytes()));
        vec![
            Keys::Narrow(vec![7, u64::MAX, 0, 7, 7]),
            Keys::Wide(vec![7, 7 << 64, u128::MAX, 7, 7]),
            Keys::Bytes(bytes),
        ]
    }

    #[test]
    fn keys_are_found_written_and_taken_apart_alike_in_every_form() {
        for keys in all() {
            let (mut known, mut index) = (keys.empty_like(), Index::default());
            let (mut hashes, mut groups) = (Vec::new(), Vec::new());
            keys.hashes(&mut hashes);
            known.find(&mut index, &keys, &hashes, &mut groups).unwrap();
            assert_eq!((known.len(), groups.as_slice()), (3, [0, 1, 2, 0, 0].as_slice()));
            let mut out = Writer::new();
            known.write(&mut out);
            let mut cursor = Cursor::new(out.as_slice());
            let read = keys.read(3, &mut cursor).unwrap();
            cursor.finish().unwrap();
            let mut again = keys.empty_like();
            for at in 0..read.len() {
                let mut bytes = Bytes::default();
                read.put(at, &mut bytes);
                bytes.push(&[]);
                assert!(read.width().is_none_or(|width| width == bytes.get(0).len()));
                again.push_bytes(bytes.get(0));
            }
            groups.clear();
            again.hashes(&mut hashes);
            known.find(&mut index, &again, &hashes, &mut groups).unwrap();
            assert_eq!(groups, [0, 1, 2]);
        }
    }

    #[test]
    fn keys_of_different_forms_never_mix() {
        for (a, one) in all().iter().enumerate() {
            for (b, mut other) in all().into_iter().enumerate() {
                assert_eq!(other.append(one, &[0]).is_ok(), a == b);
                let found = other.find(&mut Index::default(), one, &[1], &mut Vec::new());
                assert_eq!(found.is_ok(), a == b);
            }
        }
    }

    #[test]
    fn runs_of_equal_keys_are_one_key_that_says_where_it_ends() {
        let run = |key: u64, rows: usize| vec![key; rows];
        let rows = [run(1, 3), run(2, 1), run(1, 2), run(u64::MAX, 1)].concat();
        let mut keys = Keys::Narrow(rows.clone());
        let mut ends = vec![9];
        keys.merge_runs(&mut ends);
        assert_eq!(ends, [3, 4, 6, 7]);
        assert!(matches!(&keys, Keys::Narrow(keys) if *keys == [1, 2, 1, u64::MAX]));
        // Where hardly any are equal, and where keys are bytes, all stay.
        let different: Vec<u64> = (0..100).chain([99]).collect();
        let mut keys = Keys::Narrow(different.clone());
        keys.merge_runs(&mut ends);
        assert!(ends.is_empty() && keys.len() == different.len());
        for mut keys in [Keys::Narrow(Vec::new()), all().pop().unwrap()] {
            let before = keys.len();
            keys.merge_runs(&mut ends);
            assert!(ends.is_empty() && keys.len() == before);
        }
    }
}
