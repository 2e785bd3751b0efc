//! Ways to write dates, timestamps and booleans besides `2013-08-01 08:14:37` and `true`: a column
//! has one of them, which is decided from its first rows and then holds for all of its values.
//!
//! `01/02/2020` has two readings, and only other values of its column tell which one is meant; so
//! both are layouts of their own.

use super::Text;
use super::number::boolean_words;
use super::number_format::NumberFormat;
use super::time::{self, Instant};
use crate::model::TimeUnit;

/// Whether the day or the month comes first in `01/02/2020`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateOrder {
    /// 1 February.
    DayFirst,
    /// 2 January.
    MonthFirst,
}

/// How the values of a column are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As in ISO 8601 and JSON.
    #[default]
    Plain,
    /// Year, month and day in digits, apart by this byte.
    YearFirst(u8),
    DayFirst(u8),
    MonthFirst(u8),
    /// `01-Jan-2020`.
    MonthName,
    /// `Tue, 01 Jul 2003 10:52:37 +0200`, as in RFC 2822.
    Mail,
    /// These words stand for false and true.
    Booleans([&'static str; 2]),
    /// Ticks since 1970.
    Epoch(TimeUnit),
    /// Numbers with another decimal point, or with separators of thousands.
    Numbers(NumberFormat),
}

/// A set of the layouts in [`INFERRED`]: bit `i` is layout `i`.
pub(crate) type LayoutSet = u16;

/// The layouts that inference looks for.
const INFERRED: [Layout; 13] = [
    Layout::YearFirst(b'-'),
    Layout::YearFirst(b'/'),
    Layout::DayFirst(b'/'),
    Layout::MonthFirst(b'/'),
    Layout::DayFirst(b'-'),
    Layout::MonthFirst(b'-'),
    Layout::DayFirst(b'.'),
    Layout::MonthFirst(b'.'),
    Layout::MonthName,
    Layout::Mail,
    Layout::Booleans(["no", "yes"]),
    Layout::Booleans(["n", "y"]),
    Layout::Booleans(["f", "t"]),
];

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The time zones of RFC 2822 by name, in hours.
const ZONES: [(&str, i64); 12] = [
    ("gmt", 0),
    ("ut", 0),
    ("utc", 0),
    ("z", 0),
    ("edt", -4),
    ("est", -5),
    ("cdt", -5),
    ("cst", -6),
    ("mdt", -6),
    ("mst", -7),
    ("pdt", -7),
    ("pst", -8),
];

/// Longer texts are no timestamps.
const LONGEST: usize = 64;

/// A date, or a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    pub(crate) has_time: bool,
}

/// What a text is in some layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Moment(Moment),
    Bool(bool),
}

/// The layouts of a set, in order.
pub(crate) fn layouts(set: LayoutSet) -> impl Iterator<Item = Layout> {
    INFERRED.into_iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1).map(|(_, l)| l)
}

/// The layouts of a set that do not have the other order of day and month.
pub(crate) fn in_order(set: LayoutSet, order: DateOrder) -> LayoutSet {
    let fits = |layout: &Layout| layout.order().is_none_or(|own| own == order);
    let each = INFERRED.iter().enumerate().filter(|(_, layout)| fits(layout));
    each.fold(0, |kept, (at, _)| kept | set & 1 << at)
}

/// The layouts that a text fits, and what it is in the first of them. Where it fits two, they
/// differ only in the order of day and month.
pub(crate) fn possible(text: &[u8]) -> Option<(LayoutSet, Value)> {
    if text.len() > LONGEST {
        return None;
    }
    let candidates: &[usize] = match text {
        [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', ..] => &[0, 1],
        [b'0'..=b'9', b'0'..=b'9', separator, ..] | [b'0'..=b'9', separator, ..] => match separator
        {
            b'/' => &[2, 3, 8],
            b'-' => &[4, 5, 8],
            b'.' => &[6, 7],
            b' ' => &[8],
            _ => &[],
        },
        [_, _, _, b',', ..] => &[9],
        [b'a'..=b'z' | b'A'..=b'Z', ..] if text.len() <= 3 => &[10, 11, 12],
        _ => &[],
    };
    let mut found: Option<(LayoutSet, Value)> = None;
    for at in candidates {
        let Some(value) = INFERRED.get(*at).and_then(|layout| layout.value(text)) else { continue };
        let (set, first) = found.unwrap_or((0, value));
        found = Some((set | 1 << at, first));
    }
    found
}

impl Layout {
    /// The order of day and month, where it is in doubt.
    pub(crate) fn order(self) -> Option<DateOrder> {
        match self {
            Layout::DayFirst(_) => Some(DateOrder::DayFirst),
            Layout::MonthFirst(_) => Some(DateOrder::MonthFirst),
            _ => None,
        }
    }

    /// What a text is in a layout that inference looks for.
    pub(crate) fn value(self, text: &[u8]) -> Option<Value> {
        match self {
            Layout::Booleans(_) => self.boolean(text).map(Value::Bool),
            _ => self.moment(text).map(Value::Moment),
        }
    }

    pub(crate) fn boolean(self, text: &[u8]) -> Option<bool> {
        match self {
            Layout::Booleans([no, yes]) => boolean_words(text, no, yes),
            _ => None,
        }
    }

    /// A date or a timestamp.
    pub(crate) fn moment(self, text: &[u8]) -> Option<Moment> {
        let (days, rest) = self.date(text)?;
        let midnight = Instant { seconds: i64::from(days) * 86_400, ..Instant::default() };
        let rest = match rest {
            [] if self == Layout::Mail => return None,
            [] => return Some(Moment { instant: midnight, has_time: false }),
            [b',', b' ', rest @ ..] | [b' ' | b'T' | b't', rest @ ..] => rest,
            _ => return None,
        };
        let clock = if self == Layout::Mail { mail_clock(rest) } else { clock(rest) }?;
        let instant = Instant { seconds: midnight.seconds + clock.seconds, ..clock };
        Some(Moment { instant, has_time: true })
    }

    /// The day at the start of a text, and the rest of it.
    fn date(self, text: &[u8]) -> Option<(i32, &[u8])> {
        let apart = |rest: &'_ [u8], separator: u8| rest.first() == Some(&separator);
        match self {
            Layout::YearFirst(separator) => {
                let (year, rest) = digits(text, 4..=4)?;
                let (month, rest) =
                    digits(rest.get(1..).filter(|_| apart(rest, separator))?, 1..=2)?;
                let (day, rest) = digits(rest.get(1..).filter(|_| apart(rest, separator))?, 1..=2)?;
                Some((time::days(year, month, day)?, rest))
            }
            Layout::DayFirst(separator) | Layout::MonthFirst(separator) => {
                let (first, rest) = digits(text, 1..=2)?;
                let (second, rest) =
                    digits(rest.get(1..).filter(|_| apart(rest, separator))?, 1..=2)?;
                let (year, rest) =
                    digits(rest.get(1..).filter(|_| apart(rest, separator))?, 4..=4)?;
                let day_first = self.order() == Some(DateOrder::DayFirst);
                let (day, month) = if day_first { (first, second) } else { (second, first) };
                Some((time::days(year, month, day)?, rest))
            }
            Layout::MonthName => named_month(text),
            Layout::Mail => match text {
                [a, b, c, b',', b' ', rest @ ..]
                    if [a, b, c].iter().all(|letter| letter.is_ascii_alphabetic()) =>
                {
                    named_month(rest)
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// The number that a text starts with, of so many digits and no more.
fn digits(text: &[u8], count: std::ops::RangeInclusive<usize>) -> Option<(u32, &[u8])> {
    let found = text.iter().take(5).take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at_checked(found).filter(|_| count.contains(&found))?;
    Some((number.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')), rest))
}

/// `01-Jan-2020`, `1 January 2020`.
fn named_month(text: &[u8]) -> Option<(i32, &[u8])> {
    let (day, rest) = digits(text, 1..=2)?;
    let [separator @ (b'-' | b'/' | b' '), rest @ ..] = rest else { return None };
    let letters = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let (name, rest) = rest.split_at_checked(letters)?;
    let is_name = |month: &&str| {
        let month = month.as_bytes();
        name.eq_ignore_ascii_case(month)
            || name.eq_ignore_ascii_case(month.get(..3).unwrap_or(month))
            || name.eq_ignore_ascii_case(b"sept") && month.starts_with(b"sept")
    };
    let month = MONTHS.iter().position(is_name)? as u32 + 1;
    let rest = rest.get(1..).filter(|_| rest.first() == Some(separator))?;
    let (year, rest) = digits(rest, 4..=4)?;
    Some((time::days(year, month, day)?, rest))
}

/// `8:14`, `08:14:37.5+02:00`, `8:14 PM`.
fn clock(text: &[u8]) -> Option<Instant> {
    let (twelve, text) = match text {
        [rest @ .., half @ (b'a' | b'A' | b'p' | b'P'), b'm' | b'M'] => {
            (Some(half.eq_ignore_ascii_case(&b'p')), rest.strip_suffix(b" ").unwrap_or(rest))
        }
        _ => (None, text),
    };
    let (hour, rest) = digits(text, 1..=2)?;
    let (minute, rest) = digits(rest.strip_prefix(b":")?, 2..=2)?;
    let (second, rest) = match rest {
        [b':', rest @ ..] => digits(rest, 2..=2)?,
        [b'.' | b',', ..] => return None,
        rest => (0, rest),
    };
    let hour = match twelve {
        None => hour,
        Some(afternoon) if (1..=12).contains(&hour) => hour % 12 + if afternoon { 12 } else { 0 },
        Some(_) => return None,
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = i64::from(hour * 3600 + minute * 60 + second);
    let clock = time::with_fraction_and_zone(Instant { seconds, ..Instant::default() }, rest)?;
    (twelve.is_none() || !clock.zoned).then_some(clock)
}

/// A time of day with a zone, which may have a name, and a comment behind it.
fn mail_clock(text: &[u8]) -> Option<Instant> {
    let comment = text.iter().position(|byte| *byte == b'(').unwrap_or(text.len());
    let text = text.get(..comment)?.trim_ascii_end();
    let zone = text.iter().rposition(|byte| *byte == b' ')?;
    let (time, zone) = text.split_at_checked(zone)?;
    let name = zone.trim_ascii();
    let known = ZONES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    match known {
        None => clock(text).filter(|clock| clock.zoned),
        Some((_, hours)) => {
            let local = clock(time).filter(|clock| !clock.zoned)?;
            Some(Instant { seconds: local.seconds - hours * 3600, zoned: true, ..local })
        }
    }
}

/// Days since 1970 of a date such as `20200102`, for columns whose type the user has named.
pub(crate) fn compact_date(text: Text<'_>) -> Option<i32> {
    let bytes = text.bytes().first_chunk::<8>().filter(|_| text.len() == 8)?;
    let number = |from: usize, to: usize| digits(bytes.get(from..to)?, to - from..=to - from);
    time::days(number(0, 4)?.0, number(4, 6)?.0, number(6, 8)?.0)
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
