//! Folders import only from those before them: folders of `src/` in the order of `lib.rs`, folders
//! of `sql/` in the order of `SQL_FOLDERS`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders and files of `src/`, from the bottom.
const FOLDERS: [&str; 15] = [
    "error", "limits", "bytes", "disk", "model", "encoding", "block", "segment", "manifest",
    "store", "expr", "ingest", "query", "maintain", "sql",
];

/// The folders and files of `src/sql/`, from the bottom.
const SQL_FOLDERS: [&str; 12] = [
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
    let mut wrong = upward_imports(&source, "crate::", &FOLDERS);
    wrong.extend(upward_imports(&source.join("query"), "crate::query::", &QUERY));
    wrong.extend(upward_imports(&source.join("sql"), "crate::sql::", &SQL_FOLDERS));
    assert!(wrong.is_empty(), "imports from above:\n{}", wrong.join("\n"));
}

/// Imports in a folder's parts from parts that come later.
fn upward_imports(folder: &Path, prefix: &str, order: &[&str]) -> Vec<String> {
    let place = |module_name: &str| order.iter().position(|known| *known == module_name);
    let parts: BTreeSet<String> = children(folder).iter().map(|path| module_name(path)).collect();
    let unplaced = parts
        .iter()
        .filter(|module_name| place(module_name).is_none() && !is_root_or_test(module_name));
    let mut wrong: Vec<String> =
        unplaced.map(|module_name| format!("{module_name} has no place in the order")).collect();
    for path in children(folder) {
        let Some(own) = place(&module_name(&path)) else { continue };
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

fn is_root_or_test(module_name: &str) -> bool {
    matches!(module_name, "lib" | "mod" | "tests") || module_name.ends_with("_tests")
}

fn children(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The module that a file or folder is.
fn module_name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// The files of a module, without those of its tests.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        return children(path).iter().flat_map(|child| files(child)).collect();
    }
    let is_test = is_root_or_test(&module_name(path)) && module_name(path) != "mod";
    if is_test { Vec::new() } else { vec![path.to_path_buf()] }
}

/// The names right after a prefix in a file's code before its tests: `crate::a` and `crate::{a,
/// b}`.
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
