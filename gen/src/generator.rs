//! What happened in a trip: a pure function of the seed, the number of rows and files, and the row.

use std::ops::Range;

use crate::calendar::{Calendar, Day};
use crate::fares::{self, FareInputs};
use crate::habits::{cab, passengers, payment, rate_code, stored_before_sent, vendor};
use crate::random::Random;
use crate::trip::{Cab, Point, Trip};
use crate::zones::{Tract, Zones};

/// Makes the trips of any range of rows.
pub struct Generator {
    seed: u64,
    rows: u64,
    files: u64,
    pub(crate) calendar: Calendar,
    pub(crate) zones: Zones,
}

impl Generator {
    /// A generator of `rows` trips that are spread over `files` files.
    pub fn new(seed: u64, rows: u64, files: u64) -> Self {
        Generator {
            seed,
            rows,
            files: files.max(1),
            calendar: Calendar::new(seed),
            zones: Zones::new(),
        }
    }

    /// The number of files.
    pub(crate) fn files(&self) -> u64 {
        self.files
    }

    /// The rows of file number `file`.
    pub(crate) fn file_rows(&self, file: u64) -> Range<u64> {
        let start =
            |file: u64| (u128::from(self.rows) * u128::from(file) / u128::from(self.files)) as u64;
        start(file)..start(file + 1)
    }

    /// The seconds since 1970 in which the trips of a file begin.
    fn file_times(&self, file: u64) -> Range<i64> {
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

    /// The trip of `row`, which begins in `times`, the seconds of its file.
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

    /// Every 256 rows take 258 numbers: two are skipped, as some are in the public data.
    fn id(&self, row: u64) -> i64 {
        let mut random = Random::new(self.seed ^ 0x1d, row / 256);
        let place = row % 256;
        let gaps = u64::from(place >= random.integer_below(256))
            + u64::from(place >= random.integer_below(256));
        (1 + row / 256 * 258 + place + gaps) as i64
    }

    /// Pickups are nearly in order: most rows are where they belong, some are minutes off, and a
    /// few are hours off.
    fn pickup_time(&self, random: &mut Random, row: u64, times: &Range<i64>) -> i64 {
        let base = self.time(row as f64 + random.uniform());
        let shift = match random.integer_below(100) {
            0..45 => 0.0,
            45..95 => random.exponential(400.0),
            _ => random.exponential(9_000.0),
        };
        let shift = if random.chance(0.5) { shift as i64 } else { -(shift as i64) };
        let (time, span) = (base + shift, times.end - times.start);
        // A time beyond the file's is reflected into it.
        if time < times.start {
            times.start + (times.start - time) % span
        } else if time >= times.end {
            times.end - 1 - (time - times.end) % span
        } else {
            time
        }
    }

    /// A ride whose end is unknown.
    fn hired(&self, random: &mut Random, id: i64, pickup: i64, day: &Day, cab: Cab) -> Trip {
        let mut trip = Trip::new(id, pickup, cab);
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
        file_start: i64,
        day: &Day,
        cab: Cab,
    ) -> Trip {
        let yellow = cab == Cab::Yellow;
        let mut trip = Trip::new(id, pickup, cab);
        let vendor = vendor(random, yellow, day.year);
        // These meters reported whole minutes for years.
        let whole_minutes = vendor == "VTS" && day.year < 2013;
        if whole_minutes && pickup - pickup % 60 >= file_start {
            trip.pickup -= pickup % 60;
        }
        // The first months of the green cabs are full of trial runs, which go nowhere.
        let settled = yellow || day.year > 2013;
        let stuck = random.chance(if settled { 0.007 } else { 0.15 });
        let start = self.zones.pickup(random, yellow);
        let end = if stuck { start } else { self.zones.dropoff(random, yellow, start) };
        let (start_tract, end_tract) = (self.zones.get(start), self.zones.get(end));
        let from = scatter(random, start_tract);
        let to = if stuck {
            (from.0 + 2e-5 * random.normal(), from.1 + 2e-5 * random.normal())
        } else {
            scatter(random, end_tract)
        };
        let hour = pickup.rem_euclid(86_400) / 3_600;
        let tenths = matches!(vendor, "CMT" | "1");
        let distance = if stuck { 0 } else { distance(random, from, to, tenths) };
        let duration = duration(random, distance, hour, whole_minutes);
        let manhattan = |tract: &Tract| tract.borough == "Manhattan";
        let rate_code = rate_code(random, start_tract, end_tract, yellow);
        let payment = payment(random, yellow, vendor, day.year);
        let inputs = FareInputs {
            distance,
            duration,
            rate_code,
            month: (day.year, day.month),
            hour,
            workday: day.weekday < 5,
            card: payment.1,
            crosses: manhattan(start_tract) != manhattan(end_tract),
        };
        trip.amounts = Some(fares::charge(random, &inputs));
        trip.vendor = Some(vendor);
        trip.dropoff = Some(trip.pickup + duration);
        trip.stored_before_sent = stored_before_sent(random, vendor, day.year);
        trip.rate_code = (vendor != "VTS" || day.year > 2009).then_some(rate_code);
        trip.passengers = Some(passengers(random, vendor));
        trip.distance = Some(distance);
        trip.payment = Some(payment.0);
        trip.trip_type = match (yellow, day.year) {
            (false, 2014..) => Some(if rate_code == 5 { 2 } else { 1 }),
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
            (trip.from, trip.from_zone) = reported(random, from, start, micro, 0.003);
            (trip.to, trip.to_zone) = reported(random, to, end, micro, 0.006);
        }
        trip
    }
}

/// Longitude and latitude of a place in a tract: near its busiest corner, or anywhere.
fn scatter(random: &mut Random, tract: &Tract) -> (f64, f64) {
    let spread = if random.chance(0.35) { 0.0003 } else { 0.0013 };
    (tract.longitude + spread * random.normal(), tract.latitude + spread * random.normal())
}

/// A place as the meter reports it: now and then far off, and then in no tract.
fn reported(
    random: &mut Random,
    place: (f64, f64),
    zone: u16,
    micro: bool,
    lost: f64,
) -> (Option<Point>, Option<u16>) {
    let lost = random.chance(lost);
    let (longitude, latitude) = if lost {
        (place.0 + 0.4 * random.normal(), place.1 + 0.6 + 0.3 * random.normal())
    } else {
        place
    };
    let point = if micro {
        Point::Micro((longitude * 1e6).round() as i32, (latitude * 1e6).round() as i32)
    } else {
        Point::Single(longitude as f32, latitude as f32)
    };
    (Some(point), (!lost).then_some(zone))
}

/// Hundredths of miles by road. Some meters report only tenths.
fn distance(random: &mut Random, from: (f64, f64), to: (f64, f64), tenths: bool) -> i32 {
    let (east, north) = ((from.0 - to.0) * 0.758, from.1 - to.1);
    let air = (east * east + north * north).sqrt() * 69.0;
    let road = 5.0
        + air
            * 100.0
            * (1.12 + 0.45 * random.uniform() * random.uniform() + 0.1 * random.uniform());
    if tenths { (road / 10.0).round() as i32 * 10 } else { road as i32 }
}

/// Seconds from pickup to drop-off.
fn duration(random: &mut Random, distance: i32, hour: i64, whole_minutes: bool) -> i64 {
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
        // A meter was left running, or a date was taken from the wrong day.
        seconds = random.pick(&[(3, 86_000), (1, 0), (1, seconds - 86_400), (1, 6 * seconds)]);
    }
    if whole_minutes { (seconds / 60 + 1) * 60 } else { seconds }
}
