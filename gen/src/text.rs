//! Trips as CSV, in the spellings of the public data: null is empty, amounts come without trailing
//! zeros, distances with two decimals, single-precision degrees with fifteen, and points as
//! hexadecimal well-known binary.

use std::ops::Range;

use crate::calendar::Weather;
use crate::fares::Amounts;
use crate::generator::Generator;
use crate::trip::{Point, Trip};

/// The columns, in order.
pub(crate) const COLUMNS: [&str; 51] = [
    "trip_id",
    "vendor_id",
    "pickup_datetime",
    "dropoff_datetime",
    "store_and_fwd_flag",
    "rate_code_id",
    "pickup_longitude",
    "pickup_latitude",
    "dropoff_longitude",
    "dropoff_latitude",
    "passenger_count",
    "trip_distance",
    "fare_amount",
    "extra",
    "mta_tax",
    "tip_amount",
    "tolls_amount",
    "ehail_fee",
    "improvement_surcharge",
    "total_amount",
    "payment_type",
    "trip_type",
    "pickup",
    "dropoff",
    "cab_type",
    "precipitation",
    "snow_depth",
    "snowfall",
    "max_temperature",
    "min_temperature",
    "average_wind_speed",
    "pickup_nyct2010_gid",
    "pickup_ctlabel",
    "pickup_borocode",
    "pickup_boroname",
    "pickup_ct2010",
    "pickup_boroct2010",
    "pickup_cdeligibil",
    "pickup_ntacode",
    "pickup_ntaname",
    "pickup_puma",
    "dropoff_nyct2010_gid",
    "dropoff_ctlabel",
    "dropoff_borocode",
    "dropoff_boroname",
    "dropoff_ct2010",
    "dropoff_boroct2010",
    "dropoff_cdeligibil",
    "dropoff_ntacode",
    "dropoff_ntaname",
    "dropoff_puma",
];

/// What precedes the two doubles of a point: little-endian, a point with a reference system, and
/// the number of that system, 4326.
const POINT_PREFIX: &[u8] = b"0101000020E6100000";

/// Appends the line of column names.
pub(crate) fn write_header(out: &mut Vec<u8>) {
    out.extend_from_slice(COLUMNS.join(",").as_bytes());
    out.push(b'\n');
}

/// Appends the trips of `rows`.
pub(crate) fn write_csv(generator: &Generator, rows: Range<u64>, out: &mut Vec<u8>) {
    for trip in generator.trips(rows) {
        write_trip(generator, &trip, out);
    }
}

fn write_trip(generator: &Generator, trip: &Trip, out: &mut Vec<u8>) {
    integer(out, trip.id);
    text(out, trip.vendor);
    out.push(b',');
    time(generator, out, trip.pickup);
    out.push(b',');
    if let Some(dropoff) = trip.dropoff {
        time(generator, out, dropoff);
    }
    text(out, trip.stored_before_sent);
    small(out, trip.rate_code);
    degrees(out, trip.from);
    degrees(out, trip.to);
    small(out, trip.passengers);
    out.push(b',');
    if let Some(distance) = trip.distance {
        hundredths(out, distance, false);
    }
    amounts(out, trip.amounts.as_ref());
    text(out, trip.payment);
    small(out, trip.trip_type);
    point(out, trip.from);
    point(out, trip.to);
    text(out, Some(trip.cab.name()));
    weather(out, &generator.calendar.day(trip.pickup).weather);
    for zone in [trip.from_zone, trip.to_zone] {
        out.push(b',');
        match zone {
            Some(zone) => out.extend_from_slice(&generator.zones.get(zone).csv),
            None => out.extend_from_slice(b",,,,,,,,,"),
        }
    }
    out.push(b'\n');
}

fn text(out: &mut Vec<u8>, value: Option<&str>) {
    out.push(b',');
    out.extend_from_slice(value.unwrap_or("").as_bytes());
}

fn small(out: &mut Vec<u8>, value: Option<u8>) {
    out.push(b',');
    if let Some(value) = value {
        integer(out, i64::from(value));
    }
}

fn integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    let mut digits = [0; 20];
    let mut remaining = value.unsigned_abs();
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (remaining % 10) as u8;
        remaining /= 10;
        if remaining == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends `value` / 100, with two decimals or, to `trim`, without trailing zeros.
fn hundredths(out: &mut Vec<u8>, value: i32, trim: bool) {
    if value < 0 {
        out.push(b'-');
    }
    let value = value.unsigned_abs();
    integer(out, i64::from(value / 100));
    let decimals = value % 100;
    if trim && decimals == 0 {
        return;
    }
    out.push(b'.');
    out.push(b'0' + (decimals / 10) as u8);
    if !trim || !decimals.is_multiple_of(10) {
        out.push(b'0' + (decimals % 10) as u8);
    }
}

/// Appends `,` and `cents` / 100 without trailing zeros.
fn amount(out: &mut Vec<u8>, cents: Option<i32>) {
    out.push(b',');
    if let Some(cents) = cents {
        hundredths(out, cents, true);
    }
}

fn amounts(out: &mut Vec<u8>, amounts: Option<&Amounts>) {
    amount(out, amounts.map(|a| a.fare));
    amount(out, amounts.map(|a| a.extra));
    amount(out, amounts.and_then(|a| a.mta_tax));
    amount(out, amounts.map(|a| a.tip));
    amount(out, amounts.map(|a| a.tolls));
    // The column ehail_fee is never filled in.
    out.push(b',');
    amount(out, amounts.and_then(|a| a.surcharge));
    amount(out, amounts.map(Amounts::total));
}

fn weather(out: &mut Vec<u8>, weather: &Weather) {
    out.push(b',');
    hundredths(out, weather.precipitation, false);
    amount(out, Some(weather.snow_depth * 10));
    out.push(b',');
    integer(out, i64::from(weather.snowfall / 10));
    out.extend_from_slice(&[b'.', b'0' + (weather.snowfall % 10) as u8, b',']);
    integer(out, i64::from(weather.max_temperature));
    out.push(b',');
    integer(out, i64::from(weather.min_temperature));
    out.push(b',');
    hundredths(out, weather.wind, false);
}

fn time(generator: &Generator, out: &mut Vec<u8>, time: i64) {
    out.extend_from_slice(generator.calendar.day(time).date.as_bytes());
    let seconds = time.rem_euclid(86_400);
    for (before, value) in
        [(b' ', seconds / 3_600), (b':', seconds / 60 % 60), (b':', seconds % 60)]
    {
        out.extend_from_slice(&[before, b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
    }
}

fn degrees(out: &mut Vec<u8>, point: Option<Point>) {
    match point {
        None => out.extend_from_slice(b",,"),
        Some(Point::Single(longitude, latitude)) => {
            single(out, longitude);
            single(out, latitude);
        }
        Some(Point::Micro(longitude, latitude)) => {
            for value in [longitude, latitude] {
                out.push(b',');
                let whole = value.unsigned_abs();
                decimals(
                    out,
                    value < 0,
                    u64::from(whole / 1_000_000),
                    u64::from(whole % 1_000_000),
                    6,
                );
            }
        }
    }
}

/// Appends a float of magnitude 32 to 128 with fifteen decimals, exactly rounded: its fraction is a
/// multiple k of 2⁻¹⁸, so fraction · 10¹⁵ = k · 5¹⁵ / 8.
fn single(out: &mut Vec<u8>, value: f32) {
    const FIVE_15: u64 = 30_517_578_125;
    out.push(b',');
    let magnitude = f64::from(value.abs());
    let multiple = (magnitude.fract() * f64::from(1 << 18)) as u64;
    decimals(out, value < 0.0, magnitude as u64, (multiple * FIVE_15 + 4) / 8, 15);
}

/// Appends `whole.fraction` with the `places` digits of the fraction, without trailing zeros.
fn decimals(out: &mut Vec<u8>, negative: bool, whole: u64, mut fraction: u64, places: usize) {
    if negative {
        out.push(b'-');
    }
    integer(out, whole as i64);
    if fraction == 0 {
        return;
    }
    let mut digits = [b'0'; 16];
    for digit in digits[..places].iter_mut().rev() {
        *digit = b'0' + (fraction % 10) as u8;
        fraction /= 10;
    }
    let end = digits[..places].iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1);
    out.push(b'.');
    out.extend_from_slice(&digits[..end]);
}

fn point(out: &mut Vec<u8>, point: Option<Point>) {
    out.push(b',');
    if let Some(point) = point {
        out.extend_from_slice(&hexadecimal(point));
    }
}

/// A point as the 50 digits of extended well-known binary.
pub(crate) fn hexadecimal(point: Point) -> [u8; 50] {
    let mut digits = [0; 50];
    digits[..18].copy_from_slice(POINT_PREFIX);
    let (longitude, latitude) = point.degrees();
    let bytes = longitude.to_le_bytes().into_iter().chain(latitude.to_le_bytes());
    for (pair, byte) in digits[18..].chunks_exact_mut(2).zip(bytes) {
        pair[0] = b"0123456789ABCDEF"[usize::from(byte >> 4)];
        pair[1] = b"0123456789ABCDEF"[usize::from(byte & 15)];
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn spellings_are_those_of_the_public_data() {
        assert_eq!(written(|out| single(out, -73.963_806)), ",-73.96380615234375");
        assert_eq!(written(|out| single(out, 40.803_158)), ",40.803157806396484");
        assert_eq!(written(|out| hundredths(out, 0, false)), "0.00");
        assert_eq!(written(|out| hundredths(out, 850, true)), "8.5");
        assert_eq!(written(|out| hundredths(out, 2_125, true)), "21.25");
        assert_eq!(written(|out| hundredths(out, -5, true)), "-0.05");
        assert_eq!(written(|out| decimals(out, true, 73, 985_080, 6)), "-73.98508");
        let point = Point::Single(
            "-73.96380615234375".parse().unwrap(),
            "40.803157806396484".parse().unwrap(),
        );
        assert_eq!(&hexadecimal(point), b"0101000020E610000000000000AF7D52C0000000E0CD664440");
    }
}
