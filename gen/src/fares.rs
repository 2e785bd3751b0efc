//! What a trip costs: the meter, extras, taxes, tolls and the tip, in cents.

use super::random::Random;

/// What the fare depends on.
pub(super) struct Facts {
    /// Hundredths of miles.
    pub(super) distance: i32,
    /// Seconds.
    pub(super) duration: i64,
    /// Rate code.
    pub(super) rate: u8,
    /// Year and month.
    pub(super) month: (u16, u8),
    /// Hour of pickup.
    pub(super) hour: i64,
    /// Monday to Friday.
    pub(super) workday: bool,
    /// Paid by card, so that the tip is known.
    pub(super) card: bool,
    /// Over a bridge or through a tunnel between Manhattan and elsewhere.
    pub(super) crosses: bool,
}

/// The amounts of a trip, in cents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Money {
    /// By the meter, or agreed.
    pub(crate) fare: i32,
    /// Night or rush hour.
    pub(crate) extra: i32,
    /// State tax; not yet collected in the first months.
    pub(crate) mta_tax: Option<i32>,
    /// Card tips only.
    pub(crate) tip: i32,
    /// Bridges and tunnels.
    pub(crate) tolls: i32,
    /// Since 2015.
    pub(crate) surcharge: Option<i32>,
}

impl Money {
    /// Sum of all parts.
    pub(crate) fn total(&self) -> i32 {
        self.fare
            + self.extra
            + self.mta_tax.unwrap_or(0)
            + self.tip
            + self.tolls
            + self.surcharge.unwrap_or(0)
    }
}

/// The amounts of a trip with these facts.
pub(super) fn charge(random: &mut Random, facts: &Facts) -> Money {
    let fare = meter(random, facts);
    let night = !(6..20).contains(&facts.hour);
    let rush = facts.workday && (16..20).contains(&facts.hour);
    let odd = random.chance(0.03);
    let extra = match (facts.rate, night, rush) {
        (2..=5, ..) => 0,
        _ if odd => random.pick(&[(60, 0), (30, 50), (8, 100), (1, 20), (1, 180)]),
        (_, true, _) => 50,
        (_, _, true) => 100,
        _ => 0,
    };
    let mta_tax = match facts.month {
        month if month < (2009, 11) => None,
        _ if facts.rate == 5 || random.chance(0.008) => Some(0),
        _ => Some(50),
    };
    let surcharge = (facts.month >= (2015, 1)).then(|| if random.chance(0.004) { 0 } else { 30 });
    let tolls = tolls(random, facts);
    let tip = if facts.card { tip(random, fare + extra, tolls) } else { 0 };
    Money { fare, extra, mta_tax, tip, tolls, surcharge }
}

fn meter(random: &mut Random, facts: &Facts) -> i32 {
    // Fares rose in September 2012.
    let risen = facts.month >= (2012, 9);
    let unit = if risen { 50 } else { 40 };
    let miles = f64::from(facts.distance) / 100.0;
    let minutes = facts.duration.clamp(0, 14_400) as f64 / 60.0;
    let units = (5.0 * miles * 0.93 + 0.26 * minutes + 0.3 * random.unit()).ceil() as i32;
    let metered = 250 + unit * (units - 1).max(0);
    match facts.rate {
        2 if risen => 5_200,
        2 => 4_500,
        3 => metered + 1_750,
        5 => {
            100 * random.pick(&[
                (20, 10),
                (20, 15),
                (18, 20),
                (10, 25),
                (9, 30),
                (6, 8),
                (5, 40),
                (4, 50),
                (2, 80),
            ])
        }
        _ if random.chance(0.003) => metered - metered % 25 + 25,
        _ => metered,
    }
}

fn tolls(random: &mut Random, facts: &Facts) -> i32 {
    let tunnel = match facts.month {
        month if month < (2010, 3) => 415,
        month if month < (2010, 12) => 457,
        month if month < (2013, 3) => 480,
        month if month < (2015, 3) => 533,
        _ => 554,
    };
    match facts.rate {
        3 => random.pick(&[(3, 825), (3, 1_025), (2, 1_175), (4, 0)]),
        _ if facts.crosses && facts.distance > 500 && random.chance(0.45) => tunnel,
        _ if random.chance(0.002) => {
            random.pick(&[(4, 2 * tunnel), (3, 244), (1, 750), (1, 1_025), (2, 225)])
        }
        _ => 0,
    }
}

fn tip(random: &mut Random, base: i32, tolls: i32) -> i32 {
    let percent = |share: i32| ((base + tolls) * share + 50) / 100;
    match random.below(100) {
        0..14 => 0,
        14..52 => percent(20),
        52..62 => percent(25),
        62..66 => percent(30),
        66..70 => percent(15),
        // The rest gives a round sum.
        70..96 => ((f64::from(base) * (0.12 + 0.14 * random.unit())) as i32 / 50 * 50).max(50),
        96..99 => (f64::from(base) * 0.4 * random.unit()) as i32,
        _ => 100 * (1 + random.below(20) as i32),
    }
}
