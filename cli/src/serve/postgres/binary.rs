//! How PostgreSQL writes values in binary: big-endian, times since 2000-01-01, numeric in digits of
//! base 10,000.

use super::columns::Column;
use super::replies::{begin_length, end_length};

/// Days and microseconds from 1970-01-01 to 2000-01-01.
pub(super) const EPOCH_DAYS: i32 = 10_957;
pub(super) const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// Appends the value of a row, which is not null.
pub(super) fn write(column: &Column, row: usize, out: &mut Vec<u8>) {
    match column {
        Column::Nothing => {}
        Column::Bool(array) => out.push(u8::from(array.value(row))),
        Column::Int2(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
        Column::Int4(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
        Column::Int8(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
        Column::Float4(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
        Column::Float8(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
        Column::Numeric(array, scale) => {
            let value = array.value(row);
            numeric(value < 0, value.unsigned_abs().to_string().as_bytes(), *scale, out);
        }
        Column::WideNumeric(array, scale) => {
            let text = array.value(row).to_string();
            numeric(text.starts_with('-'), text.trim_start_matches('-').as_bytes(), *scale, out);
        }
        Column::Text(_)
        | Column::LargeText(_)
        | Column::TextView(_)
        | Column::Bytes(_)
        | Column::LargeBytes(_)
        | Column::BytesView(_)
        | Column::FixedBytes(_) => out.extend_from_slice(column.bytes(row).unwrap_or_default()),
        Column::Date(array) => {
            let days = array.value(row).saturating_sub(EPOCH_DAYS);
            out.extend_from_slice(&days.to_be_bytes());
        }
        Column::Time(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
        Column::Timestamp { values, .. } => {
            let micros = values.value(row).saturating_sub(EPOCH_MICROS);
            out.extend_from_slice(&micros.to_be_bytes());
        }
        Column::Interval { values, .. } => {
            let value = values.value(row);
            out.extend_from_slice(&(value.nanoseconds / 1000).to_be_bytes());
            out.extend_from_slice(&value.days.to_be_bytes());
            out.extend_from_slice(&value.months.to_be_bytes());
        }
        Column::Array { rows, items, item_oid, .. } => {
            let rows = rows.get(row).cloned().unwrap_or_default();
            let (count, has_nulls) = (rows.len() as i32, rows.clone().any(|at| items.is_null(at)));
            let dimensions = i32::from(count > 0);
            for part in [dimensions, i32::from(has_nulls), item_oid.cast_signed()] {
                out.extend_from_slice(&part.to_be_bytes());
            }
            if count > 0 {
                // This many items, the first of which is number 1.
                out.extend_from_slice(&count.to_be_bytes());
                out.extend_from_slice(&1_i32.to_be_bytes());
            }
            rows.for_each(|item| write_with_length(items, item, out));
        }
    }
}

/// Appends a value that may be null, after its length.
pub(super) fn write_with_length(column: &Column, row: usize, out: &mut Vec<u8>) {
    if column.is_null(row) {
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        return;
    }
    let start = begin_length(out);
    write(column, row, out);
    end_length(start, out);
}

/// Appends a number by its decimal digits; `scale` of them stand behind the point.
fn numeric(is_negative: bool, digits: &[u8], scale: i8, out: &mut Vec<u8>) {
    let behind = usize::try_from(scale).unwrap_or(0);
    let mut digits = digits.to_vec();
    digits.extend(std::iter::repeat_n(b'0', usize::try_from(-i32::from(scale)).unwrap_or(0)));
    if digits.len() < behind {
        let missing = behind - digits.len();
        digits.splice(0..0, std::iter::repeat_n(b'0', missing));
    }
    // Groups of four are counted from the point.
    let before = digits.len() - behind;
    let (lead, trail) = ((4 - before % 4) % 4, (4 - behind % 4) % 4);
    digits.splice(0..0, std::iter::repeat_n(b'0', lead));
    digits.extend(std::iter::repeat_n(b'0', trail));
    let value = |four: &[u8]| four.iter().fold(0_i16, |sum, it| sum * 10 + i16::from(it - b'0'));
    let groups: Vec<i16> = digits.chunks(4).map(value).collect();
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    let end = groups.iter().rposition(|group| *group != 0).map_or(zeros, |last| last + 1);
    let shown = groups.get(zeros..end).unwrap_or_default();
    let weight = match shown.is_empty() {
        true => 0,
        false => ((before + lead) / 4) as i16 - 1 - zeros as i16,
    };
    let sign = if is_negative { 0x4000_i16 } else { 0 };
    for part in [shown.len() as i16, weight, sign, behind as i16] {
        out.extend_from_slice(&part.to_be_bytes());
    }
    shown.iter().for_each(|group| out.extend_from_slice(&group.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_has_digits_of_base_ten_thousand() {
        let of = |text: &str, scale| {
            let mut out = Vec::new();
            let digits = text.trim_start_matches('-').as_bytes();
            numeric(text.starts_with('-'), digits, scale, &mut out);
            let parts = out.chunks(2).map(|two| i16::from_be_bytes([two[0], two[1]]));
            parts.collect::<Vec<_>>()
        };
        // Groups, the power of the first, the sign, the scale, and the groups.
        assert_eq!(of("0", 0), [0, 0, 0, 0]);
        assert_eq!(of("0", 2), [0, 0, 0, 2]);
        assert_eq!(of("1", 0), [1, 0, 0, 0, 1]);
        assert_eq!(of("150", 2), [2, 0, 0, 2, 1, 5000]);
        assert_eq!(of("-5", 2), [1, -1, 0x4000, 2, 500]);
        assert_eq!(of("5", 6), [1, -2, 0, 6, 500]);
        assert_eq!(of("1234567890", 0), [3, 2, 0, 0, 12, 3456, 7890]);
        assert_eq!(of("100000000", 0), [1, 2, 0, 0, 1]);
        assert_eq!(of("7", -3), [1, 0, 0, 0, 7000]);
        assert_eq!(of("12345678", 4), [2, 0, 0, 4, 1234, 5678]);
    }
}
