//! Which machine gets which rows of a load. It follows from the description of the cluster alone:
//! whoever goes on with a load that has stopped sends the same rows to the same machines.
//!
//! The partitions of a table are each on one machine: where the description puts it, or else where
//! a hash of its path and the machine's name is the largest (rendezvous hashing: Thaler and
//! Ravishankar 1998), so that of a cluster that grows by one machine only its share moves. Segments
//! of a table without partitions go to the machines in turn.

use std::collections::BTreeMap;
use std::sync::Arc;

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

    /// Marks a load's identifier as that of a cluster which places rows so, in 12 bits beside the
    /// version of a UUID of our own kind (8 of RFC 9562). `segment_bytes` decides where segments
    /// end, if they go to the machines in turn.
    pub(super) fn marked(&self, load: Id, segment_bytes: Option<usize>) -> Id {
        let bytes = segment_bytes.map_or_else(String::new, |bytes| bytes.to_string());
        let names = self.nodes.iter().map(|node| &*node.name);
        let pins = self.pinned.iter().flat_map(|(pin, node)| [pin.as_str(), node]);
        let mark = hash(names.chain(["\0"]).chain(pins).chain([bytes.as_str()]));
        let [low, high, ..] = mark.to_le_bytes();
        let mut marked = load;
        if let [.., version, below] = &mut marked[..8] {
            (*version, *below) = (0x80 | (high & 0x0f), low);
        }
        marked
    }

    /// Whether a load was one of this cluster, and placed rows as it does.
    pub(super) fn has_placed(&self, load: Id, segment_bytes: usize) -> bool {
        [None, Some(segment_bytes)].iter().any(|bytes| self.marked(load, *bytes) == load)
    }
}

/// Whether a load was one of some cluster.
pub(super) fn is_of_cluster(load: Id) -> bool {
    load[6] >> 4 == 8
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
    fn a_mark_is_that_of_the_description() {
        let load = crate::manifest::layout::new_id();
        let here = placing(&["a", "b"], &[("d=1", "a")]);
        let marked = here.marked(load, Some(1 << 20));
        assert!(!is_of_cluster(load) && is_of_cluster(marked));
        assert!(here.has_placed(marked, 1 << 20) && !here.has_placed(load, 1 << 20));
        assert_eq!((&marked[..6], &marked[8..]), (&load[..6], &load[8..]));
        let others = [placing(&["a", "b", "c"], &[("d=1", "a")]), placing(&["a", "b"], &[])];
        assert!(others.iter().all(|other| !other.has_placed(marked, 1 << 20)));
        assert!(!here.has_placed(marked, 2 << 20));
        assert!(here.has_placed(here.marked(load, None), 2 << 20));
        let places: Vec<_> = (0..4).map(|segment| here.in_turn(marked, segment)).collect();
        assert_eq!((places[0], places[1]), (places[2], places[3]));
        assert_ne!(places[0], places[1]);
    }
}
