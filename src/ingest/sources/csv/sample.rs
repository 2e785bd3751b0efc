//! What the first rows of a column say about it: its type, how its values are written, and which
//! words stand for null.
//!
//! **Words for null.** A column is not text if words such as `NA` are all that keep it from another
//! type. They are null in that column, and in no other. `nan` is a float wherever that makes the
//! column one.
//!
//! **Plus signs.** `+5` is an integer, unless all values of the column have a plus sign: those are
//! telephone numbers, as are more than seven digits after a plus sign.
//!
//! **Days and months.** `01/02/2020` is a date only if some other value of the column, the options
//! or an earlier file tells which is the day. With points (`01.02.2020`), the day comes first
//! unless a value says otherwise.
//!
//! **Blanks** around values do not make a column text: they are left out in columns of other types.
//!
//! **Booleans.** `yes` and `t` are booleans where the column also has their opposites: a column of
//! nothing but `no` is text. `Y` and `N` are codes more often than booleans (`store_and_fwd_flag`),
//! and stay text unless the table or the user says otherwise.

use super::options::CsvOptions;
use crate::ingest::infer::TypeCandidates;
use crate::ingest::text::layout::{
    DateOrder, Layout, LayoutSet, Value, in_order, layouts, possible,
};
use crate::ingest::text::number_format::{NumberFormat, without_plus};
use crate::ingest::text::{Text, number, time};
use crate::model::DataType;

/// Words that are booleans only where the type is known.
const CODES: Layout = Layout::Booleans(["n", "y"]);

/// A set of [`WORDS`]: bit `i` is word `i`.
pub(super) type WordSet = u16;

/// Words that stand for null.
const WORDS: [&str; 12] =
    ["NA", "N/A", "n/a", "null", "NULL", "None", "-", "\\N", "?", "#N/A", "nan", "NaN"];
/// Those that are floats, too.
const NAN: WordSet = 1 << 10 | 1 << 11;
/// What looks like a year.
const YEARS: std::ops::RangeInclusive<i64> = 1900..=2100;

/// What is looked for in values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sampling {
    /// Whether words may stand for null.
    words: bool,
    /// Whether values may have other layouts.
    layouts: bool,
    /// Whether values that have no layout are left out, and the others still have one.
    tolerant: bool,
    numbers: NumberFormat,
}

impl Sampling {
    pub(super) fn new(options: &CsvOptions) -> Self {
        Sampling {
            words: options.nulls.is_empty(),
            layouts: true,
            tolerant: options.skip_bad_rows,
            numbers: options.numbers,
        }
    }

    /// For rows after the first ones, where no words and layouts are decided any more.
    pub(super) fn later(numbers: NumberFormat) -> Self {
        Sampling { numbers, ..Sampling::default() }
    }
}

/// The values of a column among the first rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnSample {
    /// As plain values; words are left out.
    plain: TypeCandidates,
    /// As values in all of these layouts.
    laid_out: TypeCandidates,
    layouts: LayoutSet,
    /// The layouts of those values that have one, where the others are left out.
    layouts_of_some: LayoutSet,
    /// Which booleans there are, in a layout.
    seen: [bool; 2],
    words: WordSet,
    plus: bool,
    no_plus: bool,
    /// Whether all values look like years.
    only_years: bool,
    /// Whether there are values without a blank before them, and with one.
    blank_before: [bool; 2],
}

/// What the values do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Day and month cannot be told apart, and the column is text.
    DayOrMonth,
    /// Day and month cannot be told apart by values alone, but by their layout or from elsewhere.
    DayOrMonthDecided,
}

/// What a column is, by its first rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) data_type: DataType,
    pub(super) layout: Layout,
    /// Words that are null.
    pub(super) words: WordSet,
    pub(super) doubt: Option<Doubt>,
    /// The order of day and month, if it is known from elsewhere.
    pub(super) order: Option<DateOrder>,
}

impl Default for ColumnSample {
    fn default() -> Self {
        ColumnSample {
            plain: TypeCandidates::default(),
            laid_out: TypeCandidates::default(),
            layouts: LayoutSet::MAX,
            layouts_of_some: LayoutSet::MAX,
            seen: [false; 2],
            words: 0,
            plus: false,
            no_plus: false,
            only_years: true,
            blank_before: [false; 2],
        }
    }
}

impl ColumnSample {
    /// Adds a field that is not null.
    pub(super) fn add(&mut self, text: Text<'_>, quoted: bool, sampling: &Sampling) {
        let bytes = text.bytes();
        if sampling.words && !quoted {
            let word = word_bit(bytes);
            self.words |= word;
            if word != 0 {
                return;
            }
        }
        self.add_plain(text, sampling);
        self.only_years =
            self.only_years && number::int64(text).is_some_and(|year| YEARS.contains(&year));
        if self.layouts == 0 && !(sampling.tolerant && self.layouts_of_some != 0) {
            return;
        }
        let Some((set, value)) = possible(bytes).filter(|_| sampling.layouts) else {
            self.layouts = 0;
            return;
        };
        self.layouts &= set;
        self.layouts_of_some &= set;
        match value {
            Value::Moment(moment) => self.laid_out.add_moment(moment),
            Value::Bool(value) => {
                self.laid_out.add_boolean();
                let [no, yes] = &mut self.seen;
                *(if value { yes } else { no }) = true;
            }
        }
    }

    fn add_plain(&mut self, text: Text<'_>, sampling: &Sampling) {
        // A distant year has a plus sign, too.
        let is_time = || time::date(text).is_some() || time::instant(text).is_some();
        if let Some(rest) = without_plus(text).filter(|_| !is_time()) {
            self.plus = true;
            return self.add_number(rest, sampling);
        }
        self.no_plus = true;
        match text.bytes() {
            b"-0" => self.plain.add_negative_zero(),
            [b'0'..=b'9' | b'-' | b'.' | b',', ..] => self.add_number(text, sampling),
            _ => self.plain.add(text),
        }
    }

    fn add_number(&mut self, text: Text<'_>, sampling: &Sampling) {
        if sampling.numbers.is_plain() {
            return self.plain.add(text);
        }
        let mut plain = self.plain;
        let number = |text: Text<'_>| {
            plain.add(text);
            is_number(&plain.data_type()).then_some(plain)
        };
        match sampling.numbers.parse(text, number) {
            Some(number) => self.plain = number,
            // A date, or `1.5` where the point is a comma.
            None if number::float64(text).is_none() => self.plain.add(text),
            None => self.plain.add_text_only(),
        }
    }

    /// Notes whether a value, as it is written, has a blank before it.
    pub(super) fn note_blank(&mut self, text: Text<'_>, quoted: bool) {
        let [without, with] = &mut self.blank_before;
        let is_blank = !quoted && text.bytes().first() == Some(&b' ');
        *(if is_blank { with } else { without }) = true;
    }

    /// Whether all values have a blank before them.
    pub(super) fn has_blanks_before(&self) -> bool {
        self.blank_before == [false, true]
    }

    /// Adds a quoted empty field.
    pub(super) fn add_quoted_empty(&mut self) {
        self.plain.add_quoted_empty();
        self.laid_out.add_quoted_empty();
    }

    /// Whether all values look like years.
    pub(super) fn has_only_years(&self) -> bool {
        self.only_years && self.plain.has_values()
    }

    /// Whether all values, and this one, are `y` or `n`.
    pub(super) fn has_code(&self, text: &[u8]) -> bool {
        let is_coded = layouts(self.layouts).any(|layout| layout == CODES);
        is_coded && self.laid_out.has_values() && CODES.value(text).is_some()
    }

    /// Whether the one field that was added is a plain value of a type other than text.
    pub(super) fn is_no_name(&self) -> bool {
        !self.plus && !matches!(self.plain.data_type(), DataType::Utf8 | DataType::Null)
    }

    /// Words for null among the values.
    pub(super) fn words(&self) -> WordSet {
        self.words
    }

    /// What the column is, given the order of day and month if it is known.
    pub(super) fn decide(&self, order: Option<DateOrder>) -> Decision {
        let mut words = self.words;
        let mut data_type = self.plain.data_type();
        if is_number(&data_type) && self.plus && !self.no_plus {
            data_type = DataType::Utf8;
        }
        let is_float = is_number(&data_type) && self.plain.can_be_float();
        if words & NAN != 0 && (is_float || words & !NAN == 0 && !self.plain.has_values()) {
            (data_type, words) = (DataType::Float64, words & !NAN);
        }
        let (layout, doubt) = (Layout::Plain, None);
        let plain = Decision { data_type, layout, words, doubt, order };
        let mut decision = match plain.data_type {
            DataType::Utf8 => self.decide_layout(order).unwrap_or(plain),
            _ => plain,
        };
        if words != 0 && matches!(decision.data_type, DataType::Utf8 | DataType::Null) {
            (decision.data_type, decision.words) = (DataType::Utf8, 0);
        }
        decision
    }

    /// The layout of values that are not plain.
    fn decide_layout(&self, order: Option<DateOrder>) -> Option<Decision> {
        if !self.laid_out.has_values() {
            return None;
        }
        let set = order.map_or(self.layouts, |order| in_order(self.layouts, order));
        let layout = layouts(set).next()?;
        if matches!(layout, Layout::Booleans(_)) && self.seen != [true; 2] || layout == CODES {
            return None;
        }
        let data_type = self.laid_out.data_type();
        if data_type == DataType::Utf8 {
            return None;
        }
        let decision = Decision { data_type, layout, words: self.words, doubt: None, order };
        if !has_both_orders(self.layouts) {
            return Some(decision);
        }
        // Points stand in dates whose day comes first; after a slash or hyphen it may be either.
        let is_decided = order.is_some() || layout == Layout::DayFirst(b'.');
        Some(match is_decided {
            true => Decision { doubt: Some(Doubt::DayOrMonthDecided), ..decision },
            false => Decision {
                data_type: DataType::Utf8,
                layout: Layout::Plain,
                words: 0,
                doubt: Some(Doubt::DayOrMonth),
                order,
            },
        })
    }

    /// The order of day and month of all dates, where they have only one.
    pub(super) fn order(&self) -> Option<DateOrder> {
        let dates = self.laid_out.has_values() && !has_both_orders(self.layouts);
        layouts(self.layouts).find_map(Layout::order).filter(|_| dates)
    }

    /// The layouts in which the values are of this type, or those of them that have one.
    pub(super) fn layouts_of(&self, data_type: &DataType) -> LayoutSet {
        use DataType::{Date, Timestamp};
        if !self.laid_out.has_values() {
            return 0;
        }
        let found = self.laid_out.data_type();
        let fits = found == *data_type
            || matches!((&found, data_type), (Date | Timestamp { .. }, Timestamp { .. }));
        match fits {
            true if self.layouts == 0 => self.layouts_of_some,
            true => self.layouts,
            false => 0,
        }
    }
}

/// Whether dates of a set of layouts may have the day or the month first.
pub(super) fn has_both_orders(set: LayoutSet) -> bool {
    let has = |order| layouts(set).any(|layout| layout.order() == Some(order));
    has(DateOrder::DayFirst) && has(DateOrder::MonthFirst)
}

/// The type of one value of a column with this layout.
pub(super) fn type_of_value(text: Text<'_>, layout: Layout) -> DataType {
    let text = text.without_blanks().unwrap_or(text);
    let numbers = match layout {
        Layout::Numbers(format) => format,
        Layout::Plain => NumberFormat::default(),
        layout => {
            let mut candidates = TypeCandidates::default();
            match layout.value(text.bytes()) {
                Some(Value::Moment(moment)) => candidates.add_moment(moment),
                Some(Value::Bool(_)) => candidates.add_boolean(),
                None => candidates.add_text_only(),
            }
            return candidates.data_type();
        }
    };
    let mut sample = ColumnSample::default();
    sample.add_plain(text, &Sampling::later(numbers));
    sample.plain.data_type()
}

/// Whether these types are numbers.
pub(super) fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(data_type, DataType::Float32 | DataType::Float64 | DataType::Decimal { .. })
}

/// The word that a field is.
fn word_bit(bytes: &[u8]) -> WordSet {
    if bytes.len() > 4 || !matches!(bytes.first(), Some(b'N' | b'n' | b'-' | b'\\' | b'?' | b'#')) {
        return 0;
    }
    WORDS.iter().position(|word| word.as_bytes() == bytes).map_or(0, |at| 1 << at)
}

/// Whether a value is a word that may stand for null.
pub(super) fn is_word(bytes: &[u8]) -> bool {
    word_bit(bytes) != 0
}

/// The words of a set.
pub(super) fn words(set: WordSet) -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1).map(|(_, word)| word)
}

/// The words of a set that are null in a column of this type.
pub(super) fn null_words(set: WordSet, data_type: &DataType) -> WordSet {
    match data_type {
        DataType::Float32 | DataType::Float64 => set & !NAN,
        DataType::Utf8 | DataType::Binary | DataType::Uuid | DataType::Null => 0,
        _ => set,
    }
}
