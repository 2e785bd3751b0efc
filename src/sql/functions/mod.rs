//! Functions and aggregates in place of those of DataFusion that answer wrongly or slowly, and
//! those that it lacks.

/// Methods that are passed on to DataFusion's own function, which is in the field `inner`.
macro_rules! delegate {
    ($($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $method(&self, $($argument: $type),*) -> $result {
            self.inner.$method($($argument),*)
        })*
    };
}

pub(in crate::sql) mod ages;
pub(in crate::sql) mod aggregates;
mod anchored;
pub(in crate::sql) mod bars;
pub(in crate::sql) mod bits;
pub(in crate::sql) mod bounds;
pub(in crate::sql) mod by_type;
pub(in crate::sql) mod collected;
pub(in crate::sql) mod concatenation;
pub(in crate::sql) mod current_settings;
pub(in crate::sql) mod dates;
pub(in crate::sql) mod differences;
mod digests;
pub(in crate::sql) mod distinct_rows;
pub(in crate::sql) mod elements;
mod exact_sums;
pub(in crate::sql) mod extracts;
pub(in crate::sql) mod extremes;
pub(in crate::sql) mod formats;
pub(in crate::sql) mod greatest;
pub(in crate::sql) mod growing;
pub(in crate::sql) mod in_doubles;
pub(in crate::sql) mod json;
pub(in crate::sql) mod json_out;
pub(in crate::sql) mod key_numbers;
pub(in crate::sql) mod lead;
pub(in crate::sql) mod list_aggregates;
pub(in crate::sql) mod list_sets;
pub(in crate::sql) mod maps;
pub(in crate::sql) mod nearest;
mod nested_extremes;
pub(in crate::sql) mod patterns;
pub(in crate::sql) mod percentiles;
pub(in crate::sql) mod picked;
pub(in crate::sql) mod places;
pub(in crate::sql) mod powers;
pub(in crate::sql) mod printf;
mod r_squared;
pub(in crate::sql) mod rankings;
mod sequences;
mod shifted;
pub(in crate::sql) mod sliding;
pub(in crate::sql) mod templates;
pub(in crate::sql) mod text;
mod time_texts;
pub(in crate::sql) mod tallies;
pub(in crate::sql) mod unordered;
pub(in crate::sql) mod whole_numbers;
