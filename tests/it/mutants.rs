//! A whole store with a damaged file: opened, queried, verified and looked at by repair. Nothing
//! panics, and nothing takes long. Where checksums are left as they were, an answer is the right
//! one or an error.
//!
//! `STY_MUTANTS=n` tries n times 100 mutants, `STY_MUTANTS_SEED=n` others.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::differential::random::Random;
use crate::fuzz::mutants;
use crate::fuzz::targets::store::{QUERIES, create, examine, replace};
use crate::fuzz::targets::{files, repair::repair};

/// Changes some bytes, inserts or removes some, or cuts the end off.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        // The end of a file has footers and the checksums of roots.
        let within = if random.chance(40) { bytes.len().min(600) } else { bytes.len() };
        let at = bytes.len() - 1 - random.below(within);
        match random.below(10) {
            0 => bytes.truncate(at.max(1)),
            1 => drop(bytes.splice(at..at, [0xff; 3])),
            2 => drop(bytes.drain(at..(at + 5).min(bytes.len()))),
            3 => {
                let from = random.below(bytes.len());
                let part = bytes[from..(from + 16).min(bytes.len())].to_vec();
                bytes.splice(at..(at + part.len()).min(bytes.len()), part);
            }
            4 | 5 => bytes[at] = random.choose(&[0, 1, 0x7f, 0x80, 0xff]),
            _ => bytes[at] ^= 1 << random.below(8),
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
}

#[test]
fn damaged_stores_are_errors_or_right_answers() {
    let mutants = 100 * mutants();
    let seed = std::env::var("STY_MUTANTS_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(17);
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("db");
    create(&store);
    let (right, problems) = examine(&store);
    assert_eq!(problems, 0);
    assert!(right.iter().all(Result::is_ok), "{right:?}");
    let files: Vec<PathBuf> =
        files(&store).into_iter().filter(|file| fs::metadata(file).unwrap().len() > 0).collect();

    let (mut random, mut slowest) = (Random::new(seed), Duration::ZERO);
    let (mut errors, mut found) = (0, 0);
    for number in 0..mutants {
        let path = random.choose(&files);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        mutate(&mut random, &mut bytes);
        let repaired = random.chance(70);
        if repaired {
            repair(&mut bytes);
        }
        replace(&path, &bytes);
        let started = Instant::now();
        let (answers, problems) = examine(&store);
        slowest = slowest.max(started.elapsed());
        errors += answers.iter().filter(|answer| answer.is_err()).count();
        found += usize::from(problems > 0);
        let place = format!("mutant {number}, {}", path.display());
        for ((answer, right), sql) in answers.iter().zip(&right).zip(QUERIES) {
            let same = answer.is_err() || answer == right;
            assert!(repaired || same, "{place}: {sql}\n{answer:?}");
            // The guard around operators makes this error of a panic.
            let guarded = |error: &String| error.contains("the query engine failed");
            assert!(!answer.as_ref().is_err_and(guarded), "{place}: {sql}\n{answer:?}");
        }
        replace(&path, &whole);
    }
    println!(
        "{mutants} mutants: {errors} statements of {} failed, verify or repair found {found}, \
        the slowest took {slowest:?}",
        mutants * QUERIES.len()
    );
    assert!(errors > mutants, "{errors}");
    assert!(slowest < Duration::from_secs(60), "{slowest:?}");
}
