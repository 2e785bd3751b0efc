//! Functions whose results may be far larger than their arguments: `repeat`, `lpad`, `rpad`,
//! `replace`, `regexp_replace`, `concat`, `concat_ws`, `array_to_string`, `array_repeat`,
//! `array_resize`, `range` and `generate_series`.
//!
//! Where this stands on the road of a query: a session registers them in place of DataFusion's,
//! which allocate whatever is asked for, also while a plan is made (`repeat('x', 2000000000)` is a
//! constant). Here the size of the result for a batch is computed first, and refused if it is more
//! than `bounds` allows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait};
use arrow_schema::{DataType, FieldRef};
use datafusion::arrow::compute::kernels::length::length;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use datafusion::scalar::ScalarValue;

use crate::sql::functions::bounds::MostBytes;

/// The functions that grow, by DataFusion's names, and how.
const GROWING: [(&str, Growth); 12] = [
    ("repeat", Growth::Repeat),
    ("lpad", Growth::Pad),
    ("rpad", Growth::Pad),
    ("replace", Growth::Replace),
    ("regexp_replace", Growth::RegexpReplace),
    ("concat", Growth::Concatenate),
    ("concat_ws", Growth::ConcatenateWith),
    ("array_to_string", Growth::ArrayToString),
    ("array_repeat", Growth::ArrayRepeat),
    ("array_resize", Growth::ArrayResize),
    ("range", Growth::Range),
    ("generate_series", Growth::Range),
];

/// The assumed size of an element of an array, in bytes, where the true one is not known.
const ELEMENT_BYTES: i128 = 8;
/// The text of a number has at most about as many bytes.
const NUMBER_BYTES: i128 = 24;

/// The functions that replace those of `known`, for a session with this bound.
pub(in crate::sql) fn functions(
    known: impl Fn(&str) -> Option<Arc<ScalarUDF>>,
    most: &MostBytes,
) -> Vec<ScalarUDF> {
    let bounded =
        |(name, growth)| Some(Bounded { inner: known(name)?, growth, most: most.clone() });
    GROWING.into_iter().filter_map(bounded).map(ScalarUDF::from).collect()
}

/// The most bytes of the result of a function for a batch, if it is one that grows.
pub(in crate::sql) fn most_of(function: &ScalarUDF) -> Option<usize> {
    Some(function.inner().downcast_ref::<Bounded>()?.most.bytes())
}

/// The most bytes that an expression may make of some rows.
pub(in crate::sql) fn most_bytes(expr: &Expr) -> DataFusionResult<usize> {
    let mut most = usize::MAX;
    expr.apply(|part| {
        if let Expr::ScalarFunction(call) = part {
            most = most.min(most_of(&call.func).unwrap_or(usize::MAX));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(most)
}

/// How the size of a result follows from the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Growth {
    /// The first argument's bytes as many times as the second says.
    Repeat,
    /// The second argument's number of characters.
    Pad,
    /// The third argument's bytes wherever the second is found in the first, at most everywhere.
    Replace,
    /// The third argument's bytes, with groups of the first, once, or with the flag g wherever the
    /// second matches in the first, at most everywhere.
    RegexpReplace,
    /// The bytes of all arguments.
    Concatenate,
    /// The bytes of all arguments, with the first between the others.
    ConcatenateWith,
    /// The texts of the elements of the first argument, with the second between them, or the third
    /// for each null.
    ArrayToString,
    /// The first argument's bytes as many times as the second says.
    ArrayRepeat,
    /// The second argument's number of elements.
    ArrayResize,
    /// From the first argument to the second in steps of the third.
    Range,
}

impl Growth {
    /// Bytes of the result for `rows` rows, at most or about.
    pub(super) fn bytes(self, arguments: &[ColumnarValue], rows: usize) -> DataFusionResult<i128> {
        let is_constant = arguments.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = 0..if is_constant { 1 } else { rows };
        let number = |at: usize, or: i128| Numbers::of_integers(arguments.get(at), or);
        let length = |at: usize| Numbers::of_texts(arguments.get(at));
        Ok(match self {
            Growth::Repeat => {
                let (texts, times) = (length(0)?, number(1, 0)?);
                rows.map(|row| texts.at(row).saturating_mul(times.at(row).max(0))).sum()
            }
            Growth::Pad => {
                let characters = number(1, 0)?;
                rows.map(|row| characters.at(row).max(0)).sum()
            }
            Growth::Replace => {
                let (texts, from, to) = (length(0)?, length(1)?, length(2)?);
                let grown = |row| {
                    let (text, from) = (texts.at(row), from.at(row));
                    let found = if from > 0 { text / from } else { text + 1 };
                    text + found * (to.at(row) - from).max(0)
                };
                rows.map(grown).sum()
            }
            Growth::RegexpReplace => {
                let (texts, to) = (length(0)?, length(2)?);
                let everywhere = arguments.get(3).is_some_and(may_be_global);
                let groups = arguments.get(2).map_or(0, most_groups);
                let replaced = |row| {
                    let text = texts.at(row);
                    let times = if everywhere { text + 1 } else { 1 };
                    // Groups of all matches have at most the bytes of the text.
                    text + times * to.at(row) + groups * text
                };
                rows.map(replaced).sum()
            }
            Growth::Concatenate | Growth::ConcatenateWith => {
                let texts =
                    (0..arguments.len()).map(length).collect::<DataFusionResult<Vec<_>>>()?;
                let between = match self {
                    Growth::ConcatenateWith => arguments.len().saturating_sub(2) as i128,
                    _ => 0,
                };
                let joined = |row: usize| {
                    let separator = texts.first().map_or(0, |text| text.at(row));
                    texts.iter().map(|text| text.at(row)).sum::<i128>() + between * separator
                };
                rows.map(joined).sum()
            }
            Growth::ArrayToString => {
                let (separator, null) = (length(1)?, length(2)?);
                let most = |texts: &Numbers, count: usize| {
                    (0..count).map(|row| texts.at(row)).max().unwrap_or(0)
                };
                let (elements, bytes) = elements(arguments.first());
                let between = most(&separator, rows.len()) + most(&null, rows.len());
                bytes + elements * (NUMBER_BYTES + between)
            }
            Growth::ArrayRepeat => {
                let (element, times) = (element_bytes(arguments.first()), number(1, 0)?);
                rows.map(|row| element.saturating_mul(times.at(row).max(0))).sum()
            }
            Growth::ArrayResize => {
                let (element, elements) = (element_bytes(arguments.get(2)), number(1, 0)?);
                rows.map(|row| element.saturating_mul(elements.at(row).max(0))).sum()
            }
            Growth::Range => {
                let (start, stop) = match arguments.len() {
                    1 => (Numbers::all(0), number(0, 0)?),
                    _ => (number(0, 0)?, number(1, 0)?),
                };
                let step = number(2, 1)?;
                let elements = |row| match step.at(row) {
                    0 => 0,
                    step => ((stop.at(row) - start.at(row)) / step).max(0) + 1,
                };
                rows.map(|row| ELEMENT_BYTES * elements(row)).sum()
            }
        })
    }
}

/// Whether flags of a regular expression may say that all matches count.
fn may_be_global(flags: &ColumnarValue) -> bool {
    match flags {
        ColumnarValue::Scalar(flags) => {
            flags.try_as_str().is_none_or(|flags| flags.is_some_and(|flags| flags.contains('g')))
        }
        ColumnarValue::Array(_) => true,
    }
}

/// How many groups a replacement names at most.
fn most_groups(replacement: &ColumnarValue) -> i128 {
    match replacement {
        ColumnarValue::Scalar(text) => {
            let text = text.try_as_str().flatten().unwrap_or_default();
            text.bytes().filter(|byte| *byte == b'\\').count() as i128
        }
        ColumnarValue::Array(_) => 16,
    }
}

/// Bytes of `replace(text, from, to)`, from how often each text is really found. It reads the
/// texts, so it is asked only where [`Growth::bytes`], which takes a text for nothing but
/// occurrences, is too much.
fn replaced_bytes(arguments: &[ColumnarValue], rows: usize) -> DataFusionResult<i128> {
    let [text, from, to] = arguments else { return Ok(0) };
    let is_constant = arguments.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { rows };
    let views = |argument: &ColumnarValue| -> DataFusionResult<ArrayRef> {
        Ok(arrow_cast::cast(&argument.to_array(rows)?, &DataType::Utf8View)?)
    };
    let (texts, from, to) = (views(text)?, views(from)?, views(to)?);
    let (texts, from, to) = (texts.as_string_view(), from.as_string_view(), to.as_string_view());
    let bytes = texts.iter().zip(from).zip(to).map(|((text, from), to)| {
        let (Some(text), Some(from), Some(to)) = (text, from, to) else { return 0 };
        let found = text.matches(from).count() as i128;
        text.len() as i128 + found * (to.len() as i128 - from.len() as i128)
    });
    Ok(bytes.sum())
}

/// About as many bytes as an element of an array takes.
fn element_bytes(argument: Option<&ColumnarValue>) -> i128 {
    let bytes = match argument {
        Some(ColumnarValue::Scalar(value)) => {
            value.data_type().primitive_width().unwrap_or(value.size())
        }
        Some(ColumnarValue::Array(array)) => {
            array.get_buffer_memory_size().checked_div(array.len()).unwrap_or_default()
        }
        None => 0,
    };
    (bytes as i128).max(ELEMENT_BYTES)
}

/// How many elements all lists have, those of lists in lists, and the bytes of their texts.
fn elements(argument: Option<&ColumnarValue>) -> (i128, i128) {
    let mut all = match argument {
        Some(ColumnarValue::Array(array)) => Arc::clone(array),
        Some(ColumnarValue::Scalar(ScalarValue::List(list))) => Arc::clone(list) as ArrayRef,
        Some(ColumnarValue::Scalar(ScalarValue::LargeList(list))) => Arc::clone(list) as ArrayRef,
        _ => return (0, 0),
    };
    loop {
        all = if let Some(list) = all.as_list_opt::<i32>() {
            items(list)
        } else if let Some(list) = all.as_list_opt::<i64>() {
            items(list)
        } else {
            let texts = if all.data_type().is_string() { text_bytes(&all) } else { 0 };
            return (all.len() as i128, texts);
        }
    }
}

/// The items of all lists.
fn items<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> ArrayRef {
    let (first, last) = (lists.value_offsets().first(), lists.value_offsets().last());
    let (first, last) = (first.map_or(0, |at| at.as_usize()), last.map_or(0, |at| at.as_usize()));
    lists.values().slice(first, last - first)
}

/// A number for each row, or one for all of them.
struct Numbers {
    values: Option<ArrayRef>,
    is_constant: bool,
    /// Where a row has none.
    or: i128,
}

impl Numbers {
    fn all(or: i128) -> Self {
        Numbers { values: None, is_constant: true, or }
    }

    /// An argument's integers.
    fn of_integers(argument: Option<&ColumnarValue>, or: i128) -> DataFusionResult<Self> {
        match argument.filter(|argument| argument.data_type().is_integer()) {
            Some(argument) => Numbers::new(argument, &argument.to_array(1)?, or),
            None => Ok(Numbers::all(or)),
        }
    }

    /// The lengths of an argument's texts, in bytes.
    fn of_texts(argument: Option<&ColumnarValue>) -> DataFusionResult<Self> {
        match argument.filter(|argument| argument.data_type().is_string()) {
            Some(argument) => Numbers::new(argument, &length(&*argument.to_array(1)?)?, 0),
            None => Ok(Numbers::all(0)),
        }
    }

    fn new(argument: &ColumnarValue, values: &ArrayRef, or: i128) -> DataFusionResult<Self> {
        let values = Some(arrow_cast::cast(values, &DataType::Int64)?);
        Ok(Numbers { values, is_constant: matches!(argument, ColumnarValue::Scalar(_)), or })
    }

    fn at(&self, row: usize) -> i128 {
        let row = if self.is_constant { 0 } else { row };
        let values = self.values.as_ref().map(|values| values.as_primitive::<Int64Type>());
        let values = values.filter(|values| row < values.len() && values.is_valid(row));
        values.map_or(self.or, |values| i128::from(values.value(row)))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    /// DataFusion's function.
    inner: Arc<ScalarUDF>,
    growth: Growth,
    most: MostBytes,
}

impl ScalarUDFImpl for Bounded {
    delegate! {
        name() -> &str;
        aliases() -> &[String];
        signature() -> &Signature;
        return_type(arguments: &[DataType]) -> DataFusionResult<DataType>;
        return_field_from_args(arguments: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef>;
        is_strict() -> bool;
        short_circuits() -> bool;
        coerce_types(arguments: &[DataType]) -> DataFusionResult<Vec<DataType>>;
        simplify(arguments: Vec<Expr>, info: &SimplifyContext)
            -> DataFusionResult<ExprSimplifyResult>;
        output_ordering(inputs: &[ExprProperties]) -> DataFusionResult<SortProperties>;
        documentation() -> Option<&Documentation>;
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let (values, rows) = (&arguments.args, arguments.number_rows);
        let mut bytes = self.growth.bytes(values, rows)?;
        if !self.most.allows(bytes) {
            bytes = match self.growth {
                Growth::Replace => replaced_bytes(values, rows)?,
                // How often a pattern is found shows when it is looked for: in fewer rows.
                Growth::RegexpReplace if rows > 1 => return self.halves(&arguments),
                _ => bytes,
            };
        }
        self.most.check(self.name(), bytes, rows, &arguments.config_options)?;
        self.inner.invoke_with_args(arguments)
    }
}

impl Bounded {
    /// The results of half of the rows after those of the other half.
    fn halves(&self, arguments: &ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let rows = arguments.number_rows;
        let half = |rows: Range<usize>| {
            let count = rows.len();
            self.invoke_with_args(rows_of(arguments, rows))?.into_array(count)
        };
        let (first, second) = (half(0..rows / 2)?, half(rows / 2..rows)?);
        let bytes = text_bytes(&first) + text_bytes(&second);
        self.most.check_whole(self.name(), bytes, rows, 4, &arguments.config_options)?;
        Ok(ColumnarValue::Array(arrow_select::concat::concat(&[&first, &second])?))
    }
}

/// The arguments of some rows.
pub(super) fn rows_of(all: &ScalarFunctionArgs, rows: Range<usize>) -> ScalarFunctionArgs {
    let cut = |argument: &ColumnarValue| match argument {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(rows.start, rows.len())),
        constant => constant.clone(),
    };
    let args = all.args.iter().map(cut).collect();
    ScalarFunctionArgs { args, number_rows: rows.len(), ..all.clone() }
}

/// The bytes of some texts.
fn text_bytes(texts: &ArrayRef) -> i128 {
    let lengths = length(texts).and_then(|lengths| arrow_cast::cast(&lengths, &DataType::Int64));
    lengths.map_or(0, |lengths| {
        lengths.as_primitive::<Int64Type>().iter().flatten().map(i128::from).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, StringArray};

    fn text(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(text))
    }

    fn number(number: i64) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(number))
    }

    #[test]
    fn sizes_follow_from_arguments() {
        let texts = ColumnarValue::Array(Arc::new(StringArray::from(vec!["a", "bcd", "", "e"])));
        let times = vec![Some(2), Some(1 << 40), Some(3), None];
        let times = ColumnarValue::Array(Arc::new(Int64Array::from(times)));
        let bytes =
            |growth: Growth, arguments: &[ColumnarValue]| growth.bytes(arguments, 4).unwrap();
        assert_eq!(bytes(Growth::Repeat, &[text("xyz"), number(10)]), 30);
        assert_eq!(bytes(Growth::Repeat, &[texts.clone(), times.clone()]), 2 + (3 << 40));
        assert_eq!(
            bytes(Growth::Repeat, &[text("xyz"), number(i64::MAX)]),
            3 * i128::from(i64::MAX)
        );
        assert_eq!(bytes(Growth::Repeat, &[text("xyz"), number(-1)]), 0);
        assert_eq!(bytes(Growth::Pad, &[texts.clone(), number(100)]), 400);
        assert_eq!(bytes(Growth::Replace, &[texts.clone(), text("a"), text("long")]), 5 + 5 * 3);
        assert_eq!(bytes(Growth::Replace, &[texts.clone(), text("long"), text("")]), 5);
        assert_eq!(bytes(Growth::Replace, &[texts.clone(), text(""), text("-")]), 5 + 5 + 4);
        let replaced = |arguments: &[ColumnarValue]| replaced_bytes(arguments, 4).unwrap();
        assert_eq!(replaced(&[texts.clone(), text("a"), text("long")]), 5 + 3);
        assert_eq!(replaced(&[texts.clone(), text("bcd"), text("")]), 2);
        assert_eq!(replaced(&[texts, text(""), text("-")]), 5 + 2 + 4 + 1 + 2);
        let lists = [Some(vec![Some(1); 5]), None, Some(vec![None; 2])];
        let lists = arrow_array::ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
        let lists = ColumnarValue::Array(Arc::new(lists));
        assert_eq!(bytes(Growth::ArrayToString, &[lists, text("12345")]), 7 * (24 + 5));
        assert_eq!(bytes(Growth::ArrayResize, &[text("[]"), number(1000), number(0)]), 8000);
        assert_eq!(bytes(Growth::Range, &[number(1000)]), 8008);
        assert_eq!(bytes(Growth::Range, &[number(10), number(0), number(-2)]), 48);
        assert_eq!(bytes(Growth::Range, &[number(10), number(0)]), 8);
        assert!(bytes(Growth::Range, &[number(i64::MIN), number(i64::MAX)]) > 1 << 60);
    }
}
