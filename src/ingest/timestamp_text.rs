//! Completes timestamps in short forms to what Arrow parses.
//!
//! Arrow wants two digits for month, day, hour, minute and second. People and other engines also
//! write `2024-2-8 6:00`.

use std::borrow::Cow;

#[cfg(feature = "sql")]
use arrow_array::StringViewArray;
use arrow_array::{GenericStringArray, OffsetSizeTrait};

/// Completes a timestamp: `2024-02-08 06:00:00` for `2024-2-8 6:00`. Any other text is returned as
/// it is.
pub(crate) fn complete(text: &str) -> Cow<'_, str> {
    match is_full(text.as_bytes()) {
        true => Cow::Borrowed(text),
        false => full(text).filter(|full| full != text).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

/// Completes an array; `None` if all of its texts are complete.
pub(crate) fn complete_all<O: OffsetSizeTrait>(
    texts: &GenericStringArray<O>,
) -> Option<GenericStringArray<O>> {
    let is_short = |text: &str| matches!(complete(text), Cow::Owned(_));
    texts
        .iter()
        .flatten()
        .any(is_short)
        .then(|| texts.iter().map(|text| text.map(complete)).collect())
}

/// [`complete_all`] for views.
#[cfg(feature = "sql")]
pub(crate) fn complete_views(texts: &StringViewArray) -> Option<StringViewArray> {
    let is_short = |text: &str| matches!(complete(text), Cow::Owned(_));
    texts
        .iter()
        .flatten()
        .any(is_short)
        .then(|| texts.iter().map(|text| text.map(complete)).collect())
}

/// A quick check that most texts pass: a date, or a date and a time with seconds.
fn is_full(bytes: &[u8]) -> bool {
    match bytes {
        [_, _, _, _, b'-', _, _, b'-', _, _] => true,
        [_, _, _, _, b'-', _, _, b'-', _, _, _, _, _, b':', _, _, b':', _, last, ..] => {
            last.is_ascii_digit()
        }
        _ => false,
    }
}

fn full(text: &str) -> Option<String> {
    let (year, rest) = digits(text, 4).filter(|(year, _)| year.len() == 4)?;
    let (month, rest) = digits(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = digits(rest.strip_prefix('-')?, 2)?;
    let date = format!("{year}-{month:0>2}-{day:0>2}");
    let Some(between) = rest.chars().next() else { return Some(date) };
    let (hour, rest) = digits(rest.strip_prefix([' ', 'T', 't'])?, 2)?;
    let (minute, rest) = digits(rest.strip_prefix(':')?, 2)?;
    let (second, rest) = match rest.strip_prefix(':') {
        Some(rest) => digits(rest, 2)?,
        // Only an offset may follow the minute.
        None if rest.is_empty() || rest.starts_with(['Z', 'z', '+', '-', ' ']) => ("", rest),
        None => return None,
    };
    Some(format!("{date}{between}{hour:0>2}:{minute:0>2}:{second:0>2}{rest}"))
}

/// Splits off 1 to `most` leading digits; `None` if there are none or more.
fn digits(text: &str, most: usize) -> Option<(&str, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    (1..=most).contains(&count).then(|| text.split_at(count))
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;

    use super::*;

    #[test]
    fn short_forms_are_completed() {
        for (given, expected) in [
            ("2024-2-8", "2024-02-08"),
            ("2024-2-8 6:00", "2024-02-08 06:00:00"),
            ("2024-02-28 06:00", "2024-02-28 06:00:00"),
            ("2024-02-28T6:05:7", "2024-02-28T06:05:07"),
            ("2024-02-28 6:05:00.25+02", "2024-02-28 06:05:00.25+02"),
            ("2024-02-28T06:00Z", "2024-02-28T06:00:00Z"),
            ("2024-02-28 06:05:7", "2024-02-28 06:05:07"),
        ] {
            assert_eq!(complete(given), expected);
            assert!(matches!(complete(expected), Cow::Borrowed(_)), "{expected}");
        }
    }

    #[test]
    fn other_texts_are_unchanged() {
        for text in [
            "",
            "tomorrow",
            "2024-02-28",
            "2024-02-28 06:00:00.5",
            "2024-02-28 06:00.5",
            "2024-02-28 06:0é",
            "2024-02-28 6",
            "24-2-8 6:00",
            "12024-2-8",
            "2024-002-08",
        ] {
            assert!(matches!(complete(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn columns_without_short_forms_are_unchanged() {
        let texts = |all: &[Option<&'static str>]| StringArray::from(all.to_vec());
        assert_eq!(
            complete_all(&texts(&[Some("2024-02-28"), None, Some("2024-02-28 06:00:00")])),
            None
        );
        let written = complete_all(&texts(&[Some("2024-02-28"), None, Some("2024-2-8 6:00")]));
        assert_eq!(written, Some(texts(&[Some("2024-02-28"), None, Some("2024-02-08 06:00:00")])));
    }
}
