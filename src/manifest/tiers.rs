//! When small parts at the end of a list are merged: the levels of a log-structured merge tree
//! (O'Neil et al. 1996), by count instead of by level.
//!
//! Whenever `fan_in` parts of similar size (within a factor of `fan_in`) stand at the end, they
//! become one, and so on; fewer do if one more of them would be too much for a part. So n small
//! appends leave O(log n) small parts, and each entry is written O(log n) times. Chunks and ledger
//! files of the manifest follow this rule here, segments in `ingest::tiers`.

/// How parts of a list are merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TierPolicy {
    /// How many parts of similar size are merged into one.
    pub fan_in: u64,
    /// The most entries of a merged part.
    pub max_count: u64,
    /// The most bytes of a merged part.
    pub max_bytes: u64,
    /// Parts of at least this many bytes are full: they are not merged, whatever their count.
    pub full_bytes: u64,
}

impl TierPolicy {
    /// How many parts at the end of `parts`, given as (entries, bytes), become one; 0 or 1 for
    /// none.
    pub(crate) fn tail_to_merge(&self, parts: &[(u64, u64)]) -> usize {
        let Some(&(mut count, mut bytes)) = parts.last() else { return 0 };
        let mut merged = 1;
        if bytes >= self.full_bytes {
            return merged;
        }
        loop {
            let left = parts.get(..parts.len() - merged).unwrap_or_default();
            let level = |count: u64| count.max(1).ilog(self.fan_in.max(2));
            let is_alike =
                |part: &&(u64, u64)| level(part.0) <= level(count) && part.1 < self.full_bytes;
            let alike = left.iter().rev().take_while(is_alike).count();
            let (own, before) = ((count, bytes), merged);
            let (mut all_count, mut all_bytes, mut all) = (count, bytes, merged);
            for (more_count, more_bytes) in left.iter().rev().take(alike) {
                if all_count + more_count > self.max_count
                    || all_bytes + more_bytes > self.max_bytes
                {
                    break;
                }
                (all_count, all_bytes) = (all_count + more_count, all_bytes + more_bytes);
                all += 1;
            }
            // As full as parts of this size make it. Those before the last are half of it at least,
            // so that a large part is not written again for a few small ones.
            let is_full = all_count + own.0 > self.max_count || all_bytes + own.1 > self.max_bytes;
            let is_worth_it = all_count >= 2 * own.0 && all_bytes >= 2 * own.1;
            let is_due = alike as u64 + 1 >= self.fan_in || is_full && is_worth_it;
            if !is_due || all == before {
                return merged;
            }
            (count, bytes, merged) = (all_count, all_bytes, all);
        }
    }
}
