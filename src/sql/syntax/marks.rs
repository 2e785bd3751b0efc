//! Marks around values and casts, so that a plan shows what DataFusion would hide: which casts the
//! user wrote, and their types.
//!
//! A mark is a function that returns its first argument. It is removed during planning.

use arrow_schema::DataType as ArrowType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, UnaryOperator, Value, ValueWithSpan};

use crate::sql::types::decimals::is_read_exactly;
use crate::sql::walks::function_call;

/// The name of the marking function. The prefix keeps it out of the users' way.
const MARK: &str = "sty__value";

/// Marks a value that might be a cast. A number that a double would round becomes the text of its
/// digits.
pub(in crate::sql) fn mark(value: &mut SqlExpr) {
    let (sign, literal) = match &*value {
        SqlExpr::UnaryOp { op: UnaryOperator::Minus, expr } => ("-", expr.as_ref()),
        other => ("", other),
    };
    match literal {
        SqlExpr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            if !is_read_exactly(digits) {
                *value =
                    SqlExpr::Value(Value::SingleQuotedString(format!("{sign}{digits}")).into());
            }
        }
        SqlExpr::Value(_) if sign.is_empty() => {}
        SqlExpr::Identifier(_) => {}
        _ => {
            let marked = std::mem::replace(value, SqlExpr::Value(Value::Null.into()));
            *value = function_call(MARK, vec![marked]);
        }
    }
}

/// Wraps a cast in a mark, together with the name of its type. DataFusion leaves casts out of
/// column names; the mark makes `min(a)` and `min(a::double)` different names.
pub(in crate::sql) fn named_cast(cast: SqlExpr) -> SqlExpr {
    let SqlExpr::Cast { data_type, .. } = &cast else { return cast };
    let data_type = SqlExpr::Value(Value::SingleQuotedString(data_type.to_string()).into());
    function_call(MARK, vec![cast, data_type])
}

/// Wraps a subquery, or a test with one, in a mark, together with its text, which DataFusion leaves
/// out of column names.
pub(in crate::sql) fn named_subquery(subquery: SqlExpr) -> SqlExpr {
    let text = SqlExpr::Value(Value::SingleQuotedString(subquery.to_string()).into());
    function_call(MARK, vec![subquery, text])
}

/// The value inside a mark; `None` if the expression is not a mark.
pub(in crate::sql) fn unmarked(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == MARK => call.args.first().cloned(),
        _ => None,
    }
}

/// What a mark says beside the HAVING of a query WITH TOTALS.
const TOTALS: &str = "WITH TOTALS";

/// Marks the HAVING of a query WITH TOTALS.
pub(in crate::sql) fn mark_having(having: SqlExpr) -> SqlExpr {
    let totals = SqlExpr::Value(Value::SingleQuotedString(TOTALS.into()).into());
    function_call(MARK, vec![having, totals])
}

/// The condition that is marked so.
pub(in crate::sql) fn having_of_totals(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == MARK => match call.args.as_slice() {
            [condition, Expr::Literal(what, _)] if what.try_as_str() == Some(Some(TOTALS)) => {
                Some(condition.clone())
            }
            _ => None,
        },
        _ => None,
    }
}

/// What a mark says beside a condition that stands for a sample.
const SAMPLE: &str = "SAMPLE";

/// A condition that `plan::samples` replaces by a sample.
pub(in crate::sql) fn mark_sample(how: Vec<SqlExpr>) -> SqlExpr {
    let sample = SqlExpr::Value(Value::SingleQuotedString(SAMPLE.into()).into());
    let marked = [SqlExpr::Value(Value::Boolean(true).into()), sample];
    function_call(MARK, marked.into_iter().chain(how).collect())
}

/// How rows are chosen by the condition that is marked so.
pub(in crate::sql) fn sample(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == MARK => match call.args.as_slice() {
            [_, Expr::Literal(what, _), how @ ..] if what.try_as_str() == Some(Some(SAMPLE)) => {
                Some(how)
            }
            _ => None,
        },
        _ => None,
    }
}

/// What a mark says in the right side of an ASOF JOIN … ON, and of one with USING.
const ASOF: [&str; 2] = ["ASOF ON", "ASOF USING"];

/// A condition that says that rows are the right side of an ASOF JOIN.
pub(in crate::sql) fn mark_asof(is_using: bool) -> SqlExpr {
    let asof = ASOF[usize::from(is_using)];
    let asof = SqlExpr::Value(Value::SingleQuotedString(asof.into()).into());
    function_call(MARK, vec![SqlExpr::Value(Value::Boolean(true).into()), asof])
}

/// Whether the condition that is marked so is one of USING; `None` if it is not marked.
pub(in crate::sql) fn asof(expr: &Expr) -> Option<bool> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let [_, Expr::Literal(what, _)] = call.args.as_slice() else { return None };
    let [on, using] = ASOF;
    match what.try_as_str().flatten().filter(|_| call.func.name() == MARK)? {
        what if what == on => Some(false),
        what if what == using => Some(true),
        _ => None,
    }
}

/// What a mark says around a share of all rows.
const PERCENT: &str = "PERCENT";

/// The number of a limit that is marked so, of a hundred.
pub(in crate::sql) fn percent(expr: &Expr) -> Option<&Expr> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let [number, Expr::Literal(what, _)] = call.args.as_slice() else { return None };
    let is_marked = call.func.name() == MARK && what.try_as_str() == Some(Some(PERCENT));
    is_marked.then_some(number)
}

/// The marking function. Simplification removes it, so it is rarely computed.
pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(Mark { signature: Signature::variadic_any(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    signature: Signature,
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        MARK
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        arguments
            .first()
            .cloned()
            .ok_or_else(|| DataFusionError::Plan(format!("{MARK}() takes one argument")))
    }

    fn simplify(
        &self,
        mut arguments: Vec<Expr>,
        _: &SimplifyContext,
    ) -> Result<ExprSimplifyResult> {
        if arguments.is_empty() {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        Ok(ExprSimplifyResult::Simplified(arguments.swap_remove(0)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let first = arguments.args.into_iter().next();
        first.ok_or_else(|| DataFusionError::Plan(format!("{MARK}() takes one argument")))
    }
}
