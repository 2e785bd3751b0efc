use super::*;
use crate::disk::{Disk, RealDisk};

fn all(mapped: &Mapped) -> &[u8] {
    mapped.bytes(0..mapped.len(), Budget::UNLIMITED).unwrap()
}

#[test]
fn empty_files_map() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty");
    RealDisk.create(&path).unwrap();
    assert!(RealDisk.map(&path, Io::Mmap).unwrap().is_empty());
    assert_eq!(all(&Mapped::from_bytes(&[1; 100])).as_ptr() as usize % 64, 0);
}

/// A file of some pages, opened.
fn of_pages(dir: &Path, io: Io) -> (PathBuf, Mapped) {
    let path = dir.join("pages");
    let mut file = RealDisk.create(&path).unwrap();
    file.write_all(&[7; 1 << 20]).unwrap();
    let mapped = RealDisk.map(&path, io).unwrap();
    (path, mapped)
}

fn cut(path: &Path, length: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

#[test]
fn a_file_that_is_cut_under_its_reader_is_damage_and_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mapped) = of_pages(dir.path(), Io::Mmap);
    let bytes = all(&mapped);
    assert_eq!(bytes.iter().map(|b| usize::from(*b)).sum::<usize>(), 7 << 20);
    mapped.check_length().unwrap();
    cut(&path, 100_000);
    // Threads touch the pages that are gone at the same time.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let left = bytes.iter().filter(|b| **b == 7).count();
                assert_eq!(left, 100_000);
                let error = mapped.check().unwrap_err().to_string();
                assert!(error.contains("another program cut it"), "{error}");
            });
        }
    });
    drop(mapped);
    RealDisk.remove(&path).unwrap();
    let (_, other) = of_pages(dir.path(), Io::Mmap);
    other.check_length().unwrap();
}

#[test]
fn the_page_in_which_a_file_ends_is_found_by_its_length() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mapped) = of_pages(dir.path(), Io::Mmap);
    cut(&path, (1 << 20) - 10);
    assert_eq!(all(&mapped).iter().filter(|b| **b == 0).count(), 10);
    mapped.check().unwrap();
    assert!(mapped.check_length().is_err());
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    RealDisk.remove(&path).unwrap();
    mapped.check_length().unwrap();
}

#[test]
fn ranges_are_read_once_and_charged() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mapped) = of_pages(dir.path(), Io::Read);
    let budget = Budget::new(1 << 30);
    assert_eq!(mapped.bytes(5..1005, &budget).unwrap(), [7; 1000]);
    assert_eq!(mapped.bytes(5..1005, &budget).unwrap().as_ptr() as usize % 64, 0);
    assert_eq!(budget.held(), 1000);
    assert!(mapped.bytes(0..(1 << 20) + 1, &budget).is_err());
    cut(&path, 5000);
    let error = mapped.bytes(4000..6000, &budget).unwrap_err().to_string();
    assert!(error.contains("corrupt at byte 5000"), "{error}");
    drop(mapped);
    assert_eq!(budget.held(), 0);
}
