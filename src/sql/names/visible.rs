//! Sessions that see a part of their store: those of users who may know some of its tables.

use crate::sql::names::catalog::Tables;

impl Tables {
    /// From now on, only tables whose names fit one of these are there. Set once, when the session
    /// is made.
    pub(crate) fn show_only(&self, names: Vec<glob::Pattern>) {
        if let Some(own) = &self.own {
            let _ = own.visible.set(names);
        }
    }

    /// Whether files outside the store are refused: also to those who see a part of it, because a
    /// store is made of files.
    pub(crate) fn refuses_files(&self) -> bool {
        self.no_files || self.own.as_ref().is_some_and(|own| own.visible.get().is_some())
    }

    /// Whether the session may know, make and drop a table of this name.
    pub(crate) fn is_visible(&self, name: &str) -> bool {
        self.own.as_ref().is_none_or(|own| own.is_visible(name))
    }
}
