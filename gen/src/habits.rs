//! How often each choice is made: cabs, vendors, passengers and payments, and how their spelling
//! changed over the years.

use crate::calendar::Day;
use crate::random::Random;
use crate::trip::Cab;
use crate::zones::{KENNEDY, NEWARK, Tract};

/// The kind of cab. Green ones came in August 2013; the others are known for some months only.
pub(crate) fn cab(random: &mut Random, day: &Day) -> Cab {
    let month = u32::from(day.month);
    let (green, uber, fhv) = match (day.year, month) {
        (2013, 8..) => ([2, 10, 20, 30, 45][(month - 8) as usize % 5], 0, 0),
        (2014, 4..=9) => (60 + 3 * month, 50, 0),
        (2014, _) => (60 + 3 * month, 0, 0),
        (2015, 1..=6) => (100, 105, 20),
        (2015, _) => (105, 0, 30),
        _ => return Cab::Yellow,
    };
    match random.integer_below(1_000) as u32 {
        n if n < green => Cab::Green,
        n if n < green + uber => Cab::Uber,
        n if n < green + uber + fhv => Cab::Fhv,
        _ => Cab::Yellow,
    }
}

/// The company that made the meter. Numbers replaced names in 2015.
pub(crate) fn vendor(random: &mut Random, yellow: bool, year: u16) -> &'static str {
    match (yellow, year) {
        (true, ..=2010) => random.pick(&[(46, "CMT"), (49, "VTS"), (5, "DDS")]),
        (true, ..=2014) => random.pick(&[(49, "CMT"), (51, "VTS")]),
        (true, _) => random.pick(&[(47, "1"), (53, "2")]),
        (false, ..=2013) => random.pick(&[(73, "1"), (927, "2")]),
        (false, _) => random.pick(&[(22, "1"), (78, "2")]),
    }
}

/// Whether the trip was stored before it was sent, which some meters do not report.
pub(crate) fn stored_before_sent(
    random: &mut Random,
    vendor: &str,
    year: u16,
) -> Option<&'static str> {
    match vendor {
        "DDS" => None,
        "VTS" if year < 2011 => None,
        "VTS" => random.chance(0.7).then_some("N"),
        "CMT" => Some(if random.chance(0.024) { "Y" } else { "N" }),
        "1" => Some(if random.chance(0.017) { "Y" } else { "N" }),
        _ => Some(if random.chance(0.006) { "Y" } else { "N" }),
    }
}

/// The number of passengers, as the driver entered it.
pub(crate) fn passengers(random: &mut Random, vendor: &str) -> u8 {
    match vendor {
        "CMT" | "1" => random.pick(&[(790, 1), (148, 2), (40, 3), (15, 4), (5, 5), (3, 6), (6, 0)]),
        "DDS" => random.pick(&[(700, 1), (170, 2), (60, 3), (40, 4), (30, 5)]),
        "VTS" => random.pick(&[
            (6_420, 1),
            (1_300, 2),
            (430, 3),
            (200, 4),
            (1_180, 5),
            (462, 6),
            (5, 0),
            (2, 7),
            (1, 9),
        ]),
        _ => {
            random.pick(&[(5_870, 1), (1_073, 2), (379, 3), (71, 4), (2_364, 5), (238, 6), (3, 0)])
        }
    }
}

/// How the trip was paid, in the vendor's spelling of that year, and whether by card.
pub(crate) fn payment(
    random: &mut Random,
    yellow: bool,
    vendor: &str,
    year: u16,
) -> (&'static str, bool) {
    let card = match (yellow, year) {
        (true, _) => {
            [270, 380, 480, 530, 560, 590, 630][usize::from(year.clamp(2009, 2015) - 2009)]
        }
        (false, ..=2013) => 310,
        (false, _) => 470,
    };
    let kind = random.pick(&[(card, 0), (994 - card, 1), (4, 2), (2, 3)]);
    let names = match (vendor, year) {
        ("CMT", ..=2010) => ["Credit", "Cash", "No Charge", "Dispute"],
        ("VTS", ..=2010) => ["Credit", "CASH", "CASH", "CASH"],
        ("DDS", _) => ["CREDIT", "CASH", "CASH", "CASH"],
        ("CMT" | "VTS", _) => ["CRD", "CSH", "NOC", "DIS"],
        _ => ["1", "2", "3", "4"],
    };
    (names[kind % 4], kind == 0)
}

/// The rate code. The airports have their own.
pub(crate) fn rate_code(random: &mut Random, from: &Tract, to: &Tract, yellow: bool) -> u8 {
    let manhattan = from.borough == "Manhattan" || to.borough == "Manhattan";
    if manhattan && (from.gid == KENNEDY || to.gid == KENNEDY) && random.chance(0.9) {
        2
    } else if from.gid == NEWARK || to.gid == NEWARK {
        if random.chance(0.75) { 3 } else { 5 }
    } else if random.chance(if yellow { 0.003 } else { 0.027 }) {
        random.pick(&[(82, 5), (5, 4), (5, 99), (8, 3)])
    } else {
        1
    }
}
