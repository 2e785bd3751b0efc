//! Reading a column's dictionary: decoded as an array and kept, as scaled integers, or as it is
//! stored.

use std::sync::{Arc, Weak};

use arrow_array::Array;

use super::{Column, DICTIONARY, KeptDictionary};
use crate::block::{self, Dictionary};
use crate::budget::Charge;
use crate::error::Result;
use crate::limits;
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
        self.bytes.budget.keep(weak, values.get_buffer_memory_size());
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
