//! The cheapest order of the joins of a graph.
//!
//! All connected orders of up to [`MAX_ENUMERATED`] relations are compared, bushy ones too, by
//! dynamic programming over sets of relations; of more, the two sets whose join costs least are
//! joined until one is left. Relations that nothing connects come together last.

use super::estimate::{Estimate, UNKNOWN, Values, matches, partnered};
use super::graph::{Attached, Class, Graph, Set};
use super::skew::Skew;

/// With more relations, sets are joined greedily.
const MAX_ENUMERATED: usize = 12;

/// What a row costs that goes into a hash table, and one that is looked up there, beside those that
/// come out.
const BUILD: f64 = 1.5;
const PROBE: f64 = 0.3;
/// What a pair of rows costs that a condition without keys is asked of.
const PAIR: f64 = 0.2;

/// An order of joins.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Relation(usize),
    Join(Box<(Subtree, Subtree)>),
}

/// A part of an order.
#[derive(Clone, Debug)]
pub(super) struct Subtree {
    pub(super) set: Set,
    pub(super) rows: f64,
    pub(super) tree: Tree,
}

/// The best way to a set of relations.
#[derive(Clone, Copy, Debug)]
struct Best {
    set: Set,
    /// The relations that conditions connect with it.
    around: Set,
    rows: f64,
    cost: f64,
    /// The sets that are joined; zero for one relation.
    parts: (Set, Set),
}

/// A search through the orders of one graph.
pub(super) struct Search<'g> {
    graph: &'g Graph,
    relations: &'g [Estimate],
    skews: &'g [Skew],
    /// The relations that conditions connect with each.
    neighbours: Vec<Set>,
}

impl<'g> Search<'g> {
    /// `relations` are what is known of those of the graph.
    pub(super) fn new(graph: &'g Graph, relations: &'g [Estimate], skews: &'g [Skew]) -> Self {
        let mut neighbours = vec![0; relations.len()];
        let mut connect = |set: Set| {
            for (at, known) in neighbours.iter_mut().enumerate() {
                if set & (1 << at) != 0 {
                    *known |= set & !(1 << at);
                }
            }
        };
        graph.classes.iter().for_each(|class| connect(class.relations));
        let pairs = graph.filters.iter().map(|filter| filter.relations);
        pairs.filter(|set| set.count_ones() == 2).for_each(&mut connect);
        for (at, relation) in graph.relations.iter().enumerate() {
            if let Some(attached) = &relation.attached {
                connect(attached.needs | 1 << at);
            }
        }
        Search { graph, relations, skews, neighbours }
    }

    /// The cheapest order.
    pub(super) fn best(&self) -> Option<Subtree> {
        let mut found: Vec<Subtree> =
            self.components().into_iter().map(|c| self.of_component(c)).collect::<Option<_>>()?;
        // The smallest first: what is left are products.
        found.sort_by(|a, b| b.rows.total_cmp(&a.rows));
        let mut all = found.pop()?;
        while let Some(next) = found.pop() {
            let (one, other) = (self.known(&all, 0.0), self.known(&next, 0.0));
            let rows = self.join(&one, &other)?.rows;
            let set = all.set | next.set;
            all = Subtree { set, rows, tree: Tree::Join(Box::new((all, next))) };
        }
        Some(all)
    }

    fn known(&self, subtree: &Subtree, cost: f64) -> Best {
        Best {
            set: subtree.set,
            around: self.around(subtree.set),
            rows: subtree.rows,
            cost,
            parts: (0, 0),
        }
    }

    /// Sets of relations that conditions connect.
    fn components(&self) -> Vec<Set> {
        let (mut left, mut components) = (self.graph.all(), Vec::new());
        while left != 0 {
            let mut set = left & left.wrapping_neg();
            loop {
                let more = set | self.around(set);
                if more == set {
                    break;
                }
                set = more;
            }
            components.push(set);
            left &= !set;
        }
        components
    }

    fn around(&self, set: Set) -> Set {
        bits(set).filter_map(|at| self.neighbours.get(at)).fold(0, |all, more| all | more) & !set
    }

    fn of_component(&self, set: Set) -> Option<Subtree> {
        match set.count_ones() as usize {
            n if n <= MAX_ENUMERATED => self.enumerated(set),
            _ => self.greedy(set),
        }
    }

    fn relation(&self, at: usize) -> Option<Best> {
        let rows = self.relations.get(at)?.rows;
        let alone = |f: &&super::graph::Filter| f.relations == 1 << at;
        let filters = self.graph.filters.iter().filter(alone).count();
        let rows = (rows * UNKNOWN.powi(filters as i32)).max(1.0);
        Some(Best { set: 1 << at, around: self.around(1 << at), rows, cost: 0.0, parts: (0, 0) })
    }

    /// Compares all orders. Sets of the component are numbered by its own bits.
    fn enumerated(&self, component: Set) -> Option<Subtree> {
        let members: Vec<usize> = bits(component).collect();
        let all: usize = (1 << members.len()) - 1;
        let mut best: Vec<Option<Best>> = vec![None; all + 1];
        let spread = |small: usize| {
            let bit = |(at, member): (usize, &usize)| (small >> at & 1) as Set * (1 << member);
            members.iter().enumerate().map(bit).fold(0, |set, bit| set | bit)
        };
        for small in 1..=all {
            if small.is_power_of_two() {
                let only = self.relation(*members.get(small.trailing_zeros() as usize)?);
                if let Some(slot) = best.get_mut(small) {
                    *slot = only;
                }
                continue;
            }
            let mut found: Option<Best> = None;
            // Each pair of parts once: one has the lowest relation.
            let lowest = small & small.wrapping_neg();
            let mut part = (small - 1) & small;
            while part != 0 {
                if part & lowest != 0
                    && let (Some(Some(one)), Some(Some(other))) =
                        (best.get(part), best.get(small ^ part))
                    && one.around & other.set != 0
                    && found.as_ref().is_none_or(|known| one.cost + other.cost < known.cost)
                    && let Some(mut joined) = self.join(one, other)
                {
                    // Whatever the order, as many rows come out.
                    if let Some(known) = &found {
                        joined.cost += known.rows - joined.rows;
                        joined.rows = known.rows;
                    }
                    if found.as_ref().is_none_or(|known| joined.cost < known.cost) {
                        joined.parts = (part as Set, (small ^ part) as Set);
                        found = Some(joined);
                    }
                }
                part = (part - 1) & small;
            }
            if let Some(slot) = best.get_mut(small) {
                *slot = found;
            }
        }
        fn tree(
            best: &[Option<Best>],
            small: usize,
            spread: &dyn Fn(usize) -> Set,
        ) -> Option<Subtree> {
            let found = (*best.get(small)?)?;
            let (one, other) = found.parts;
            let set = spread(small);
            let tree = match one {
                0 => Tree::Relation(set.trailing_zeros() as usize),
                _ => Tree::Join(Box::new((
                    tree(best, one as usize, spread)?,
                    tree(best, other as usize, spread)?,
                ))),
            };
            Some(Subtree { set, rows: found.rows, tree })
        }
        tree(&best, all, &spread)
    }

    fn greedy(&self, component: Set) -> Option<Subtree> {
        let relation = |at: usize| {
            let rows = self.relation(at)?.rows;
            Some(Subtree { set: 1 << at, rows, tree: Tree::Relation(at) })
        };
        let mut parts: Vec<Subtree> = bits(component).map(relation).collect::<Option<_>>()?;
        while parts.len() > 1 {
            let mut found: Option<(f64, usize, usize, f64)> = None;
            for (j, other) in parts.iter().enumerate() {
                for (i, one) in parts.iter().enumerate().take(j) {
                    if self.around(one.set) & other.set == 0 {
                        continue;
                    }
                    let joined = self.join(&self.known(one, 0.0), &self.known(other, 0.0));
                    let Some(joined) = joined else { continue };
                    if found.is_none_or(|(cost, ..)| joined.cost < cost) {
                        found = Some((joined.cost, i, j, joined.rows));
                    }
                }
            }
            let (_, i, j, rows) = found?;
            let (other, one) = (parts.swap_remove(j), parts.swap_remove(i));
            let set = one.set | other.set;
            parts.push(Subtree { set, rows, tree: Tree::Join(Box::new((one, other))) });
        }
        parts.pop()
    }

    /// What joining two sets gives and costs; `None` where an attached relation cannot be joined
    /// yet.
    fn join(&self, one: &Best, other: &Best) -> Option<Best> {
        for (a, b) in [(one, other), (other, one)] {
            if let Some(at) = single(a.set)
                && let Some(attached) = &self.graph.relations.get(at)?.attached
            {
                if attached.needs & !b.set != 0 {
                    return None;
                }
                let rows = self.attached_rows(at, a, b)?;
                return Some(self.joined(one, other, rows, !attached.keys.is_empty()));
            }
        }
        let keys: Vec<(Values, Values)> = self
            .graph
            .classes
            .iter()
            .filter_map(|class| Some((self.values(class, one)?, self.values(class, other)?)))
            .collect();
        let set = one.set | other.set;
        let due = self.graph.filters.iter().filter(|filter| {
            let inside = |part: Set| filter.relations & !part == 0;
            inside(set) && !inside(one.set) && !inside(other.set)
        });
        let share = UNKNOWN.powi(due.count() as i32);
        let rows = matches(one.rows, other.rows, &keys) * share * self.skew(one.set, other.set);
        Some(self.joined(one, other, rows.max(1.0), !keys.is_empty()))
    }

    /// How many times as many pairs of rows two sets have as the formulas say. What one column of a
    /// class tells, others tell too.
    fn skew(&self, one: Set, other: Set) -> f64 {
        let between = |skew: &&Skew| {
            let (a, b) = (1 << skew.one, 1 << skew.other);
            (one & a != 0 && other & b != 0) || (one & b != 0 && other & a != 0)
        };
        self.skews.iter().find(between).map_or(1.0, |skew| skew.factor)
    }

    fn joined(&self, one: &Best, other: &Best, rows: f64, has_keys: bool) -> Best {
        let (small, large) = (one.rows.min(other.rows), one.rows.max(other.rows));
        let work = match has_keys {
            true => small * BUILD + large * PROBE,
            false => small * large * PAIR,
        };
        let cost = one.cost + other.cost + work + rows;
        let set = one.set | other.set;
        Best { set, around: (one.around | other.around) & !set, rows, cost, parts: (0, 0) }
    }

    /// What joining an attached relation gives.
    fn attached_rows(&self, at: usize, inner: &Best, kept: &Best) -> Option<f64> {
        let attached = self.graph.relations.get(at)?.attached.as_ref()?;
        let values = |place: &super::graph::Place, rows: f64| {
            let values = self.relations.get(place.relation)?.columns.get(place.column)?;
            Some(Values { distinct: values.distinct.min(rows), ..*values })
        };
        let keys = attached
            .keys
            .iter()
            .map(|(here, there)| Some((values(here, kept.rows)?, values(there, inner.rows)?)))
            .collect::<Option<Vec<_>>>()?;
        let share = if attached.filters.is_empty() { 1.0 } else { 0.5 };
        let semi = || kept.rows * partnered(kept.rows, inner.rows, &keys) * share;
        let rows = match attached.kind {
            Attached::Outer => (matches(kept.rows, inner.rows, &keys) * share).max(kept.rows),
            Attached::Semi => semi(),
            Attached::Anti => kept.rows - semi() * 0.9,
        };
        Some(rows.max(1.0))
    }

    /// What is known of the columns of a class in a set; `None` where it has none.
    fn values(&self, class: &Class, of: &Best) -> Option<Values> {
        if class.relations & of.set == 0 {
            return None;
        }
        let inside = class.places.iter().filter(|place| place.bit() & of.set != 0);
        let known = inside
            .filter_map(|place| self.relations.get(place.relation)?.columns.get(place.column));
        let fewest = known.min_by(|a, b| a.distinct.total_cmp(&b.distinct))?;
        Some(Values { distinct: fewest.distinct.min(of.rows), ..*fewest })
    }
}

fn single(set: Set) -> Option<usize> {
    set.is_power_of_two().then_some(set.trailing_zeros() as usize)
}

/// The relations of a set.
fn bits(set: Set) -> impl Iterator<Item = usize> {
    let mut left = set;
    std::iter::from_fn(move || {
        let at = (left != 0).then(|| left.trailing_zeros() as usize);
        left &= left.wrapping_sub(1);
        at
    })
}
