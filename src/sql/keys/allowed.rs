//! What the expressions may be that tables are partitioned by.
//!
//! They stand in manifests, which others may have written, and every reader of the table evaluates
//! them while it plans. So there is a list of what they may do, and all of it takes time and memory
//! in proportion to the values: nothing repeats, pads or replaces, and an argument that could make
//! it otherwise must be a short constant. The length of the text, the number of its words, the
//! depth of the tree and the parts that simplifying makes of it ([`bounded`]) have limits. The text
//! is checked before it is parsed, because the parser builds a tree that is as deep as a chain of
//! `+ 1` is long, and the tree before it is simplified, because simplifying evaluates what is
//! constant.
//!
//! Who stores rows gets an error for any other expression. Who only reads the table does not need
//! its keys: such an expression rules no partition out.

use datafusion::common::config::Dialect;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::error::{Error, Result};
use crate::limits;
use crate::sql::keys::bounded;
use crate::sql::syntax::dialect;

/// The most words, numbers and signs of an expression.
const MAX_TOKENS: usize = 1000;
/// How deep an expression may be. Chains of AND and OR, and of one arithmetic operator, are as deep
/// as they are long.
const MAX_DEPTH: usize = 128;
/// How many parts an expression may have once it is simplified.
const MAX_PARTS: u64 = 4_000;
/// The longest constant where it stands for a pattern, a separator or the like, in bytes: what it
/// is applied to is read as often.
const MAX_CONSTANT_BYTES: usize = 256;
/// The most wildcards of a LIKE.
const MAX_WILDCARDS: usize = 32;

/// Arguments that must be short constants, by their positions. Separators of `concat_ws` would be
/// repeated, and those of another within it again; sets of characters and texts that are looked for
/// are compared at each place.
const CONSTANT: [(&str, usize); 6] =
    [("btrim", 1), ("concat_ws", 0), ("ltrim", 1), ("rtrim", 1), ("strpos", 1), ("to_char", 1)];

/// Functions whose results are no longer than their arguments together, but for a constant, and
/// that take no longer than to read them.
const FUNCTIONS: [&str; 97] = [
    "abs",
    "acos",
    "arrow_cast",
    "ascii",
    "asin",
    "atan",
    "atan2",
    "bit_length",
    "btrim",
    "cbrt",
    "ceil",
    "char_length",
    "character_length",
    "chr",
    "coalesce",
    "concat",
    "concat_ws",
    "contains",
    "cos",
    "cot",
    "date_bin",
    "date_part",
    "date_trunc",
    "day",
    "dayofweek",
    "dayofyear",
    "degrees",
    "digest",
    "ends_with",
    "exp",
    "find_in_set",
    "floor",
    "from_unixtime",
    "gcd",
    "greatest",
    "hour",
    "initcap",
    "isnan",
    "iszero",
    "lcm",
    "least",
    "left",
    "length",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "ltrim",
    "make_date",
    "md5",
    "minute",
    "month",
    "nanvl",
    "nullif",
    "nvl",
    "nvl2",
    "octet_length",
    "pow",
    "power",
    "quarter",
    "radians",
    "reverse",
    "right",
    "round",
    "rtrim",
    "second",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "signum",
    "sin",
    "split_part",
    "sqrt",
    "starts_with",
    "strpos",
    "substr",
    "substr_index",
    "substring",
    "tan",
    "timezone",
    "to_char",
    "to_date",
    "to_hex",
    "to_local_time",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
    "to_unixtime",
    "trim",
    "trunc",
    "upper",
    "week",
    "year",
];

/// Refuses a text that has too many words to be parsed.
pub(super) fn check_text(expression: &str, dialect: Dialect) -> Result<()> {
    let length = expression.len();
    if length > limits::MAX_EXPRESSION_BYTES {
        return Err(refused(expression, &format!("it has {length} bytes, more than allowed")));
    }
    let dialect = dialect::from_name(dialect, expression.len())?;
    let Ok(tokens) = Tokenizer::new(&*dialect, expression).tokenize() else {
        return Ok(()); // the parser says what is wrong
    };
    let words = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).count();
    if words > MAX_TOKENS {
        let what = format!("it has {words} words and signs; at most {MAX_TOKENS} are allowed");
        return Err(refused(expression, &what));
    }
    Ok(())
}

/// Refuses an expression that does what is not on the list, or is too deep.
pub(super) fn check(expression: &str, parsed: &Expr) -> Result<()> {
    let mut check = Check { depth: 0, refused: None };
    parsed.visit(&mut check)?;
    if let Some(what) = check.refused {
        return Err(refused(expression, &what));
    }
    let parts = bounded::parts(parsed);
    if parts > MAX_PARTS {
        let what =
            format!("it becomes {parts} parts when it is simplified, of {MAX_PARTS} at most");
        return Err(refused(expression, &what));
    }
    Ok(())
}

struct Check {
    depth: usize,
    refused: Option<String>,
}

impl TreeNodeVisitor<'_> for Check {
    type Node = Expr;

    fn f_down(&mut self, part: &Expr) -> DataFusionResult<TreeNodeRecursion> {
        self.depth += 1;
        self.refused = match self.depth > MAX_DEPTH {
            true => Some(format!("it is more than {MAX_DEPTH} levels deep")),
            false => refusal(part),
        };
        Ok(match self.refused {
            Some(_) => TreeNodeRecursion::Stop,
            None => TreeNodeRecursion::Continue,
        })
    }

    fn f_up(&mut self, _: &Expr) -> DataFusionResult<TreeNodeRecursion> {
        self.depth -= 1;
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Why a node of an expression is not allowed.
fn refusal(part: &Expr) -> Option<String> {
    match part {
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::Literal(..)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::InList(_) => None,
        Expr::Like(like) => {
            let wildcards = constant(&like.pattern)
                .map(|text| text.matches(['%', '_']).count())
                .filter(|wildcards| *wildcards <= MAX_WILDCARDS);
            let what = "the pattern of a LIKE is not a short constant, or has many wildcards";
            wildcards.is_none().then(|| what.to_owned())
        }
        Expr::BinaryExpr(binary) => {
            (!is_allowed(binary.op)).then(|| format!("it uses the operator {}", binary.op))
        }
        Expr::ScalarFunction(call) => {
            let name = call.name();
            if FUNCTIONS.binary_search(&name).is_err() {
                return Some(format!("it calls {name}()"));
            }
            let (_, at) = CONSTANT.iter().find(|(known, _)| *known == name)?;
            let long = call.args.get(*at).filter(|argument| constant(argument).is_none());
            let number = at + 1;
            long.map(|_| format!("argument {number} of {name}() is not a short constant"))
        }
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => {
            Some("it is not computed from one row alone".to_owned())
        }
        other => Some(format!("it has a {}", other.variant_name())),
    }
}

/// The text of a constant that is short; a null has none.
fn constant(expression: &Expr) -> Option<&str> {
    let value = match expression {
        Expr::Literal(value, _) => value,
        Expr::Cast(cast) => return constant(&cast.expr),
        _ => return None,
    };
    let text = value.try_as_str()?.unwrap_or_default();
    (text.len() <= MAX_CONSTANT_BYTES).then_some(text)
}

fn is_allowed(operator: Operator) -> bool {
    use Operator::{
        And, BitwiseAnd, BitwiseOr, BitwiseShiftLeft, BitwiseShiftRight, Divide, Eq, Gt, GtEq,
        IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Or, Plus,
        StringConcat,
    };
    matches!(
        operator,
        And | Or
            | Eq
            | NotEq
            | Lt
            | LtEq
            | Gt
            | GtEq
            | IsDistinctFrom
            | IsNotDistinctFrom
            | Plus
            | Minus
            | Multiply
            | Divide
            | Modulo
            | StringConcat
            | BitwiseAnd
            | BitwiseOr
            | BitwiseShiftLeft
            | BitwiseShiftRight
    )
}

fn refused(expression: &str, what: &str) -> Error {
    let shown: String = expression.chars().take(60).collect();
    let more = if shown.len() < expression.len() { "…" } else { "" };
    Error::Unsupported(format!(
        "a table cannot be partitioned by '{shown}{more}': {what}; docs/reference.md lists what \
         such an expression may do"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::partition::Compile;
    use crate::model::Schema;
    use crate::sql::keys::expressions::SqlExpressions;

    fn compile(expression: &str) -> Result<()> {
        let columns =
            [("t", "timestamp(us)"), ("n", "int64"), ("s", "utf8"), ("d", "decimal(9,2)")];
        let columns = columns.map(|(name, data_type)| (name, data_type.parse().unwrap()));
        let schema = Schema::from_names(columns).unwrap();
        SqlExpressions::default().compile(expression, schema.columns()).map(drop)
    }

    #[test]
    fn the_list_is_sorted() {
        assert!(FUNCTIONS.is_sorted());
    }

    #[test]
    fn ordinary_expressions_go_on_working() {
        for expression in [
            "n",
            "year(t)",
            "extract(month FROM t)",
            "date_trunc('month', t)",
            "date_trunc('day', t AT TIME ZONE 'Europe/Berlin')",
            "date_bin(interval '15 minutes', t)",
            "t::date",
            "cast(n AS text)",
            "try_cast(s AS bigint)",
            "n % 4",
            "mod(n, 4)",
            "abs(n / 10) * 10 - 1",
            "n & 7",
            "-n",
            "d * 2",
            "round(d, 1)",
            "floor(n / 10.0)",
            "sign(n)",
            "substr(s, 1, 2)",
            "substring(s FROM 1 FOR 2)",
            "left(upper(trim(s)), 1)",
            "position('x' IN s)",
            "s || '-' || cast(n AS text)",
            "s LIKE 'a%'",
            "coalesce(s, 'none')",
            "nullif(n, 0)",
            "CASE WHEN n > 10 AND s IS NOT NULL THEN 'big' WHEN n BETWEEN 1 AND 3 THEN 'few' END",
            "CASE n WHEN 1 THEN 'a' ELSE 'b' END",
            "n IN (1, 2, 3)",
            "NOT (n = 1 OR s IS DISTINCT FROM 'x')",
            "to_char(t, '%Y-%m')",
            "split_part(s, '/', 1)",
            "concat_ws('-', s, cast(n AS text))",
            "trim(BOTH 'x' FROM s)",
            "coalesce(coalesce(s, 'a'), 'b')",
        ] {
            compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        }
    }

    #[test]
    fn what_takes_more_than_its_arguments_is_refused_before_it_is_evaluated() {
        for (expression, why) in [
            ("repeat('x', 1000000000)", "it calls repeat()"),
            ("length(repeat(s, 1000000000))", "it calls repeat()"),
            ("replace(replace(s, 'a', 'aaaa'), 'a', 'aaaa')", "it calls replace()"),
            ("lpad(s, 1000000000)", "it calls lpad()"),
            ("n + length(rpad('', 2000000000, 'x'))", "it calls rpad()"),
            ("regexp_replace(s, '.', 'xxxx', 'g')", "it calls regexp_replace()"),
            ("s ~ '(a+)+b'", "it uses the operator ~"),
            ("now()", "it calls now()"),
            ("concat_ws(concat_ws(s, '', '', ''), '', '', '')", "argument 1 of concat_ws()"),
            ("concat_ws(concat_ws('x', '', '', ''), '', '', '')", "argument 1 of concat_ws()"),
            ("btrim(s, s)", "argument 2 of btrim()"),
            ("strpos(s, s)", "argument 2 of strpos()"),
            ("to_char(t, s)", "argument 2 of to_char()"),
            ("s LIKE s", "the pattern of a LIKE"),
            (&format!("s LIKE '{}'", "%_".repeat(20)), "the pattern of a LIKE"),
            (&format!("strpos(s, '{}')", "a".repeat(300)), "argument 2 of strpos()"),
        ] {
            let error = compile(expression).unwrap_err().to_string();
            assert!(error.contains(why), "{expression}: {error}");
        }
        assert!(
            compile("random() * n").unwrap_err().to_string().contains("not the same each time")
        );
    }

    #[test]
    fn what_doubles_when_it_is_simplified_is_refused() {
        let nested = |levels: usize, before: &str, after: &str| {
            format!("{}s{}", before.repeat(levels), after.repeat(levels))
        };
        for (before, after) in [
            ("coalesce(", ", 'x')"),
            ("nvl(", ", 'x')"),
            ("cast((", " BETWEEN '1' AND '2') AS text)"),
            ("cast((", " IN ('1', '2', '3')) AS text)"),
        ] {
            compile(&nested(5, before, after)).unwrap();
            let error = compile(&nested(14, before, after)).unwrap_err().to_string();
            assert!(error.contains("parts when it is simplified"), "{error}");
        }
    }

    #[test]
    fn long_and_deep_expressions_are_refused_and_do_not_overflow_the_stack() {
        let on_a_small_stack = |expression: String| {
            let small = std::thread::Builder::new().stack_size(2 << 20);
            let compiled = small.spawn(move || compile(&expression)).unwrap().join().unwrap();
            compiled.unwrap_err().to_string()
        };
        let chain = |length: usize| format!("n{}", "+1".repeat(length));
        assert!(on_a_small_stack(chain(8000)).contains("words and signs"));
        assert!(on_a_small_stack(chain(490)).contains("levels deep"));
        assert!(on_a_small_stack(chain(9000)).contains("bytes, more than allowed"));
        compile(&chain(100)).unwrap();
        for nested in [
            format!("{}n{}", "(".repeat(8000), ")".repeat(8000)),
            format!("{}n{}", "abs(".repeat(199), ")".repeat(199)),
            format!("{}n", "- ".repeat(900)),
            format!("{}n = 1", "NOT ".repeat(900)),
        ] {
            on_a_small_stack(nested);
        }
        let list: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        compile(&format!("n IN ({})", list.join(", "))).unwrap();
    }
}
