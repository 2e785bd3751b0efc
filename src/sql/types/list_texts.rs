//! Texts that are cast to lists: `s::INT[]` of `[1, 2]` or `{1,2}`.
//!
//! Where this stands on the road of a query: casts get the function before types are coerced, with
//! those that round (`types/rounding`). DataFusion (55.2) would make a list of the whole text.
//! Here a function splits the text, and the cast around it casts the items. Texts that are written
//! in the statement have been read after parsing (`syntax/literals`).

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{ListBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::error::Error;
use crate::ingest::sources::json;
use crate::sql::types::intervals::planned_type;
use crate::sql::walks::{any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// How many characters of a text an error shows.
const SHOWN: usize = 100;

/// The functions that split texts, for casts and for TRY_CAST.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [function(false), function(true)].into_iter()
}

fn function(or_null: bool) -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Items { or_null, signature })
}

/// Splits the texts that a plan casts to lists.
pub(in crate::sql) fn split_in_casts(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    if !any_expression(&plan, is_cast_to_list) {
        return Ok(plan);
    }
    let split = |node| rewrite_where(node, is_cast_to_list, split_in);
    Ok(rewrite_plan(plan, split)?.data)
}

fn is_cast_to_list(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            item_of(field.data_type()).is_some()
        }
        _ => false,
    }
}

/// The type of a list's items; `None` if a type is no list.
fn item_of(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

fn split_in(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        let (text, field, or_null) = match &mut expr {
            Expr::Cast(Cast { expr, field }) => (expr, field, false),
            Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
            _ => return Ok(Transformed::no(expr)),
        };
        let Some(item) = item_of(field.data_type()) else { return Ok(Transformed::no(expr)) };
        if !planned_type(text, schema).is_some_and(|of| is_text(&of)) {
            return Ok(Transformed::no(expr));
        }
        if item_of(item).is_some() {
            return plan_err!(
                "a text is cast to lists of one dimension, and not to lists of lists"
            );
        }
        **text = function(or_null).call(vec![std::mem::take(text.as_mut())]);
        Ok(Transformed::yes(expr))
    })
}

fn is_text(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, of) => of.is_string(),
        of => of.is_string(),
    }
}

/// The items of texts that are lists, as texts; an error or null for any other text.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Items {
    or_null: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Items {
    fn name(&self) -> &'static str {
        if self.or_null { "sty__try_items" } else { "sty__items" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::new_list(DataType::Utf8View, true))
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        let nullable = self.or_null || given.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&[])?, nullable)))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        match given.args.as_slice() {
            [ColumnarValue::Array(texts)] => Ok(ColumnarValue::Array(self.lists(texts)?)),
            [ColumnarValue::Scalar(text)] => {
                let list = self.lists(&text.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&list, 0)?))
            }
            _ => plan_err!("a cast has one operand"),
        }
    }
}

impl Items {
    fn lists(&self, texts: &ArrayRef) -> DataFusionResult<ArrayRef> {
        let texts = cast(texts, &DataType::Utf8View)?;
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        for text in texts.as_string_view() {
            match text.map(items_of_array) {
                Some(Some(items)) => lists.append_value(items),
                Some(None) if !self.or_null => return Err(no_list(text.unwrap_or("")).into()),
                _ => lists.append_null(),
            }
        }
        Ok(Arc::new(lists.finish()))
    }
}

fn no_list(text: &str) -> Error {
    let shown = match text.char_indices().nth(SHOWN).and_then(|(end, _)| text.get(..end)) {
        Some(start) => format!("{start}…"),
        None => text.to_owned(),
    };
    let how = "a text that is cast to a list is '{1,2}' or '[1, 2]', with quotes around what has \
               commas";
    Error::InvalidInput(format!("'{shown}' is no list of one dimension; {how}"))
}

/// The items of `{1,NULL,"a b"}` or `[1, NULL, 'a b']`, or of a JSON array, such as lists that were
/// stored as texts; `None` if a text is none of these.
pub fn items_of_array(text: &str) -> Option<Vec<Option<String>>> {
    let text = text.trim();
    if let Some(items) = json::items(text) {
        return Some(items);
    }
    let braced = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let bracketed = || text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let (inner, quotes) = match braced {
        Some(inner) => (inner, &['"'][..]),
        None => (bracketed()?, &['"', '\''][..]),
    };
    let (mut items, mut rest) = (Vec::new(), inner.chars());
    if inner.trim().is_empty() {
        return Some(items);
    }
    loop {
        let (mut item, mut is_quoted, mut is_last) = (String::new(), false, false);
        loop {
            match rest.next() {
                None => {
                    is_last = true;
                    break;
                }
                Some(',') => break,
                Some('{' | '}' | '[' | ']') => return None,
                Some(quote) if quotes.contains(&quote) && item.trim().is_empty() => {
                    (item, is_quoted) = (String::new(), true);
                    loop {
                        match rest.next()? {
                            end if end == quote => break,
                            '\\' => item.push(rest.next()?),
                            other => item.push(other),
                        }
                    }
                }
                Some('\\') => item.push(rest.next()?),
                Some(space) if is_quoted && space.is_whitespace() => {}
                Some(_) if is_quoted => return None,
                Some(other) => item.push(other),
            }
        }
        let item = if is_quoted { item } else { item.trim().to_owned() };
        let is_null = !is_quoted && item.eq_ignore_ascii_case("null");
        items.push((!is_null).then_some(item));
        if is_last {
            return Some(items);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_in_both_spellings() {
        let of = |text: &str| {
            let shown = |item: Option<String>| item.unwrap_or_else(|| "∅".to_owned());
            Some(items_of_array(text)?.into_iter().map(shown).collect::<Vec<_>>().join("|"))
        };
        for (text, items) in [
            ("{}", ""),
            (" [ ] ", ""),
            ("{1,NULL, 3 }", "1|∅|3"),
            (r#"{a,"NULL","b, \"c\"",\,}"#, "a|NULL|b, \"c\"|,"),
            ("[1, null, 'it, is', \"x\" ]", "1|∅|it, is|x"),
            ("{it's}", "it's"),
            (
                r#" ["caf\u00e9", "a\"b", null, 1.50, {"x": [1, 2]}, [3]] "#,
                r#"café|a"b|∅|1.50|{"x": [1, 2]}|[3]"#,
            ),
            ("{a,}", "a|"),
        ] {
            assert_eq!(of(text).as_deref(), Some(items), "{text}");
        }
        for text in ["", "1,2", "{1", "[1}", "{{1},{2}}", "{\"a\"b}", "{\"a}"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
