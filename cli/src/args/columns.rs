//! Types of columns: `name:type,…`.

use std::sync::Arc;

use stylobate::{DataType, TimeUnit};

/// Names and types of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnTypes {
    pub(crate) types: Vec<(String, DataType)>,
    /// Columns of timestamps that are counts of this unit since 1970.
    pub(crate) epochs: Vec<(String, TimeUnit)>,
}

/// Parses `name:type,…`. Commas inside parentheses belong to the type or the name, and the name
/// ends at the last colon before the type's parentheses.
pub(crate) fn parse_column_types(text: &str) -> Result<ColumnTypes, String> {
    let ColumnTypes { mut types, mut epochs } = ColumnTypes::default();
    for part in split_outside_parentheses(text) {
        let open = part.rfind('(').filter(|_| part.ends_with(')')).unwrap_or(part.len());
        let colon = part.get(..open).and_then(|head| head.rfind(':'));
        let (name, data_type) = colon
            .and_then(|at| Some((part.get(..at)?.trim(), part.get(at + 1..)?)))
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("'{part}' is not NAME:TYPE, as in fare:decimal(9,2)"))?;
        if types.iter().any(|(known, _)| known == name) {
            return Err(format!("column '{name}' is named twice"));
        }
        let data_type = match parse_epoch(data_type) {
            Some((unit, data_type)) => {
                epochs.push((name.to_owned(), unit));
                data_type
            }
            None => data_type.parse::<DataType>().map_err(|error| error.to_string())?,
        };
        types.push((name.to_owned(), data_type));
    }
    Ok(ColumnTypes { types, epochs })
}

/// The unit and the type of `timestamp(epoch_ms)` or `timestamp(epoch_ms,UTC)`.
fn parse_epoch(text: &str) -> Option<(TimeUnit, DataType)> {
    let inner = text.trim().strip_prefix("timestamp(")?.strip_suffix(')')?;
    let (unit, zone) = match inner.split_once(',') {
        Some((unit, zone)) => (unit.trim(), Some(zone.trim())),
        None => (inner.trim(), None),
    };
    let unit = match unit.strip_prefix("epoch_")? {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    };
    Some((unit, DataType::Timestamp { unit, zone: zone.map(Arc::from) }))
}

/// Parses one `name:type`.
pub(crate) fn parse_column_type(text: &str) -> Result<(String, DataType), String> {
    let ColumnTypes { types, epochs } = parse_column_types(text)?;
    match types.as_slice() {
        [only] if epochs.is_empty() => Ok(only.clone()),
        _ => Err(format!("'{text}' is not NAME:TYPE, as in fare:decimal(9,2)")),
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let is_separator = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(is_separator).map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_types() {
        let shown = |text: &str| {
            let ColumnTypes { types, .. } = parse_column_types(text).unwrap();
            types.iter().map(|(name, data_type)| format!("{name}={data_type}")).collect::<Vec<_>>()
        };
        assert_eq!(shown("id:int64, fare:decimal(9,2)"), ["id=int64", "fare=decimal(9,2)"]);
        assert_eq!(
            shown("a:b:utf8,t:timestamp(us,+02:00),"),
            ["a:b=utf8", "t=timestamp(us,+02:00)"]
        );
        let epochs = parse_column_types("a:timestamp(epoch_ms),b:timestamp(epoch_s,UTC)").unwrap();
        let shown: Vec<_> = epochs.types.iter().map(|(_, t)| t.to_string()).collect();
        assert_eq!(shown, ["timestamp(ms)", "timestamp(s,UTC)"]);
        assert_eq!(
            epochs.epochs,
            [("a".to_owned(), TimeUnit::Millisecond), ("b".to_owned(), TimeUnit::Second)]
        );
        assert!(parse_column_type("a:timestamp(epoch_ms)").is_err());
        let named = parse_column_types("city (2020):utf8,a (b:c):decimal(9,2)").unwrap().types;
        let names: Vec<_> = named.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["city (2020)", "a (b:c)"]);
        for bad in ["id", ":int64", "id:int7", "a:utf8,a:utf8", "a:timestamp(epoch_h)"] {
            assert!(parse_column_types(bad).is_err(), "{bad}");
        }
    }
}
