//! Time zones under names that ClickHouse's clients know. Arrow also has offsets from UTC.

use std::sync::Arc;

/// The name of a zone. A whole number of hours has one; other offsets become UTC, in which the
/// instants are the same.
pub(in crate::serve::clickhouse) fn named(zone: &str) -> Arc<str> {
    let Some(offset) = zone.strip_prefix(['+', '-']) else {
        return match zone {
            "Z" | "z" | "utc" | "Utc" => "UTC".into(),
            name => name.into(),
        };
    };
    let digits: String = offset.chars().filter(|c| *c != ':').collect();
    let (hours, minutes) = digits.split_at_checked(2).unwrap_or((&digits, ""));
    let east = zone.starts_with('+');
    match (hours.parse::<u32>(), minutes) {
        // The signs of these names are those of POSIX.
        (Ok(hours @ 1..=14), "" | "00") if east => format!("Etc/GMT-{hours}").into(),
        (Ok(hours @ 1..=12), "" | "00") if !east => format!("Etc/GMT+{hours}").into(),
        _ => "UTC".into(),
    }
}
