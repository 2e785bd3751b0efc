//! Marks around values and casts, so that a plan shows what DataFusion would hide: which casts a
//! user wrote, and their types.
//!
//! A mark is a function of one value that is nothing but this value. Planning takes it away again.

use arrow_schema::DataType as ArrowType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, UnaryOperator, Value, ValueWithSpan,
};

use crate::sql::types::decimals::is_read_exactly;

/// The name of the mark, which nobody else gives to a function.
const MARK: &str = "sty__value";

/// Marks a value that might be a cast. A number that a double would not keep becomes the text of
/// its digits.
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
            *value = call(vec![marked]);
        }
    }
}

/// Wraps a cast in a mark together with the name of its type. DataFusion leaves casts out of column
/// names; the mark makes `min(a)` and `min(a::double)` two names.
pub(in crate::sql) fn named_cast(cast: SqlExpr) -> SqlExpr {
    let SqlExpr::Cast { data_type, .. } = &cast else { return cast };
    let data_type = SqlExpr::Value(Value::SingleQuotedString(data_type.to_string()).into());
    call(vec![cast, data_type])
}

fn call(arguments: Vec<SqlExpr>) -> SqlExpr {
    let unnamed = |argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument));
    let arguments = FunctionArgumentList {
        duplicate_treatment: None,
        args: arguments.into_iter().map(unnamed).collect(),
        clauses: Vec::new(),
    };
    SqlExpr::Function(Function {
        name: ObjectName::from(vec![Ident::new(MARK)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(arguments),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// What a mark holds.
pub(in crate::sql) fn unmarked(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == MARK => call.args.first().cloned(),
        _ => None,
    }
}

/// The mark, which is gone before anything is computed.
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

    fn return_type(&self, of: &[ArrowType]) -> Result<ArrowType> {
        of.first()
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
