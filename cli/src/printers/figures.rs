//! From the batches of an answer to a chart: the first rows are kept until a chart can be chosen,
//! all others go into it as they come.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};

use super::cells::Cells;
use crate::charts::{ChartOptions, Class, Collector, Column, Figure, Rows};
use crate::errors::Failure;
use crate::units::show_name;

/// Rows by which a chart is chosen.
const SAMPLE_ROWS: usize = 10_000;
/// Memory that they may take.
const SAMPLE_BYTES: usize = 16 << 20;

/// Makes the figure of one answer.
#[derive(Debug)]
pub(super) struct FigureBuilder {
    columns: Vec<Column>,
    options: ChartOptions,
    first: Vec<RecordBatch>,
    collector: Option<Collector>,
}

impl FigureBuilder {
    pub(super) fn new(schema: &SchemaRef, options: &ChartOptions) -> Self {
        let column = |field: &arrow_schema::FieldRef| Column {
            name: show_name(field.name()).into_owned(),
            class: class(field.data_type()),
        };
        let columns = schema.fields().iter().map(column).collect();
        FigureBuilder { columns, options: options.clone(), first: Vec::new(), collector: None }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        match &mut self.collector {
            Some(collector) => collector.add(&BatchRows::new(batch)?),
            None => {
                self.first.push(batch.clone());
                let rows: usize = self.first.iter().map(RecordBatch::num_rows).sum();
                let bytes: usize = self.first.iter().map(RecordBatch::get_array_memory_size).sum();
                if rows >= SAMPLE_ROWS || bytes >= SAMPLE_BYTES {
                    self.choose(false)?;
                }
            }
        }
        Ok(())
    }

    fn choose(&mut self, complete: bool) -> Result<(), Failure> {
        let first = std::mem::take(&mut self.first);
        let rows = first
            .iter()
            .map(|batch| Ok(Box::new(BatchRows::new(batch)?) as Box<dyn Rows + '_>))
            .collect::<Result<Vec<_>, Failure>>()?;
        let mut collector = Collector::new(self.columns.clone(), &self.options, &rows, complete)?;
        rows.iter().for_each(|rows| collector.add(&**rows));
        self.collector = Some(collector);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Figure, Failure> {
        if self.collector.is_none() {
            self.choose(true)?;
        }
        Ok(self.collector.map_or_else(Figure::default, Collector::finish))
    }
}

fn class(data_type: &DataType) -> Class {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Class::Number { whole: false },
        DataType::Decimal128(_, scale) => Class::Number { whole: *scale <= 0 },
        other if other.is_integer() => Class::Number { whole: true },
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Class::Time,
        DataType::Time32(_) | DataType::Time64(_) => Class::TimeOfDay,
        DataType::Dictionary(_, values) => class(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            match class(item.data_type()) {
                Class::Number { .. } => Class::List,
                _ => Class::Category,
            }
        }
        _ => Class::Category,
    }
}

/// The rows of a batch.
struct BatchRows<'a> {
    rows: usize,
    columns: Vec<Cells<'a>>,
}

impl<'a> BatchRows<'a> {
    fn new(batch: &'a RecordBatch) -> Result<Self, Failure> {
        let columns = batch.columns().iter().map(|array| Cells::new(array));
        Ok(BatchRows { rows: batch.num_rows(), columns: columns.collect::<Result<_, _>>()? })
    }
}

impl Rows for BatchRows<'_> {
    fn count(&self) -> usize {
        self.rows
    }

    fn number(&self, column: usize, row: usize) -> Option<f64> {
        self.columns.get(column)?.number(row)
    }

    fn text(&self, column: usize, row: usize) -> Option<String> {
        let cells = self.columns.get(column).filter(|cells| !cells.is_null(row))?;
        if let Some(text) = cells.text(row) {
            return Some(show_name(text).into_owned());
        }
        let mut text = Vec::new();
        cells.write_text(row, &mut text).ok()?;
        Some(show_name(&String::from_utf8_lossy(&text)).into_owned())
    }

    fn list(&self, column: usize, row: usize) -> Option<Vec<Option<f64>>> {
        self.columns.get(column)?.numbers(row)
    }
}
