use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::compute::SortOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::{common, execute_stream};
use datafusion::prelude::SessionConfig;
use proptest::prelude::*;

use super::*;

type Row = (Option<i64>, Option<String>);

fn batch(rows: &[Row]) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
    let texts: ArrayRef =
        Arc::new(rows.iter().map(|row| row.1.as_deref()).collect::<StringViewArray>());
    RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("s", texts, true)]).unwrap()
}

fn rows(batch: &RecordBatch) -> Vec<Row> {
    let numbers = batch.column(0).as_primitive::<Int64Type>();
    let texts = batch.column(1).as_string_view();
    numbers.iter().zip(texts.iter().map(|text| text.map(str::to_owned))).collect()
}

/// Sorts partitions of batches by the columns of this name. Returns the batches, and how many files
/// were spilled.
fn sorted(
    partitions: &[Vec<Vec<Row>>],
    by: &[(&str, SortOptions)],
    memory: usize,
) -> DataFusionResult<(Vec<RecordBatch>, usize)> {
    let batches = |rows: &Vec<Vec<Row>>| rows.iter().map(|rows| batch(rows)).collect::<Vec<_>>();
    let partitions: Vec<Vec<RecordBatch>> = partitions.iter().map(batches).collect();
    let schema = batch(&[]).schema();
    let input = MemorySourceConfig::try_new_exec(&partitions, Arc::clone(&schema), None)?;
    let by = by
        .iter()
        .map(|(name, options)| PhysicalSortExpr::new(col(name, &schema).unwrap(), *options));
    let order = LexOrdering::new(by).unwrap();
    let sort = SortExec::new(order.clone(), input).with_preserve_partitioning(true);
    let merge: Plan = Arc::new(SortPreservingMergeExec::new(order, Arc::new(sort)));
    let plan = external(&merge)?.unwrap();
    let pool = Arc::new(FairSpillPool::new(memory));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
    let config = SessionConfig::new().with_batch_size(100);
    let context =
        TaskContext::default().with_runtime(Arc::clone(&runtime)).with_session_config(config);
    let running = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let batches = running.block_on(async {
        common::collect(execute_stream(Arc::clone(&plan), Arc::new(context))?).await
    })?;
    drop(running);
    assert_eq!(runtime.memory_pool.reserved(), 0);
    let spilled = plan.metrics().and_then(|metrics| metrics.spill_count()).unwrap_or(0);
    Ok((batches, spilled))
}

fn compared<T: Ord>(a: &Option<T>, b: &Option<T>, options: SortOptions) -> Ordering {
    let nulls = a.is_none().cmp(&b.is_none());
    match (a, b) {
        (Some(a), Some(b)) if options.descending => b.cmp(a),
        (Some(a), Some(b)) => a.cmp(b),
        _ if options.nulls_first => nulls.reverse(),
        _ => nulls,
    }
}

fn texts() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        1 => Just(None),
        2 => Just(Some(String::new())),
        3 => "[ab]{0,3}".prop_map(Some),
        4 => (0..40usize, "[a\u{0}ö]{0,30}").prop_map(|(n, end)| Some("http://".repeat(n) + &end)),
    ]
}

fn options() -> impl Strategy<Value = SortOptions> {
    (any::<bool>(), any::<bool>())
        .prop_map(|(descending, nulls_first)| SortOptions { descending, nulls_first })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn rows_come_out_in_order_whatever_fits_in_memory(
        partitions in prop::collection::vec(
            prop::collection::vec(
                prop::collection::vec((prop::option::of(-3..300i64), texts()), 0..150),
                0..12,
            ),
            1..4,
        ),
        of_numbers in options(),
        of_texts in options(),
        numbers_first in any::<bool>(),
        memory in prop_oneof![Just(usize::MAX), 300_000..2_000_000usize],
    ) {
        let mut by = [("n", of_numbers), ("s", of_texts)];
        let mut expected: Vec<Row> = partitions.iter().flatten().flatten().cloned().collect();
        let by_number = |a: &Row, b: &Row| compared(&a.0, &b.0, of_numbers);
        let by_text = |a: &Row, b: &Row| compared(&a.1, &b.1, of_texts);
        if numbers_first {
            expected.sort_by(|a, b| by_number(a, b).then(by_text(a, b)));
        } else {
            by.reverse();
            expected.sort_by(|a, b| by_text(a, b).then(by_number(a, b)));
        }
        match sorted(&partitions, &by, memory) {
            Ok((batches, _)) => {
                let found: Vec<Row> = batches.iter().flat_map(rows).collect();
                prop_assert_eq!(found, expected);
            }
            Err(error) => prop_assert!(
                memory < 900_000 && matches!(error, DataFusionError::ResourcesExhausted(_)),
                "{}", error
            ),
        }
    }
}

#[test]
fn many_more_rows_than_fit_are_merged_in_several_steps() {
    let text = |n: usize| Some(format!("{:>200}", n * 7919 % 40_009));
    let row = |n: usize| (Some(n as i64), text(n));
    let partition = |of: usize| {
        let rows = |batch: usize| (0..500).map(|n| row((batch * 500 + n) * 2 + of)).collect();
        (0..40).map(rows).collect::<Vec<Vec<Row>>>()
    };
    let by = [("s", SortOptions::default())];
    let (batches, spilled) = sorted(&[partition(0), partition(1)], &by, 2 << 20).unwrap();
    let found: Vec<Row> = batches.iter().flat_map(rows).collect();
    assert!(found.len() == 40_000 && found.is_sorted_by_key(|row| &row.1));
    assert!(spilled > 10, "{spilled} files");
    // Batches hold their own texts only.
    let largest = batches.iter().map(RecordBatch::get_array_memory_size).max().unwrap();
    assert!(largest < 100 << 10, "{largest} bytes");
}
