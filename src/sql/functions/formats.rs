//! `strftime(t, format)` and `strptime(s, format)` with DuckDB's formats, `to_char(t, format)` also
//! with PostgreSQL's, and `regexp_extract(s, pattern, group)`.
//!
//! Where this stands on the road of a query: a session registers them. `strftime` and `to_char`
//! translate the format and call a known function. The others do the work: DataFusion's
//! `to_timestamp` (55.2) forgets the hour where a format has no minutes, and its `regexp_match`
//! leaves out groups that take no part in a match, so that others have their numbers.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::{ArrayRef, StringArray, TimestampMicrosecondArray};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, TimeUnit};
use chrono::format::{Fixed, Item, Parsed, StrftimeItems, parse, parse_and_remainder};
use chrono::{NaiveDateTime, NaiveTime, Offset, TimeDelta, TimeZone};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::datetime::to_char;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use regex::{Regex, RegexBuilder};

use crate::sql::functions::anchored::{Anchored, Place};
use crate::sql::functions::patterns::check_length;
use crate::sql::functions::{templates, time_texts};

/// All of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    use Function::{Extract, Read, TryRead, Write};
    let others = [Write, Read, TryRead, Extract].into_iter().map(|function| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::from(Formatted { function, signature, aliases: Vec::new() })
    });
    others.chain([to_char_function()])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Formatted {
    function: Function,
    signature: Signature,
    aliases: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    Write,
    Char,
    Read,
    TryRead,
    Extract,
}

impl ScalarUDFImpl for Formatted {
    fn name(&self) -> &str {
        match self.function {
            Function::Write => "strftime",
            Function::Char => "to_char",
            Function::Read => "strptime",
            Function::TryRead => "try_strptime",
            Function::Extract => "regexp_extract",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        let is_text = |of: &DataType| of.is_string() || of.is_null();
        let is_time = |of: &DataType| {
            matches!(of, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
                || of.is_null()
        };
        match (self.function, arguments) {
            (Function::Write, [time, format]) if is_time(time) && is_text(format) => {
                Ok(DataType::Utf8)
            }
            (Function::Char, _) => to_char().return_type(arguments),
            (Function::Write, _) => plan_err!(
                "strftime() takes a date or a timestamp and a format: strftime(t, '%Y-%m-%d')"
            ),
            (Function::Read | Function::TryRead, [text, format])
                if is_text(text) && is_text(format) =>
            {
                Ok(DataType::Timestamp(TimeUnit::Microsecond, None))
            }
            (Function::Read | Function::TryRead, _) => {
                plan_err!("{}() takes a text and a format: {0}(s, '%d/%m/%Y')", self.name())
            }
            (Function::Extract, [text, pattern]) if is_text(text) && is_text(pattern) => {
                Ok(DataType::Utf8)
            }
            (Function::Extract, [text, pattern, group])
                if is_text(text) && is_text(pattern) && group.is_integer() =>
            {
                Ok(DataType::Utf8)
            }
            (Function::Extract, [text, pattern, group, flags])
                if is_text(text) && is_text(pattern) && group.is_integer() && is_text(flags) =>
            {
                Ok(DataType::Utf8)
            }
            (Function::Extract, _) => plan_err!(
                "regexp_extract() takes a text, a pattern, and perhaps the number of a group and \
                 options: regexp_extract(s, '([a-z]+)=', 1)"
            ),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        match self.function {
            Function::Write => write(given),
            Function::Char => write_char(given),
            Function::Read => read(&given, false),
            Function::TryRead => read(&given, true),
            Function::Extract => extract(&given),
        }
    }
}

/// Changes a text, or each of an array of texts.
fn mapped(
    texts: &ColumnarValue,
    map: impl Fn(&str) -> DataFusionResult<String>,
) -> DataFusionResult<ColumnarValue> {
    match texts {
        ColumnarValue::Scalar(text) => {
            let text = text.try_as_str().flatten().map(map).transpose()?;
            Ok(ColumnarValue::Scalar(ScalarValue::Utf8(text)))
        }
        ColumnarValue::Array(texts) => {
            let texts = cast(texts, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>().iter().map(|text| text.map(&map).transpose());
            Ok(ColumnarValue::Array(Arc::new(texts.collect::<DataFusionResult<StringArray>>()?)))
        }
    }
}

/// A value as the function returns it: a scalar if all arguments are.
fn returned(array: ArrayRef, given: &[ColumnarValue]) -> DataFusionResult<ColumnarValue> {
    let is_scalar = given.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    Ok(match is_scalar {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
        false => ColumnarValue::Array(array),
    })
}

fn write(mut given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
    let [time, format] = given.args.as_mut_slice() else {
        return exec_err!("strftime() takes two arguments");
    };
    if !matches!(time.data_type(), DataType::Timestamp(..)) {
        *time = time.cast_to(&DataType::Timestamp(TimeUnit::Microsecond, None), None)?;
        if let Some(field) = given.arg_fields.first_mut() {
            *field = Arc::new(Field::new(field.name(), time.data_type(), true));
        }
    }
    *format = mapped(format, |format| Ok(translated(format, Direction::Write)))?;
    let written = as_texts(given)?;
    written.cast_to(&DataType::Utf8, None)
}

/// DataFusion's `to_char`, whose formats have `%`, with those of PostgreSQL.
fn write_char(mut given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
    if let [time, format] = given.args.as_mut_slice()
        && !matches!(time.data_type(), DataType::Duration(_))
        && format.data_type().is_string()
    {
        *format = mapped(format, templates::as_strftime)?;
    }
    as_texts(given)
}

/// What DataFusion's `to_char` writes.
fn as_texts(mut given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
    if let [ColumnarValue::Array(times), ColumnarValue::Scalar(format)] = given.args.as_slice()
        && let Some(Some(text)) = format.try_as_str()
    {
        let each = |times: ArrayRef| {
            let rows = times.len();
            let args = vec![ColumnarValue::Array(times), ColumnarValue::Scalar(format.clone())];
            let given = ScalarFunctionArgs { args, number_rows: rows, ..given.clone() };
            to_char().invoke_with_args(given)?.into_array(rows)
        };
        if let Some(texts) = time_texts::written(times, text, each)? {
            return Ok(ColumnarValue::Array(texts));
        }
    }
    // Beside an array of formats, DataFusion's takes a single time for a single text, that of the
    // first format.
    let rows = given.number_rows;
    if let [time @ ColumnarValue::Scalar(_), ColumnarValue::Array(_)] = given.args.as_mut_slice() {
        *time = ColumnarValue::Array(time.to_array(rows)?);
    }
    to_char().invoke_with_args(given)
}

/// The function `to_char` of this module.
pub(in crate::sql) fn to_char_function() -> ScalarUDF {
    let signature = to_char().signature().clone();
    let aliases = to_char().aliases().to_vec();
    ScalarUDF::from(Formatted { function: Function::Char, signature, aliases })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Write,
    Read,
}

/// A format of DuckDB as one of chrono.
fn translated(format: &str, direction: Direction) -> String {
    let mut to = String::with_capacity(format.len());
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            to.push(character);
            continue;
        }
        match rest.next() {
            Some('f') if direction == Direction::Read && to.ends_with('.') => {
                to.pop();
                to.push_str("%.f");
            }
            Some('f') => to.push_str("%6f"),
            Some('g') => to.push_str("%3f"),
            Some('n') => to.push_str("%9f"),
            Some('c') => to.push_str("%Y-%m-%d %H:%M:%S"),
            Some('x') => to.push_str("%Y-%m-%d"),
            Some('X') => to.push_str("%H:%M:%S"),
            // Times are without a zone, or in UTC.
            Some('z') if direction == Direction::Write => to.push_str("+00"),
            Some('Z') if direction == Direction::Write => {}
            Some(other) => {
                to.push('%');
                to.push(other);
            }
            None => to.push_str("%%"),
        }
    }
    to
}

fn read(given: &ScalarFunctionArgs, or_null: bool) -> DataFusionResult<ColumnarValue> {
    let [texts, formats] = given.args.as_slice() else {
        return exec_err!("strptime() takes two arguments");
    };
    let is_scalar =
        matches!((texts, formats), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
    let rows = if is_scalar { 1 } else { given.number_rows };
    let formats = mapped(formats, |format| Ok(translated(format, Direction::Read)))?;
    let texts = cast(&texts.to_array(rows)?, &DataType::Utf8)?;
    let formats = cast(&formats.to_array(rows)?, &DataType::Utf8)?;
    let both = texts.as_string::<i32>().iter().zip(formats.as_string::<i32>().iter());
    let mut stamps = TimestampMicrosecondArray::builder(rows);
    for pair in both {
        let (Some(text), Some(format)) = pair else {
            stamps.append_null();
            continue;
        };
        match parsed(text, format) {
            Some(stamp) => stamps.append_value(stamp),
            None if or_null => stamps.append_null(),
            None => {
                return exec_err!(
                    "strptime() cannot read '{text}' by the format '{format}'; try_strptime() \
                     gives null where it cannot"
                );
            }
        }
    }
    returned(Arc::new(stamps.finish()), &given.args)
}

/// Microseconds since 1970. What a format does not say is the first of January 1900, midnight.
fn parsed(text: &str, format: &str) -> Option<i64> {
    let mut fields = Parsed::new();
    let zone = read_fields(&mut fields, text, format)?;
    if let Some(seconds) = fields.timestamp() {
        return seconds.checked_mul(1_000_000);
    }
    let has_year = fields.year().is_some()
        || fields.year_mod_100().is_some()
        || fields.isoyear().is_some()
        || fields.isoyear_mod_100().is_some();
    if !has_year {
        fields.set_year(1900).ok()?;
    }
    // As in POSIX: 69 is 1969. In chrono, the last century begins with 70.
    if fields.year().is_none() && fields.year_mod_100() == Some(69) {
        fields.set_year_div_100(19).ok()?;
    }
    let has_day = fields.ordinal().is_some()
        || fields.week_from_sun().is_some()
        || fields.week_from_mon().is_some()
        || fields.isoweek().is_some();
    if !has_day {
        fields.month().is_none().then(|| fields.set_month(1)).transpose().ok()?;
        fields.day().is_none().then(|| fields.set_day(1)).transpose().ok()?;
    }
    let date = fields.to_naive_date().ok()?;
    if fields.hour_mod_12().is_none() && fields.hour_div_12().is_none() {
        fields.set_hour(0).ok()?;
    }
    fields.hour_div_12().is_none().then(|| fields.set_ampm(false)).transpose().ok()?;
    fields.minute().is_none().then(|| fields.set_minute(0)).transpose().ok()?;
    let time: NaiveTime = fields.to_naive_time().ok()?;
    let local = NaiveDateTime::new(date, time);
    let offset = match (fields.offset(), zone) {
        (None, Some(zone)) => offset_at(zone, local)?,
        (offset, _) => offset.unwrap_or(0),
    };
    local.and_utc().timestamp_micros().checked_sub(i64::from(offset) * 1_000_000)
}

/// Reads the fields of a text, and the time zone where the format has `%Z`. chrono skips the name
/// of a zone without reading it.
fn read_fields(fields: &mut Parsed, text: &str, format: &str) -> Option<Option<Tz>> {
    if !format.contains("%Z") {
        return parse(fields, text, StrftimeItems::new(format)).ok().map(|()| None);
    }
    let items: Vec<Item<'_>> = StrftimeItems::new(format).collect();
    let mut parts = items.split(|item| matches!(item, Item::Fixed(Fixed::TimezoneName)));
    let mut rest = parse_and_remainder(fields, text, parts.next()?.iter()).ok()?;
    let mut zone = None;
    for part in parts {
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || "_/+-".contains(c);
        let (name, after) = rest.split_at(rest.find(|c| !is_in_name(c)).unwrap_or(rest.len()));
        zone = Some(name.parse::<Tz>().ok()?);
        rest = parse_and_remainder(fields, after, part.iter()).ok()?;
    }
    rest.is_empty().then_some(zone)
}

/// The seconds by which a zone is ahead of UTC at a local time. A time that occurs twice is the
/// later one; one that does not occur has the offset of the day before.
fn offset_at(zone: Tz, local: NaiveDateTime) -> Option<i32> {
    let found = zone.offset_from_local_datetime(&local).latest();
    let before = || {
        let day_before = local.checked_sub_signed(TimeDelta::days(1))?;
        zone.offset_from_local_datetime(&day_before).latest()
    };
    Some(found.or_else(before)?.fix().local_minus_utc())
}

/// The group of the first match; the empty text where there is none.
fn extract(given: &ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
    let [texts, patterns, options @ ..] = given.args.as_slice() else {
        return exec_err!("regexp_extract() takes a text and a pattern");
    };
    let group = match options.first() {
        None => 0,
        Some(ColumnarValue::Scalar(group)) => match group.cast_to(&DataType::Int64)? {
            ScalarValue::Int64(Some(group)) => usize::try_from(group)
                .map_err(|_| exec_datafusion_err!("the group of regexp_extract() is at least 0"))?,
            _ => return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None))),
        },
        Some(ColumnarValue::Array(_)) => {
            return exec_err!("the group of regexp_extract() is a constant");
        }
    };
    let flags = match options.get(1) {
        Some(ColumnarValue::Scalar(flags)) => flags.try_as_str().flatten().unwrap_or_default(),
        Some(ColumnarValue::Array(_)) => {
            return exec_err!("the options of regexp_extract() are a constant");
        }
        None => "",
    };
    let is_scalar = given.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if is_scalar { 1 } else { given.number_rows };
    let texts = cast(&texts.to_array(rows)?, &DataType::Utf8)?;
    let patterns = cast(&patterns.to_array(rows)?, &DataType::Utf8)?;
    // One regex at a time is kept.
    let mut last: Option<(&str, Compiled)> = None;
    let mut extracted = StringBuilder::new();
    for pair in texts.as_string::<i32>().iter().zip(patterns.as_string::<i32>().iter()) {
        let (Some(text), Some(pattern)) = pair else {
            extracted.append_null();
            continue;
        };
        let regex = match &mut last {
            Some((known, regex)) if *known == pattern => regex,
            _ => &mut last.insert((pattern, Compiled::new(pattern, flags)?)).1,
        };
        let groups = regex.regex.captures_len();
        if group >= groups {
            return exec_err!(
                "the pattern '{pattern}' has no group {group}; its last is group {}",
                groups - 1
            );
        }
        extracted.append_value(regex.group(group, text).unwrap_or_default());
    }
    returned(Arc::new(extracted.finish()), &given.args)
}

/// A regular expression, and its simple form if it has one.
struct Compiled {
    regex: Regex,
    simple: Option<(Anchored, Vec<Place>)>,
}

impl Compiled {
    fn new(pattern: &str, flags: &str) -> DataFusionResult<Self> {
        let regex = compiled(pattern, flags)?;
        let simple = Some(pattern).filter(|_| flags.is_empty()).and_then(Anchored::new);
        let simple = simple.map(|simple| {
            let places = simple.places();
            (simple, places)
        });
        Ok(Compiled { regex, simple })
    }

    /// What a group of the first match has.
    fn group<'t>(&mut self, group: usize, text: &'t str) -> Option<&'t str> {
        if let Some((simple, places)) = self.simple.as_mut().filter(|(it, _)| it.takes(text)) {
            let (start, end) = match simple.matches(text, places) {
                true => places.get(group).copied().flatten()?,
                false => return None,
            };
            return text.get(start..end);
        }
        let matched = match group {
            0 => self.regex.find(text),
            group => self.regex.captures(text).and_then(|groups| groups.get(group)),
        };
        Some(matched?.as_str())
    }
}

/// A regex with DuckDB's options.
pub(super) fn compiled(pattern: &str, flags: &str) -> DataFusionResult<Regex> {
    check_length(pattern.len())?;
    let mut builder = RegexBuilder::new(pattern);
    for flag in flags.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            'c' => builder.case_insensitive(false),
            's' => builder.dot_matches_new_line(true),
            'm' | 'n' | 'p' => builder.multi_line(true),
            'g' => &mut builder,
            other => {
                return exec_err!("a pattern has no option '{other}'; there are i, c, s, m");
            }
        };
    }
    builder.build().map_err(|error| exec_datafusion_err!("the pattern '{pattern}': {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_duckdb() {
        assert_eq!(translated("%f|%-d|%%|%x|%z%", Direction::Write), "%6f|%-d|%%|%Y-%m-%d|+00%%");
        assert_eq!(translated("%S.%f", Direction::Read), "%S%.f");
    }

    #[test]
    fn what_a_format_leaves_out_is_the_beginning() {
        let hour = 3_600_000_000;
        assert_eq!(parsed("1970-01-01 03", "%Y-%m-%d %H"), Some(3 * hour));
        assert_eq!(parsed("1970", "%Y"), Some(0));
        assert_eq!(parsed("1970 02", "%Y %j"), Some(24 * hour));
        assert_eq!(
            parsed("01/01/1970 01:00:00.5 PM", "%d/%m/%Y %I:%M:%S%.f %p"),
            Some(13 * hour + 500_000)
        );
        assert_eq!(parsed("1970-01-01 02:00 +0200", "%Y-%m-%d %H:%M %z"), Some(0));
        assert_eq!(parsed("x", "%Y"), None);
    }
}
