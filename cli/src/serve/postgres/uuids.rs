//! UUIDs as clients spell them: in the store, they are texts of one spelling.

/// A UUID in its usual spelling, from any that PostgreSQL takes: in braces or not, with hyphens
/// between any groups of four digits.
pub(super) fn read(text: &str) -> Option<String> {
    let text = text.trim();
    let braced = text.strip_prefix('{').map(|rest| rest.strip_suffix('}'));
    let text = braced.unwrap_or(Some(text))?;
    let (mut value, mut digits, mut may_have_hyphen) = (0_u128, 0, false);
    for character in text.chars() {
        match character.to_digit(16) {
            Some(digit) if digits < 32 => {
                value = value << 4 | u128::from(digit);
                digits += 1;
                may_have_hyphen = digits % 4 == 0 && digits < 32;
            }
            None if character == '-' && may_have_hyphen => may_have_hyphen = false,
            _ => return None,
        }
    }
    (digits == 32).then(|| spelled(value))
}

/// The usual spelling.
pub(super) fn spelled(value: u128) -> String {
    let hex = format!("{value:032x}");
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|at| hex[at].to_owned()).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_become_one() {
        for text in [
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            " {a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11} ",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            let spelled = read(text);
            assert_eq!(spelled.as_deref(), Some("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), "{text}");
        }
        let digits = "a0eebc999c0b4ef8bb6d6bb9bd380a11";
        for text in
            ["", "a0ee", &format!("{digits}00"), &format!("-{digits}"), &format!("{{{digits}")]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
