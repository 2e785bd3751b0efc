//! Completes timestamps in short forms to what Arrow parses.
//!
//! Arrow wants two digits for month, day, hour, minute and second. People and other engines also
//! write `2024-2-8 6:00`.

use std::borrow::Cow;

#[cfg(feature = "sql")]
use arrow_array::StringViewArray;
#[cfg(feature = "sql")]
use arrow_array::timezone::Tz;
use arrow_array::{GenericStringArray, OffsetSizeTrait};

/// Completes a timestamp: `2024-02-08 06:00:00` for `2024-2-8 6:00`. Any other text is returned as
/// it is.
pub(crate) fn complete(text: &str) -> Cow<'_, str> {
    match is_full(text.as_bytes()) {
        true => Cow::Borrowed(text),
        false => full(text).filter(|full| full != text).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

/// Whether a text that Arrow reads as a time of day is one: it takes digits alone for a number of
/// microseconds, and 60 seconds for the next minute.
pub(crate) fn may_be_time(text: &str) -> bool {
    let seconds = text.trim().split(':').nth(2).and_then(|seconds| seconds.get(..2));
    text.contains(':') && seconds != Some("60")
}

/// Completes a timestamp, and leaves out its offset or zone: the time that a clock on the wall
/// shows.
#[cfg(feature = "sql")]
pub(crate) fn local(text: &str) -> Cow<'_, str> {
    let full = complete(text);
    // A date has ten characters; after these, a dash begins an offset.
    let Some(time) = full.get(10..).filter(|_| full.contains(':')) else { return full };
    let is_end = |char: char| !matches!(char, '0'..='9' | ':' | '.');
    let Some(end) = time.get(1..).and_then(|time| time.find(is_end)) else { return full };
    let (local, zone) = full.split_at(11 + end);
    let zone = zone.trim();
    match zone.is_empty() || zone.eq_ignore_ascii_case("z") || zone.parse::<Tz>().is_ok() {
        true => Cow::Owned(local.to_owned()),
        false => full,
    }
}

/// Completes an array; `None` if all of its texts are complete.
pub(crate) fn complete_all<O: OffsetSizeTrait>(
    texts: &GenericStringArray<O>,
) -> Option<GenericStringArray<O>> {
    rewrite_all(texts, complete)
}

/// The texts of an array, rewritten; `None` if none of them changes.
pub(crate) fn rewrite_all<O: OffsetSizeTrait>(
    texts: &GenericStringArray<O>,
    rewrite: fn(&str) -> Cow<'_, str>,
) -> Option<GenericStringArray<O>> {
    let changes = |text: &str| matches!(rewrite(text), Cow::Owned(_));
    let any = texts.iter().flatten().any(changes);
    any.then(|| texts.iter().map(|text| text.map(rewrite)).collect())
}

/// [`rewrite_all`] for views.
#[cfg(feature = "sql")]
pub(crate) fn rewrite_views(
    texts: &StringViewArray,
    rewrite: fn(&str) -> Cow<'_, str>,
) -> Option<StringViewArray> {
    let changes = |text: &str| matches!(rewrite(text), Cow::Owned(_));
    let any = texts.iter().flatten().any(changes);
    any.then(|| texts.iter().map(|text| text.map(rewrite)).collect())
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

    #[cfg(feature = "sql")]
    #[test]
    fn offsets_and_zones_are_left_out() {
        let expected = "2024-01-01 00:30:00";
        for zone in ["", "Z", "+02", "-0230", "+02:00", " +02:00", "z", " UTC", " Europe/Rome"] {
            assert_eq!(local(&format!("2024-01-01 00:30:00{zone}")), expected, "{zone}");
        }
        assert_eq!(local("2024-1-1T0:30:00.25-02"), "2024-01-01T00:30:00.25");
        for text in ["", "2024-01-01", "2024-01-01 00:30:00 noon", "-02:00", "2024-01-01T", "é:"] {
            assert_eq!(local(text), text);
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
