//! Changes of a table's columns and of how long generations stay: metadata alone, no segment is
//! touched.
//!
//! A new column is null in all rows that are there. A dropped one is no longer seen; its bytes go
//! when its segments are written anew. Names stand in the manifest only, and a segment may hold a
//! narrower type than the table.

use crate::error::{Error, Result};
use crate::ingest::widening::check_widening;
use crate::model::DataType;
use crate::store::{Changes, Commit, Table};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alteration {
    /// A column at the end.
    Add {
        /// Its name.
        name: String,
        /// Its type.
        data_type: DataType,
    },
    /// Takes a column away; its id is not used again.
    Drop {
        /// Its name.
        name: String,
    },
    /// Gives a column another name.
    Rename {
        /// What it is called.
        from: String,
        /// What it is to be called.
        to: String,
    },
    /// Gives a column a wider type, which must hold all its values exactly.
    Widen {
        /// Its name.
        name: String,
        /// The type.
        data_type: DataType,
    },
    /// For so many milliseconds, generations stay readable that are no longer in force.
    Keep(u64),
}

/// Makes changes, all of them or none, with one commit.
pub fn alter(table: &Table, alterations: &[Alteration]) -> Result<Commit> {
    let mut writer = table.writer(None)?;
    let Changes { mut schema, mut keep, arrangement, .. } = writer.changes();
    let before = schema.clone();
    for alteration in alterations {
        match alteration {
            Alteration::Add { name, data_type } => {
                schema.add(name, data_type.clone()).map(|_| ())?
            }
            Alteration::Drop { name } => {
                let position = schema.expect(name)?;
                let id = schema.columns().get(position).map(|column| column.id);
                if id.is_some_and(|id| arrangement.uses(id)) {
                    return Err(Error::InvalidInput(format!(
                        "column '{name}' cannot be dropped: the table is partitioned or sorted by it"
                    )));
                }
                schema.remove(position)?;
            }
            Alteration::Rename { from, to } => {
                let position = schema.expect(from)?;
                schema.rename(position, to)?;
            }
            Alteration::Widen { name, data_type } => {
                let position = schema.expect(name)?;
                let have = schema.columns().get(position).map(|column| column.data_type.clone());
                if have.and_then(|have| have.join(data_type)).as_ref() != Some(data_type) {
                    return Err(Error::InvalidInput(format!(
                        "column '{name}' cannot become {data_type} without loss; UPDATE or a new table can convert it"
                    )));
                }
                schema.set_type(position, data_type.clone());
            }
            Alteration::Keep(milliseconds) => keep = *milliseconds,
        }
    }
    check_widening(&writer, &before, &schema, std::iter::empty())?;
    writer.commit_changes(Changes { schema, keep, ..writer.changes() })
}
