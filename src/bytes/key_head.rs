//! The first bytes of keys that are compared as bytes (`arrow-row`), as numbers: a comparison of
//! two heads waits for no memory, and seldom is another one needed.

/// Numbers that compare like the first sixteen bytes of keys.
pub(crate) type KeyHead = [u64; 2];

/// The head of a key. A shorter one is filled with zeros.
pub(crate) fn key_head(key: &[u8]) -> KeyHead {
    let mut bytes = [0; size_of::<KeyHead>()];
    match key.first_chunk() {
        Some(all) => bytes = *all,
        None => bytes.iter_mut().zip(key).for_each(|(byte, of_key)| *byte = *of_key),
    }
    let all = u128::from_be_bytes(bytes);
    [(all >> 64) as u64, all as u64]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heads_compare_like_the_bytes_of_keys(
            a in proptest::collection::vec(0u8..3, 0..20),
            b in proptest::collection::vec(0u8..3, 0..20),
        ) {
            let (by_head, by_key) = (key_head(&a).cmp(&key_head(&b)), a.cmp(&b));
            prop_assert!(by_head == by_key || by_head.is_eq());
            // Keys of one length that is at most that of a head.
            if a.len() == b.len() && a.len() <= 16 {
                prop_assert_eq!(by_head, by_key);
            }
        }
    }
}
