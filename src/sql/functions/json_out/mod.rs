//! JSON texts of values: `to_json(x)`, `json_object('k', v)`, `json_array(v, w)`, `json(text)`, and
//! what `json_group_array` and `json_group_object` are made of.
//!
//! Where this stands on the road of a query: a session registers them. What they return are texts
//! in fields with a mark, so that a JSON text within another is no text in quotes there. The mark
//! is lost where DataFusion makes a field anew, as for CASE; where the statement itself says that a
//! value is JSON, `syntax::macros` wraps it in `json()`, which checks it.

mod check;
mod write;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray};
use arrow_cast::cast;
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use self::check::is_json_text;
use self::write::{each, joined, keys, pair, texts};
use crate::sql::convert::type_name;

/// The extension type of texts that are JSON.
const JSON_TEXT: &str = "stylobate.json";

/// Whether the values of a field are JSON texts by their mark.
fn is_json(field: &Field) -> bool {
    field.extension_type_name() == Some(JSON_TEXT)
}

/// All of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    use Function::{Array, Check, Element, Elements, Member, Members, Object, Value};
    [Array, Check, Element, Elements, Member, Members, Object, Value].into_iter().map(|function| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        let signature = match function {
            Array | Object => Signature::one_of(
                vec![TypeSignature::VariadicAny, TypeSignature::Nullary],
                Volatility::Immutable,
            ),
            _ => signature,
        };
        let aliases = function.aliases().iter().map(|name| (*name).to_owned()).collect();
        ScalarUDF::from(JsonOut { function, signature, aliases })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonOut {
    function: Function,
    signature: Signature,
    aliases: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    Array,
    /// A text as JSON.
    Check,
    /// A value, null too, as one of an array.
    Element,
    /// An array of texts of elements.
    Elements,
    /// A key and a value.
    Member,
    /// An object of texts of keys and values.
    Members,
    Object,
    Value,
}

impl Function {
    fn aliases(self) -> &'static [&'static str] {
        match self {
            Function::Array => &["json_build_array", "jsonb_build_array"],
            Function::Object => &["json_build_object", "jsonb_build_object"],
            Function::Value => &["array_to_json", "row_to_json", "to_jsonb"],
            _ => &[],
        }
    }
}

impl ScalarUDFImpl for JsonOut {
    fn name(&self) -> &str {
        match self.function {
            Function::Array => "json_array",
            Function::Check => "json",
            Function::Element => "sty__json_element",
            Function::Elements => "sty__json_elements",
            Function::Member => "sty__json_member",
            Function::Members => "sty__json_members",
            Function::Object => "json_object",
            Function::Value => "to_json",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        match (self.function, arguments) {
            (Function::Array, _) => {}
            (Function::Object, all) if all.len().is_multiple_of(2) => {}
            (Function::Object, _) => {
                return plan_err!(
                    "json_object() takes keys, each with its value: json_object('a', x, 'b', y)"
                );
            }
            (Function::Check, [of]) if of.is_string() || of.is_null() => {}
            (Function::Check, [of]) => {
                return plan_err!(
                    "json() takes a JSON text, not {}; to_json() makes one of any value",
                    type_name(of)
                );
            }
            (Function::Member, [_, _]) => {}
            (Function::Elements | Function::Members, [of]) if of.is_list() || of.is_null() => {}
            (Function::Value | Function::Element, [_]) => {}
            (function, all) => {
                let takes = if function == Function::Member { 2 } else { 1 };
                return plan_err!("{}() takes {takes} arguments, not {}", self.name(), all.len());
            }
        }
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        let types: Vec<DataType> =
            given.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let mark = (EXTENSION_TYPE_NAME_KEY.to_owned(), JSON_TEXT.to_owned());
        Ok(Arc::new(field.with_metadata([mark].into())))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_constant = given.args.iter().all(|one| matches!(one, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { given.number_rows };
        let arrays = given.args.iter().map(|value| value.to_array(rows));
        let arrays = arrays.collect::<DataFusionResult<Vec<_>>>()?;
        let are_json: Vec<bool> = given.arg_fields.iter().map(|field| is_json(field)).collect();
        let found = self.found(&arrays, &are_json, rows)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}

impl JsonOut {
    fn found(
        &self,
        arrays: &[ArrayRef],
        are_json: &[bool],
        rows: usize,
    ) -> DataFusionResult<ArrayRef> {
        let text_of = |at: usize| match (arrays.get(at), are_json.get(at)) {
            (Some(values), Some(is_json)) => texts(values, *is_json),
            _ => exec_err!("{}() lacks an argument", self.name()),
        };
        let (written, nulls_of) = match self.function {
            Function::Value => (text_of(0)?, arrays.first()),
            Function::Element => (text_of(0)?, None),
            Function::Array => {
                let all = (0..arrays.len()).map(text_of).collect::<DataFusionResult<Vec<_>>>()?;
                let written = each(rows, |row, out| {
                    out.push('[');
                    joined(all.iter().map(|texts| texts.value(row)), out);
                    out.push(']');
                    Ok(())
                })?;
                (written, None)
            }
            Function::Object => (objects(arrays, text_of, rows)?, None),
            Function::Member => {
                let values = text_of(1)?;
                let names = arrays.first().map(keys).transpose()?;
                let Some(names) = names else { return exec_err!("a member has a key") };
                (each(rows, |row, out| pair(&names, &values, row, out))?, None)
            }
            Function::Check => {
                if let Some(values) = arrays.first() {
                    check(values)?;
                    return Ok(cast(values, &DataType::Utf8)?);
                }
                return exec_err!("json() lacks an argument");
            }
            Function::Elements => (lists(arrays, '[', ']', rows)?, arrays.first()),
            Function::Members => (lists(arrays, '{', '}', rows)?, arrays.first()),
        };
        let nulls = nulls_of.and_then(|values| values.logical_nulls());
        let (offsets, bytes, _) = written.into_parts();
        let written = LargeStringArray::try_new(offsets, bytes, nulls)?;
        Ok(cast(&written, &DataType::Utf8)?)
    }
}

/// Objects of keys, each with its value behind it.
fn objects(
    arrays: &[ArrayRef],
    text_of: impl Fn(usize) -> DataFusionResult<LargeStringArray>,
    rows: usize,
) -> DataFusionResult<LargeStringArray> {
    let members = arrays.iter().enumerate().step_by(2);
    let members = members.map(|(at, names)| Ok((keys(names)?, text_of(at + 1)?)));
    let members = members.collect::<DataFusionResult<Vec<_>>>()?;
    each(rows, |row, out| {
        out.push('{');
        for (at, (names, values)) in members.iter().enumerate() {
            out.push_str(if at > 0 { "," } else { "" });
            pair(names, values, row, out)?;
        }
        out.push('}');
        Ok(())
    })
}

/// Texts of lists, joined.
fn lists(
    arrays: &[ArrayRef],
    open: char,
    close: char,
    rows: usize,
) -> DataFusionResult<LargeStringArray> {
    let of = Arc::new(Field::new_list_field(DataType::LargeUtf8, true));
    let Some(values) = arrays.first() else { return exec_err!("there is no list") };
    let values = cast(values, &DataType::LargeList(of))?;
    let values = values.as_list::<i64>();
    each(rows, |row, out| {
        if values.is_valid(row) {
            let texts = values.value(row);
            out.push(open);
            joined(texts.as_string::<i64>().iter().flatten(), out);
            out.push(close);
        }
        Ok(())
    })
}

fn check(values: &ArrayRef) -> DataFusionResult<()> {
    let texts = cast(values, &DataType::Utf8View)?;
    for text in texts.as_string_view().iter().flatten() {
        if !is_json_text(text) {
            let start: String = text.chars().take(80).collect();
            return exec_err!("'{start}' is no JSON text; to_json() makes one of any text");
        }
    }
    Ok(())
}
