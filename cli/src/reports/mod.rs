//! What commands say about the work that they have done: to people on stderr, to programs as JSON.

pub(crate) mod load;
pub(crate) mod statement;

use stylobate::WriteVolume;

/// A table's write amplification as the end of a sentence, or nothing if it is unknown.
pub(crate) fn show_amplification(write_volume: &WriteVolume) -> String {
    write_volume.amplification().map_or_else(String::new, |amplification| {
        format!("; the table's write amplification is {amplification:.2}")
    })
}
