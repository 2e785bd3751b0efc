//! Any bytes as a Parquet or Arrow file: some rows or an error, within the guard, and no
//! allocation of a length that nothing backs. Texts that stay codes of dictionaries are the same
//! rows.

use std::io::Cursor;

use stylobate::Input;
use stylobate::internal::ingest::{read_whole, same_rows};

/// The memory limit of the readers.
const MEMORY: u64 = 256 << 20;

/// The target for Parquet.
pub fn parquet(bytes: &[u8]) {
    read("fuzz.parquet", bytes);
}

/// The target for Arrow IPC, as a stream or a file.
pub fn arrow(bytes: &[u8]) {
    read("fuzz.arrow", bytes);
}

fn read(name: &str, bytes: &[u8]) {
    let input = || Input::reader(name, Box::new(Cursor::new(bytes.to_vec())));
    let (plain, coded) = (read_whole(input(), MEMORY, false), read_whole(input(), MEMORY, true));
    if let (Ok(plain), Ok(coded)) = (plain, coded) {
        assert!(same_rows(&plain, &coded), "codes are other rows");
    }
}
