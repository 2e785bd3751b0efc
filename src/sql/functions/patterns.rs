//! Patterns that come from rows: their lengths are bounded, and regular expressions are compiled a
//! few at a time.
//!
//! DataFusion's functions (55.2) compile every regular expression of a batch and keep all of them
//! until it is done; each may take 10 MB (`(\w{100}){100}`), and a batch has thousands of rows. The
//! functions here cut such a batch where it has a new pattern too many, and call DataFusion's for
//! each piece.
//!
//! DataFusion also makes operators of `regexp_like` with a constant pattern, and LIKE of these. The
//! LIKE of a regex that stands for a backslash does not escape it, and `.*` becomes IS NOT NULL.
//! Such patterns are rewritten here, so that DataFusion makes neither of them.
//!
//! Where this stands on the road of a query: a session registers these functions in place of
//! DataFusion's. `rules/patterns.rs` puts them in place of operators, too.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringViewArray};
use arrow_schema::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::common::utils::take_function_args;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use regex_syntax::hir::HirKind;

use crate::error::Error;
use crate::sql::functions::growing::rows_of;
use crate::sql::walks::has_part;

/// The most bytes of a pattern.
pub(in crate::sql) const MAX_BYTES: usize = 64 << 10;
/// The functions whose second argument is a regular expression.
const NAMES: [&str; 5] =
    ["regexp_like", "regexp_match", "regexp_replace", "regexp_count", "regexp_instr"];
/// The name of the function that checks a pattern; the prefix keeps it out of the users' way.
pub(in crate::sql) const CHECKED: &str = "sty__pattern";
/// The most different patterns that are compiled together.
const MOST: usize = 8;

/// The functions that replace those of `known`.
pub(in crate::sql) fn functions(known: impl Fn(&str) -> Option<Arc<ScalarUDF>>) -> Vec<ScalarUDF> {
    NAMES.into_iter().filter_map(known).map(in_pieces).collect()
}

/// A function of a text and a regular expression, with few of these compiled at a time.
pub(in crate::sql) fn in_pieces(inner: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::from(InPieces { inner })
}

/// A function that returns its only argument, a pattern, and fails if that is too long.
pub(in crate::sql) fn checked() -> ScalarUDF {
    ScalarUDF::from(Checked { signature: Signature::any(1, Volatility::Immutable) })
}

/// An error for a pattern of too many bytes.
pub(in crate::sql) fn check_length(bytes: usize) -> DataFusionResult<()> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let what = format!(
        "a pattern of LIKE, SIMILAR TO or a regular expression has more than {MAX_BYTES} bytes; \
         values to compare with can be a list (IN) or rows of a table"
    );
    Err(Error::LimitExceeded(what).into())
}

/// Whether an expression has the same value in all rows.
pub(in crate::sql) fn is_constant(expr: &Expr) -> bool {
    !has_part(expr, |part| {
        matches!(part, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_))
    })
}

/// The same regex in a form that DataFusion does not simplify, if it would do so wrongly: `.*` as
/// the empty regex, and one with a literal backslash after an empty group.
pub(in crate::sql) fn misread(pattern: &ScalarValue) -> Option<ScalarValue> {
    let regex = pattern.try_as_str()??;
    let other = match regex {
        ".*" => String::new(),
        _ if has_backslash(regex) => format!("(){regex}"),
        _ => return None,
    };
    ScalarValue::Utf8(Some(other)).cast_to(&pattern.data_type()).ok()
}

/// Whether a backslash is among the literal texts of a regex.
fn has_backslash(regex: &str) -> bool {
    // Most patterns have neither an escape nor a class, and are not parsed for this.
    if regex.len() > MAX_BYTES || !regex.contains(['\\', '[']) {
        return false;
    }
    let Ok(parsed) = regex_syntax::parse(regex) else { return false };
    let mut parts = vec![&parsed];
    while let Some(part) = parts.pop() {
        if matches!(part.kind(), HirKind::Literal(text) if text.0.contains(&b'\\')) {
            return true;
        }
        parts.extend(part.kind().subs());
    }
    false
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct InPieces {
    /// DataFusion's function.
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for InPieces {
    delegate! {
        name() -> &str;
        aliases() -> &[String];
        signature() -> &Signature;
        return_type(arguments: &[DataType]) -> DataFusionResult<DataType>;
        return_field_from_args(arguments: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef>;
        documentation() -> Option<&Documentation>;
    }

    /// Calls become operators, which know no pieces, only where the pattern is a literal.
    fn simplify(
        &self,
        mut arguments: Vec<Expr>,
        info: &SimplifyContext,
    ) -> DataFusionResult<ExprSimplifyResult> {
        let Some(Expr::Literal(pattern, _)) = arguments.get_mut(1) else {
            return Ok(ExprSimplifyResult::Original(arguments));
        };
        if self.inner.name() == "regexp_like"
            && let Some(other) = misread(pattern)
        {
            *pattern = other;
        }
        self.inner.simplify(arguments, info)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let Some(ColumnarValue::Array(patterns)) = arguments.args.get(1) else {
            return self.inner.invoke_with_args(arguments);
        };
        let patterns = arrow_cast::cast(patterns, &DataType::Utf8View)?;
        let pieces = pieces(patterns.as_string_view())?;
        if pieces.len() <= 1 {
            return self.inner.invoke_with_args(arguments);
        }
        let results = pieces.into_iter().map(|piece| self.piece(&arguments, piece));
        let results: Vec<ArrayRef> = results.collect::<DataFusionResult<_>>()?;
        let results: Vec<&dyn Array> = results.iter().map(|result| &**result).collect();
        Ok(ColumnarValue::Array(arrow_select::concat::concat(&results)?))
    }
}

impl InPieces {
    /// The results for some of the rows.
    fn piece(&self, all: &ScalarFunctionArgs, rows: Range<usize>) -> DataFusionResult<ArrayRef> {
        let count = rows.len();
        self.inner.invoke_with_args(rows_of(all, rows))?.into_array(count)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &'static str {
        CHECKED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [patterns] = take_function_args(CHECKED, arguments.args)?;
        let texts = arrow_cast::cast(&patterns.to_array(1)?, &DataType::Utf8View)?;
        let longest = texts.as_string_view().iter().flatten().map(str::len).max();
        check_length(longest.unwrap_or(0))?;
        Ok(patterns)
    }
}

/// The rows, cut so that no piece has more than [`MOST`] different patterns.
fn pieces(patterns: &StringViewArray) -> DataFusionResult<Vec<Range<usize>>> {
    let (mut pieces, mut start) = (Vec::new(), 0);
    let mut known: Vec<&str> = Vec::with_capacity(MOST);
    for (row, pattern) in patterns.iter().enumerate() {
        let Some(pattern) = pattern else { continue };
        check_length(pattern.len())?;
        // Most often it is the one of the row before.
        if known.iter().rev().any(|known| *known == pattern) {
            continue;
        }
        if known.len() == MOST {
            pieces.push(start..row);
            start = row;
            known.clear();
        }
        known.push(pattern);
    }
    pieces.push(start..patterns.len());
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_cut_where_a_pattern_is_one_too_many() {
        let cut = |patterns: Vec<Option<&str>>| -> Vec<usize> {
            pieces(&patterns.into()).unwrap().into_iter().map(|piece| piece.end).collect()
        };
        assert_eq!(cut(vec![]), [0]);
        assert_eq!(cut(vec![Some("a"); 100]), [100]);
        let two = [Some("a"), None, Some("b")];
        assert_eq!(cut(two.into_iter().cycle().take(300).collect()), [300]);
        let texts: Vec<String> = (0..20).map(|at| at.to_string()).collect();
        let nine = texts.iter().take(MOST + 1).map(|text| Some(text.as_str()));
        assert_eq!(cut(nine.collect()), [8, 9]);
        let all = texts.iter().flat_map(|text| [None, Some(text.as_str()), Some(text.as_str())]);
        assert_eq!(cut(all.collect()), [25, 49, 60]);
    }

    #[test]
    fn regexes_with_a_backslash_are_not_simplified() {
        for regex in [r"\\", r"a\\b|zz", r"[\\]", r"\x5c", r"\\{1}", r"(a\\)+"] {
            let expected = ScalarValue::from(format!("(){regex}"));
            assert_eq!(misread(&ScalarValue::from(regex)), Some(expected), "{regex}");
        }
        assert_eq!(misread(&ScalarValue::from(".*")), Some(ScalarValue::from("")));
        for regex in ["", "a", r"a\.b", r"\d[0-9]", "[", r"a\"] {
            assert_eq!(misread(&ScalarValue::from(regex)), None, "{regex}");
        }
    }

    #[test]
    fn long_patterns_are_refused() {
        let long = "x".repeat(70_000);
        let error = pieces(&vec![Some("a"), Some(long.as_str())].into()).unwrap_err();
        assert!(error.to_string().contains("65536 bytes"), "{error}");
    }
}
