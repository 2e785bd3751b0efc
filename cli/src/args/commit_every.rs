//! When a load commits: `--commit-every`.

use std::time::Duration;

use stylobate::CommitEvery;

use crate::units::{parse_duration, parse_size};

/// Parses a number of rows, or a size or a time with its unit.
pub(crate) fn parse_commit_every(text: &str) -> Result<CommitEvery, String> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    match plain.parse::<u64>() {
        Ok(0) => Err("at least one row is needed".to_owned()),
        Ok(rows) => Ok(CommitEvery::Rows(rows)),
        Err(_) => match (parse_size(text), parse_duration(text)) {
            (Ok(bytes), _) => Ok(CommitEvery::Bytes(bytes)),
            (_, Ok(Duration::ZERO)) => Err("at least a millisecond is needed".to_owned()),
            (_, Ok(time)) => Ok(CommitEvery::Time(time)),
            (Err(_), Err(_)) => Err(format!(
                "'{text}' is neither a number of rows, nor a size such as 10GiB, nor a time such \
                 as 10s"
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_by_rows_or_bytes() {
        assert_eq!(parse_commit_every("1_000_000"), Ok(CommitEvery::Rows(1_000_000)));
        assert_eq!(parse_commit_every("2GiB"), Ok(CommitEvery::Bytes(2 << 30)));
        let seconds = Duration::from_secs(10);
        assert_eq!(parse_commit_every("10s"), Ok(CommitEvery::Time(seconds)));
        assert!(parse_commit_every("0").is_err() && parse_commit_every("often").is_err());
    }
}
