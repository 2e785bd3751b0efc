//! Rewords standard SQL that DataFusion (55.2) refuses: `GROUP BY ()`, rows in GROUP BY, ROLLUP and
//! CUBE, ROLLUP and CUBE within GROUPING SETS, WITH TOTALS, HAVING without GROUP BY, FETCH FIRST,
//! ORDER BY ALL, intervals of quarters, joined subqueries without a name, LIKE
//! with an ESCAPE, TRUNCATE, and words of CREATE VIEW that are not DataFusion's to follow
//! (`parse::CreatedView`).
//!
//! Where this stands on the road of a query: after parsing.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DateTimeField, Expr, Fetch, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, GroupByWithModifier, Ident, Interval, LimitClause, OrderByKind, Query, Select,
    SelectItem, SetExpr, SetQuantifier, Statement, TableAlias, TableFactor, TableWithJoins,
    Truncate, TruncateTableTarget, UnaryOperator, Value, ValueWithSpan, Visitor, VisitorMut,
};

use crate::error::{Error, Result};
use crate::sql::syntax::marks::mark_having;
use crate::sql::syntax::show::parsed;
use crate::sql::syntax::{columns, literals, ordinals, sites};
use crate::sql::walks::{function_call, visit, visit_mut};

/// The most parts of a CUBE that is expanded, to 4,096 sets.
const MAX_CUBE_PARTS: usize = 12;

pub(in crate::sql) fn reword(statement: &mut Statement) -> Result<()> {
    match statement {
        Statement::CreateView(view) => (view.temporary, view.if_not_exists) = (false, false),
        Statement::Truncate(Truncate {
            table_names,
            partitions: None,
            if_exists: false,
            identity: None,
            cascade: None,
            on_cluster: None,
            ..
        }) => {
            if let [TruncateTableTarget { name, only: false, .. }] = table_names.as_slice()
                && let Some(delete) = parsed(&format!("DELETE FROM {name}"))
            {
                *statement = delete;
            }
        }
        _ => {}
    }
    match visit_mut(statement, &mut Rewording) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Rewording;

impl VisitorMut for Rewording {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        fetch(query);
        order_by_all(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        if let Err(error) = check_modifiers(&select.group_by) {
            return ControlFlow::Break(error);
        }
        group(select);
        ordinals::resolve(select);
        name_keys_once(select);
        name_subqueries(select);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Like { any: false, pattern, escape_char, .. }
        | Expr::ILike { any: false, pattern, escape_char, .. } = expr
        {
            escape(pattern, escape_char);
        }
        if let Expr::Interval(interval) = expr
            && let Some(product) = product(interval)
        {
            *expr = product;
        }
        negate_interval(expr);
        match literals::reword(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// `INTERVAL (n) DAY` of a computed number, as `(n) * INTERVAL '1' DAY`, and a number of quarters.
fn product(interval: &mut Interval) -> Option<Expr> {
    if interval.leading_field == Some(DateTimeField::Quarter) {
        if let Expr::Value(ValueWithSpan { value, .. }) = interval.value.as_ref()
            && let Value::SingleQuotedString(number) | Value::Number(number, _) = value
        {
            let number = number.trim().to_owned();
            let months = number.parse::<i32>().ok().and_then(|number| number.checked_mul(3));
            if let Some(months) = months {
                interval.leading_field = Some(DateTimeField::Month);
                let months = Value::SingleQuotedString(months.to_string());
                return Some(Expr::Interval(Interval {
                    value: Box::new(Expr::value(months)),
                    ..interval.clone()
                }));
            }
            *interval.value = Expr::value(Value::Number(number, false));
        }
        let months = Box::new(Expr::value(Value::SingleQuotedString("3".into())));
        let number = std::mem::replace(&mut interval.value, months);
        interval.leading_field = Some(DateTimeField::Month);
        return Some(times(number, interval));
    }
    let is_literal = match interval.value.as_ref() {
        Expr::Value(_) => true,
        Expr::UnaryOp { expr, .. } => matches!(expr.as_ref(), Expr::Value(_)),
        _ => false,
    };
    if is_literal || interval.leading_field.is_none() || interval.last_field.is_some() {
        return None;
    }
    let one = Box::new(Expr::value(Value::SingleQuotedString("1".into())));
    let number = std::mem::replace(&mut interval.value, one);
    Some(times(number, interval))
}

/// `-INTERVAL '1 day 2 hours'` is less by both: DataFusion puts the sign before the text of an
/// interval that has no parentheses.
fn negate_interval(expr: &mut Expr) {
    if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } = expr
        && matches!(operand.as_ref(), Expr::Interval(_))
    {
        let interval = std::mem::replace(operand.as_mut(), Expr::value(Value::Null));
        *operand.as_mut() = Expr::Nested(Box::new(interval));
    }
}

fn times(number: Box<Expr>, interval: &Interval) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(Expr::Nested(number)),
        op: BinaryOperator::Multiply,
        right: Box::new(Expr::Interval(interval.clone())),
    }))
}

/// `ORDER BY ALL` is by position. Where the text does not tell the number of columns, it is written
/// out once they are known (`session/expansion.rs`).
fn order_by_all(query: &mut Query) {
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::All(options) = &order.kind else { return };
    if let Some(columns) = width(&query.body) {
        order.kind = sites::by_positions(columns, *options);
    }
}

/// How many columns a query has, if its text tells.
pub(super) fn width(body: &SetExpr) -> Option<usize> {
    let is_one = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            !columns::has_call_expr(expr)
        }
        _ => false,
    };
    match body {
        SetExpr::Select(select) => {
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Values(values) => Some(values.rows.first()?.content.len()),
        SetExpr::SetOperation { left, set_quantifier, .. } => {
            let is_by_position = matches!(
                set_quantifier,
                SetQuantifier::None | SetQuantifier::All | SetQuantifier::Distinct
            );
            width(left).filter(|_| is_by_position)
        }
        SetExpr::Query(query) => width(&query.body),
        _ => None,
    }
}

/// Gives subqueries names that are joined and have none: DataFusion refuses columns without a table
/// beside others of the same name. So are those that are filtered after grouping, where it takes a
/// column without a table for the output of that name (`resolve_aliases_to_exprs`). The names are
/// DuckDB's.
pub(super) fn name_subqueries(select: &mut Select) {
    let is_alone = match &*select.from {
        [one] => one.joins.is_empty() && matches!(one.relation, TableFactor::Derived { .. }),
        _ => false,
    };
    if is_alone && select.having.is_none() && select.qualify.is_none() {
        return;
    }
    let mut count = 0;
    select.from.iter_mut().for_each(|table| name_joined(table, &mut count));
}

fn name_joined(table: &mut TableWithJoins, count: &mut usize) {
    let joined = table.joins.iter_mut().map(|join| &mut join.relation);
    for relation in std::iter::once(&mut table.relation).chain(joined) {
        match relation {
            TableFactor::Derived { alias: alias @ None, .. } => {
                *count += 1;
                let number = if *count > 1 { count.to_string() } else { String::new() };
                let name = Ident::new(format!("unnamed_subquery{number}"));
                *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
            }
            TableFactor::NestedJoin { table_with_joins, .. } => {
                name_joined(table_with_joins, count)
            }
            _ => {}
        }
    }
}

/// `FETCH FIRST n ROWS ONLY` is `LIMIT n`.
fn fetch(query: &mut Query) {
    let Some(Fetch { with_ties: false, percent: false, quantity }) = &query.fetch else { return };
    let quantity =
        quantity.clone().unwrap_or_else(|| Expr::Value(Value::Number("1".into(), false).into()));
    match &mut query.limit_clause {
        None => {
            let limit = Some(quantity);
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(quantity),
        Some(_) => return,
    }
    query.fetch = None;
}

/// DataFusion ignores what stands behind the keys where it is not reworded here.
fn check_modifiers(group_by: &GroupByExpr) -> Result<()> {
    match group_by {
        GroupByExpr::All(modifiers) if !modifiers.is_empty() => Err(Error::Unsupported(
            "GROUP BY ALL takes no WITH TOTALS, ROLLUP or CUBE; name the keys".into(),
        )),
        GroupByExpr::Expressions(_, modifiers) if modifiers.len() > 1 => Err(Error::Unsupported(
            "GROUP BY takes one of WITH TOTALS, WITH ROLLUP and WITH CUBE; GROUPING SETS has all \
             that they have"
                .into(),
        )),
        _ => Ok(()),
    }
}

/// Flattens rows of keys, and replaces an empty list of keys with the one empty grouping set.
fn group(select: &mut Select) {
    let has_only_having = select.having.is_some() && !calls_functions(select);
    let GroupByExpr::Expressions(keys, modifiers) = &mut select.group_by else { return };
    if let [modifier] = modifiers.as_slice()
        && let Some(sets) = with_modifier(keys, modifier)
    {
        if matches!(modifier, GroupByWithModifier::Totals) {
            select.having = select.having.take().map(mark_having);
        }
        (*keys, *modifiers) = (vec![sets], Vec::new());
    }
    if !modifiers.is_empty() || (keys.is_empty() && !has_only_having) {
        return;
    }
    for key in std::mem::take(keys) {
        match key {
            Expr::Tuple(row) => keys.extend(row),
            Expr::Rollup(parts) if parts.iter().any(|part| part.len() != 1) => {
                keys.push(Expr::GroupingSets(rollup(&parts)));
            }
            Expr::Cube(parts)
                if parts.len() <= MAX_CUBE_PARTS && parts.iter().any(|part| part.len() != 1) =>
            {
                keys.push(Expr::GroupingSets(cube(&parts)));
            }
            Expr::GroupingSets(sets) => {
                keys.push(Expr::GroupingSets(sets.into_iter().flat_map(sets_of).collect()));
            }
            other => keys.push(other),
        }
    }
    if keys.is_empty() {
        keys.push(Expr::GroupingSets(vec![Vec::new()]));
    }
}

/// Removes keys from grouping sets that they have already, which DataFusion takes for two columns
/// of one name. A ROLLUP or CUBE that repeats a key is written out.
fn name_keys_once(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    let repeats = |parts: &[Vec<Expr>]| {
        let all: Vec<&Expr> = parts.iter().flatten().collect();
        all.iter().enumerate().any(|(at, key)| all.iter().take(at).any(|known| known == key))
    };
    for key in keys {
        match key {
            Expr::Rollup(parts) if repeats(parts) => *key = Expr::GroupingSets(rollup(parts)),
            Expr::Cube(parts) if parts.len() <= MAX_CUBE_PARTS && repeats(parts) => {
                *key = Expr::GroupingSets(cube(parts));
            }
            _ => {}
        }
        let Expr::GroupingSets(sets) = key else { continue };
        for set in sets {
            let mut once: Vec<Expr> = Vec::with_capacity(set.len());
            for key in std::mem::take(set) {
                if !once.contains(&key) {
                    once.push(key);
                }
            }
            *set = once;
        }
    }
}

/// The keys of `GROUP BY a, b WITH TOTALS`, WITH ROLLUP and WITH CUBE.
fn with_modifier(keys: &[Expr], modifier: &GroupByWithModifier) -> Option<Expr> {
    let parts = || keys.iter().map(|key| vec![key.clone()]).collect();
    match modifier {
        GroupByWithModifier::Totals => Some(Expr::GroupingSets(vec![keys.to_vec(), Vec::new()])),
        GroupByWithModifier::Rollup => Some(Expr::Rollup(parts())),
        GroupByWithModifier::Cube => Some(Expr::Cube(parts())),
        GroupByWithModifier::GroupingSets(_) => None,
    }
}

/// Whether there may be an aggregate. DataFusion refuses a HAVING without one.
fn calls_functions(select: &Select) -> bool {
    struct Calls;
    impl Visitor for Calls {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    visit(&select.projection, &mut Calls).is_break() || visit(&select.having, &mut Calls).is_break()
}

/// The sets of a ROLLUP: all parts, all but the last, and so on.
fn rollup(parts: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=parts.len())
        .rev()
        .map(|count| parts.iter().take(count).flatten().cloned().collect())
        .collect()
}

/// The sets of a CUBE: all subsets of the parts.
fn cube(parts: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let Some((last, before)) = parts.split_last() else { return vec![Vec::new()] };
    let without = cube(before);
    let with = without.iter().map(|set| set.iter().chain(last).cloned().collect());
    with.chain(without.iter().cloned()).collect()
}

/// The sets that an element of GROUPING SETS stands for. ROLLUP and CUBE are parsed as functions
/// there.
fn sets_of(set: Vec<Expr>) -> Vec<Vec<Expr>> {
    if let [Expr::Function(function)] = set.as_slice()
        && let FunctionArguments::List(list) = &function.args
    {
        let parts: Option<Vec<Vec<Expr>>> = list.args.iter().map(part).collect();
        match (function.name.to_string().to_lowercase().as_str(), parts) {
            ("rollup", Some(parts)) => return rollup(&parts),
            ("cube", Some(parts)) if parts.len() <= MAX_CUBE_PARTS => return cube(&parts),
            _ => {}
        }
    }
    vec![set]
}

fn part(argument: &FunctionArg) -> Option<Vec<Expr>> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Tuple(row))) => Some(row.clone()),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(key)) => Some(vec![key.clone()]),
        _ => None,
    }
}

/// Rewrites a pattern to escape with backslashes, as LIKE does without an ESCAPE.
fn escape(pattern: &mut Expr, escape_char: &mut Option<ValueWithSpan>) {
    let Some(ValueWithSpan { value: Value::SingleQuotedString(escape), .. }) = &escape_char else {
        return;
    };
    let mut characters = escape.chars();
    let (character, None) = (characters.next(), characters.next()) else { return };
    match pattern {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            if let Some(reworded) = with_backslashes(text, character) {
                *text = reworded;
                *escape_char = None;
            }
        }
        computed => {
            if escape != "\\" {
                *computed = computed_with_backslashes(computed.clone(), escape);
            }
            *escape_char = None;
        }
    }
}

/// The same for a pattern that is computed. A character that no text has stands for the escape
/// character meanwhile, where it stands for itself.
fn computed_with_backslashes(pattern: Expr, escape: &str) -> Expr {
    const ITSELF: &str = "\u{ffff}";
    let backslash = "\\".to_owned();
    let mut steps = vec![(backslash.clone(), backslash.repeat(2))];
    if !escape.is_empty() {
        steps.splice(
            0..0,
            [
                (escape.repeat(2), ITSELF.to_owned()),
                (format!("{escape}{backslash}"), backslash.clone()),
            ],
        );
        // One that is a wildcard stands for itself only behind a backslash.
        let itself = match escape {
            "%" | "_" => format!("{backslash}{escape}"),
            other => other.to_owned(),
        };
        steps.push((escape.to_owned(), backslash));
        steps.push((ITSELF.to_owned(), itself));
    }
    let text = |text: String| Expr::value(Value::SingleQuotedString(text));
    let replace = |of, (from, to)| function_call("replace", vec![of, text(from), text(to)]);
    steps.into_iter().fold(pattern, replace)
}

/// `None` if the pattern ends with the escape character.
fn with_backslashes(pattern: &str, escape: Option<char>) -> Option<String> {
    let mut text = String::new();
    let mut characters = pattern.chars();
    while let Some(first) = characters.next() {
        let is_escaped = Some(first) == escape;
        let character = if is_escaped { characters.next()? } else { first };
        if character == '\\' || (is_escaped && matches!(character, '%' | '_')) {
            text.push('\\');
        }
        text.push(character);
    }
    Some(text)
}
