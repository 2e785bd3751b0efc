//! Compiles expressions over a table's columns: whole trees become one function over Arrow arrays.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::new_null_array;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column as Name, DFSchema, TableReference};
use datafusion::error::DataFusionError;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::create_physical_expr;
use datafusion::scalar::ScalarValue;

use super::source::{Input, Refusal};
use super::traits::traits;
use crate::error::Error;
use crate::expr::arithmetic::Arithmetic;
use crate::expr::{Choice, DatePart, Expression, Function, Part, Traits};
use crate::model::Column;
use crate::query::Condition;
use crate::sql::convert::{PhysicalFunction, to_arithmetic, to_decimal_steps, to_predicate};
use crate::sql::functions::concatenation::as_operators;
use crate::sql::functions::growing;
use crate::sql::walks::{rewrite_down, rewrite_up};

/// The most values of a choice.
const MAX_CHOICES: usize = 256;

/// Expressions of one fragment. Equal ones are compiled once and share their function.
pub(super) struct Compiler<'a> {
    source: &'a Input,
    props: &'a ExecutionProps,
    /// The columns that expressions have read so far, by position in the table.
    positions: Vec<usize>,
    /// The index in `positions` of each of them.
    inputs: HashMap<usize, usize>,
    /// The positions in the table of its columns, by name.
    places: OnceCell<HashMap<&'a str, usize>>,
    known: HashMap<Expr, Expression>,
    /// The texts of the known expressions.
    texts: HashSet<Box<str>>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(source: &'a Input, props: &'a ExecutionProps) -> Self {
        Compiler {
            source,
            props,
            positions: Vec::new(),
            inputs: HashMap::new(),
            places: OnceCell::new(),
            known: HashMap::new(),
            texts: HashSet::new(),
        }
    }

    /// The columns that all expressions so far read. Expressions refer to them by their position
    /// here.
    pub(super) fn columns(&self) -> Vec<Column> {
        let all = self.source.table.snapshot().schema().columns();
        self.positions.iter().filter_map(|position| all.get(*position).cloned()).collect()
    }

    /// Compiles the conditions of the input.
    pub(super) fn conditions(&mut self) -> Result<Vec<Condition>, Refusal> {
        let schema = self.source.table.snapshot().schema();
        let condition = |compiler: &mut Self, expr: &Expr| {
            let condition = Condition::new(compiler.compile(expr)?, to_predicate(expr, schema));
            Ok(Condition {
                partitions: compiler.source.table.partition_keys().predicate(expr),
                ..condition
            })
        };
        let source = self.source;
        let sample = source.table.sample_condition().map(Ok);
        sample.into_iter().chain(source.conditions.iter().map(|e| condition(self, e))).collect()
    }

    /// Compiles an expression over the columns that the candidate sees.
    pub(super) fn expression(&mut self, expr: &Expr) -> Result<Expression, Refusal> {
        self.compile(&self.source.resolve(expr)?)
    }

    /// Compiles all columns that the candidate sees.
    pub(super) fn outputs(&mut self) -> Result<Vec<Expression>, Refusal> {
        let source = self.source;
        source.outputs.iter().map(|output| self.compile(output)).collect()
    }

    /// Compiles an expression over the table's columns.
    fn compile(&mut self, expr: &Expr) -> Result<Expression, Refusal> {
        if let Some(known) = self.known.get(expr) {
            return Ok(known.clone());
        }
        let compiled = self.compile_new(expr)?;
        self.texts.insert(compiled.text.clone());
        self.known.insert(expr.clone(), compiled.clone());
        Ok(compiled)
    }

    fn compile_new(&mut self, expr: &Expr) -> Result<Expression, Refusal> {
        let schema = self.source.table.snapshot().schema();
        let positions = self.positions_of(expr)?;
        let inputs = positions.iter().map(|position| self.input(*position)).collect();
        let text = self.text(expr).into();
        if let (Expr::Column(_), [only]) = (expr, positions.as_slice()) {
            let data_type = self.source.table.schema().field(*only).data_type().clone();
            let traits = Traits { monotone: true, ..Traits::default() };
            return Ok(Expression {
                inputs,
                function: None,
                data_type,
                traits,
                choice: None,
                text,
            });
        }
        let compiled =
            self.function(expr, &positions).map_err(|error| Error::from(error).to_string())?;
        let data_type = compiled.data_type().clone();
        let traits = traits(expr, schema);
        let decimals = || to_decimal_steps(expr, &data_type, schema, &positions);
        let function: Arc<dyn Function> =
            if let Some(arithmetic) = to_arithmetic(expr, schema, &positions) {
                Arc::new(arithmetic)
            } else if let Some(steps) = decimals() {
                Arc::new(Arithmetic::Decimals { steps, exact: Arc::new(compiled) })
            } else {
                self.date_part(expr).map_or_else(|| Arc::new(compiled) as _, |(_, part)| part)
            };
        let choice = self.choice(expr, &positions, &inputs);
        Ok(Expression { inputs, function: Some(function), data_type, traits, choice, text })
    }

    /// Our own implementation of a part of a date, if the expression is one, with the name of its
    /// column.
    fn date_part(&self, expr: &Expr) -> Option<(&'a str, Arc<dyn Function>)> {
        let (part, name) = match expr {
            Expr::ScalarFunction(call) if call.func.name() == "date_part" => {
                let [Expr::Literal(part, _), Expr::Column(name)] = call.args.as_slice() else {
                    return None;
                };
                (Part::from_name(part.try_as_str()??)?, name)
            }
            Expr::Cast(cast) if *cast.field.data_type() == DataType::Date32 => match &*cast.expr {
                Expr::Column(name) => (Part::Date, name),
                _ => return None,
            },
            _ => return None,
        };
        let field = self.source.table.schema().field_with_name(&name.name).ok()?;
        let positions = self.positions_of(expr).ok()?;
        let compiled = self.compile_whole(expr, &positions).ok()?;
        if !matches!(compiled.data_type(), DataType::Int32 | DataType::Date32) {
            return None;
        }
        let own = DatePart::new(part, field.data_type(), Arc::new(compiled))?;
        Some((field.name(), Arc::new(own)))
    }

    /// A CASE whose branches are literals, as a choice between values.
    fn choice(&self, expr: &Expr, positions: &[usize], inputs: &[usize]) -> Option<Arc<Choice>> {
        let Expr::Case(case) = expr else { return None };
        let mut literals = Vec::new();
        for (_, then) in &case.when_then_expr {
            literals.push(literal(then)?);
        }
        let other = match &case.else_expr {
            Some(other) => literal(other)?,
            None => ScalarValue::try_from(literals.first()?.data_type()).ok()?,
        };
        literals.push(other);
        let mut values: Vec<ScalarValue> = Vec::new();
        for value in &literals {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        if values.len() > MAX_CHOICES || values.iter().any(|value| value.data_type().is_floating())
        {
            return None;
        }
        let compile = |values: &[ScalarValue]| {
            let number = |value: &ScalarValue| {
                let at = values.iter().position(|known| known == value).unwrap_or_default();
                Box::new(Expr::Literal(ScalarValue::Int64(Some(at as i64)), None))
            };
            let mut numbers = case.clone();
            for ((_, then), value) in numbers.when_then_expr.iter_mut().zip(&literals) {
                *then = number(value);
            }
            numbers.else_expr = literals.last().map(number);
            self.function(&Expr::Case(numbers), positions).ok()
        };
        let mut compiled = compile(&values)?;
        if let [only] = positions {
            let null = new_null_array(self.source.table.schema().field(*only).data_type(), 1);
            let found = compiled.evaluate(&[null], 1).ok()?;
            let first = found.as_primitive_opt::<Int64Type>()?.values().first().copied()?;
            let first = usize::try_from(first).ok().filter(|first| *first < values.len())?;
            values.swap(0, first);
            compiled = compile(&values)?;
        }
        let number = Expression {
            inputs: inputs.to_vec(),
            data_type: compiled.data_type().clone(),
            function: Some(Arc::new(compiled)),
            traits: Traits::default(),
            choice: None,
            text: "".into(),
        };
        Some(Arc::new(Choice { number, values: ScalarValue::iter_to_array(values).ok()? }))
    }

    /// The columns that an expression reads, by position in the table.
    fn positions_of(&self, expr: &Expr) -> Result<Vec<usize>, Refusal> {
        let position = |name: &str| {
            let place = self.places().get(name).copied();
            place.ok_or_else(|| format!("there is no column {name}"))
        };
        let mut positions: Vec<usize> = expr
            .column_refs()
            .into_iter()
            .map(|name| position(&name.name))
            .collect::<Result<_, _>>()?;
        positions.sort_unstable();
        Ok(positions)
    }

    /// The positions in the table of its columns, by name: there may be thousands.
    fn places(&self) -> &HashMap<&'a str, usize> {
        let columns = self.source.table.snapshot().schema().columns();
        self.places.get_or_init(|| {
            columns.iter().enumerate().map(|(at, column)| (&*column.name, at)).collect()
        })
    }

    /// The text of an expression in EXPLAIN; no two expressions of a fragment have the same.
    fn text(&self, expr: &Expr) -> String {
        let short = text(expr);
        if self.texts.contains(short.as_str()) { expr.to_string() } else { short }
    }

    /// Compiles an expression as a function, with our own implementation of the parts of dates in
    /// it.
    fn function(
        &self,
        expr: &Expr,
        positions: &[usize],
    ) -> Result<PhysicalFunction, DataFusionError> {
        let mut parts: Vec<(Expr, usize, Arc<dyn Function>)> = Vec::new();
        let outer = rewrite_down(expr.clone(), |node| {
            let known = parts.iter().position(|(part, ..)| *part == node);
            let at = match known {
                Some(at) => at,
                // A cast may fail for rows in which it is not needed.
                None if node == *expr || !matches!(node, Expr::ScalarFunction(_)) => {
                    return Ok(Transformed::no(node));
                }
                None => {
                    let schema = self.source.table.snapshot().schema();
                    let own = self.date_part(&node).and_then(|(name, part)| {
                        let input =
                            positions.iter().position(|at| Some(*at) == schema.position(name))?;
                        Some((node.clone(), input, part))
                    });
                    let Some(own) = own else { return Ok(Transformed::no(node)) };
                    parts.push(own);
                    parts.len() - 1
                }
            };
            let part = Expr::Column(Name::new_unqualified(part_name(at)));
            Ok(Transformed::new(part, true, TreeNodeRecursion::Jump))
        })?;
        if parts.is_empty() {
            return self.compile_whole(expr, positions);
        }
        // The part is null for a date that no calendar has, too.
        let more = (0..parts.len())
            .map(|at| (None, Arc::new(Field::new(part_name(at), DataType::Int32, true))));
        let more = more.collect();
        let compiled = self.compile_over(&outer.data, positions, more)?;
        Ok(compiled.with_parts(parts.into_iter().map(|(_, input, part)| (input, part)).collect()))
    }

    /// Compiles an expression as it is.
    fn compile_whole(
        &self,
        expr: &Expr,
        positions: &[usize],
    ) -> Result<PhysicalFunction, DataFusionError> {
        self.compile_over(expr, positions, Vec::new())
    }

    /// Compiles an expression over columns of the table and `more` columns.
    fn compile_over(
        &self,
        expr: &Expr,
        positions: &[usize],
        more: Vec<(Option<TableReference>, FieldRef)>,
    ) -> Result<PhysicalFunction, DataFusionError> {
        let fields = self.source.table.schema().fields();
        let used = positions.iter().filter_map(|position| fields.get(*position));
        let used = used.map(|field| (Some(self.source.relation.clone()), Arc::clone(field)));
        let schema = DFSchema::new_with_metadata(used.chain(more).collect(), HashMap::new())?;
        let physical =
            create_physical_expr(expr, &schema, self.props, &PhysicalPlanningContext::default())?;
        let function = PhysicalFunction::new(physical, schema.inner())?;
        Ok(function.within(growing::most_bytes(expr)?))
    }

    /// The position of a table's column among those that the fragment reads.
    fn input(&mut self, position: usize) -> usize {
        *self.inputs.entry(position).or_insert_with(|| {
            self.positions.push(position);
            self.positions.len() - 1
        })
    }
}

/// A name that no column of a table has.
fn part_name(at: usize) -> String {
    format!("\0part {at}")
}

fn literal(expr: &Expr) -> Option<ScalarValue> {
    if let Expr::Literal(value, _) = expr { Some(value.clone()) } else { None }
}

/// The text as people write it: names without the table's, literals without their types.
fn text(expr: &Expr) -> String {
    let plain = rewrite_up(expr.clone(), |expr| {
        Ok(match expr {
            Expr::Column(name) => Transformed::yes(Expr::Column(Name::new_unqualified(name.name))),
            // As a name, a literal is displayed without its type.
            Expr::Literal(value, _) => {
                let shown = match value.try_as_str() {
                    Some(Some(text)) => format!("'{text}'"),
                    _ => value.to_string(),
                };
                Transformed::yes(Expr::Column(Name::new_unqualified(shown)))
            }
            other => Transformed::yes(as_operators(other)),
        })
    });
    match plain {
        Ok(plain) => plain.data.to_string(),
        Err(_) => expr.to_string(),
    }
}
