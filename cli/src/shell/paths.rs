//! Names of files that begin as what is typed.

use std::path::Path;

/// The most names that are offered.
const MOST: usize = 500;

/// Paths that begin with `typed`, directories with a slash at their end. Hidden ones are left out
/// unless the name begins with a dot.
pub(super) fn beginning_with(typed: &str) -> Vec<String> {
    let (directory, name) = match typed.rfind('/') {
        Some(at) => typed.split_at(at + 1),
        None => ("", typed),
    };
    let home = std::env::var("HOME").unwrap_or_default();
    let read = match directory.strip_prefix("~/") {
        Some(rest) => format!("{home}/{rest}"),
        None if directory.is_empty() => ".".to_owned(),
        None => directory.to_owned(),
    };
    let Ok(entries) = std::fs::read_dir(Path::new(&read)) else { return Vec::new() };
    let found = entries.flatten().filter_map(|entry| {
        let file = entry.file_name().into_string().ok()?;
        let is_hidden = file.starts_with('.') && !name.starts_with('.');
        if is_hidden || !file.starts_with(name) {
            return None;
        }
        let slash = if entry.path().is_dir() { "/" } else { "" };
        Some(format!("{directory}{file}{slash}"))
    });
    let mut found: Vec<String> = found.take(MOST).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_directories_are_found() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["trips.csv", "trips.parquet", ".hidden"] {
            std::fs::File::create_new(directory.path().join(name)).unwrap();
        }
        std::fs::create_dir(directory.path().join("trips-2013")).unwrap();
        let root = directory.path().to_str().unwrap();
        let found = |typed: &str| -> Vec<String> {
            let found = beginning_with(&format!("{root}/{typed}"));
            found.iter().map(|path| path[root.len() + 1..].to_owned()).collect()
        };
        assert_eq!(found("tri"), ["trips-2013/", "trips.csv", "trips.parquet"]);
        assert_eq!(found("."), [".hidden"]);
        assert!(found("x").is_empty() && found("no/such/").is_empty());
    }
}
