//! The functions by which the conditions and new values of a DELETE or UPDATE look up what a join
//! has found (`matches`), also on another machine.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

#[cfg(feature = "cluster")]
use arrow_array::RecordBatch;
use arrow_array::{Array, ArrayRef, BooleanArray};
#[cfg(feature = "cluster")]
use arrow_ipc::{reader::StreamReader, writer::StreamWriter};
use arrow_schema::DataType;
#[cfg(feature = "cluster")]
use arrow_schema::{Field, Schema as ArrowSchema};
#[cfg(feature = "cluster")]
use datafusion::common::exec_err;
use datafusion::common::{ScalarValue, internal_err};
#[cfg(feature = "cluster")]
use datafusion::error::DataFusionError;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

#[cfg(feature = "cluster")]
use crate::error::Error;
use crate::sql::write::matches::{Matches, literals};
use crate::sql::write::value_set::LISTED;

/// Their names.
const IS_MATCHED: &str = "is_matched";
const MATCHED_VALUE: &str = "matched_value";

/// The condition that a row is among these; `keys` are what the statement reads of one.
pub(super) fn condition(matches: &Arc<Matches>, keys: &[Expr]) -> DataFusionResult<Expr> {
    if matches.rows.num_rows() == 0 {
        return Ok(lit(false));
    }
    if keys.is_empty() {
        return Ok(lit(true));
    }
    // By lists and bounds, statistics rule out blocks and segments.
    if let ([key], [bounds]) = (keys, matches.bounds.as_slice())
        && bounds.are_exact()
        && matches.rows.num_rows() <= LISTED
    {
        let list = literals(&matches.converter, matches.rows.iter())?;
        return Ok(Expr::InList(InList::new(Box::new(key.clone()), list, false)));
    }
    let call = ScalarUDF::from(Matched::new(matches, None)).call(keys.to_vec());
    keys.iter().zip(&matches.bounds).try_fold(call, |condition, (key, bounds)| {
        Ok(match bounds.ends()? {
            Some([least, greatest]) => key.clone().between(least, greatest).and(condition),
            None => condition,
        })
    })
}

/// The value that a row gets.
pub(super) fn value_of(
    matches: &Arc<Matches>,
    keys: &[Expr],
    value: usize,
) -> DataFusionResult<Expr> {
    match matches.values.get(value) {
        Some(values) if keys.is_empty() => Ok(lit(match values.is_empty() {
            true => ScalarValue::try_from(values.data_type())?,
            false => ScalarValue::try_from_array(values, 0)?,
        })),
        _ => Ok(ScalarUDF::from(Matched::new(matches, Some(value))).call(keys.to_vec())),
    }
}

/// A function of what a statement reads of a row: whether it is among some, or the value that it
/// gets.
struct Matched {
    signature: Signature,
    matches: Arc<Matches>,
    value: Option<usize>,
}

impl Matched {
    fn new(matches: &Arc<Matches>, value: Option<usize>) -> Matched {
        let signature = Signature::exact(matches.keys.clone(), Volatility::Immutable);
        Matched { signature, matches: Arc::clone(matches), value }
    }

    fn value_array(&self) -> DataFusionResult<Option<&ArrayRef>> {
        let Some(at) = self.value else { return Ok(None) };
        match self.matches.values.get(at) {
            Some(values) => Ok(Some(values)),
            None => internal_err!("a value that was not computed"),
        }
    }
}

impl std::fmt::Debug for Matched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Matched");
        out.field("rows", &self.matches.rows.num_rows()).field("value", &self.value);
        out.finish_non_exhaustive()
    }
}

impl PartialEq for Matched {
    fn eq(&self, other: &Matched) -> bool {
        Arc::ptr_eq(&self.matches, &other.matches) && self.value == other.value
    }
}

impl Eq for Matched {}

impl Hash for Matched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.matches).hash(state);
        self.value.hash(state);
    }
}

impl ScalarUDFImpl for Matched {
    fn name(&self) -> &str {
        if self.value.is_some() { MATCHED_VALUE } else { IS_MATCHED }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(self.value_array()?.map_or(DataType::Boolean, |values| values.data_type().clone()))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let rows = arguments.number_rows;
        let keys = arguments.args.into_iter().map(|key| key.into_array(rows));
        let places = self.matches.find(&keys.collect::<DataFusionResult<Vec<_>>>()?)?;
        let answer: ArrayRef = match self.value_array()? {
            Some(values) => arrow_select::take::take(values, &places, None)?,
            None => {
                let found = places.iter().map(|place| Some(place.is_some()));
                Arc::new(found.collect::<BooleanArray>())
            }
        };
        Ok(ColumnarValue::Array(answer))
    }
}

/// What such a function knows, as bytes for another machine; `None` of any other function.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn written(function: &ScalarUDF) -> DataFusionResult<Option<Vec<u8>>> {
    let Some(of) = function.inner().downcast_ref::<Matched>() else { return Ok(None) };
    let mut columns = of.matches.converter.convert_rows(&of.matches.rows)?;
    columns.extend(of.value_array()?.cloned());
    let field = |(at, column): (usize, &ArrayRef)| {
        Field::new(at.to_string(), column.data_type().clone(), true)
    };
    let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
    let schema = Arc::new(ArrowSchema::new(fields));
    let mut out = Vec::new();
    let mut writer = StreamWriter::try_new(&mut out, &schema)?;
    writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    writer.finish()?;
    drop(writer);
    Ok(Some(out))
}

/// Whether a function is one of these.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn is_match(function: &ScalarUDF) -> bool {
    function.inner().is::<Matched>()
}

/// The function that another machine has written; `None` if the name is that of another one.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn read(name: &str, bytes: &[u8]) -> DataFusionResult<Option<ScalarUDF>> {
    let has_value = match name {
        IS_MATCHED => false,
        MATCHED_VALUE => true,
        _ => return Ok(None),
    };
    let mut reader = StreamReader::try_new(bytes, None)?;
    let Some(batch) = reader.next().transpose()? else {
        return exec_err!("{name} without its rows");
    };
    let mut keys = batch.columns().to_vec();
    let values: Vec<ArrayRef> = if has_value { keys.pop().into_iter().collect() } else { vec![] };
    let types = keys.iter().map(|key| key.data_type().clone()).collect();
    let external = |error: Error| DataFusionError::External(Box::new(error));
    let mut matches = Matches::new(types).map_err(external)?;
    let rows = matches.converter.convert_columns(&keys)?;
    for row in &rows {
        if matches.place(row).is_some() {
            return exec_err!("{name} knows a row twice");
        }
        matches.push(row).map_err(external)?;
    }
    if values.len() != usize::from(has_value) {
        return exec_err!("{name} without its values");
    }
    matches.values = values;
    let value = has_value.then_some(0);
    Ok(Some(ScalarUDF::from(Matched::new(&Arc::new(matches), value))))
}
