//! Trips as Arrow batches, in the types that a reader of their CSV would infer.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{
    Float64Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};

use crate::generator::Generator;
use crate::text::{COLUMNS, hexadecimal};
use crate::trip::{Point, Trip};
use crate::zones::Tract;

/// The schema: 51 columns, all nullable.
pub(crate) fn schema() -> Arc<Schema> {
    let field = |name: &&str| Field::new(*name, data_type(name), true);
    Arc::new(Schema::new(COLUMNS.iter().map(field).collect::<Vec<_>>()))
}

fn data_type(column: &str) -> DataType {
    let at_either_end = column.strip_prefix("pickup_").or_else(|| column.strip_prefix("dropoff_"));
    match at_either_end.unwrap_or(column) {
        "datetime" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "trip_id" | "rate_code_id" | "passenger_count" | "trip_type" | "max_temperature"
        | "min_temperature" | "nyct2010_gid" | "borocode" | "boroct2010" | "puma" => {
            DataType::Int64
        }
        "vendor_id" | "store_and_fwd_flag" | "payment_type" | "pickup" | "dropoff" | "cab_type"
        | "boroname" | "ct2010" | "cdeligibil" | "ntacode" | "ntaname" => DataType::Utf8,
        _ => DataType::Float64,
    }
}

/// The trips of `rows`.
pub(crate) fn batch(generator: &Generator, rows: Range<u64>) -> Result<RecordBatch, ArrowError> {
    let trips: Vec<Trip> = generator.trips(rows).collect();
    let mut columns = Vec::with_capacity(COLUMNS.len());
    columns.extend(ids_and_times(&trips));
    columns.extend(coordinates(&trips));
    columns.extend(amounts(&trips));
    columns.push(strings(&trips, |trip| trip.payment));
    columns.push(integers(&trips, |trip| trip.trip_type.map(i64::from)));
    columns.push(points(&trips, |trip| trip.from));
    columns.push(points(&trips, |trip| trip.to));
    columns.push(strings(&trips, |trip| Some(trip.cab.name())));
    columns.extend(weather(generator, &trips));
    columns.extend(zone(&trips, |trip| Some(generator.zones.get(trip.from_zone?))));
    columns.extend(zone(&trips, |trip| Some(generator.zones.get(trip.to_zone?))));
    RecordBatch::try_new(schema(), columns)
}

fn integers<'a>(trips: &'a [Trip], value: impl Fn(&'a Trip) -> Option<i64>) -> ArrayRef {
    let mut builder = Int64Builder::with_capacity(trips.len());
    trips.iter().for_each(|trip| builder.append_option(value(trip)));
    Arc::new(builder.finish())
}

fn floats<'a>(trips: &'a [Trip], value: impl Fn(&'a Trip) -> Option<f64>) -> ArrayRef {
    let mut builder = Float64Builder::with_capacity(trips.len());
    trips.iter().for_each(|trip| builder.append_option(value(trip)));
    Arc::new(builder.finish())
}

/// Hundredths as the doubles nearest to their decimals.
fn hundredths(trips: &[Trip], value: impl Fn(&Trip) -> Option<i32>) -> ArrayRef {
    floats(trips, |trip| Some(f64::from(value(trip)?) / 100.0))
}

fn strings<'a>(trips: &'a [Trip], value: impl Fn(&'a Trip) -> Option<&'a str>) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(trips.len(), trips.len() * 8);
    trips.iter().for_each(|trip| builder.append_option(value(trip)));
    Arc::new(builder.finish())
}

fn times(trips: &[Trip], value: impl Fn(&Trip) -> Option<i64>) -> ArrayRef {
    let mut builder = TimestampMicrosecondBuilder::with_capacity(trips.len());
    trips
        .iter()
        .for_each(|trip| builder.append_option(value(trip).map(|seconds| seconds * 1_000_000)));
    Arc::new(builder.finish())
}

fn points(trips: &[Trip], value: impl Fn(&Trip) -> Option<Point>) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(trips.len(), trips.len() * 50);
    for trip in trips {
        let digits = value(trip).map(hexadecimal);
        builder.append_option(digits.as_ref().and_then(|digits| std::str::from_utf8(digits).ok()));
    }
    Arc::new(builder.finish())
}

fn ids_and_times(trips: &[Trip]) -> [ArrayRef; 6] {
    [
        integers(trips, |trip| Some(trip.id)),
        strings(trips, |trip| trip.vendor),
        times(trips, |trip| Some(trip.pickup)),
        times(trips, |trip| trip.dropoff),
        strings(trips, |trip| trip.stored_before_sent),
        integers(trips, |trip| trip.rate_code.map(i64::from)),
    ]
}

fn coordinates(trips: &[Trip]) -> [ArrayRef; 4] {
    [
        floats(trips, |trip| Some(trip.from?.degrees().0)),
        floats(trips, |trip| Some(trip.from?.degrees().1)),
        floats(trips, |trip| Some(trip.to?.degrees().0)),
        floats(trips, |trip| Some(trip.to?.degrees().1)),
    ]
}

fn amounts(trips: &[Trip]) -> [ArrayRef; 10] {
    [
        integers(trips, |trip| trip.passengers.map(i64::from)),
        hundredths(trips, |trip| trip.distance),
        hundredths(trips, |trip| Some(trip.amounts?.fare)),
        hundredths(trips, |trip| Some(trip.amounts?.extra)),
        hundredths(trips, |trip| trip.amounts?.mta_tax),
        hundredths(trips, |trip| Some(trip.amounts?.tip)),
        hundredths(trips, |trip| Some(trip.amounts?.tolls)),
        floats(trips, |_| None),
        hundredths(trips, |trip| trip.amounts?.surcharge),
        hundredths(trips, |trip| Some(trip.amounts?.total())),
    ]
}

fn weather(generator: &Generator, trips: &[Trip]) -> [ArrayRef; 6] {
    let weather = |trip: &Trip| &generator.calendar.day(trip.pickup).weather;
    [
        hundredths(trips, |trip| Some(weather(trip).precipitation)),
        hundredths(trips, |trip| Some(weather(trip).snow_depth * 10)),
        hundredths(trips, |trip| Some(weather(trip).snowfall * 10)),
        integers(trips, |trip| Some(i64::from(weather(trip).max_temperature))),
        integers(trips, |trip| Some(i64::from(weather(trip).min_temperature))),
        hundredths(trips, |trip| Some(weather(trip).wind)),
    ]
}

fn zone<'a>(trips: &'a [Trip], tract: impl Fn(&'a Trip) -> Option<&'a Tract>) -> [ArrayRef; 10] {
    let census = |trip: &'a Trip| tract(trip).and_then(|tract| tract.census.as_ref());
    [
        integers(trips, |trip| Some(i64::from(tract(trip)?.gid))),
        floats(trips, |trip| Some(census(trip)?.label)),
        integers(trips, |trip| Some(i64::from(census(trip)?.borough))),
        strings(trips, |trip| Some(tract(trip)?.borough)),
        strings(trips, |trip| Some(census(trip)?.tract.as_str())),
        integers(trips, |trip| Some(census(trip)?.borough_and_tract)),
        strings(trips, |trip| Some(census(trip)?.eligible)),
        strings(trips, |trip| Some(tract(trip)?.neighbourhood_code)),
        strings(trips, |trip| Some(tract(trip)?.neighbourhood)),
        integers(trips, |trip| Some(i64::from(census(trip)?.puma))),
    ]
}
