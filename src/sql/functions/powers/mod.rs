//! Aggregates of powers and products: `skewness(x)`, `kurtosis(x)`, `kurtosis_pop(x)` and
//! `product(x)`, as DuckDB defines them.
//!
//! Where this stands on the road of a query: a session registers them. Neither the order of the
//! rows nor the number of threads changes an answer: sums are exact (`exact_sum`), and a product
//! keeps 192 bits (`product`). Other numbers are converted to the nearest double.

mod exact_sum;
mod moments;
mod product;

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_datafusion_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

use self::exact_sum::take_word;
use self::moments::{PowerSums, Shape};
use self::product::Product;
use crate::sql::convert::type_name;
use crate::sql::functions::sliding;

/// All of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = AggregateUDF> {
    let all = [
        Kind::Shape(Shape::Skewness),
        Kind::Shape(Shape::Kurtosis { sample: true }),
        Kind::Shape(Shape::Kurtosis { sample: false }),
        Kind::Product,
    ];
    all.into_iter().map(|kind| {
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::from(OfPowers { kind, signature })
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Shape(Shape),
    Product,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OfPowers {
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for OfPowers {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Shape(Shape::Skewness) => "skewness",
            Kind::Shape(Shape::Kurtosis { sample: true }) => "kurtosis",
            Kind::Shape(Shape::Kurtosis { sample: false }) => "kurtosis_pop",
            Kind::Product => "product",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        match arguments {
            [of] if of.is_numeric() || of.is_null() => Ok(vec![DataType::Float64]),
            [of] => plan_err!("{}() takes numbers, not {}", self.name(), type_name(of)),
            _ => plan_err!("{}() takes one argument, a number", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> DataFusionResult<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new("state", DataType::Binary, true))])
    }

    fn accumulator(&self, given: AccumulatorArgs<'_>) -> DataFusionResult<Box<dyn Accumulator>> {
        let distinct = given.is_distinct.then(HashSet::new);
        Ok(Box::new(Values { kind: self.kind, state: State::new(self.kind), distinct }))
    }

    fn create_sliding_accumulator(
        &self,
        given: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        let function = Arc::new(AggregateUDF::from(self.clone()));
        match given.is_distinct {
            true => Ok(sliding::recomputed(&function, given)),
            false => sliding::merged(&function, given),
        }
    }
}

/// What is kept of values.
#[derive(Debug)]
enum State {
    Sums(PowerSums),
    Product(Product),
}

impl State {
    fn new(kind: Kind) -> State {
        match kind {
            Kind::Shape(shape) => State::Sums(PowerSums::new(shape)),
            Kind::Product => State::Product(Product::default()),
        }
    }

    fn add(&mut self, value: f64) {
        match self {
            State::Sums(sums) => sums.add(value),
            State::Product(product) => product.add(value),
        }
    }

    /// Adds a state that [`State::bytes`] has written; `None` if it is none.
    fn merge(&mut self, kind: Kind, bytes: &[u8]) -> Option<()> {
        match (self, kind) {
            (State::Sums(sums), Kind::Shape(shape)) => sums.merge(&PowerSums::read(shape, bytes)?),
            (State::Product(product), _) => product.merge(&Product::read(bytes)?),
            _ => return None,
        }
        Some(())
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            State::Sums(sums) => sums.write(&mut bytes),
            State::Product(product) => product.write(&mut bytes),
        }
        bytes
    }
}

#[derive(Debug)]
struct Values {
    kind: Kind,
    state: State,
    /// The bits of the values so far, if each counts once.
    distinct: Option<HashSet<u64>>,
}

impl Values {
    fn add(&mut self, value: f64) {
        // There is one NaN, and one zero.
        let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
        if self.distinct.as_mut().is_none_or(|distinct| distinct.insert(bits)) {
            self.state.add(value);
        }
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        let [values] = values else { return Ok(()) };
        let values = values.as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|value| self.add(value));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        let [states] = states else { return Ok(()) };
        for mut bytes in states.as_binary::<i32>().iter().flatten() {
            if self.distinct.is_some() {
                while let Some(bits) = take_word(&mut bytes) {
                    self.add(f64::from_bits(bits));
                }
                continue;
            }
            let merged = self.state.merge(self.kind, bytes);
            merged
                .ok_or_else(|| exec_datafusion_err!("a state of an aggregate has other bytes"))?;
        }
        Ok(())
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        let bytes = match &self.distinct {
            Some(distinct) => distinct.iter().flat_map(|bits| bits.to_le_bytes()).collect(),
            None => self.state.bytes(),
        };
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        Ok(ScalarValue::Float64(match &self.state {
            State::Sums(sums) => sums.answer(),
            State::Product(product) => product.answer(),
        }))
    }

    fn size(&self) -> usize {
        let of_sums = match &self.state {
            State::Sums(sums) => sums.memory(),
            State::Product(_) => 0,
        };
        let seen = self.distinct.as_ref().map_or(0, |distinct| distinct.capacity() * 9);
        size_of_val(self) + of_sums + seen
    }
}
