//! The distinct values of a subquery, and the test whether a value is among them.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

#[cfg(feature = "cluster")]
use arrow_array::RecordBatch;
use arrow_array::{Array, ArrayRef, BooleanArray};
#[cfg(feature = "cluster")]
use arrow_ipc::{reader::StreamReader, writer::StreamWriter};
use arrow_row::{Row, RowConverter, Rows, SortField};
use arrow_schema::DataType;
#[cfg(feature = "cluster")]
use arrow_schema::{Field, Schema};
use datafusion::common::{DFSchema, ScalarValue, exec_err, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::error::Result;
use crate::sql::convert::from_arrow;
use crate::sql::types::nested_zeros;

/// The name of the function that looks values up.
const IS_AMONG: &str = "is_among";
/// The most values that are written out as a list.
pub(super) const LISTED: usize = 1024;

/// Distinct values as bytes: equal values have equal bytes, and bytes sort as the values do.
pub(super) struct ValueSet {
    data_type: DataType,
    converter: RowConverter,
    rows: Rows,
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    has_null: bool,
}

impl ValueSet {
    /// A set without values.
    pub(super) fn new(data_type: DataType) -> Result<ValueSet> {
        let converter =
            RowConverter::new(vec![SortField::new(data_type.clone())]).map_err(from_arrow)?;
        Ok(ValueSet {
            data_type,
            rows: converter.empty_rows(0, 0),
            converter,
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            has_null: false,
        })
    }

    pub(super) fn add(&mut self, values: &ArrayRef) -> DataFusionResult<()> {
        let values = nested_zeros::one_zero(&arrow_cast::cast(values, &self.data_type)?);
        let values = match values.logical_nulls() {
            Some(nulls) => {
                self.has_null = true;
                arrow_select::filter::filter(&values, &BooleanArray::new(nulls.into_inner(), None))?
            }
            None => values,
        };
        let first = self.rows.num_rows();
        self.converter.append(&mut self.rows, &[values])?;
        let ValueSet { rows, places, hasher, .. } = self;
        let hash = |place: &u32| hasher.hash_one(rows.row(*place as usize).as_ref());
        for place in first..rows.num_rows() {
            let Ok(number) = u32::try_from(place) else {
                return exec_err!("a subquery with more than 2³² values");
            };
            let row = rows.row(place);
            let same = |known: &u32| rows.row(*known as usize) == row;
            if places.find(hash(&number), same).is_none() {
                places.insert_unique(hash(&number), number, hash);
            }
        }
        Ok(())
    }

    /// The bytes of memory that the set takes.
    pub(super) fn size(&self) -> usize {
        self.rows.size() + self.places.capacity() * 8
    }

    fn has(&self, row: Row<'_>) -> bool {
        let hash = self.hasher.hash_one(row.as_ref());
        self.places.find(hash, |known| self.rows.row(*known as usize) == row).is_some()
    }

    /// The values of some rows, as literals.
    fn literals<'a>(
        &'a self,
        rows: impl IntoIterator<Item = Row<'a>>,
    ) -> DataFusionResult<Vec<Expr>> {
        let columns = self.converter.convert_rows(rows)?;
        let values = columns.iter().flat_map(|array| (0..array.len()).map(move |row| (array, row)));
        values.map(|(array, row)| ScalarValue::try_from_array(array, row).map(lit)).collect()
    }

    /// The minimum and maximum. Floats have none, since NaN has no agreed place in the order.
    fn bounds(&self) -> DataFusionResult<Option<[Expr; 2]>> {
        let (least, greatest) = (self.rows.iter().min(), self.rows.iter().max());
        match least.zip(greatest) {
            Some((least, greatest)) if !self.data_type.is_floating() => {
                Ok(self.literals([least, greatest])?.try_into().ok())
            }
            _ => Ok(None),
        }
    }

    /// For each value, whether it is in the set. The result is null for a null, and also for a
    /// value that is not found if the set has a null.
    fn find(&self, values: &ArrayRef) -> DataFusionResult<BooleanArray> {
        let rows = self.converter.convert_columns(&[nested_zeros::one_zero(values)])?;
        let nulls = values.logical_nulls();
        let find = |(at, row): (usize, Row<'_>)| {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                return None;
            }
            let found = self.has(row);
            (found || !self.has_null).then_some(found)
        };
        Ok(rows.iter().enumerate().map(find).collect())
    }
}

#[cfg(feature = "cluster")]
impl ValueSet {
    /// The values as a stream of Arrow IPC, the last of them null if there is a null.
    fn write(&self, out: &mut Vec<u8>) -> DataFusionResult<()> {
        let places = self.places.iter().map(|place| self.rows.row(*place as usize));
        let mut values = self.converter.convert_rows(places)?;
        let null = self.has_null.then(|| arrow_array::new_null_array(&self.data_type, 1));
        values.extend(null);
        let field = Field::new("value", self.data_type.clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let mut writer = StreamWriter::try_new(out, &schema)?;
        for array in values {
            writer.write(&RecordBatch::try_new(Arc::clone(&schema), vec![array])?)?;
        }
        writer.finish()?;
        Ok(())
    }

    /// Reads that.
    fn read(bytes: &[u8]) -> DataFusionResult<ValueSet> {
        let reader = StreamReader::try_new(bytes, None)?;
        let schema = reader.schema();
        let Some(field) = schema.fields().first() else {
            return exec_err!("a set of values without a column");
        };
        let mut set = ValueSet::new(field.data_type().clone())?;
        for batch in reader {
            if let Some(values) = batch?.columns().first() {
                set.add(values)?;
            }
        }
        Ok(set)
    }
}

/// The set of a function that looks values up, as bytes for another machine; `None` of any other
/// function.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn written(function: &ScalarUDF) -> DataFusionResult<Option<Vec<u8>>> {
    let Some(of) = function.inner().downcast_ref::<IsAmong>() else { return Ok(None) };
    let mut out = Vec::new();
    of.set.write(&mut out)?;
    Ok(Some(out))
}

/// Whether a function looks values up in a set.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn is_set(function: &ScalarUDF) -> bool {
    function.inner().is::<IsAmong>()
}

/// The function that another machine has written.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn read(name: &str, bytes: &[u8]) -> DataFusionResult<ScalarUDF> {
    if name != IS_AMONG {
        return exec_err!("there is no function {name} here");
    }
    Ok(ScalarUDF::from(IsAmong::new(Arc::new(ValueSet::read(bytes)?))))
}

/// `expr IN (values)`. A small set becomes a list, a large one a function call.
pub(super) fn is_among(
    expr: &Expr,
    set: &Arc<ValueSet>,
    schema: &DFSchema,
) -> DataFusionResult<Expr> {
    if set.places.is_empty() && !set.has_null {
        // In an empty set, the answer is false even for null.
        return Ok(lit(false));
    }
    let expr = expr.clone().cast_to(&set.data_type, schema)?;
    if set.places.len() <= LISTED {
        let mut list =
            set.literals(set.places.iter().map(|place| set.rows.row(*place as usize)))?;
        if set.has_null {
            list.push(lit(ScalarValue::try_from(&set.data_type)?));
        }
        return Ok(Expr::InList(InList::new(Box::new(expr), list, false)));
    }
    let is_in = ScalarUDF::from(IsAmong::new(Arc::clone(set))).call(vec![expr.clone()]);
    // The bounds let statistics prune blocks and segments. With a null in the set, a value outside
    // the bounds gives null, not false.
    Ok(match set.bounds()?.filter(|_| !set.has_null) {
        Some([least, greatest]) => expr.between(least, greatest).and(is_in),
        None => is_in,
    })
}

/// A function that looks a value up in a large set. Unlike a list, it costs the optimiser's rules
/// nothing to walk through.
struct IsAmong {
    signature: Signature,
    set: Arc<ValueSet>,
}

impl IsAmong {
    fn new(set: Arc<ValueSet>) -> IsAmong {
        IsAmong {
            signature: Signature::exact(vec![set.data_type.clone()], Volatility::Immutable),
            set,
        }
    }
}

impl std::fmt::Debug for IsAmong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IsAmong").field("values", &self.set.places.len()).finish_non_exhaustive()
    }
}

impl PartialEq for IsAmong {
    fn eq(&self, other: &IsAmong) -> bool {
        Arc::ptr_eq(&self.set, &other.set)
    }
}

impl Eq for IsAmong {}

impl Hash for IsAmong {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.set).hash(state);
    }
}

impl ScalarUDFImpl for IsAmong {
    fn name(&self) -> &str {
        IS_AMONG
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let rows = arguments.number_rows;
        let Some(values) = arguments.args.into_iter().next() else {
            return internal_err!("is_among without a value");
        };
        Ok(ColumnarValue::Array(Arc::new(self.set.find(&values.into_array(rows)?)?)))
    }
}
