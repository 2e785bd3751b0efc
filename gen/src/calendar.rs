//! When trips happen (2009 to 2015), and the weather of each day.
//!
//! The density of trips follows the hour of the day, the day of the week, the season and the real
//! yearly volumes. The accumulated density turns a row's position among all rows into a time.

use chrono::{Datelike, NaiveDate};

use crate::random::Random;

/// 2009-01-01, in days since 1970.
const FIRST_DAY: i64 = 14_245;
/// Days from 2009-01-01 to 2015-12-31.
const DAYS: i64 = 2_556;
/// Days after the last pickup on which a drop-off may fall.
const SPARE_DAYS: i64 = 4;
/// Millions of trips in each year from 2009 to 2015.
const VOLUME: [f64; 7] = [171.0, 169.0, 177.0, 178.0, 174.0, 181.0, 179.0];
/// The share of a day's trips that begin in each hour.
const HOURS: [f64; 24] = [
    40.0, 29.0, 21.5, 15.5, 12.0, 10.0, 21.0, 37.0, 46.0, 47.0, 46.0, 47.5, 50.0, 50.0, 51.5, 49.0,
    42.5, 51.0, 62.0, 63.0, 60.0, 59.0, 57.0, 50.0,
];
/// The share of a week's trips on each day, Monday to Sunday.
const WEEKDAYS: [f64; 7] = [0.90, 0.96, 1.0, 1.03, 1.07, 1.08, 0.96];

/// A calendar day.
#[derive(Clone, Debug)]
pub(crate) struct Day {
    pub(crate) year: u16,
    /// 1 to 12.
    pub(crate) month: u8,
    /// 0 is Monday.
    pub(crate) weekday: u8,
    /// `YYYY-MM-DD`.
    pub(crate) date: String,
    pub(crate) weather: Weather,
}

/// The weather of a day, in the units of its columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weather {
    /// Hundredths of inches.
    pub(crate) precipitation: i32,
    /// Tenths of inches on the ground.
    pub(crate) snow_depth: i32,
    /// Tenths of inches that fell that day.
    pub(crate) snowfall: i32,
    /// In °F.
    pub(crate) max_temperature: i32,
    /// In °F.
    pub(crate) min_temperature: i32,
    /// Hundredths of miles per hour.
    pub(crate) wind: i32,
}

/// The days of seven years, and the density of trips over them.
pub(crate) struct Calendar {
    days: Vec<Day>,
    /// The density accumulated up to the end of each hour.
    accumulated: Vec<f64>,
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
        let mut accumulated = Vec::with_capacity(DAYS as usize * 24);
        let mut sum = 0.0;
        for (number, day) in days.iter().take(DAYS as usize).enumerate() {
            let year =
                VOLUME.get(usize::from(day.year.saturating_sub(2009))).copied().unwrap_or(170.0);
            let season = 1.0 + 0.07 * (f64::from(day.month) * 1.05).cos();
            let noise = 0.94 + 0.12 * Random::new(seed ^ 0x5eed, number as u64).uniform();
            let week = WEEKDAYS.get(usize::from(day.weekday)).copied().unwrap_or(1.0);
            for hour in HOURS {
                sum += year * season * noise * week * hour;
                accumulated.push(sum);
            }
        }
        Calendar { days, accumulated }
    }

    /// The time, in seconds since 1970, by which the fraction `position` of all trips have begun.
    pub(crate) fn time(&self, position: f64) -> i64 {
        let total = self.accumulated.last().copied().unwrap_or(1.0);
        let wanted = position.clamp(0.0, 1.0) * total;
        let hour = self
            .accumulated
            .partition_point(|&sum| sum <= wanted)
            .min(self.accumulated.len().saturating_sub(1));
        let before =
            hour.checked_sub(1).and_then(|at| self.accumulated.get(at)).copied().unwrap_or(0.0);
        let after = self.accumulated.get(hour).copied().unwrap_or(total);
        let within = ((wanted - before) / (after - before)).clamp(0.0, 1.0);
        FIRST_DAY * 86_400 + hour as i64 * 3_600 + (within * 3_600.0) as i64
    }

    /// The day of a time. Times outside the calendar belong to its first or last day.
    pub(crate) fn day(&self, time: i64) -> &Day {
        let number = (time.div_euclid(86_400) - FIRST_DAY).clamp(0, self.days.len() as i64 - 1);
        &self.days[number as usize]
    }
}

fn day(seed: u64, number: i64, snow_before: i32) -> Day {
    let date = NaiveDate::from_epoch_days((FIRST_DAY + number) as i32).unwrap_or_default();
    Day {
        year: date.year() as u16,
        month: date.month() as u8,
        weekday: date.weekday().num_days_from_monday() as u8,
        date: date.to_string(),
        weather: weather(seed, number, snow_before),
    }
}

fn weather(seed: u64, number: i64, snow_before: i32) -> Weather {
    // Neighbouring days resemble each other, so part of the deviation is drawn once for four days.
    let mut spell = Random::new(seed ^ 0x77ea, (number / 4) as u64);
    let mut random = Random::new(seed ^ 0x77eb, number as u64);
    let season = -((number as f64 - 24.0) / 365.25 * std::f64::consts::TAU).cos();
    let high = 62.5 + 22.5 * season + 6.0 * spell.normal() + 4.5 * random.normal();
    let low = high - 8.0 - 8.0 * random.uniform() - 2.0 * season;
    let rain = if random.chance(0.34) { (random.exponential(36.0) as i32 + 1).min(600) } else { 0 };
    let snowfall = if high < 39.0 { rain * 9 / 10 } else { 0 };
    let melted = if high > 34.0 { snow_before * 6 / 10 } else { snow_before * 9 / 10 };
    // Stations report tenths of metres per second.
    let wind = (6.0 + random.exponential(9.0) + 8.0 * random.uniform()).round();
    Weather {
        precipitation: rain,
        snow_depth: melted / 4 * 4 + snowfall / 12 * 12,
        snowfall,
        max_temperature: high.round() as i32,
        min_temperature: low.round() as i32,
        wind: (wind * 22.369_36).round() as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_seven_years() {
        let calendar = Calendar::new(1);
        let last = calendar.day((FIRST_DAY + DAYS - 1) * 86_400);
        assert_eq!(
            (calendar.days[0].date.as_str(), last.date.as_str()),
            ("2009-01-01", "2015-12-31")
        );
        let leap = calendar.day(1_330_516_800);
        assert_eq!((leap.date.as_str(), leap.weekday), ("2012-02-29", 2));
        assert_eq!((leap.year, leap.month), (2012, 2));
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
