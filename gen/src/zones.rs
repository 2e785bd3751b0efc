//! Where trips begin and end: 2,167 census tracts in the 185 neighbourhoods of New York.
//!
//! `tracts.csv` holds the tracts that the public sample names, with the median coordinates seen
//! there, and invented ones in the same pattern in place of those that it does not name. The last
//! four columns are relative popularity, for yellow and for other cabs. `neighbourhoods.csv` maps
//! the codes of neighbourhoods to their names.

use crate::random::Random;

/// The tract of John F. Kennedy airport.
pub(crate) const KENNEDY: i32 = 2056;
/// Newark airport: the one tract outside the city, and without a census number.
pub(crate) const NEWARK: i32 = 2167;

/// A census tract.
#[derive(Clone, Debug)]
pub(crate) struct Tract {
    /// `nyct2010_gid`.
    pub(crate) gid: i32,
    /// Absent outside the city.
    pub(crate) census: Option<Census>,
    /// The name of the borough.
    pub(crate) borough: &'static str,
    pub(crate) neighbourhood_code: &'static str,
    pub(crate) neighbourhood: &'static str,
    /// Of the centre.
    pub(crate) longitude: f64,
    /// Of the centre.
    pub(crate) latitude: f64,
    /// The ten columns of a tract as CSV.
    pub(crate) csv: Vec<u8>,
}

/// A tract's census numbers.
#[derive(Clone, Debug)]
pub(crate) struct Census {
    /// `383.02` is tract 383, part 02.
    pub(crate) label: f64,
    /// 1 to 5.
    pub(crate) borough: u8,
    /// The label as six digits.
    pub(crate) tract: String,
    /// The digits of borough and tract as one number.
    pub(crate) borough_and_tract: i64,
    /// `E` or `I`.
    pub(crate) eligible: &'static str,
    /// The public use microdata area.
    pub(crate) puma: i32,
}

/// Draws tracts by popularity, from accumulated weights.
struct Popularity(Vec<u64>);

impl Popularity {
    fn draw(&self, random: &mut Random) -> u16 {
        let total = self.0.last().copied().unwrap_or(1);
        let wanted = random.integer_below(total.max(1));
        self.0.partition_point(|&sum| sum <= wanted) as u16
    }
}

/// All tracts, and how often trips begin and end in each.
pub(crate) struct Zones {
    tracts: Vec<Tract>,
    /// Popularity of pickups and of drop-offs.
    yellow: [Popularity; 2],
    /// The same for other cabs.
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

    /// The tract of an index that [`Zones::pickup`] or [`Zones::dropoff`] has drawn.
    pub(crate) fn get(&self, index: u16) -> &Tract {
        &self.tracts[usize::from(index)]
    }

    /// Draws where a trip begins.
    pub(crate) fn pickup(&self, random: &mut Random, yellow: bool) -> u16 {
        let [pickups, _] = if yellow { &self.yellow } else { &self.other };
        pickups.draw(random)
    }

    /// Draws where a trip from `pickup` ends. Of several draws the nearest is taken, since most
    /// rides are short.
    pub(crate) fn dropoff(&self, random: &mut Random, yellow: bool, pickup: u16) -> u16 {
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
    let neighbourhood_code = fields.next()?;
    let puma = fields.next()?.parse().unwrap_or(0);
    let longitude = fields.next()?.parse::<f64>().ok()? / 1e6;
    let latitude = fields.next()?.parse::<f64>().ok()? / 1e6;
    let mut weights = [0; 4];
    for weight in &mut weights {
        *weight = fields.next()?.parse().ok()?;
    }
    let neighbourhood = names.iter().find(|pair| pair.0 == neighbourhood_code)?.1;
    let boroughs = ["New Jersey", "Manhattan", "Bronx", "Brooklyn", "Queens", "Staten Island"];
    let borough_name: &str = boroughs.get(usize::from(borough))?;
    let census = if label.is_empty() {
        None
    } else {
        let (number, part) = label.split_once('.').unwrap_or((label, "00"));
        let tract = format!("{number:0>4}{part}");
        let borough_and_tract = format!("{borough}{tract}").parse().ok()?;
        let label = label.parse().ok()?;
        Some(Census { label, borough, tract, borough_and_tract, eligible, puma })
    };
    let csv = match &census {
        None => format!("{gid},,,{borough_name},,,,{neighbourhood_code},{neighbourhood},"),
        Some(Census { tract, borough_and_tract, .. }) => format!(
            "{gid},{label},{borough},{borough_name},{tract},{borough_and_tract},{eligible},\
             {neighbourhood_code},{neighbourhood},{puma}"
        ),
    };
    let tract = Tract {
        gid,
        census,
        borough: borough_name,
        neighbourhood_code,
        neighbourhood,
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
        assert!(
            zones
                .tracts
                .iter()
                .any(|tract| tract.gid == KENNEDY && tract.neighbourhood_code == "QN98")
        );
        assert!(zones.tracts.iter().any(|tract| tract.gid == NEWARK && tract.census.is_none()));
    }
}
