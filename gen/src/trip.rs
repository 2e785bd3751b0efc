//! A trip: the row that everything else makes or writes.

use crate::fares::Amounts;

/// The kind of cab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cab {
    /// The common one.
    Yellow,
    /// Outside the centre, since August 2013.
    Green,
    /// Known for two periods, and only with its pickups.
    Uber,
    /// Other hired vehicles, in 2015.
    Fhv,
}

impl Cab {
    /// The value of `cab_type`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cab::Yellow => "yellow",
            Cab::Green => "green",
            Cab::Uber => "uber",
            Cab::Fhv => "fhv",
        }
    }
}

/// A place, in one of the two precisions that meters report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Point {
    /// Longitude and latitude as 32-bit floats, written with fifteen decimals.
    Single(f32, f32),
    /// Longitude and latitude in millionths of degrees.
    Micro(i32, i32),
}

impl Point {
    /// Longitude and latitude.
    pub(crate) fn degrees(self) -> (f64, f64) {
        match self {
            Point::Single(longitude, latitude) => (f64::from(longitude), f64::from(latitude)),
            // Division gives the double nearest to the decimal, as parsing its text does.
            Point::Micro(longitude, latitude) => {
                (f64::from(longitude) / 1e6, f64::from(latitude) / 1e6)
            }
        }
    }
}

/// A trip. What is `None` is null.
#[derive(Clone, Debug)]
pub(crate) struct Trip {
    /// Rises strictly, with small gaps.
    pub(crate) id: i64,
    /// The company that made the meter.
    pub(crate) vendor: Option<&'static str>,
    /// In seconds since 1970.
    pub(crate) pickup: i64,
    /// In seconds since 1970.
    pub(crate) dropoff: Option<i64>,
    /// `Y` or `N`.
    pub(crate) stored_before_sent: Option<&'static str>,
    pub(crate) rate_code: Option<u8>,
    /// Where it began.
    pub(crate) from: Option<Point>,
    /// Where it ended.
    pub(crate) to: Option<Point>,
    pub(crate) passengers: Option<u8>,
    /// In hundredths of miles.
    pub(crate) distance: Option<i32>,
    pub(crate) amounts: Option<Amounts>,
    /// In the spelling of vendor and year.
    pub(crate) payment: Option<&'static str>,
    /// Of green cabs: 1 is hailed, 2 is ordered.
    pub(crate) trip_type: Option<u8>,
    pub(crate) cab: Cab,
    /// The tract where it began, as an index into the zones.
    pub(crate) from_zone: Option<u16>,
    /// The tract where it ended.
    pub(crate) to_zone: Option<u16>,
}

impl Trip {
    /// A trip with a pickup and nothing else yet.
    pub(crate) fn new(id: i64, pickup: i64, cab: Cab) -> Self {
        Trip {
            id,
            vendor: None,
            pickup,
            dropoff: None,
            stored_before_sent: None,
            rate_code: None,
            from: None,
            to: None,
            passengers: None,
            distance: None,
            amounts: None,
            payment: None,
            trip_type: None,
            cab,
            from_zone: None,
            to_zone: None,
        }
    }
}
