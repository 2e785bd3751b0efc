//! The structure of the sources: modules import only from those before them, no files import each
//! other in a cycle, and files and lines are short.
//!
//! Imports are read from the text: paths that begin with `crate::`, `super::` or a child module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::project;

/// The folders and files of `src/`, from the bottom.
const FOLDERS: [&str; 17] = [
    "error", "limits", "bytes", "budget", "disk", "model", "encoding", "block", "segment",
    "manifest", "store", "expr", "ingest", "query", "maintain", "sql", "internal",
];

/// The folders and files of `src/sql/`, from the bottom.
const SQL_FOLDERS: [&str; 15] = [
    "convert",
    "stack",
    "walks",
    "work",
    "types",
    "functions",
    "syntax",
    "rules",
    "keys",
    "run",
    "plan",
    "write",
    "names",
    "cluster",
    "session",
];

/// The folders and files of `src/query/`, from the bottom.
const QUERY: [&str; 23] = [
    "fragment",
    "words",
    "stats",
    "context",
    "memory",
    "spill",
    "prune",
    "open",
    "slice",
    "filter",
    "walk",
    "sample",
    "select",
    "aggregate",
    "group",
    "some_groups",
    "merged_groups",
    "group_top",
    "order",
    "group_bounds",
    "metadata",
    "forecast",
    "run",
];

/// Files of more lines are split.
const MAX_LINES: usize = 500;
/// Characters of a line of code or comment.
const MAX_WIDTH: usize = 100;

/// Which modules a module imports. A module is its path from `src/`, as in `["args", "table"]`.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

#[test]
fn modules_import_only_from_those_before_them() {
    let library = imports(&project().join("src"));
    check_order(&library, &[], &FOLDERS);
    check_order(&library, &["query"], &QUERY);
    check_order(&library, &["sql"], &SQL_FOLDERS);
    for root in ["cli/src/lib.rs", "gen/src/lib.rs"] {
        let root = project().join(root);
        let listed = listed_modules(&root);
        let order: Vec<&str> = listed.iter().map(String::as_str).collect();
        check_order(&imports(root.parent().unwrap()), &[], &order);
    }
}

/// Checks the modules below `folder`, which stand in `order` from the bottom.
fn check_order(imports: &Imports, folder: &[&str], order: &[&str]) {
    let depth = folder.len();
    let part = |module: &[String]| {
        let inside = module.len() > depth && module.iter().zip(folder).all(|(a, b)| a == b);
        inside.then(|| module[depth].clone())
    };
    let place = |part: &str| order.iter().position(|name| *name == part);
    let mut wrong = Vec::new();
    for (module, imported) in imports {
        let Some(own) = part(module) else { continue };
        let Some(at) = place(&own) else {
            wrong.push(format!("{} has no place in the order", module.join("::")));
            continue;
        };
        for other in imported {
            let above = part(other).and_then(|other| place(&other)).is_some_and(|other| other > at);
            // A command does not import another one.
            let sibling = own == "commands" && other.len() > 1 && other[0] == "commands";
            if above || (sibling && module.len() > 1) {
                wrong.push(format!("{} imports {}", module.join("::"), other.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "imports from above:\n{}", wrong.join("\n"));
}

/// What is recursive by itself: streams of an encoding contain streams, expressions contain
/// expressions, and a subquery that is decorrelated contains subqueries.
const RECURSIVE: [&[&str]; 3] = [&["encoding"], &["expr"], &["sql", "rules", "decorrelate"]];

#[test]
fn no_files_import_each_other_in_a_cycle() {
    for source in ["src", "cli/src", "gen/src"] {
        let mut imports = imports(&project().join(source));
        let is_in = |module: &[String], folder: &[&str]| {
            module.len() >= folder.len() && module.iter().zip(folder).all(|(a, b)| a == b)
        };
        imports.retain(|module, _| !RECURSIVE.iter().any(|folder| is_in(module, folder)));
        // Removes files that import none of the others, until there are no such files. What stays
        // is in a cycle, or imports one.
        loop {
            let others: BTreeSet<_> = imports.keys().cloned().collect();
            imports.retain(|_, imported| imported.intersection(&others).next().is_some());
            if imports.len() == others.len() {
                break;
            }
        }
        let cycle: Vec<String> = imports.keys().map(|module| module.join("::")).collect();
        assert!(cycle.is_empty(), "{source}: in a cycle, or above one: {}", cycle.join(", "));
    }
}

#[test]
fn files_and_lines_are_short() {
    let mut wrong = Vec::new();
    for folder in ["src", "cli", "gen", "tests", "examples"] {
        for file in rust_files(&project().join(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            if text.lines().count() > MAX_LINES {
                wrong.push(format!("{} has more than {MAX_LINES} lines", file.display()));
            }
            // Tables and pictures in comments, and texts in quotes, may be wider.
            let is_wide = |line: &str| {
                let picture = line.trim_start().starts_with("//") && line.contains(['|', '│', '─']);
                line.chars().count() > MAX_WIDTH && !picture && !line.contains('"')
            };
            for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| is_wide(line)) {
                let width = line.chars().count();
                wrong.push(format!("{}:{number} has {width} characters", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => rust_files(&path),
            false => Vec::from_iter(path.extension().is_some_and(|e| e == "rs").then_some(path)),
        })
        .collect()
}

/// The modules that a file lists, in order.
fn listed_modules(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root).unwrap();
    let modules = text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    modules.map(str::to_owned).collect()
}

/// The imports between the files of a crate, without those of tests.
fn imports(source: &Path) -> Imports {
    let mut texts = BTreeMap::new();
    read_modules(source, &[], &mut texts);
    let imported = |(module, text): (&Vec<String>, &String)| {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = without_exports(lines);
        let parent = &module[..module.len().saturating_sub(1)];
        let mut paths = paths_after(&code, "crate::", &[]);
        paths.extend(paths_after(&code, "super::", parent));
        for child in texts.keys().filter(|child| child.len() == module.len() + 1) {
            if child.starts_with(module) {
                let prefix = format!("{}::", child[module.len()]);
                paths.extend(paths_after(&code, &prefix, child));
            }
        }
        let files = paths.iter().filter_map(|path| file_of(path, &texts));
        (module.clone(), files.filter(|file| file != module).collect())
    };
    texts.iter().map(imported).collect()
}

/// Lines without `pub use …;`: what a module shows of others is no import.
fn without_exports<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let (mut code, mut exporting) = (String::new(), false);
    for line in lines {
        let before = line.trim_start().split_once(" use ").map(|(before, _)| before);
        exporting |= before
            .is_some_and(|before| before.starts_with("pub") && !before.contains(['{', '=', ';']));
        if !exporting {
            code.push_str(line);
            code.push('\n');
        }
        exporting &= !line.ends_with(';');
    }
    code
}

/// The text of each module below a folder. `main.rs`, `lib.rs` and `mod.rs` are the folder's own
/// module; beside a library, `main.rs` has none of it.
fn read_modules(folder: &Path, module: &[String], texts: &mut BTreeMap<Vec<String>, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let child = [module, std::slice::from_ref(&name)].concat();
        match name.as_str() {
            _ if path.is_dir() => read_modules(&path, &child, texts),
            _ if path.extension().is_none_or(|extension| extension != "rs") => {}
            "tests" | "samples" => {}
            _ if name.ends_with("_tests") => {}
            "main" if folder.join("lib.rs").exists() => {}
            "main" | "lib" | "mod" => {
                texts.insert(module.to_vec(), fs::read_to_string(&path).unwrap());
            }
            _ => {
                texts.insert(child, fs::read_to_string(&path).unwrap());
            }
        }
    }
}

/// The paths that follow a prefix, each below `base`: of `a::{b, c::d}`, `a::b` and `a::c::d`.
fn paths_after(code: &str, prefix: &str, base: &[String]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (start, _) in code.match_indices(prefix) {
        let is_part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '#');
        if !code[..start].ends_with(is_part_of_name) {
            read_path(&code[start + prefix.len()..], base.to_vec(), &mut paths);
        }
    }
    paths
}

/// Reads one path or a list of them, and returns the text after it.
fn read_path<'a>(code: &'a str, mut path: Vec<String>, paths: &mut Vec<Vec<String>>) -> &'a str {
    if let Some(list) = code.strip_prefix('{') {
        let mut rest = list;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            if let Some(rest) = rest.strip_prefix('}') {
                return rest;
            }
            let after = read_path(rest, path.clone(), paths);
            if after.len() == rest.len() {
                return rest;
            }
            rest = after;
        }
    }
    let name = code.strip_prefix("r#").unwrap_or(code);
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    path.push(name[..end].to_owned());
    match name[end..].strip_prefix("::") {
        Some(rest) => read_path(rest, path, paths),
        None => {
            paths.push(path);
            &name[end..]
        }
    }
}

/// The file in which an imported path lies: the longest beginning of it that is a module.
fn file_of(path: &[String], texts: &BTreeMap<Vec<String>, String>) -> Option<Vec<String>> {
    (1..=path.len()).rev().map(|end| path[..end].to_vec()).find(|module| texts.contains_key(module))
}
