//! Names and types of an input's columns.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::column::ColumnBuilder;
use super::guess::Guess;
use super::options::CsvOptions;
use super::rules::FieldRules;
use super::sample::{WordSet, words};
use crate::ingest::text::layout::{DateOrder, Layout};
use crate::ingest::text::number_format::NumberFormat;
use crate::model::{DataType, Schema};

/// A column of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvColumn {
    /// Name from the header, the options or the position.
    pub name: Arc<str>,
    /// Inferred type. A chunk may come out wider unless the type is fixed.
    pub data_type: DataType,
    /// Whether the user has named the type.
    pub fixed: bool,
    /// How its values are written.
    pub(super) layout: Layout,
    /// Its own rules, where words stand for null in it.
    pub(super) rules: Option<Arc<FieldRules>>,
}

impl CsvColumn {
    /// A column that has no type yet.
    pub(super) fn named(name: &str) -> Self {
        CsvColumn {
            name: Arc::from(name),
            data_type: DataType::Null,
            fixed: false,
            layout: Layout::Plain,
            rules: None,
        }
    }
}

/// Everything needed to parse chunks of one input.
#[derive(Clone, Debug)]
pub struct CsvSchema {
    /// The columns, in the order of the fields.
    pub columns: Vec<CsvColumn>,
    /// Whether the first row of chunk 0 holds names.
    pub header: bool,
    /// Assumptions about the input.
    pub guesses: Vec<Guess>,
    pub(super) file: PathBuf,
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    pub(super) rules: FieldRules,
    pub(super) numbers: NumberFormat,
    /// Whether bad rows are left out ([`super::parse_good_rows`]).
    pub skip_bad_rows: bool,
    /// Positions of columns that have a value in every row of the table.
    pub(super) required: Vec<usize>,
}

impl CsvColumn {
    /// Whether its type is more of a guess than others: words are null in it, or its values are
    /// written in a layout that the first rows have.
    pub(crate) fn is_guess(&self) -> bool {
        let has_layout =
            !matches!(self.layout, Layout::Plain | Layout::Numbers(_) | Layout::Epoch(_));
        let is_text = matches!(self.data_type, DataType::Utf8 | DataType::Null);
        !self.fixed && !is_text && (has_layout || self.rules.is_some())
    }
}

impl CsvSchema {
    pub(super) fn new(file: &Path, options: &CsvOptions, delimiter: u8) -> Self {
        let nulls = options
            .nulls
            .iter()
            .filter(|n| !n.is_empty())
            .map(|n| n.clone().into_bytes())
            .collect();
        CsvSchema {
            columns: Vec::new(),
            header: false,
            guesses: Vec::new(),
            file: file.to_path_buf(),
            delimiter,
            quote: options.quote,
            rules: FieldRules {
                quote: options.quote,
                nulls,
                empty_is_null: options.empty_is_null,
                trims: true,
            },
            numbers: options.numbers,
            skip_bad_rows: options.skip_bad_rows,
            required: Vec::new(),
        }
    }

    /// The same schema, starting from the types of a table where the user has named none.
    #[must_use]
    pub fn starting_from(&self, table: &Schema) -> Self {
        let types: HashMap<&str, &DataType> =
            table.columns().iter().map(|c| (&*c.name, &c.data_type)).collect();
        let mut schema = self.clone();
        for column in schema.columns.iter_mut().filter(|column| !column.fixed) {
            if let Some(known) = types.get(&*column.name).filter(|known| ***known != DataType::Null)
            {
                column.data_type = (*known).clone();
            }
        }
        schema
    }

    /// The same schema for a table that takes no nulls in the columns of these names.
    #[must_use]
    pub(crate) fn requiring(mut self, names: &[String]) -> Self {
        let columns = self.columns.iter().enumerate();
        let required =
            columns.filter(|(_, column)| names.iter().any(|name| **name == *column.name));
        self.required = required.map(|(at, _)| at).collect();
        self
    }

    /// The same schema where columns that nobody reads take any values, unless their types are
    /// fixed.
    #[must_use]
    pub(crate) fn reading(&self, is_read: impl Fn(&str) -> bool) -> Self {
        let mut schema = self.clone();
        for column in schema.columns.iter_mut().filter(|one| !one.fixed && !is_read(&one.name)) {
            (column.data_type, column.layout) = (DataType::Utf8, Layout::Plain);
        }
        schema
    }

    /// The delimiter of fields.
    pub(crate) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// The rules for the fields of a column that is read as this type: words are null only where
    /// they are not values.
    pub(super) fn rules(&self, position: usize, data_type: &DataType) -> &FieldRules {
        let own = self.columns.get(position).and_then(|column| column.rules.as_deref());
        let is_text = matches!(data_type, DataType::Utf8 | DataType::Binary | DataType::Null);
        own.filter(|_| !is_text).unwrap_or(&self.rules)
    }

    /// The rules for a column in which these words are null, too.
    pub(super) fn rules_with(&self, set: WordSet) -> Option<Arc<FieldRules>> {
        let mut rules = self.rules.clone();
        rules.nulls.extend(words(set).map(|word| word.as_bytes().to_vec()));
        (set != 0).then(|| Arc::new(rules))
    }

    /// How the values of a column are written.
    pub(super) fn layout(&self, position: usize) -> Layout {
        let layout = self.columns.get(position).map_or(Layout::Plain, |column| column.layout);
        if layout == Layout::Plain { self.layout_of_numbers() } else { layout }
    }

    /// How columns are written that have no dates or words in a layout of their own.
    pub(super) fn layout_of_numbers(&self) -> Layout {
        if self.numbers.is_plain() { Layout::Plain } else { Layout::Numbers(self.numbers) }
    }

    /// An empty column of this type.
    pub(super) fn builder(
        &self,
        position: usize,
        data_type: &DataType,
        lenient: bool,
    ) -> ColumnBuilder {
        ColumnBuilder::new(data_type, lenient).laid_out(self.layout(position))
    }

    /// The order of day and month in columns that have one, by name.
    pub(crate) fn date_orders(&self) -> impl Iterator<Item = (&str, DateOrder)> {
        self.columns.iter().filter_map(|column| Some((&*column.name, column.layout.order()?)))
    }

    /// The names of the columns, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|c| &*c.name)
    }
}
