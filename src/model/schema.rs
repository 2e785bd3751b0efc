//! The schema of a table: named, typed columns with ids that are never reused.

use std::sync::Arc;

use super::DataType;
use crate::error::{Error, Result};
use crate::limits;

/// A column's permanent id in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u32);

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Permanent id; segments identify columns by it.
    pub id: ColumnId,
    /// Name, unique in the table.
    pub name: Arc<str>,
    /// Type in queries; a segment may store a narrower one.
    pub data_type: DataType,
    /// Whether the column may have nulls. If not, commits refuse rows with null in it.
    pub nullable: bool,
}

/// The columns of a table, in the order in which `SELECT *` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    columns: Vec<Column>,
    next_id: u32,
}

impl Schema {
    /// A schema from stored parts; refuses duplicate names, duplicate ids and ids not below
    /// `next_id`.
    pub(crate) fn from_parts(columns: Vec<Column>, next_id: u32) -> Result<Self> {
        let mut names = std::collections::HashSet::new();
        let mut ids = std::collections::HashSet::new();
        for column in &columns {
            check_name(&column.name)?;
            if !names.insert(&*column.name) {
                return Err(named_twice(&column.name));
            }
            if !ids.insert(column.id) || column.id.0 >= next_id {
                return Err(Error::InvalidInput(format!(
                    "column id {} is used twice or not issued",
                    column.id.0
                )));
            }
        }
        check_count(columns.len())?;
        Ok(Schema { columns, next_id })
    }

    /// Adds a column at the end, under a new id. An error changes nothing.
    pub fn add(&mut self, name: &str, data_type: DataType) -> Result<ColumnId> {
        check_name(name)?;
        check_count(self.columns.len() + 1)?;
        if self.position(name).is_some() {
            return Err(named_twice(name));
        }
        let id = ColumnId(self.next_id);
        self.next_id = id.0.checked_add(1).ok_or_else(no_ids)?;
        self.columns.push(Column { id, name: Arc::from(name), data_type, nullable: true });
        Ok(id)
    }

    /// Adds many columns at the end, in order, in linear time. An error changes nothing.
    pub fn extend<'a>(&mut self, new: impl IntoIterator<Item = (&'a str, DataType)>) -> Result<()> {
        let (mut columns, mut next_id) = (self.columns.clone(), self.next_id);
        for (name, data_type) in new {
            let (id, name) = (ColumnId(next_id), Arc::from(name));
            columns.push(Column { id, name, data_type, nullable: true });
            next_id = next_id.checked_add(1).ok_or_else(no_ids)?;
        }
        if columns.len() > self.columns.len() {
            *self = Schema::from_parts(columns, next_id)?;
        }
        Ok(())
    }

    /// The schema of these columns, in order.
    pub fn from_names<'a>(columns: impl IntoIterator<Item = (&'a str, DataType)>) -> Result<Self> {
        let mut schema = Schema::default();
        schema.extend(columns)?;
        Ok(schema)
    }

    /// The columns in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The id that the next new column gets.
    pub(crate) fn next_id(&self) -> u32 {
        self.next_id
    }

    /// Position of the column with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| &*c.name == name)
    }

    /// Position of the column with this name, or an error that lists the columns.
    pub(crate) fn expect(&self, name: &str) -> Result<usize> {
        self.position(name).ok_or_else(|| {
            let names: Vec<&str> =
                self.columns.iter().take(20).map(|column| &*column.name).collect();
            let more = if self.columns.len() > names.len() { ", …" } else { "" };
            Error::NotFound(format!(
                "there is no column '{name}'; there are {}{more}",
                names.join(", ")
            ))
        })
    }

    /// Removes a column. Its id is not issued again.
    pub(crate) fn remove(&mut self, position: usize) -> Result<()> {
        if self.columns.len() < 2 {
            return Err(Error::InvalidInput("a table has at least one column".into()));
        }
        if position < self.columns.len() {
            self.columns.remove(position);
        }
        Ok(())
    }

    /// Renames a column; no other column may have the new name.
    pub(crate) fn rename(&mut self, position: usize, name: &str) -> Result<()> {
        check_name(name)?;
        if self.position(name).is_some_and(|known| known != position) {
            return Err(named_twice(name));
        }
        if let Some(column) = self.columns.get_mut(position) {
            column.name = Arc::from(name);
        }
        Ok(())
    }

    /// Widens a column in place; the caller has checked the lattice.
    #[doc(hidden)]
    pub fn set_type(&mut self, position: usize, data_type: DataType) {
        if let Some(column) = self.columns.get_mut(position) {
            column.data_type = data_type;
        }
    }

    /// Gives a column another type, under a new id: segments have values of the old one.
    pub(crate) fn replace_type(&mut self, position: usize, data_type: DataType) -> Result<()> {
        let id = ColumnId(self.next_id);
        let next_id = self.next_id.checked_add(1).ok_or_else(no_ids)?;
        if let Some(column) = self.columns.get_mut(position) {
            (column.id, column.data_type) = (id, data_type);
            self.next_id = next_id;
        }
        Ok(())
    }

    /// Makes a column NOT NULL; only for a table without rows.
    pub fn require(&mut self, position: usize) {
        if let Some(column) = self.columns.get_mut(position) {
            column.nullable = false;
        }
    }

    /// Lets a column have nulls.
    pub(crate) fn allow_nulls(&mut self, id: ColumnId) {
        self.columns.iter_mut().filter(|column| column.id == id).for_each(|column| {
            column.nullable = true;
        });
    }

    /// The Arrow schema that queries see.
    pub fn to_arrow(&self) -> arrow_schema::SchemaRef {
        let field = |c: &Column| c.data_type.to_field(&c.name, c.nullable);
        Arc::new(arrow_schema::Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }
}

#[cold]
fn no_ids() -> Error {
    Error::LimitExceeded("no column ids are left".into())
}

fn named_twice(name: &str) -> Error {
    Error::InvalidInput(format!("column '{name}' is named twice"))
}

fn check_count(columns: usize) -> Result<()> {
    if columns > limits::MAX_COLUMNS {
        let most = limits::MAX_COLUMNS;
        return Err(Error::LimitExceeded(format!("{columns} columns; a table has at most {most}")));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > limits::MAX_NAME_BYTES || name.contains('\0') {
        return Err(Error::InvalidInput(format!(
            "column name '{name}' must have 1 to {} bytes and no NUL",
            limits::MAX_NAME_BYTES
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_cannot_be_added_changes_nothing() {
        let mut schema =
            Schema::from_names([("a", DataType::Int64), ("b", DataType::Utf8)]).unwrap();
        let before = schema.clone();
        for bad in ["", "b", "x\0"] {
            assert!(schema.add(bad, DataType::Bool).is_err());
            assert_eq!(schema, before);
        }
        assert_eq!(schema.add("c", DataType::Bool).unwrap(), ColumnId(2));
        assert_eq!((schema.position("c"), schema.next_id()), (Some(2), 3));
    }
}
