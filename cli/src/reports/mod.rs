//! What commands say about the work that they have done: to people on stderr, to programs as JSON.

pub(crate) mod dry_run;
pub(crate) mod load;
pub(crate) mod statement;
pub(crate) mod stored;
pub(crate) mod table_page;
pub(crate) mod titles;

use stylobate::WriteVolume;
use stylobate::internal::manifest::Root;
use stylobate::internal::model::SortKey;

/// A table's write amplification as the end of a sentence, or nothing if it is unknown.
pub(crate) fn show_amplification(write_volume: &WriteVolume) -> String {
    write_volume.amplification().map_or_else(String::new, |amplification| {
        format!("; the table's write amplification is {amplification:.2}")
    })
}

/// The keys by which the segments of a table are sorted.
pub(crate) fn sort_by(root: &Root) -> Vec<String> {
    let key = |key: &SortKey| {
        let column = root.schema.columns().iter().find(|column| column.id == key.column);
        let direction = if key.descending { " desc" } else { "" };
        let nulls = if key.nulls_first == key.descending {
            ""
        } else if key.nulls_first {
            " nulls first"
        } else {
            " nulls last"
        };
        format!("{}{direction}{nulls}", column.map_or("?", |column| &*column.name))
    };
    root.arrangement.sort_by.iter().map(key).collect()
}
