//! What happened in a trip: a pure function of seed, number of rows and row.

use std::ops::Range;

use super::calendar::{Calendar, Day};
use super::fares::{self, Facts, Money};
use super::habits::{cab, passengers, payment, rate_code, stored, vendor};
use super::random::Random;
use super::zones::{Tract, Zones};

/// Makes trips; see [`Generator::trip`].
pub(crate) struct Generator {
    seed: u64,
    rows: u64,
    files: u64,
    pub(super) calendar: Calendar,
    pub(super) zones: Zones,
}

/// Kind of cab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cab {
    /// The common one.
    Yellow,
    /// Outside the centre, since August 2013.
    Green,
    /// Two periods, pickups only.
    Uber,
    /// Other hired vehicles, 2015.
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

/// A place, in one of the two precisions in which meters reported it.
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
            // Dividing gives the double nearest to the decimal, which is what parsing its text
            // gives.
            Point::Micro(longitude, latitude) => {
                (f64::from(longitude) / 1e6, f64::from(latitude) / 1e6)
            }
        }
    }
}

/// A trip; what is absent is null.
#[derive(Clone, Debug)]
pub(crate) struct Trip {
    /// Rises strictly, with small gaps.
    pub(crate) id: i64,
    /// Company that made the meter.
    pub(crate) vendor: Option<&'static str>,
    /// Seconds since 1970.
    pub(crate) pickup: i64,
    /// Seconds since 1970.
    pub(crate) dropoff: Option<i64>,
    /// `Y`, `N`.
    pub(crate) stored: Option<&'static str>,
    /// Rate code.
    pub(crate) rate: Option<u8>,
    /// Where it began.
    pub(crate) from: Option<Point>,
    /// Where it ended.
    pub(crate) to: Option<Point>,
    /// Passengers.
    pub(crate) passengers: Option<u8>,
    /// Hundredths of miles.
    pub(crate) distance: Option<i32>,
    /// Amounts.
    pub(crate) money: Option<Money>,
    /// Spelled in the way of vendor and year.
    pub(crate) payment: Option<&'static str>,
    /// Hailed or ordered (green cabs).
    pub(crate) trip_type: Option<u8>,
    /// Cab.
    pub(crate) cab: Cab,
    /// Tract where it began.
    pub(crate) from_zone: Option<u16>,
    /// Tract where it ended.
    pub(crate) to_zone: Option<u16>,
}

impl Generator {
    /// A generator of `rows` trips spread over `files` files.
    pub(crate) fn new(seed: u64, rows: u64, files: u64) -> Self {
        Generator {
            seed,
            rows,
            files: files.max(1),
            calendar: Calendar::new(seed),
            zones: Zones::new(),
        }
    }

    /// Number of files.
    pub(crate) fn files(&self) -> u64 {
        self.files
    }

    /// Rows of file `file`.
    pub(crate) fn file_rows(&self, file: u64) -> Range<u64> {
        let start =
            |file: u64| (u128::from(self.rows) * u128::from(file) / u128::from(self.files)) as u64;
        start(file)..start(file + 1)
    }

    /// First second of file `file`, and the first one after it.
    pub(crate) fn file_times(&self, file: u64) -> Range<i64> {
        let rows = self.file_rows(file);
        let start = self.time(rows.start as f64);
        start..self.time(rows.end as f64).max(start + 1)
    }

    fn time(&self, row: f64) -> i64 {
        self.calendar.time(row / (self.rows.max(1)) as f64)
    }

    /// The trips of `rows`.
    pub(crate) fn trips(&self, rows: Range<u64>) -> impl Iterator<Item = Trip> {
        let mut times = 0..0;
        let mut end = 0;
        rows.map(move |row| {
            if row >= end {
                let file = self.file_of(row);
                times = self.file_times(file);
                end = self.file_rows(file).end;
            }
            self.trip(row, &times)
        })
    }

    fn file_of(&self, row: u64) -> u64 {
        // The last file that begins at or before the row.
        let (mut low, mut high) = (0, self.files);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.file_rows(middle).start <= row {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The trip of `row`, which begins within `times`.
    fn trip(&self, row: u64, times: &Range<i64>) -> Trip {
        let mut random = Random::new(self.seed, row);
        let id = self.id(row);
        let pickup = self.pickup_time(&mut random, row, times);
        let day = self.calendar.day(pickup);
        let cab = cab(&mut random, day);
        match cab {
            Cab::Yellow | Cab::Green => {
                self.metered(&mut random, id, pickup, times.start, day, cab)
            }
            Cab::Uber | Cab::Fhv => self.hired(&mut random, id, pickup, day, cab),
        }
    }

    /// Each 256 rows take 258 numbers: numbers missing here and there, as in the public data.
    fn id(&self, row: u64) -> i64 {
        let mut random = Random::new(self.seed ^ 0x1d, row / 256);
        let place = row % 256;
        let gaps = u64::from(place >= random.below(256)) + u64::from(place >= random.below(256));
        (1 + row / 256 * 258 + place + gaps) as i64
    }

    /// Nearly in order: most rows where they belong, some minutes off, a few by hours.
    fn pickup_time(&self, random: &mut Random, row: u64, times: &Range<i64>) -> i64 {
        let base = self.time(row as f64 + random.unit());
        let shift = match random.below(100) {
            0..45 => 0.0,
            45..95 => random.exponential(400.0),
            _ => random.exponential(9_000.0),
        };
        let shift = if random.chance(0.5) { shift as i64 } else { -(shift as i64) };
        let (time, span) = (base + shift, times.end - times.start);
        // What leaves the file's time is reflected into it.
        if time < times.start {
            times.start + (times.start - time) % span
        } else if time >= times.end {
            times.end - 1 - (time - times.end) % span
        } else {
            time
        }
    }

    /// A ride of which only the pickup is known.
    fn hired(&self, random: &mut Random, id: i64, pickup: i64, day: &Day, cab: Cab) -> Trip {
        let mut trip = blank(id, pickup, cab);
        if cab == Cab::Uber && day.year == 2014 {
            let zone = self.zones.pickup(random, true);
            let (longitude, latitude) = scatter(random, self.zones.get(zone));
            let coarse = |degrees: f64| (degrees * 1e4).round() as i32 * 100;
            trip.from = Some(Point::Micro(coarse(longitude), coarse(latitude)));
            trip.from_zone = Some(zone);
        }
        trip
    }

    fn metered(
        &self,
        random: &mut Random,
        id: i64,
        pickup: i64,
        from: i64,
        day: &Day,
        cab: Cab,
    ) -> Trip {
        let yellow = cab == Cab::Yellow;
        let mut trip = blank(id, pickup, cab);
        let vendor = vendor(random, yellow, day.year);
        // These meters reported whole minutes for years.
        let minutes = vendor == "VTS" && day.year < 2013;
        if minutes && pickup - pickup % 60 >= from {
            trip.pickup -= pickup % 60;
        }
        // The first months of the green cabs are full of trial runs.
        let settled = yellow || day.year > 2013;
        let stuck = random.chance(if settled { 0.007 } else { 0.15 });
        let start = self.zones.pickup(random, yellow);
        let end = if stuck { start } else { self.zones.dropoff(random, yellow, start) };
        let (begun, ended) = (self.zones.get(start), self.zones.get(end));
        let a = scatter(random, begun);
        let b = if stuck {
            (a.0 + 2e-5 * random.normal(), a.1 + 2e-5 * random.normal())
        } else {
            scatter(random, ended)
        };
        let hour = pickup.rem_euclid(86_400) / 3_600;
        let tenths = matches!(vendor, "CMT" | "1");
        let distance = if stuck { 0 } else { distance(random, a, b, tenths) };
        let duration = duration(random, distance, hour, minutes);
        let manhattan = |tract: &Tract| tract.borough == "Manhattan";
        let rate = rate_code(random, begun, ended, yellow);
        let payment = payment(random, yellow, vendor, day.year);
        let facts = Facts {
            distance,
            duration,
            rate,
            month: (day.year, day.month),
            hour,
            workday: day.weekday < 5,
            card: payment.1,
            crosses: manhattan(begun) != manhattan(ended),
        };
        trip.money = Some(fares::charge(random, &facts));
        trip.vendor = Some(vendor);
        trip.dropoff = Some(trip.pickup + duration);
        trip.stored = stored(random, vendor, day.year);
        trip.rate = (vendor != "VTS" || day.year > 2009).then_some(rate);
        trip.passengers = Some(passengers(random, vendor));
        trip.distance = Some(distance);
        trip.payment = Some(payment.0);
        trip.trip_type = match (yellow, day.year) {
            (false, 2014..) => Some(if rate == 5 { 2 } else { 1 }),
            (false, _) => random.chance(0.001).then_some(1),
            _ => None,
        };
        let unknown = random.chance(match (settled, stuck) {
            (true, _) if yellow => 0.018,
            (true, _) => 0.002,
            (false, true) => 0.35,
            (false, false) => 0.008,
        });
        if !unknown {
            let micro = vendor == "CMT" || vendor == "DDS";
            (trip.from, trip.from_zone) = place(random, a, start, micro, 0.003);
            (trip.to, trip.to_zone) = place(random, b, end, micro, 0.006);
        }
        trip
    }
}

fn blank(id: i64, pickup: i64, cab: Cab) -> Trip {
    Trip {
        id,
        vendor: None,
        pickup,
        dropoff: None,
        stored: None,
        rate: None,
        from: None,
        to: None,
        passengers: None,
        distance: None,
        money: None,
        payment: None,
        trip_type: None,
        cab,
        from_zone: None,
        to_zone: None,
    }
}

/// A place in a tract: near its busiest corner, or anywhere.
fn scatter(random: &mut Random, tract: &Tract) -> (f64, f64) {
    let spread = if random.chance(0.35) { 0.0003 } else { 0.0013 };
    (tract.longitude + spread * random.normal(), tract.latitude + spread * random.normal())
}

/// As reported by the meter: now and then far off, and then in no tract.
fn place(
    random: &mut Random,
    at: (f64, f64),
    zone: u16,
    micro: bool,
    lost: f64,
) -> (Option<Point>, Option<u16>) {
    let lost = random.chance(lost);
    let (longitude, latitude) =
        if lost { (at.0 + 0.4 * random.normal(), at.1 + 0.6 + 0.3 * random.normal()) } else { at };
    let point = if micro {
        Point::Micro((longitude * 1e6).round() as i32, (latitude * 1e6).round() as i32)
    } else {
        Point::Single(longitude as f32, latitude as f32)
    };
    (Some(point), (!lost).then_some(zone))
}

/// Hundredths of miles by road; some meters reported tenths only.
fn distance(random: &mut Random, from: (f64, f64), to: (f64, f64), tenths: bool) -> i32 {
    let (east, north) = ((from.0 - to.0) * 0.758, from.1 - to.1);
    let air = (east * east + north * north).sqrt() * 69.0;
    let road =
        5.0 + air * 100.0 * (1.12 + 0.45 * random.unit() * random.unit() + 0.1 * random.unit());
    if tenths { (road / 10.0).round() as i32 * 10 } else { road as i32 }
}

/// Seconds under way.
fn duration(random: &mut Random, distance: i32, hour: i64, minutes: bool) -> i64 {
    let miles = f64::from(distance) / 100.0;
    let speed = match hour {
        0..6 => 15.5,
        6 | 22.. => 12.5,
        7..16 => 8.2,
        16..20 => 8.0,
        _ => 10.3,
    };
    let speed = speed * (1.0 + 0.075 * miles.min(14.0)) * (0.22 * random.normal()).exp();
    let mut seconds = match distance {
        0 => random.exponential(60.0),
        _ => 40.0 + miles / speed * 3_600.0,
    } as i64;
    if random.chance(0.003) {
        // Meters left running, or a date taken from the wrong day.
        seconds = random.pick(&[(3, 86_000), (1, 0), (1, seconds - 86_400), (1, 6 * seconds)]);
    }
    if minutes { (seconds / 60 + 1) * 60 } else { seconds }
}
