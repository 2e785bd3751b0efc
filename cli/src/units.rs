//! Sizes, durations and counts as people write and read them: `512M`, `2GiB`, `1.5h`, `1,234`.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::HumanCount;

/// Parses a size: a number and an optional unit. `K M G T` and `KiB MiB …` are powers of 1024 and
/// `kB MB GB TB` powers of 1000, as in `ls` and `dd`, which no crate reads so. Without a unit, it
/// is bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "t" | "ti" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => {
            return Err(format!(
                "unknown unit '{unit}' in size '{text}'; write for example 512M, 2GiB or 1000000"
            ));
        }
    };
    scale(number, factor as f64)
        .filter(|bytes| *bytes < u64::MAX as f64)
        .map(|bytes| bytes as u64)
        .ok_or_else(|| format!("'{text}' is not a size; write for example 512M, 2GiB or 1000000"))
}

/// Parses a duration: a number and a unit such as `ns us ms s m h d`. Without a unit, it is
/// seconds. Sums such as `1h 30m` work too.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let unit = if unit.is_empty() { "s" } else { unit };
    let single = || {
        let unit = humantime::parse_duration(&format!("1{unit}")).ok()?;
        Duration::try_from_secs_f64(scale(number, unit.as_secs_f64())?).ok()
    };
    let is_sum = !unit.chars().all(char::is_alphabetic);
    let duration = if is_sum { humantime::parse_duration(text).ok() } else { single() };
    duration
        .ok_or_else(|| format!("'{text}' is not a duration; write for example 30s, 1.5h or 250ms"))
}

/// Splits the digits of a number from what follows.
fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

fn scale(number: &str, factor: f64) -> Option<f64> {
    let value: f64 = number.replace('_', "").parse().ok()?;
    let scaled = value * factor;
    (scaled.is_finite() && scaled >= 0.0).then_some(scaled)
}

/// A size for people: three digits and a binary unit.
pub(crate) fn show_size(bytes: u64) -> String {
    let (mut value, mut units) = (bytes as f64, ["B", "KiB", "MiB", "GiB", "TiB"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    while value >= 1_000.0
        && let Some(larger) = units.next()
    {
        (value, unit) = (value / 1024.0, larger);
    }
    match unit {
        "B" => format!("{bytes} B"),
        _ if value < 10.0 => format!("{value:.2} {unit}"),
        _ if value < 100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// A duration for people: `0.8 ms`, `12.3 s`, `4m 05s`.
pub(crate) fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 0.1 => format!("{:.1} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.2} s"),
        s if s < 3600.0 => format!("{}m {:02.0}s", (s / 60.0) as u64, s % 60.0),
        s => format!("{}h {:02}m", (s / 3600.0) as u64, ((s % 3600.0) / 60.0) as u64),
    }
}

/// A count for people, with commas between thousands.
pub(crate) fn show_count(count: u64) -> String {
    HumanCount(count).to_string()
}

/// A count and its noun, in the plural unless the count is one: `1 row`, `2,000 rows`.
pub(crate) fn show_counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", show_count(count))
}

/// A text without control characters, for a line that a terminal may show: a name in it must not
/// move the cursor, change the title or break the line. Tabs stay.
pub(crate) fn show_text(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\t')
}

/// A name without control characters, for one cell of a list.
pub(crate) fn show_name(name: &str) -> Cow<'_, str> {
    escaped(name, |_| false)
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_shown = |c: char| !c.is_control() || stays(c);
    if text.chars().all(&is_shown) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_shown(c) { shown.push(c) } else { shown.extend(c.escape_default()) }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1000000", 1_000_000),
            ("1_000", 1_000),
            ("512M", 512 << 20),
            ("2GiB", 2 << 30),
            ("2 gib", 2 << 30),
            ("1.5k", 1536),
            ("1MB", 1_000_000),
            ("3T", 3 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "G", "-1", "1.2.3", "5 parsecs", "1e400", "99999999999T"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations() {
        for (text, millis) in [
            ("0", 0),
            ("30", 30_000),
            ("1.5h", 5_400_000),
            (".5h", 1_800_000),
            ("250ms", 250),
            ("1_500 us", 1),
            ("2 min", 120_000),
            ("1h 30m", 5_400_000),
            ("2h30m", 9_000_000),
            ("1d", 86_400_000),
            ("2 weeks", 1_209_600_000),
        ] {
            let parsed = parse_duration(text).map(|duration| duration.as_millis());
            assert_eq!(parsed, Ok(millis), "{text}");
        }
        for bad in ["", "h", "-3s", "5 parsecs", "1e30d", "1.2.3s", "3 h m"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shown_for_people() {
        assert_eq!(show_size(999), "999 B");
        assert_eq!(show_size(1536), "1.50 KiB");
        assert_eq!(show_size(1023 << 20), "1.00 GiB");
        assert_eq!(show_size(5 << 50), "5120 TiB");
        assert_eq!(show_duration(Duration::from_micros(850)), "850 µs");
        assert_eq!(show_duration(Duration::from_millis(12_345)), "12.35 s");
        assert_eq!(show_duration(Duration::from_secs(245)), "4m 05s");
        assert_eq!(show_count(1_234_567), "1,234,567");
        assert_eq!(show_count(12), "12");
        assert_eq!([0, 1, 2000].map(|n| show_counted(n, "row")), ["0 rows", "1 row", "2,000 rows"]);
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(show_text("a\x1b[2J\u{9b}\tb\r\nc"), "a\\u{1b}[2J\\u{9b}\tb\\r\\nc");
        assert_eq!(show_name("a\nb\tc"), "a\\nb\\tc");
        assert!(matches!(show_name("naïve ☃"), Cow::Borrowed(_)));
    }
}
