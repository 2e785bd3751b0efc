//! Every seed and every crash of the fuzz targets, by the functions that the targets call; mutants
//! of roots, ledgers and segments with repaired checksums; and that a release build cannot switch
//! checksums off.

#[cfg(feature = "parquet")]
use std::fs;
use std::process::Command;

use crate::project;

#[expect(unreachable_pub, reason = "the library of the fuzz workspace, which exports it")]
#[cfg(feature = "parquet")]
#[path = "../../fuzz/src/lib.rs"]
pub(crate) mod targets;

#[cfg(feature = "parquet")]
#[test]
fn seeds_and_crashes_pass() {
    let mut passed = 0;
    for folder in ["fuzz/seeds", "fuzz/crashes"] {
        for file in targets::files(&project().join(folder)) {
            let name = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
            if cfg!(not(feature = "sql")) && ["partition", "sql", "store"].contains(&name) {
                continue;
            }
            let target = targets::target(name).unwrap_or_else(|| panic!("no target {name}"));
            target(&fs::read(&file).unwrap());
            passed += 1;
        }
    }
    for file in targets::files(&project().join("tests/golden/v1")) {
        let bytes = fs::read(&file).unwrap();
        targets::segment::run(&bytes);
        targets::manifest::run(&bytes);
        passed += 1;
    }
    assert!(passed > 90, "{passed}");
}

/// `STY_MUTANTS=n` tries n times as many mutants.
#[cfg(feature = "parquet")]
pub(crate) fn mutants() -> usize {
    std::env::var("STY_MUTANTS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[cfg(feature = "parquet")]
#[test]
fn mutants_with_repaired_checksums_pass() {
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) as usize % below.max(1)
    };
    for file in targets::files(&project().join("tests/golden/v1")) {
        let whole = fs::read(&file).unwrap();
        if whole.is_empty() {
            // A lock.
            continue;
        }
        for _ in 0..200 * mutants() {
            let mut bytes = whole.clone();
            for _ in 0..=next(3) {
                // A segment's footer is at its end.
                let near = bytes.len().min(512);
                let below = [near, bytes.len()][next(2)];
                let at = bytes.len() - 1 - next(below);
                bytes[at] = [0, 1, 0x7f, 0x80, 0xff, bytes[at] ^ 1 << next(8)][next(6)];
            }
            targets::repair::repair(&mut bytes);
            targets::segment::run(&bytes);
            targets::manifest::run(&bytes);
        }
    }
}

#[test]
fn a_release_build_cannot_switch_checksums_off() {
    let directory = tempfile::tempdir().unwrap();
    let compiles = |flags: &[&str]| {
        let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
        let output = Command::new(compiler)
            .args(["--crate-type", "lib", "--emit", "metadata", "--edition", "2024"])
            .args(["-C", "opt-level=3", "--out-dir"])
            .arg(directory.path())
            .args(flags)
            .arg(project().join("src/bytes/checksum.rs"))
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let fuzzing = ["--cfg", "fuzzing"];
    let (compiled, message) = compiles(&fuzzing);
    assert!(!compiled && message.contains("accepts every checksum"), "{message}");
    assert!(compiles(&[]).0);
    assert!(compiles(&[&fuzzing[..], &["-C", "debug-assertions"]].concat()).0);
}
