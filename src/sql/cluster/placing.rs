//! Which machine gets which rows of a load. It follows from the description of the cluster and the
//! load's identifier: whoever goes on with a load that has stopped sends the same rows to the same
//! machines.
//!
//! The partitions of a table are each on one machine: where the description puts it, or else where
//! a hash of its path and the machine's name is the largest (rendezvous hashing: Thaler and
//! Ravishankar 1998), so that of a cluster that grows by one machine only its share moves. Segments
//! of a table without partitions go to the machines in turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::description::{ClusterDescription, PlacedTable, Placement};
use crate::ingest::sources::counted::hasher;
use crate::maintain::partitions::is_within;
use crate::manifest::Id;
use crate::sql::run::parts::Node;

/// The places of a table's rows.
#[derive(Debug)]
pub(super) struct Placing {
    /// The machines that have the table.
    pub(super) nodes: Vec<Arc<Node>>,
    /// Partitions whose machine is named, with those inside them.
    pub(super) pinned: BTreeMap<String, String>,
}

impl Placing {
    /// Where rows of a table go, and whether each machine gets all of them.
    pub(super) fn of(description: &ClusterDescription, table: &str) -> (Placing, bool) {
        let (placement, mut nodes) = description.placed(table);
        if placement == Placement::Shared {
            // They have one directory.
            nodes.truncate(1);
        }
        let of_table = description.tables.iter().find(|(name, _)| name.eq_ignore_ascii_case(table));
        let pinned = of_table.map(|(_, PlacedTable { partitions, .. })| partitions.clone());
        let placing = Placing { nodes, pinned: pinned.unwrap_or_default() };
        (placing, placement == Placement::Copies)
    }

    /// The number of the machine that has a partition.
    pub(super) fn of_partition(&self, path: &str) -> usize {
        let pinned = self.pinned.iter().filter(|(pin, _)| is_within(path, pin));
        if let Some((_, name)) = pinned.max_by_key(|(pin, _)| pin.len())
            && let Some(at) = self.nodes.iter().position(|node| *node.name == **name)
        {
            return at;
        }
        let score = |node: &Node| hash([path, &node.name]);
        let best = self.nodes.iter().enumerate().max_by_key(|(_, node)| score(node));
        best.map_or(0, |(at, _)| at)
    }

    /// The number of the machine that has the segment of this number of a load.
    pub(super) fn in_turn(&self, load: Id, segment: usize) -> usize {
        let nodes = self.nodes.len().max(1);
        let first = load.iter().fold(0_usize, |sum, byte| sum.wrapping_add(usize::from(*byte)));
        first.wrapping_add(segment) % nodes
    }
}

fn hash<'t>(texts: impl IntoIterator<Item = &'t str>) -> u128 {
    let mut hasher = hasher();
    for text in texts {
        hasher.write(text.as_bytes());
        hasher.write(&[0xff]);
    }
    hasher.finish_128()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placing(names: &[&str], pins: &[(&str, &str)]) -> Placing {
        let node = |name: &&str| Arc::new(Node::new(name, &format!("http://{name}:1")).unwrap());
        let pinned = pins.iter().map(|(pin, node)| (pin.to_string(), node.to_string()));
        Placing { nodes: names.iter().map(node).collect(), pinned: pinned.collect() }
    }

    #[test]
    fn partitions_spread_and_few_move_when_a_machine_comes() {
        let (three, four) = (placing(&["a", "b", "c"], &[]), placing(&["a", "b", "c", "d"], &[]));
        let (mut counts, mut moved) = ([0; 4], 0);
        for number in 0..1000 {
            let path = format!("day={number}");
            let (before, after) = (three.of_partition(&path), four.of_partition(&path));
            counts[after] += 1;
            moved += usize::from(before != after);
            assert!(before == after || after == 3, "{path} moved between machines that stay");
        }
        assert!(counts.iter().all(|count| (200..300).contains(count)), "{counts:?}");
        assert_eq!(moved, counts[3]);
    }

    #[test]
    fn pins_go_first_and_the_longest_of_them() {
        let pins = [("year=2015", "b"), ("year=2015/month=1", "a"), ("year=201", "a")];
        let placing = placing(&["a", "b"], &pins);
        assert_eq!(placing.of_partition("year=2015/month=2"), 1);
        assert_eq!(placing.of_partition("year=2015"), 1);
        assert_eq!(placing.of_partition("year=2015/month=1"), 0);
        assert_eq!(placing.of_partition("year=2015/month=1/day=3"), 0);
    }

    #[test]
    fn segments_go_in_turn() {
        let here = placing(&["a", "b"], &[]);
        let load = crate::manifest::layout::new_id();
        let places: Vec<_> = (0..4).map(|segment| here.in_turn(load, segment)).collect();
        assert_eq!((places[0], places[1]), (places[2], places[3]));
        assert_ne!(places[0], places[1]);
    }
}
