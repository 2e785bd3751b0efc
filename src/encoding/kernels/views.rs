//! Arrow's views of texts, made after one look at all of their bytes: Arrow's own constructor
//! checks text by text that they are UTF-8, which for most alphabets takes longer than decoding.

use arrow_array::StringViewArray;
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ByteView;
use encoding_rs::Encoding;

/// Views of the texts that stand back to back in `data` and end at the offsets `ends`. `None` if
/// the data is not UTF-8, if the offsets fall, leave the data or split a character, or if `nulls`
/// has another length than `ends`.
pub(crate) fn text_views(
    ends: &[u32],
    data: Buffer,
    nulls: Option<NullBuffer>,
) -> Option<StringViewArray> {
    let is_utf8 = Encoding::utf8_valid_up_to(&data) == data.len();
    let fits = u32::try_from(data.len()).is_ok();
    if !is_utf8 || !fits || nulls.as_ref().is_some_and(|nulls| nulls.len() != ends.len()) {
        return None;
    }
    // Within a character, bytes start with the bits 10.
    let is_between = |at: u32| data.get(at as usize).is_none_or(|byte| byte & 0xc0 != 0x80);
    let mut views: Vec<u128> = Vec::with_capacity(ends.len());
    let mut start = 0;
    for end in ends {
        let value = data.get(start as usize..*end as usize).filter(|_| is_between(*end))?;
        views.push(view(value, start));
        start = *end;
    }
    // SAFETY: Each view is that of a part of the only buffer, from `start` on, or holds its bytes
    // itself where they are at most 12, followed by zeros. The buffer is UTF-8 and is not changed
    // any more, and each part starts and ends between its characters, so it is UTF-8. There are as
    // many nulls as views.
    Some(unsafe { StringViewArray::new_unchecked(views.into(), vec![data.clone()], nulls) })
}

/// Arrow's 16-byte view of a value at `offset` of the only buffer: short values are inline, long
/// ones are references.
pub(crate) fn view(value: &[u8], offset: u32) -> u128 {
    let len = value.len() as u32;
    if value.len() <= 12 {
        let mut bytes = [0u8; 16];
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4..4 + value.len()].copy_from_slice(value);
        return u128::from_le_bytes(bytes);
    }
    let prefix = value.first_chunk::<4>().map_or(0, |p| u32::from_le_bytes(*p));
    ByteView { length: len, prefix, buffer_index: 0, offset }.as_u128()
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use proptest::prelude::*;

    use super::*;

    /// The same by Arrow's constructor, which checks everything.
    fn checked(ends: &[u32], data: &[u8], nulls: Option<NullBuffer>) -> Option<StringViewArray> {
        let mut views = Vec::new();
        let mut start = 0;
        for end in ends {
            views.push(view(data.get(start as usize..*end as usize)?, start));
            start = *end;
        }
        StringViewArray::try_new(views.into(), vec![data.to_vec().into()], nulls).ok()
    }

    proptest! {
        #[test]
        fn texts_are_those_that_arrow_would_check(
            texts in proptest::collection::vec("[a-zé€😀]{0,20}", 0..20),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..2),
            moved in proptest::collection::vec((any::<prop::sample::Index>(), -2i64..3), 0..2),
            null in any::<Option<prop::sample::Index>>(),
        ) {
            let mut data: Vec<u8> = texts.concat().into_bytes();
            let mut end = 0;
            let mut ends = Vec::new();
            for text in &texts {
                end += text.len() as u32;
                ends.push(end);
            }
            for (at, byte) in flips {
                if !data.is_empty() {
                    let at = at.index(data.len());
                    data[at] = byte;
                }
            }
            for (at, by) in moved {
                if !ends.is_empty() {
                    let at = at.index(ends.len());
                    ends[at] = (i64::from(ends[at]) + by).max(0) as u32;
                }
            }
            let nulls = null.filter(|_| !ends.is_empty()).map(|null| {
                let null = null.index(ends.len());
                NullBuffer::from_iter((0..ends.len()).map(|at| at != null))
            });
            let made = text_views(&ends, data.clone().into(), nulls.clone());
            let right = checked(&ends, &data, nulls);
            match (&made, &right) {
                (Some(made), Some(right)) => prop_assert_eq!(made, right),
                // Arrow does not look at data between the texts, nor behind the last one.
                (None, _) => prop_assert!(right.is_none() || std::str::from_utf8(&data).is_err()),
                (Some(_), None) => prop_assert!(false),
            }
            if let Some(made) = made {
                prop_assert!(made.to_data().validate_full().is_ok());
            }
        }
    }

    #[test]
    fn nulls_of_another_length_are_refused() {
        let nulls = Some(NullBuffer::new_null(3));
        assert!(text_views(&[1, 2], b"ab".to_vec().into(), nulls).is_none());
        assert!(text_views(&[2, 1], b"ab".to_vec().into(), None).is_none());
        assert_eq!(text_views(&[1, 2], b"ab".to_vec().into(), None).map(|a| a.len()), Some(2));
    }
}
