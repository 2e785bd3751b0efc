//! The files of the next commit of a load with several commits. Each commit comes at the end of a
//! file, because a load that stops between two machines reads its files once more (`stopped`).

use std::collections::HashSet;
use std::sync::Arc;

use crate::ingest::resume::CommitEvery;
use crate::ingest::sources::Input;

/// Keeps the files of the next commit, with their paths: those up to a size together, or one.
pub(super) fn keep_first(named: &mut Vec<(Input, Option<Arc<str>>)>, every: CommitEvery) {
    let (mut bytes, most) = (0_u64, if let CommitEvery::Bytes(most) = every { most } else { 0 });
    let is_enough = |(input, _): &(Input, Option<Arc<str>>)| {
        bytes = bytes.saturating_add(input.size().unwrap_or_default());
        bytes >= most
    };
    let count = named.iter().position(is_enough).map_or(named.len(), |at| at + 1);
    let first: HashSet<_> = named.iter().take(count).filter_map(|(_, it)| it.clone()).collect();
    // A file that is named twice stays, so that the load sees both and refuses it or reads it once.
    let mut at = 0;
    named.retain(|(_, path)| {
        at += 1;
        at <= count || path.as_ref().is_some_and(|path| first.contains(path))
    });
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test writes files")]
mod tests {
    use super::*;

    #[test]
    fn files_are_stored_as_soon_as_they_have_so_many_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let named = |names: &[&str]| -> Vec<(Input, Option<Arc<str>>)> {
            let named = names.iter().map(|name| {
                let path = dir.path().join(name);
                // The name is the number of bytes.
                std::fs::write(&path, vec![b'x'; name.parse().unwrap()]).unwrap();
                (Input::path(&path), Some(Arc::from(*name)))
            });
            named.collect()
        };
        let first = |names: &[&str], every: CommitEvery| -> Vec<String> {
            let mut named = named(names);
            keep_first(&mut named, every);
            named.into_iter().map(|(_, path)| path.unwrap().to_string()).collect()
        };
        let names = ["10", "20", "30", "40"];
        assert_eq!(first(&names, CommitEvery::Bytes(25)), ["10", "20"]);
        assert_eq!(first(&names, CommitEvery::Bytes(30)), ["10", "20"]);
        assert_eq!(first(&names, CommitEvery::Bytes(31)), ["10", "20", "30"]);
        assert_eq!(first(&names, CommitEvery::Bytes(1000)), names);
        assert_eq!(first(&names, CommitEvery::Rows(1000)), ["10"]);
        assert_eq!(first(&[], CommitEvery::Rows(1)), [""; 0]);
        // A file that is named twice is in one commit.
        assert_eq!(first(&["10", "20", "10"], CommitEvery::Bytes(1)), ["10", "10"]);
    }
}
