//! Where trips begin and end: 2,167 census tracts in 185 neighbourhoods of New York.
//!
//! `tracts.csv` holds the tracts that the public sample names, with the medians of the coordinates
//! seen there, and, for those it does not name, made-up ones in the same pattern. The last four
//! columns are relative popularity, for yellow and for other cabs. `neighbourhoods.csv` maps the
//! codes of neighbourhoods to their names.

use super::random::Random;

/// Tract of John F. Kennedy airport.
pub(crate) const KENNEDY: i32 = 2056;
/// The one tract outside the city, without a census number: Newark airport.
pub(crate) const NEWARK: i32 = 2167;

/// A census tract.
#[derive(Clone, Debug)]
pub(crate) struct Tract {
    /// `nyct2010_gid`.
    pub(crate) gid: i32,
    /// The number of the tract, `383.02`; absent outside the city.
    pub(crate) census: Option<Census>,
    /// Name of the borough.
    pub(crate) borough: &'static str,
    /// Code of the neighbourhood.
    pub(crate) code: &'static str,
    /// Name of the neighbourhood.
    pub(crate) name: &'static str,
    /// Longitude of the centre.
    pub(crate) longitude: f64,
    /// Latitude of the centre.
    pub(crate) latitude: f64,
    /// The ten columns as CSV.
    pub(crate) csv: Vec<u8>,
}

/// What the census says of a tract.
#[derive(Clone, Debug)]
pub(crate) struct Census {
    /// The label as a number.
    pub(crate) label: f64,
    /// 1 to 5.
    pub(crate) borough: u8,
    /// Six digits.
    pub(crate) tract: String,
    /// Borough and tract.
    pub(crate) whole: i64,
    /// `E` or `I`.
    pub(crate) eligible: &'static str,
    /// Public use microdata area.
    pub(crate) puma: i32,
}

/// Tracts drawn by popularity: accumulated weights.
struct Popularity(Vec<u64>);

impl Popularity {
    fn draw(&self, random: &mut Random) -> u16 {
        let total = self.0.last().copied().unwrap_or(1);
        let wanted = random.below(total.max(1));
        self.0.partition_point(|&sum| sum <= wanted) as u16
    }
}

/// All tracts, and how often trips begin and end there.
pub(crate) struct Zones {
    tracts: Vec<Tract>,
    yellow: [Popularity; 2],
    other: [Popularity; 2],
}

impl Zones {
    /// Reads the tables of tracts.
    pub(crate) fn new() -> Self {
        let names: Vec<(&str, &str)> = include_str!("neighbourhoods.csv")
            .lines()
            .filter_map(|line| line.split_once(','))
            .collect();
        let mut tracts = Vec::new();
        let mut sums: [Vec<u64>; 4] = Default::default();
        for line in include_str!("tracts.csv").lines().skip(1) {
            let Some((tract, weights)) = parse(line, &names) else { continue };
            tracts.push(tract);
            for (sums, weight) in sums.iter_mut().zip(weights) {
                sums.push(sums.last().copied().unwrap_or(0) + weight);
            }
        }
        let [a, b, c, d] = sums.map(Popularity);
        Zones { tracts, yellow: [a, b], other: [c, d] }
    }

    /// The tract at `index`, as drawn.
    pub(crate) fn get(&self, index: u16) -> &Tract {
        &self.tracts[usize::from(index)]
    }

    /// Where a trip begins.
    pub(super) fn pickup(&self, random: &mut Random, yellow: bool) -> u16 {
        let [pickups, _] = if yellow { &self.yellow } else { &self.other };
        pickups.draw(random)
    }

    /// Where a trip from `pickup` ends: people rather ride to places nearby.
    pub(super) fn dropoff(&self, random: &mut Random, yellow: bool, pickup: u16) -> u16 {
        let [_, dropoffs] = if yellow { &self.yellow } else { &self.other };
        let from = self.get(pickup);
        let draws = if random.chance(0.18) {
            1
        } else if yellow {
            3
        } else {
            10
        };
        let distance = |to: &Tract| {
            let east = (to.longitude - from.longitude) * 0.758;
            let north = to.latitude - from.latitude;
            east * east + north * north
        };
        let mut best = dropoffs.draw(random);
        for _ in 1..draws {
            let next = dropoffs.draw(random);
            if distance(self.get(next)) < distance(self.get(best)) {
                best = next;
            }
        }
        best
    }
}

fn parse(line: &'static str, names: &[(&'static str, &'static str)]) -> Option<(Tract, [u64; 4])> {
    let mut fields = line.split(',');
    let gid: i32 = fields.next()?.parse().ok()?;
    let label = fields.next()?;
    let borough: u8 = fields.next()?.parse().unwrap_or(0);
    let eligible = fields.next()?;
    let code = fields.next()?;
    let puma = fields.next()?.parse().unwrap_or(0);
    let longitude = fields.next()?.parse::<f64>().ok()? / 1e6;
    let latitude = fields.next()?.parse::<f64>().ok()? / 1e6;
    let mut weights = [0; 4];
    for weight in &mut weights {
        *weight = fields.next()?.parse().ok()?;
    }
    let name = names.iter().find(|pair| pair.0 == code)?.1;
    let boroughs = ["New Jersey", "Manhattan", "Bronx", "Brooklyn", "Queens", "Staten Island"];
    let borough_name: &str = boroughs.get(usize::from(borough))?;
    let census = if label.is_empty() {
        None
    } else {
        let (number, part) = label.split_once('.').unwrap_or((label, "00"));
        let tract = format!("{number:0>4}{part}");
        let whole = format!("{borough}{tract}").parse().ok()?;
        Some(Census { label: label.parse().ok()?, borough, tract, whole, eligible, puma })
    };
    let csv = match &census {
        None => format!("{gid},,,{borough_name},,,,{code},{name},"),
        Some(c) => {
            let (tract, whole) = (&c.tract, c.whole);
            format!(
                "{gid},{label},{borough},{borough_name},{tract},{whole},{eligible},{code},{name},{puma}"
            )
        }
    };
    let tract = Tract {
        gid,
        census,
        borough: borough_name,
        code,
        name,
        longitude,
        latitude,
        csv: csv.into_bytes(),
    };
    Some((tract, weights))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tract_is_read() {
        let zones = Zones::new();
        assert_eq!(zones.tracts.len(), 2167);
        assert!(
            zones.tracts.iter().all(|tract| tract.csv.iter().filter(|&&b| b == b',').count() == 9)
        );
        assert!(zones.tracts.iter().any(|tract| tract.gid == KENNEDY && tract.code == "QN98"));
        assert!(zones.tracts.iter().any(|tract| tract.gid == NEWARK && tract.census.is_none()));
    }
}
