//! Types of columns: `name:type,…`.

use stylobate::DataType;

/// Names and types of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnTypes(pub(crate) Vec<(String, DataType)>);

/// Parses `name:type,…`. Commas inside parentheses belong to the type, and the name ends at the
/// last colon before the type's parentheses.
pub(crate) fn parse_column_types(text: &str) -> Result<ColumnTypes, String> {
    let mut types = Vec::new();
    for part in split_outside_parentheses(text) {
        let open = part.find('(').unwrap_or(part.len());
        let colon = part.get(..open).and_then(|head| head.rfind(':'));
        let (name, data_type) = colon
            .and_then(|at| Some((part.get(..at)?.trim(), part.get(at + 1..)?)))
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("'{part}' is not NAME:TYPE, as in fare:decimal(9,2)"))?;
        if types.iter().any(|(known, _)| known == name) {
            return Err(format!("column '{name}' is named twice"));
        }
        types.push((
            name.to_owned(),
            data_type.parse::<DataType>().map_err(|error| error.to_string())?,
        ));
    }
    Ok(ColumnTypes(types))
}

/// Parses one `name:type`.
pub(crate) fn parse_column_type(text: &str) -> Result<(String, DataType), String> {
    match parse_column_types(text)?.0.as_slice() {
        [only] => Ok(only.clone()),
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
            let ColumnTypes(types) = parse_column_types(text).unwrap();
            types.iter().map(|(name, data_type)| format!("{name}={data_type}")).collect::<Vec<_>>()
        };
        assert_eq!(shown("id:int64, fare:decimal(9,2)"), ["id=int64", "fare=decimal(9,2)"]);
        assert_eq!(
            shown("a:b:utf8,t:timestamp(us,+02:00),"),
            ["a:b=utf8", "t=timestamp(us,+02:00)"]
        );
        for bad in ["id", ":int64", "id:int7", "a:utf8,a:utf8"] {
            assert!(parse_column_types(bad).is_err(), "{bad}");
        }
    }
}
