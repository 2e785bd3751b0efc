//! The text of a UUID: the one form in which it is stored, and those in which it may be written.

/// Bytes of the stored text.
pub(crate) const LENGTH: usize = 36;
/// Where the stored text has dashes.
const DASHES: [usize; 4] = [8, 13, 18, 23];
const URN: &[u8] = b"urn:uuid:";

/// Whether these bytes are the stored text of a UUID.
pub(crate) fn is_stored(text: &[u8]) -> bool {
    let is_right = |(at, byte): (usize, &u8)| match DASHES.contains(&at) {
        true => *byte == b'-',
        false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    text.len() == LENGTH && text.iter().enumerate().all(is_right)
}

/// The bytes of the UUID that a text spells: 32 hexadecimal digits in either case, with a
/// dash after any four of them or none, in braces, after `urn:uuid:`, or as they are.
pub(crate) fn parse(text: &[u8]) -> Option<[u8; 16]> {
    let text = match text {
        [b'{', inner @ .., b'}'] => inner,
        _ => match text.split_at_checked(URN.len()) {
            Some((urn, rest)) if urn.eq_ignore_ascii_case(URN) => rest,
            _ => text,
        },
    };
    let (mut bytes, mut digits) = ([0; 16], 0);
    let mut after_dash = false;
    for byte in text {
        if *byte == b'-' {
            if after_dash || digits == 0 || digits % 4 != 0 {
                return None;
            }
            after_dash = true;
            continue;
        }
        let digit = char::from(*byte).to_digit(16)? as u8;
        let slot: &mut u8 = bytes.get_mut(digits / 2)?;
        *slot = *slot << 4 | digit;
        (digits, after_dash) = (digits + 1, false);
    }
    (digits == 32 && !after_dash).then_some(bytes)
}

/// The stored text of 16 bytes: lower case, `8-4-4-4-12` digits.
pub(crate) fn text_of(bytes: &[u8; 16]) -> String {
    uuid::Uuid::from_bytes(*bytes).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Option<String> {
        let found = text_of(&parse(text.as_bytes())?);
        assert!(is_stored(found.as_bytes()), "{text}");
        Some(found)
    }

    #[test]
    fn spellings() {
        let stored = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            stored,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "urn:uuid:a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "URN:UUID:a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        ] {
            assert_eq!(parsed(text).as_deref(), Some(stored), "{text}");
        }
        for text in [
            "",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-",
            "-a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc9-99c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "{urn:uuid:a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99 9c0b 4ef8 bb6d 6bb9bd380a11",
            "{}",
            "urn:uuid:",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
        assert!(!is_stored(b"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"));
        assert!(!is_stored(b"a0eebc999c0b4ef8bb6d6bb9bd380a11"));
    }

    proptest! {
        #[test]
        fn text_of_bytes_round_trips_in_the_order_of_the_bytes(
            a in any::<[u8; 16]>(), b in any::<[u8; 16]>(), junk in any::<Vec<u8>>(),
        ) {
            let text = text_of(&a);
            prop_assert!(is_stored(text.as_bytes()));
            prop_assert_eq!(parse(text.as_bytes()), Some(a));
            prop_assert_eq!(parse(text.to_ascii_uppercase().as_bytes()), Some(a));
            prop_assert_eq!(text.cmp(&text_of(&b)), a.cmp(&b));
            prop_assert!(parse(&junk).is_none());
        }
    }
}
