//! Timestamps as texts: each day, hour or minute that a format tells apart is written once.
//!
//! Where this stands on the road of a query: `to_char`, `strftime`, `dayname` and casts to text
//! come here before DataFusion's `to_char` (55.2), which reads the format again for every value.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::{DataType, TimeUnit};
use chrono::{Datelike as _, NaiveDate};
use datafusion::error::Result as DataFusionResult;

use crate::sql::types::times::PLAIN;

/// Texts of timestamps without a zone, where `write` would write each row's. `None` if that is to
/// be done.
pub(super) fn written(
    times: &ArrayRef,
    format: &str,
    write: impl FnOnce(ArrayRef) -> DataFusionResult<ArrayRef>,
) -> DataFusionResult<Option<ArrayRef>> {
    let unit = match times.data_type() {
        DataType::Timestamp(unit, None) => per_second(unit),
        _ => return Ok(None),
    };
    let stamps = arrow_cast::cast(times, &DataType::Int64)?;
    let stamps = stamps.as_primitive::<Int64Type>();
    if format == PLAIN {
        return Ok(printed(stamps.iter(), stamps.len(), unit));
    }
    let Some(seconds) = seconds_told_apart(format) else { return Ok(None) };
    let step = seconds * unit;
    // Whether a null or the row of the first time of its step.
    let mut first_rows: Vec<u32> = Vec::new();
    let mut known: HashMap<i64, u32> = HashMap::new();
    let mut texts = Vec::with_capacity(stamps.len());
    let mut last: Option<(i64, u32)> = None;
    for (row, stamp) in stamps.iter().enumerate() {
        let Some(stamp) = stamp else {
            texts.push(None);
            continue;
        };
        let of_step = stamp.div_euclid(step);
        let text = match last {
            Some((step, text)) if step == of_step => text,
            _ => *known.entry(of_step).or_insert_with(|| {
                first_rows.push(row as u32);
                first_rows.len() as u32 - 1
            }),
        };
        last = Some((of_step, text));
        texts.push(Some(text));
        if first_rows.len() > FEW && 2 * first_rows.len() > row + 1 {
            return Ok(None);
        }
    }
    let first_times = arrow_select::take::take(times, &UInt32Array::from(first_rows), None)?;
    let texts = UInt32Array::from(texts);
    Ok(Some(arrow_select::take::take(&write(first_times)?, &texts, None)?))
}

/// How many texts are written without a look at how many rows have the same.
const FEW: usize = 1024;

fn per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// How many seconds have the same text in a format of chrono; `None` if it shows parts of a second,
/// or something that is not known here.
fn seconds_told_apart(format: &str) -> Option<i64> {
    let mut seconds = DAY;
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            continue;
        }
        let mut of = characters.next()?;
        // How numbers are padded.
        if matches!(of, '-' | '_' | '0') {
            of = characters.next()?;
        }
        seconds = seconds.min(match of {
            'A' | 'a' | 'B' | 'b' | 'h' | 'C' | 'D' | 'd' | 'e' | 'F' | 'G' | 'g' | 'j' | 'm'
            | 'q' | 'U' | 'u' | 'V' | 'v' | 'W' | 'w' | 'x' | 'Y' | 'y' | '%' | 'n' | 't' => DAY,
            'H' | 'I' | 'k' | 'l' | 'P' | 'p' => HOUR,
            'M' | 'R' => MINUTE,
            'S' | 'T' | 'X' | 'r' | 's' | 'c' => 1,
            _ => return None,
        });
    }
    Some(seconds)
}

/// Timestamps in the format in which they are printed: `2024-01-31 10:00:00`, and the parts of the
/// second in three, six or nine digits. `None` if one is beyond the calendar.
fn printed(
    stamps: impl Iterator<Item = Option<i64>>,
    rows: usize,
    per_second: i64,
) -> Option<ArrayRef> {
    let mut texts = StringBuilder::with_capacity(rows, rows * "2024-01-31 10:00:00".len());
    let (mut day_written, mut text) = (None, String::new());
    for stamp in stamps {
        let Some(stamp) = stamp else {
            texts.append_null();
            continue;
        };
        let day = stamp.div_euclid(DAY * per_second);
        if day_written != Some(day) {
            text.clear();
            write_date(day, &mut text)?;
            day_written = Some(day);
        }
        let of_day = stamp.rem_euclid(DAY * per_second);
        let (second, part) = (of_day / per_second, of_day % per_second);
        let [[a, b], [c, d], [e, f]] =
            [second / HOUR, second / MINUTE % 60, second % 60].map(|part| two_digits(part as u8));
        let time = [a, b, b':', c, d, b':', e, f];
        let date_length = text.len();
        text.push_str(str::from_utf8(&time).ok()?);
        let nanoseconds = part * (1_000_000_000 / per_second);
        match nanoseconds {
            0 => {}
            _ if nanoseconds % 1_000_000 == 0 => {
                write!(text, ".{:03}", nanoseconds / 1_000_000).ok()?
            }
            _ if nanoseconds % 1_000 == 0 => write!(text, ".{:06}", nanoseconds / 1_000).ok()?,
            _ => write!(text, ".{nanoseconds:09}").ok()?,
        }
        texts.append_value(&text);
        text.truncate(date_length);
    }
    Some(Arc::new(texts.finish()))
}

/// Writes a day since 1970 and a blank; `None` if it is beyond the calendar.
fn write_date(day: i64, text: &mut String) -> Option<()> {
    const DAYS_TO_1970: i64 = 719_163;
    let date = NaiveDate::from_num_days_from_ce_opt(i32::try_from(day + DAYS_TO_1970).ok()?)?;
    let Ok(year @ 0..=9999) = u16::try_from(date.year()) else {
        return write!(text, "{} ", date.format("%Y-%m-%d")).ok();
    };
    let [a, b] = two_digits((year / 100) as u8);
    let [c, d] = two_digits((year % 100) as u8);
    let [e, f] = two_digits(date.month() as u8);
    let [g, h] = two_digits(date.day() as u8);
    text.push_str(str::from_utf8(&[a, b, c, d, b'-', e, f, b'-', g, h, b' ']).ok()?);
    Some(())
}

fn two_digits(number: u8) -> [u8; 2] {
    [b'0' + number / 10, b'0' + number % 10]
}

#[cfg(test)]
mod tests {
    use arrow_array::{StringArray, TimestampMicrosecondArray, TimestampNanosecondArray};
    use datafusion::common::ScalarValue;
    use datafusion::common::config::ConfigOptions;
    use datafusion::functions::datetime::to_char;
    use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
    use proptest::prelude::*;

    use super::*;

    /// What DataFusion's function writes.
    fn each_written(times: ArrayRef, format: &str) -> ArrayRef {
        let field = |name, data_type: &DataType| {
            Arc::new(arrow_schema::Field::new(name, data_type.clone(), true))
        };
        let arguments = ScalarFunctionArgs {
            number_rows: times.len(),
            arg_fields: vec![field("t", times.data_type()), field("format", &DataType::Utf8)],
            return_field: field("to_char", &DataType::Utf8),
            config_options: Arc::new(ConfigOptions::default()),
            args: vec![
                ColumnarValue::Array(Arc::clone(&times)),
                ColumnarValue::Scalar(ScalarValue::Utf8(Some(format.to_owned()))),
            ],
        };
        to_char().invoke_with_args(arguments).unwrap().into_array(times.len()).unwrap()
    }

    proptest! {
        #[test]
        fn texts_are_those_of_each_row(
            stamps in prop::collection::vec(
                prop::option::weighted(0.9, prop_oneof![
                    -100_000_000_000i64..100_000_000_000,
                    (-300i64..300).prop_map(|day| day * 86_400_000_000),
                    (-3_000i64..3_000).prop_map(|part| part * 500),
                    -62_167_219_200_000_000i64..253_402_300_800_000_000,
                ]),
                1..200,
            ),
            format in prop::sample::select(vec![
                PLAIN, "%A", "%Y-%m", "%-d. %B %Y", "%H:%M", "%I %p %%", "%Y-%m-%dT%H:%M:%S", "%j %s",
                "%H:%M:%S%.3f", "%c", "%G-W%V-%u", "",
            ]),
            nanoseconds: bool,
        ) {
            let times: ArrayRef = match nanoseconds {
                true => Arc::new(TimestampNanosecondArray::from(stamps.clone())),
                false => Arc::new(TimestampMicrosecondArray::from(stamps.clone())),
            };
            let expected = each_written(Arc::clone(&times), format);
            let found = written(&times, format, |times| Ok(each_written(times, format))).unwrap();
            if let Some(found) = found {
                prop_assert_eq!(found.as_string::<i32>(), expected.as_string::<i32>());
            }
        }
    }

    #[test]
    fn a_day_is_written_once() {
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(
            (0..1000).map(|minute| minute * 60_000_000),
        ));
        let write = |times: ArrayRef| {
            assert_eq!(times.len(), 1);
            Ok(Arc::new(StringArray::from(vec!["Thursday"])) as ArrayRef)
        };
        let found = written(&times, "%A", write).unwrap().unwrap();
        assert_eq!(found.len(), 1000);
        assert_eq!(found.as_string::<i32>().value(999), "Thursday");
    }
}
