//! UUIDs that come as text, of the values of parameters.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, StringArray};

use crate::errors::Failure;
use crate::serve::clickhouse::refusals::invalid;
use crate::serve::clickhouse::types::Type;

/// Hexadecimal digits of a UUID, and the places before which it has a hyphen.
const DIGITS: usize = 32;
const HYPHENS: [usize; 4] = [8, 12, 16, 20];

/// Values of a type with those that are UUIDs as they are spelled everywhere, in small letters; an
/// error if one is no UUID.
pub(super) fn spelled(found: &Type, array: ArrayRef) -> Result<ArrayRef, Failure> {
    match found {
        Type::Nullable(inner) | Type::LowCardinality(inner) => spelled(inner, array),
        Type::Array(item) => {
            // Lists keep the spelling of their items.
            let items = array.as_list_opt::<i32>().map(|list| Arc::clone(list.values()));
            items.map(|items| spelled(item, items)).transpose()?;
            Ok(array)
        }
        Type::Uuid => {
            let Some(texts) = array.as_string_opt::<i32>() else { return Ok(array) };
            let texts = texts.iter().map(|text| text.map(of_text).transpose());
            Ok(Arc::new(texts.collect::<Result<StringArray, Failure>>()?))
        }
        _ => Ok(array),
    }
}

/// A UUID with hyphens or without.
fn of_text(text: &str) -> Result<String, Failure> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let mut spelled = digits.to_ascii_lowercase();
    let is_hex = digits.len() == DIGITS && digits.bytes().all(|it| it.is_ascii_hexdigit());
    if is_hex {
        HYPHENS.iter().rev().for_each(|at| spelled.insert(*at, '-'));
        if digits == text || spelled.eq_ignore_ascii_case(text) {
            return Ok(spelled);
        }
    }
    Err(invalid("a UUID has 32 hexadecimal digits, with hyphens as in 8-4-4-4-12 or without"))
}
