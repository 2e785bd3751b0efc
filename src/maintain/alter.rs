//! Alters a table's columns and the retention of its generations: metadata only, no segment is
//! touched.
//!
//! A new column is null in existing rows. A dropped column is hidden; its bytes go when its
//! segments are rewritten. Column names are in the manifest only, and a segment may have a narrower
//! type than the table.

use crate::error::{Error, Result};
use crate::ingest::widening::check_widening;
use crate::model::{Arrangement, DataType, Schema};
use crate::store::{Changes, Commit, Table};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alteration {
    /// Adds a column at the end.
    Add {
        /// Column name.
        name: String,
        /// Column type.
        data_type: DataType,
    },
    /// Drops a column; its id is not reused.
    Drop {
        /// Column name.
        name: String,
    },
    /// Renames a column.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
    /// Widens a column's type, which must hold all its values exactly.
    Widen {
        /// Column name.
        name: String,
        /// New type.
        data_type: DataType,
    },
    /// Sets for how many milliseconds old generations stay readable.
    Keep(u64),
}

/// Applies all changes in one commit, or none.
pub fn alter(table: &Table, alterations: &[Alteration]) -> Result<Commit> {
    let mut writer = table.writer(None)?;
    let Changes { schema: before, keep, arrangement, .. } = writer.changes();
    let (schema, keep) = altered(&before, keep, &arrangement, alterations)?;
    let known = |column| writer.column_stats_by_segment(column);
    check_widening(&arrangement, known, &before, &schema, std::iter::empty())?;
    writer.commit_changes(Changes { schema, keep, ..writer.changes() })
}

/// The columns that a table would have after [`alter`].
pub fn would_alter(table: &Table, alterations: &[Alteration]) -> Result<Schema> {
    let snapshot = table.snapshot()?;
    table.check_writable()?;
    let (root, before) = (snapshot.root(), snapshot.schema());
    let (schema, _) = altered(before, root.history.keep, &root.arrangement, alterations)?;
    let known = |column| snapshot.column_stats(column);
    check_widening(&root.arrangement, known, before, &schema, std::iter::empty())?;
    Ok(schema)
}

/// The columns after all changes, and how long generations stay.
fn altered(
    before: &Schema,
    mut keep: u64,
    arrangement: &Arrangement,
    alterations: &[Alteration],
) -> Result<(Schema, u64)> {
    let mut schema = before.clone();
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
                        "column '{name}' cannot be dropped: the table is partitioned or sorted by \
                         it"
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
                if !have.is_some_and(|have| have.widens_to(data_type)) {
                    return Err(Error::InvalidInput(format!(
                        "column '{name}' cannot become {data_type} without loss; UPDATE or a new \
                         table can convert it"
                    )));
                }
                schema.set_type(position, data_type.clone());
            }
            Alteration::Keep(milliseconds) => keep = *milliseconds,
        }
    }
    Ok((schema, keep))
}
