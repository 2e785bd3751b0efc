//! Every dependency comes from crates.io under a licence that `deny.toml` allows, and those whose
//! output is stored have exact versions. cargo-deny checks more; this runs wherever tests do.

use std::fs;
use std::process::Command;

use crate::project;

fn read(file: &str) -> String {
    fs::read_to_string(project().join(file)).unwrap()
}

/// The texts in quotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The items of a list in `deny.toml`.
fn list(name: &str) -> Vec<String> {
    let text = read("deny.toml");
    let (_, after) = text.split_once(&format!("\n{name} = [")).unwrap();
    quoted(after.split_once(']').unwrap().0)
}

/// Whether an expression of licences, without nested parentheses, is met by allowed ones.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    expression.replace('/', " OR ").split(" AND ").all(|part| {
        let part = part.trim_matches(['(', ')']);
        part.split(" OR ").any(|licence| allowed.iter().any(|known| known == licence.trim()))
    })
}

#[test]
fn dependencies_have_known_sources_and_licences() {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(project())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata = String::from_utf8(metadata.stdout).unwrap();
    let (allowed, mut seen) = (list("allow"), 0);
    // A package begins `{"name":…,"version":…,"id":…,"license":…,`: nothing else has a licence.
    for package in metadata.split("\"license\":").skip(1) {
        let licence = package.split([',', '}']).next().unwrap();
        let id = package.split("\"manifest_path\":").nth(1).and_then(|rest| rest.split(',').next());
        let licence = quoted(licence).pop().unwrap_or_else(|| panic!("{id:?} has no licence"));
        assert!(is_allowed(&licence, &allowed), "{id:?} has the licence {licence}");
        seen += 1;
    }
    assert!(seen > 20, "{seen} packages");
}

#[test]
fn dependencies_come_from_the_registry() {
    let registry = format!("registry+{}", list("allow-registry")[0]);
    for file in ["Cargo.lock", "fuzz/Cargo.lock", "benches/kernels/Cargo.lock"] {
        let lock = read(file);
        for package in lock.split("[[package]]").skip(1) {
            let source = package.lines().find(|line| line.starts_with("source = "));
            if let Some(source) = source {
                assert_eq!(quoted(source), [registry.as_str()], "{file}: {package}");
                assert!(package.contains("\nchecksum = "), "{file}: {package}");
            }
        }
    }
}

/// What these crates write is stored, and their readers' unsafe code was read in these versions.
#[test]
fn crates_of_the_format_have_exact_versions() {
    let manifest = read("Cargo.toml");
    for name in ["fsst-rs", "fastlanes"] {
        let pinned = format!("\n{name} = \"=");
        assert!(manifest.contains(&pinned), "{name} must be pinned with =");
    }
}
