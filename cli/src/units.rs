//! Sizes and durations as people write them: `512M`, `2GiB`, `1.5h`, `90s`.

use std::time::Duration;

use stylobate::manifest::WriteVolume;

/// Parses a size: a number and an optional unit. `K M G T` and `KiB MiB …` are powers of 1024, `kB
/// MB GB TB` powers of 1000, as in `ls` and `dd`; without a unit, bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
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

/// Parses a duration: a number and an optional unit out of `ns us ms s m h d`; without a unit,
/// seconds. Sums such as `1h 30m` work too.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let seconds = match unit {
        "ns" => Some(1e-9),
        "us" | "µs" => Some(1e-6),
        "ms" => Some(1e-3),
        "" | "s" | "sec" => Some(1.0),
        "m" | "min" => Some(60.0),
        "h" => Some(3_600.0),
        "d" => Some(86_400.0),
        _ => None,
    };
    let simple = seconds
        .and_then(|unit| scale(number, unit))
        .and_then(|s| Duration::try_from_secs_f64(s).ok());
    simple
        .or_else(|| humantime::parse_duration(text).ok())
        .ok_or_else(|| format!("'{text}' is not a duration; write for example 30s, 1.5h or 250ms"))
}

/// A size for people: three digits and a binary unit.
pub(crate) fn show_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = "B";
    for name in UNITS {
        unit = name;
        if value < 1_000.0 {
            break;
        }
        if name != "TiB" {
            value /= 1024.0;
        }
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

/// A count for people, with thousands separated: `3 000 000` with thin groups would not paste;
/// commas do.
pub(crate) fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count and what is counted, in the plural unless it is one: `1 row`, `2,000 rows`.
pub(crate) fn show_counted(count: u64, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {one}{plural}", show_count(count))
}

fn split(text: &str) -> (&str, &str) {
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

/// What was written for each byte that was loaded, as the end of a sentence; nothing where that is
/// unknown.
pub(crate) fn show_amplification(write_volume: &WriteVolume) -> String {
    write_volume.amplification().map_or_else(String::new, |times| {
        format!("; the table's write amplification is {times:.2}")
    })
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
            ("250ms", 250),
            ("2 min", 120_000),
            ("1h 30m", 5_400_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "h", "-3s", "5 parsecs", "1e30d"] {
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
}
