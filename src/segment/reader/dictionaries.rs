//! Reading a column's dictionary: decoded as an array and kept, as scaled integers, or as it is
//! stored.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use arrow_array::{Array, ArrayRef, UInt32Array};

use super::{Column, DICTIONARY, KeptDictionary};
use crate::block::{self, Dictionary, Stream};
use crate::budget::Charge;
use crate::error::{ArrowResult, Error, Result};
use crate::limits::{self, VECTOR};
use crate::model::Physical;
use crate::segment::dictionary;
use crate::segment::record::DictionaryPlace;
use crate::segment::scaled::ScaledDictionary;

impl Column {
    /// The dictionary as an array with null at index 0; `None` for a column without one. It is kept
    /// as long as the budget has room, and decoded again after that.
    pub fn dictionary(&self) -> Result<Option<Dictionary>> {
        let Some(described) = self.record.dictionary else { return Ok(None) };
        // Others wait instead of decoding it, too.
        let mut kept = self.dictionary.lock();
        if let Some((dictionary, _)) = &*kept {
            return Ok(Some(Arc::clone(dictionary)));
        }
        let (values, charge) = self.decode_dictionary(&described)?;
        *kept = Some((Arc::clone(&values), charge));
        drop(kept);
        let weak: Weak<KeptDictionary> = Arc::downgrade(&self.dictionary);
        let bytes = values.get_buffer_memory_size();
        if self.dictionary.was_let_go.load(Ordering::Relaxed) {
            self.bytes.budget.keep_more(bytes);
        }
        self.bytes.budget.keep(weak, bytes);
        Ok(Some(values))
    }

    /// The values of the dictionary as they are stored, without null, for who looks at each once;
    /// `None` for a column without a dictionary, or one whose dictionary is decoded already.
    pub(crate) fn undecoded_dictionary(&self) -> Result<Option<block::Reader<'_>>> {
        let Some(described) = self.record.dictionary else { return Ok(None) };
        if self.dictionary.lock().is_some() {
            return Ok(None);
        }
        let reader = self.parse(&described.place, DICTIONARY, described.values as usize, true);
        self.bytes.checked(reader).map(Some)
    }

    /// The values of some codes of the dictionary. The code of null is not among them.
    pub(crate) fn dictionary_values(&self, codes: &[u32]) -> Result<ArrayRef> {
        let few = self.are_few_of_dictionary(codes.len());
        let stored = if few { self.undecoded_dictionary()? } else { None };
        if let Some(reader) = stored {
            self.fetched.fetch_add(codes.len(), Ordering::Relaxed);
            let places: Vec<u32> = codes.iter().map(|code| code.wrapping_sub(1)).collect();
            let values = reader.gather(&places, self.data_type(), None);
            let offset = self.record.dictionary.map_or(0, |described| described.place.offset);
            return self.bytes.checked(values.map_err(|e| self.bytes.locate(e, offset)));
        }
        let none = || Error::corrupt(0, "dictionary codes in a column without a dictionary");
        let dictionary = self.dictionary()?.ok_or_else(none)?;
        if codes.iter().any(|code| *code as usize >= dictionary.len()) {
            return Err(Error::corrupt(0, "a code that its dictionary does not have"));
        }
        arrow_select::take::take(&dictionary, &UInt32Array::from(codes.to_vec()), None).or_corrupt()
    }

    /// How many bytes the text of each code has, 0 for null's, without a look at texts; `None`
    /// where lengths are not stored.
    pub(crate) fn dictionary_lengths(&self) -> Result<Option<&[u32]>> {
        let Some(described) = self.record.dictionary else { return Ok(None) };
        if self.lengths.get().is_none() {
            let values = described.values as usize;
            let charge = self.charge((values + 1) * size_of::<u32>())?;
            let reader = self.parse(&described.place, DICTIONARY, values, true)?;
            let mut lengths = vec![0];
            let known = match reader.stream() {
                Stream::Bytes(strings) => strings.lengths(0..values, &mut lengths),
                _ => Ok(false),
            };
            let known = known.map_err(|e| self.bytes.locate(e, described.place.offset));
            let known = self.bytes.checked(known)?;
            let _ = self.lengths.set((known.then_some(lengths), charge));
        }
        Ok(self.lengths.get().and_then(|(lengths, _)| lengths.as_deref()))
    }

    /// Whether it is cheaper to read `count` texts one by one than to decode the dictionary. Each
    /// of them may decode a vector: once they could have decoded half of it, it is not.
    pub(crate) fn are_few_of_dictionary(&self, count: usize) -> bool {
        let Some(described) = &self.record.dictionary else { return false };
        let vectors = described.values as usize / VECTOR;
        let fetched = self.fetched.load(Ordering::Relaxed);
        self.data_type().physical() == Physical::Bytes
            && fetched.saturating_add(count).saturating_mul(2) <= vectors
            && self.dictionary.lock().is_none()
    }

    fn decode_dictionary(&self, described: &DictionaryPlace) -> Result<(Dictionary, Charge)> {
        let place = described.place;
        // Texts are charged as they are decoded; views and words, before.
        let mut charge = self.charge((described.values as usize + 1) * size_of::<u128>())?;
        let values = self
            .parse(&place, DICTIONARY, described.values as usize, true)?
            .with_max_bytes(limits::MAX_DICTIONARY_BYTES)
            .decode(0..described.values as usize, self.data_type(), None)
            .and_then(|values| dictionary::with_null(&values))
            .map_err(|e| self.bytes.locate(e, place.offset));
        let values = self.bytes.checked(values)?;
        // Large buffers of texts have charges of their own.
        let more = values.get_buffer_memory_size().saturating_sub(charge.bytes());
        if more < block::CHARGED_BUFFER || values.data_type().is_primitive() {
            charge.grow(more)?;
        }
        Ok((values, charge))
    }

    /// The dictionary as scaled integers, made once; `None` for a column without a dictionary, or
    /// one with values that are no decimals.
    pub fn scaled_dictionary(&self) -> Result<Option<&ScaledDictionary>> {
        if self.scaled_dictionary.get().is_none() {
            let Some(dictionary) = self.dictionary()? else { return Ok(None) };
            let charge = self.charge(dictionary.len() * size_of::<i64>())?;
            let _ = self.scaled_dictionary.set((ScaledDictionary::new(&dictionary), charge));
        }
        Ok(self.scaled_dictionary.get().and_then(|(dictionary, _)| dictionary.as_ref()))
    }
}
