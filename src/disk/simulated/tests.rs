//! Promises of the simulated disk on which other tests rely.

use super::*;
use crate::disk::{Disk, durable};

#[test]
fn only_synced_bytes_and_names_certainly_survive() {
    let disk = SimulatedDisk::new(Path::new("/s"));
    let (a, b) = (Path::new("/s/a"), Path::new("/s/b"));
    durable::write_new(&disk, a, b"synced, but nameless").unwrap();
    disk.lose_power(PowerLoss::Nothing);
    assert!(!disk.exists(a).unwrap());
    disk.create(a).unwrap().write_all(b"named, but not synced").unwrap();
    disk.sync_dir(Path::new("/s")).unwrap();
    disk.lose_power(PowerLoss::Nothing);
    assert_eq!(disk.read(a, 99).unwrap(), b"");
    durable::replace(&disk, b, b"both").unwrap();
    disk.create_dir_all(Path::new("/s/d/e")).unwrap();
    disk.sync_dir(Path::new("/s/d")).unwrap();
    disk.lose_power(PowerLoss::Nothing);
    assert_eq!(disk.read(b, 99).unwrap(), b"both");
    assert!(!disk.exists(Path::new("/s/d/e")).unwrap(), "its parent was not durable");
}

#[test]
fn a_sync_that_failed_is_not_made_good_by_another() {
    let disk = SimulatedDisk::new(Path::new("/s"));
    let path = Path::new("/s/a");
    let mut file = disk.create(path).unwrap();
    disk.sync_dir(Path::new("/s")).unwrap();
    file.write_all(b"bytes").unwrap();
    disk.set_fault(Some(Fault { at: 1, forever: false, after_effect: false }));
    assert!(file.sync().is_err() && file.sync().is_ok());
    disk.lose_power(PowerLoss::Nothing);
    assert_eq!(disk.read(path, 99).unwrap(), b"");
}

#[test]
fn unsynced_bytes_may_be_torn_in_any_order() {
    let mut seen = [false; 2];
    for seed in 0..100 {
        let disk = SimulatedDisk::new(Path::new("/s"));
        let path = Path::new("/s/a");
        let mut file = disk.create(path).unwrap();
        disk.sync_dir(Path::new("/s")).unwrap();
        file.write_all(&[7; 4096]).unwrap();
        disk.lose_power(PowerLoss::Some(seed));
        let left = disk.read(path, 9999).unwrap();
        let sectors: Vec<bool> = left.chunks(512).map(|sector| sector == [7; 512]).collect();
        // A later sector without an earlier one, and the other way round.
        seen[0] |= sectors.windows(2).any(|pair| pair == [false, true]);
        seen[1] |= sectors.windows(2).any(|pair| pair == [true, false]);
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn replace_is_atomic_at_every_call() {
    for at in 1..10 {
        for seed in 0..20 {
            for after_effect in [false, true] {
                let disk = SimulatedDisk::new(Path::new("/s"));
                let path = Path::new("/s/CURRENT");
                durable::replace(&disk, path, b"old").unwrap();
                disk.set_fault(Some(Fault { at, forever: true, after_effect }));
                let reported = durable::replace(&disk, path, b"new!").is_ok();
                disk.lose_power(PowerLoss::Some(seed));
                let found = disk.read(path, 99).unwrap();
                assert!(
                    found == b"new!" || (found == b"old" && !reported),
                    "call {at} seed {seed}: {found:?}"
                );
            }
        }
    }
}
