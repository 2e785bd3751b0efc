//! Folders import only from those before them: of `src/` in the order of `lib.rs`, of `sql/` in the
//! order of `ROOMS`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders and files of `src/`, from the bottom.
const FOLDERS: [&str; 15] = [
    "error", "limits", "bytes", "disk", "model", "encoding", "block", "segment", "manifest",
    "store", "expr", "ingest", "query", "maintain", "sql",
];

/// The folders and files of `src/sql/`, from the bottom.
const ROOMS: [&str; 12] = [
    "convert",
    "walks",
    "types",
    "functions",
    "syntax",
    "rules",
    "keys",
    "run",
    "plan",
    "write",
    "names",
    "session",
];

/// The folders and files of `src/query/`, from the bottom.
const QUERY: [&str; 15] = [
    "fragment",
    "words",
    "stats",
    "context",
    "memory",
    "prune",
    "open",
    "slice",
    "filter",
    "walk",
    "aggregate",
    "group",
    "order",
    "metadata",
    "run",
];

#[test]
fn folders_import_only_from_those_before_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = upward(&source, "crate::", &FOLDERS);
    wrong.extend(upward(&source.join("query"), "crate::query::", &QUERY));
    wrong.extend(upward(&source.join("sql"), "crate::sql::", &ROOMS));
    assert!(wrong.is_empty(), "imports from above:\n{}", wrong.join("\n"));
}

/// What files of a folder import from its parts that come later than their own.
fn upward(folder: &Path, prefix: &str, order: &[&str]) -> Vec<String> {
    let place = |part: &str| order.iter().position(|known| *known == part);
    let parts: BTreeSet<String> = children(folder).iter().map(|path| part(path)).collect();
    let unplaced = parts.iter().filter(|part| place(part).is_none() && !is_root_or_test(part));
    let mut wrong: Vec<String> =
        unplaced.map(|part| format!("{part} has no place in the order")).collect();
    for path in children(folder) {
        let Some(own) = place(&part(&path)) else { continue };
        for file in files(&path) {
            let text = fs::read_to_string(&file).unwrap();
            let above = imports(&text, prefix)
                .into_iter()
                .filter(|name| place(name).is_some_and(|at| at > own));
            wrong.extend(above.map(|name| format!("{} imports {prefix}{name}", file.display())));
        }
    }
    wrong
}

fn is_root_or_test(part: &str) -> bool {
    matches!(part, "lib" | "mod" | "tests") || part.ends_with("_tests")
}

fn children(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The module that a file or folder is.
fn part(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// The files of a module, without those of its tests.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        return children(path).iter().flat_map(|child| files(child)).collect();
    }
    let is_test = is_root_or_test(&part(path)) && part(path) != "mod";
    if is_test { Vec::new() } else { vec![path.to_path_buf()] }
}

/// The names that come right after a prefix in what stands before the tests of a file: `crate::a`
/// and `crate::{a, b}`.
fn imports(text: &str, prefix: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(list) => names.extend(first_names(list)),
            None => names.extend(first_name(rest)),
        }
    }
    names
}

/// The first name of each item of a list, up to its closing brace.
fn first_names(list: &str) -> Vec<String> {
    let (mut depth, mut begins, mut names) = (0, true, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if begins && depth == 0 && !c.is_whitespace() => {
                names.extend(first_name(&list[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    names
}

fn first_name(text: &str) -> Option<String> {
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}
