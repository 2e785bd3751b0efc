//! When trips happen, 2009 to 2015, and the weather of each day.
//!
//! The density follows the hour of the day, the day of the week, the season and the real yearly
//! volumes; a row's position among all rows is turned into a time through the accumulated density.

use super::random::Random;

/// 2009-01-01, in days since 1970.
const FIRST_DAY: i64 = 14_245;
/// Days from 2009-01-01 to 2015-12-31.
const DAYS: i64 = 2_556;
/// Days after the last pickup that a drop-off may fall on.
const SPARE_DAYS: i64 = 4;
/// Millions of trips a year, 2009 to 2015.
const VOLUME: [f64; 7] = [171.0, 169.0, 177.0, 178.0, 174.0, 181.0, 179.0];
/// Share of a day's trips by hour.
const HOURS: [f64; 24] = [
    40.0, 29.0, 21.5, 15.5, 12.0, 10.0, 21.0, 37.0, 46.0, 47.0, 46.0, 47.5, 50.0, 50.0, 51.5, 49.0,
    42.5, 51.0, 62.0, 63.0, 60.0, 59.0, 57.0, 50.0,
];
/// Monday to Sunday.
const WEEK: [f64; 7] = [0.90, 0.96, 1.0, 1.03, 1.07, 1.08, 0.96];

/// A calendar day.
#[derive(Clone, Debug)]
pub(crate) struct Day {
    /// Year.
    pub(crate) year: u16,
    /// Month, 1 to 12.
    pub(crate) month: u8,
    /// 0 is Monday.
    pub(crate) weekday: u8,
    /// `YYYY-MM-DD`.
    pub(crate) date: [u8; 10],
    /// The weather.
    pub(crate) weather: Weather,
}

/// The weather of a day, as in the columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weather {
    /// Hundredths of inches.
    pub(crate) precipitation: i32,
    /// Tenths of inches on the ground.
    pub(crate) snow_depth: i32,
    /// Tenths of inches fallen.
    pub(crate) snowfall: i32,
    /// °F.
    pub(crate) max_temperature: i32,
    /// °F.
    pub(crate) min_temperature: i32,
    /// Hundredths of miles an hour.
    pub(crate) wind: i32,
}

/// Seven years of days, and the density of trips over them.
pub(crate) struct Calendar {
    days: Vec<Day>,
    /// Accumulated density at the end of each hour.
    density: Vec<f64>,
}

impl Calendar {
    /// The calendar with the weather of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let mut days = Vec::with_capacity((DAYS + SPARE_DAYS) as usize);
        let mut snow = 0;
        for number in 0..DAYS + SPARE_DAYS {
            let day = day(seed, number, snow);
            snow = day.weather.snow_depth;
            days.push(day);
        }
        let mut density = Vec::with_capacity(DAYS as usize * 24);
        let mut sum = 0.0;
        for (number, day) in days.iter().take(DAYS as usize).enumerate() {
            let year =
                VOLUME.get(usize::from(day.year.saturating_sub(2009))).copied().unwrap_or(170.0);
            let season = 1.0 + 0.07 * (f64::from(day.month) * 1.05).cos();
            let noise = 0.94 + 0.12 * Random::new(seed ^ 0x5eed, number as u64).unit();
            let week = WEEK.get(usize::from(day.weekday)).copied().unwrap_or(1.0);
            for hour in HOURS {
                sum += year * season * noise * week * hour;
                density.push(sum);
            }
        }
        Calendar { days, density }
    }

    /// The time, in seconds since 1970, at which `position` (0 to 1) of all trips have begun.
    pub(crate) fn time(&self, position: f64) -> i64 {
        let total = self.density.last().copied().unwrap_or(1.0);
        let wanted = position.clamp(0.0, 1.0) * total;
        let hour = self
            .density
            .partition_point(|&sum| sum <= wanted)
            .min(self.density.len().saturating_sub(1));
        let before =
            hour.checked_sub(1).and_then(|at| self.density.get(at)).copied().unwrap_or(0.0);
        let after = self.density.get(hour).copied().unwrap_or(total);
        let within = ((wanted - before) / (after - before)).clamp(0.0, 1.0);
        FIRST_DAY * 86_400 + hour as i64 * 3_600 + (within * 3_600.0) as i64
    }

    /// The day of a time; times outside the calendar fall on its first or last day.
    pub(crate) fn day(&self, time: i64) -> &Day {
        let number = (time.div_euclid(86_400) - FIRST_DAY).clamp(0, self.days.len() as i64 - 1);
        &self.days[number as usize]
    }
}

/// Year, month and day of a day since 1970 (the proleptic Gregorian calendar, counted in 400-year
/// eras from March).
fn civil(days: i64) -> (u16, u8, u8) {
    let shifted = days + 719_468;
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + shifted.div_euclid(146_097) * 400 + i64::from(month <= 2);
    (year as u16, month as u8, day as u8)
}

fn day(seed: u64, number: i64, snow_before: i32) -> Day {
    let (year, month, day) = civil(FIRST_DAY + number);
    let mut date = *b"0000-00-00";
    let digits =
        [year / 1000, year / 100, year / 10, year, u16::from(month / 10), u16::from(month)];
    let digits = digits.into_iter().chain([u16::from(day / 10), u16::from(day)]);
    for (place, digit) in [0, 1, 2, 3, 5, 6, 8, 9].into_iter().zip(digits) {
        date[place] = b'0' + (digit % 10) as u8;
    }
    // 2009-01-01 was a Thursday.
    let weekday = ((number + 3) % 7) as u8;
    Day { year, month, weekday, date, weather: weather(seed, number, snow_before) }
}

fn weather(seed: u64, number: i64, snow_before: i32) -> Weather {
    // Days of one week resemble each other: part of the deviation is drawn per four days.
    let mut spell = Random::new(seed ^ 0x77ea, (number / 4) as u64);
    let mut random = Random::new(seed ^ 0x77eb, number as u64);
    let season = -((number as f64 - 24.0) / 365.25 * std::f64::consts::TAU).cos();
    let high = 62.5 + 22.5 * season + 6.0 * spell.normal() + 4.5 * random.normal();
    let low = high - 8.0 - 8.0 * random.unit() - 2.0 * season;
    let rain = if random.chance(0.34) { (random.exponential(36.0) as i32 + 1).min(600) } else { 0 };
    let snowfall = if high < 39.0 { rain * 9 / 10 } else { 0 };
    let melted = if high > 34.0 { snow_before * 6 / 10 } else { snow_before * 9 / 10 };
    // Stations report tenths of metres a second.
    let metres = (6.0 + random.exponential(9.0) + 8.0 * random.unit()).round();
    Weather {
        precipitation: rain,
        snow_depth: melted / 4 * 4 + snowfall / 12 * 12,
        snowfall,
        max_temperature: high.round() as i32,
        min_temperature: low.round() as i32,
        wind: (metres * 22.369_36).round() as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(FIRST_DAY), (2009, 1, 1));
        assert_eq!(civil(FIRST_DAY + DAYS - 1), (2015, 12, 31));
        let calendar = Calendar::new(1);
        let leap = calendar.day(1_330_516_800);
        assert_eq!((&leap.date, leap.weekday), (b"2012-02-29", 2));
    }

    #[test]
    fn time_rises_with_position() {
        let calendar = Calendar::new(1);
        let times: Vec<i64> =
            (0..=1000).map(|step| calendar.time(f64::from(step) / 1000.0)).collect();
        assert!(times.is_sorted());
        assert_eq!(times[0], FIRST_DAY * 86_400);
        assert_eq!(times[1000], (FIRST_DAY + DAYS) * 86_400);
    }
}
