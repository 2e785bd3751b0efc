//! The rows of an answer as charts read them: numbers, texts and lists by column and row.

/// What a column can be drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A number, whole by its type or not.
    Number {
        /// Whether its type has whole numbers only.
        whole: bool,
    },
    /// A date or a timestamp, in seconds since 1970.
    Time,
    /// A time of the day, in seconds since midnight.
    TimeOfDay,
    /// A text, or what is shown as one.
    Category,
    /// A list of numbers.
    List,
}

impl Class {
    pub(super) fn is_number(self) -> bool {
        matches!(self, Class::Number { .. })
    }

    pub(super) fn is_time(self) -> bool {
        matches!(self, Class::Time | Class::TimeOfDay)
    }
}

/// A column of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its name, without control characters.
    pub(crate) name: String,
    /// What it can be drawn as.
    pub(crate) class: Class,
}

/// Some rows of the answer.
pub(crate) trait Rows {
    /// How many.
    fn count(&self) -> usize;
    /// A number or a time; `None` for null and for columns of another class.
    fn number(&self, column: usize, row: usize) -> Option<f64>;
    /// The value as text without control characters; `None` for null.
    fn text(&self, column: usize, row: usize) -> Option<String>;
    /// A list of numbers; `None` for null.
    fn list(&self, column: usize, row: usize) -> Option<Vec<Option<f64>>>;
}
