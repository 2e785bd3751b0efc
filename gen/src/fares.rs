//! What a trip costs, in cents: the meter, extras, taxes, tolls and the tip.

use crate::random::Random;

/// What the amounts of a trip depend on.
pub(crate) struct FareInputs {
    /// In hundredths of miles.
    pub(crate) distance: i32,
    /// In seconds.
    pub(crate) duration: i64,
    pub(crate) rate_code: u8,
    /// Year and month of the pickup.
    pub(crate) month: (u16, u8),
    /// Hour of the pickup.
    pub(crate) hour: i64,
    /// Whether it is Monday to Friday.
    pub(crate) workday: bool,
    /// Whether the trip is paid by card, so that the tip is known.
    pub(crate) card: bool,
    /// Whether one end is in Manhattan and the other is not: the way leads over a bridge or through
    /// a tunnel.
    pub(crate) crosses: bool,
}

/// The amounts of a trip, in cents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Amounts {
    /// What the meter shows, or an agreed price.
    pub(crate) fare: i32,
    /// The surcharge at night and in the rush hour.
    pub(crate) extra: i32,
    /// The state tax, which was not collected in the first months.
    pub(crate) mta_tax: Option<i32>,
    /// Only tips paid by card are recorded.
    pub(crate) tip: i32,
    /// For bridges and tunnels.
    pub(crate) tolls: i32,
    /// The improvement surcharge, since 2015.
    pub(crate) surcharge: Option<i32>,
}

impl Amounts {
    /// The sum of all parts.
    pub(crate) fn total(&self) -> i32 {
        self.fare
            + self.extra
            + self.mta_tax.unwrap_or(0)
            + self.tip
            + self.tolls
            + self.surcharge.unwrap_or(0)
    }
}

/// Draws the amounts of a trip.
pub(crate) fn charge(random: &mut Random, inputs: &FareInputs) -> Amounts {
    let fare = meter(random, inputs);
    let night = !(6..20).contains(&inputs.hour);
    let rush = inputs.workday && (16..20).contains(&inputs.hour);
    let odd = random.chance(0.03);
    let extra = match (inputs.rate_code, night, rush) {
        (2..=5, ..) => 0,
        _ if odd => random.pick(&[(60, 0), (30, 50), (8, 100), (1, 20), (1, 180)]),
        (_, true, _) => 50,
        (_, _, true) => 100,
        _ => 0,
    };
    let mta_tax = match inputs.month {
        month if month < (2009, 11) => None,
        _ if inputs.rate_code == 5 || random.chance(0.008) => Some(0),
        _ => Some(50),
    };
    let surcharge = (inputs.month >= (2015, 1)).then(|| if random.chance(0.004) { 0 } else { 30 });
    let tolls = tolls(random, inputs);
    let tip = if inputs.card { tip(random, fare + extra, tolls) } else { 0 };
    Amounts { fare, extra, mta_tax, tip, tolls, surcharge }
}

fn meter(random: &mut Random, inputs: &FareInputs) -> i32 {
    // Fares rose in September 2012.
    let risen = inputs.month >= (2012, 9);
    let unit = if risen { 50 } else { 40 };
    let miles = f64::from(inputs.distance) / 100.0;
    let minutes = inputs.duration.clamp(0, 14_400) as f64 / 60.0;
    let units = (5.0 * miles * 0.93 + 0.26 * minutes + 0.3 * random.uniform()).ceil() as i32;
    let metered = 250 + unit * (units - 1).max(0);
    match inputs.rate_code {
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

fn tolls(random: &mut Random, inputs: &FareInputs) -> i32 {
    let tunnel = match inputs.month {
        month if month < (2010, 3) => 415,
        month if month < (2010, 12) => 457,
        month if month < (2013, 3) => 480,
        month if month < (2015, 3) => 533,
        _ => 554,
    };
    match inputs.rate_code {
        3 => random.pick(&[(3, 825), (3, 1_025), (2, 1_175), (4, 0)]),
        _ if inputs.crosses && inputs.distance > 500 && random.chance(0.45) => tunnel,
        _ if random.chance(0.002) => {
            random.pick(&[(4, 2 * tunnel), (3, 244), (1, 750), (1, 1_025), (2, 225)])
        }
        _ => 0,
    }
}

fn tip(random: &mut Random, base: i32, tolls: i32) -> i32 {
    let percent = |share: i32| ((base + tolls) * share + 50) / 100;
    match random.integer_below(100) {
        0..14 => 0,
        14..52 => percent(20),
        52..62 => percent(25),
        62..66 => percent(30),
        66..70 => percent(15),
        // Most of the others give a round sum.
        70..96 => ((f64::from(base) * (0.12 + 0.14 * random.uniform())) as i32 / 50 * 50).max(50),
        96..99 => (f64::from(base) * 0.4 * random.uniform()) as i32,
        _ => 100 * (1 + random.integer_below(20) as i32),
    }
}
