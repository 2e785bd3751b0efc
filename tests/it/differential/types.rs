//! Random column types: all that a store holds, with decimals of every precision and scale.

use stylobate::{DataType, TimeUnit};

use super::random::Random;

const SIMPLE: [DataType; 13] = [
    DataType::Bool,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float32,
    DataType::Float64,
    DataType::Date,
    DataType::Binary,
];

const UNITS: [TimeUnit; 4] =
    [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];

/// Any type, common ones more often.
pub(crate) fn any(r: &mut Random) -> DataType {
    match r.below(25) {
        0..=12 => r.choose(&SIMPLE),
        13 => DataType::Int64,
        14 | 15 => DataType::Float64,
        16 | 17 => DataType::Utf8,
        18..=20 => decimal(r),
        21 | 22 => timestamp(r),
        23 => DataType::Uuid,
        _ => DataType::Time { unit: r.choose(&UNITS) },
    }
}

/// A decimal of any precision, more often at the limits of a storage width, and any scale.
fn decimal(r: &mut Random) -> DataType {
    let precision = match r.below(3) {
        0 => r.choose(&[1, 9, 10, 18, 19, 38]),
        1 => r.choose(&[5, 9, 12, 15]),
        _ => 1 + r.below(38) as u8,
    };
    let scale = match r.below(4) {
        0 => 0,
        1 => precision,
        2 => precision.min(2),
        _ => r.below(usize::from(precision) + 1) as u8,
    };
    DataType::Decimal { precision, scale: scale as i8 }
}

fn timestamp(r: &mut Random) -> DataType {
    let zone = match r.below(12) {
        0 | 1 => Some("UTC"),
        2 => Some("+02:00"),
        3 => Some("Europe/Berlin"),
        _ => None,
    };
    DataType::Timestamp { unit: r.choose(&UNITS), zone: zone.map(Into::into) }
}

/// A type that widens to this one whatever the values are.
pub(crate) fn narrower(r: &mut Random, wide: &DataType) -> DataType {
    let mut fitting = vec![DataType::Null];
    match wide {
        DataType::Decimal { precision, scale } if *scale >= 0 => {
            let (digits, fraction) = (precision - *scale as u8, *scale as u8);
            let (digits, fraction) =
                (r.below(usize::from(digits) + 1) as u8, r.below(usize::from(fraction) + 1) as u8);
            if digits + fraction > 0 {
                fitting.push(DataType::Decimal {
                    precision: digits + fraction,
                    scale: fraction as i8,
                });
            }
        }
        DataType::Timestamp { unit, zone } => {
            fitting.extend(
                coarser(*unit).map(|unit| DataType::Timestamp { unit, zone: zone.clone() }),
            );
            fitting.extend(zone.is_none().then_some(DataType::Date));
        }
        DataType::Time { unit } => {
            fitting.extend(coarser(*unit).map(|unit| DataType::Time { unit }))
        }
        wide => {
            let widens = |narrow: &&DataType| {
                *narrow != wide
                    && !narrow.widens_exactly_if(wide)
                    && narrow.join(wide).as_ref() == Some(wide)
            };
            fitting.extend(SIMPLE.iter().filter(widens).cloned());
            fitting.extend((*wide == DataType::Utf8).then_some(DataType::Uuid));
        }
    }
    r.choose(&fitting)
}

fn coarser(unit: TimeUnit) -> impl Iterator<Item = TimeUnit> {
    UNITS.into_iter().filter(move |other| *other < unit)
}
