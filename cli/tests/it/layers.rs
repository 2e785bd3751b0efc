//! The modules of the command import only from those before them in `main.rs`, and those of the
//! generator in its `lib.rs`. Commands import no other command, and no files import each other in a
//! cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which modules a module imports. A module is its path from `src/`, as in `["args", "table"]`.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

#[test]
fn modules_import_only_from_those_before_them() {
    for root in roots() {
        check_order(&root);
    }
}

fn check_order(root: &Path) {
    let (imports, order) = (imports(root), order(root));
    let place = |module: &[String]| order.iter().position(|name| Some(name) == module.first());
    let mut wrong = Vec::new();
    for (module, imported) in &imports {
        assert!(
            module.is_empty() || place(module).is_some(),
            "{module:?} has no place in the order"
        );
        let is_command = |module: &[String]| module.len() > 1 && module[0] == "commands";
        for other in imported {
            if place(other) > place(module) && !module.is_empty()
                || is_command(module) && is_command(other)
            {
                wrong.push(format!("{} imports {}", module.join("::"), other.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "imports from above:\n{}", wrong.join("\n"));
}

#[test]
fn no_files_import_each_other_in_a_cycle() {
    for root in roots() {
        let mut imports = imports(&root);
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
        assert!(cycle.is_empty(), "in a cycle, or above one: {}", cycle.join(", "));
    }
}

/// The files that list the modules of the command and of the generator.
fn roots() -> [PathBuf; 2] {
    ["src/main.rs", "../gen/src/lib.rs"]
        .map(|path| Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
}

/// The modules that a file lists, in order.
fn order(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root).unwrap();
    let modules = text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    modules.map(str::to_owned).collect()
}

/// The imports between the files beside and below a file, without those of tests.
fn imports(root: &Path) -> Imports {
    let mut texts = BTreeMap::new();
    read_modules(root.parent().unwrap(), &[], &mut texts);
    let imported = |(module, text): (&Vec<String>, &String)| {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = lines.collect::<Vec<_>>().join("\n");
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

/// The text of each module below a folder. `main.rs`, `lib.rs` and `mod.rs` are the folder's own
/// module.
fn read_modules(folder: &Path, module: &[String], texts: &mut BTreeMap<Vec<String>, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let child = [module, std::slice::from_ref(&name)].concat();
        match name.as_str() {
            _ if path.is_dir() => read_modules(&path, &child, texts),
            _ if path.extension().is_none_or(|extension| extension != "rs") => {}
            "tests" | "samples" => {}
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
