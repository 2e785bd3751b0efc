//! The query log: a table of the store with a row for each statement that has ended.
//!
//! Where this stands on the road of a statement: behind it. A thread of its own writes what has
//! ended every few seconds, by the road of any INSERT, and the rest when the server ends. Columns
//! have the names of ClickHouse's `system.query_log`, whose place the table takes for its clients.
//! It is partitioned by day, and days that are too old are dropped.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow_array::{
    ArrayRef, Date32Array, Float64Array, Int32Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt64Array,
};
use stylobate::internal::ingest::partition_keys;
use stylobate::internal::model::Arrangement;
use stylobate::internal::store::Changes;
use stylobate::{
    DataType, Parameters, Schema, Session, SessionOptions, SqlExpressions, Store, TableOptions,
    TimeUnit, drop_partitions, partitions,
};

use super::finished::Finished;
use super::server::Server;
use crate::errors::Failure;
use crate::printers::time::date;

/// The table.
pub(crate) const TABLE: &str = "query_log";
/// How often what has ended is written, and how often old days are looked for.
const EVERY: Duration = Duration::from_secs(3);
const EVERY_DAYS: Duration = Duration::from_secs(3600);
/// Statements that are tried to be written once more, at most.
const MOST_KEPT: usize = 1 << 16;
/// How long a write waits for the writer of another process.
const PATIENCE: &str = "SET sty.wait = '5s'";
const DAY: u64 = 86_400;
const DAY_COLUMN: &str = "event_date";

/// A log that is written.
pub(crate) struct QueryLog {
    end: SyncSender<()>,
    thread: JoinHandle<()>,
}

/// What the thread of a log has.
struct Writing {
    server: Arc<Server>,
    session: Session,
    store: Store,
    /// How long days are kept.
    keep: Duration,
    /// What could not be written yet.
    kept: Vec<Finished>,
}

impl QueryLog {
    /// Makes the table, unless it is there, and begins to write. `warn` says what goes wrong.
    /// With `is_over_cluster`, the sessions of the server write to the cluster, not to the store.
    pub(crate) fn begin(
        server: &Arc<Server>,
        store: Store,
        keep: Duration,
        is_over_cluster: bool,
        warn: impl Fn(&str) + Send + 'static,
    ) -> Result<QueryLog, Failure> {
        match store.has_table(TABLE)? {
            true => check(store.table(TABLE)?.snapshot()?.schema())?,
            false => create(&store)?,
        }
        let session = match is_over_cluster {
            true => {
                let options = SessionOptions { threads: Some(1), ..SessionOptions::default() };
                Session::open(&store, &options)?
            }
            false => server.sessions.engine().session()?,
        };
        session.run(PATIENCE, &Parameters::default(), |_| Ok(()))?;
        server.running.finished.keep();
        let server = Arc::clone(server);
        let mut writing = Writing { server, session, store, keep, kept: Vec::new() };
        let (end, ends) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("sty-query-log".to_owned())
            .spawn(move || writing.run(&ends, warn))
            .map_err(stylobate::Error::too_few_threads)?;
        Ok(QueryLog { end, thread })
    }

    /// Writes what is left.
    pub(crate) fn end(self) {
        let _ = self.end.send(());
        let _ = self.thread.join();
    }
}

impl Writing {
    fn run(&mut self, ends: &Receiver<()>, warn: impl Fn(&str)) {
        let (mut looked, mut has_warned): (Option<Instant>, bool) = (None, false);
        loop {
            let is_over = !matches!(ends.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout));
            let mut done = self.write();
            if looked.is_none_or(|looked| looked.elapsed() >= EVERY_DAYS) && !is_over {
                looked = Some(Instant::now());
                done = done.and(self.drop_old_days());
            }
            match done {
                Ok(()) => has_warned = false,
                Err(error) if !has_warned => {
                    has_warned = true;
                    warn(&format!("the query log cannot be written: {error}"));
                }
                Err(_) => {}
            }
            if is_over {
                self.server.running.finished.drop_some(self.kept.len() as u64);
                return;
            }
        }
    }

    /// Writes what has ended. What cannot be written is tried once more with what comes next, as
    /// long as that is not too much.
    fn write(&mut self) -> stylobate::Result<()> {
        self.kept.append(&mut self.server.running.finished.take());
        if self.kept.is_empty() {
            return Ok(());
        }
        let rows = rows(&self.kept)?;
        let columns: Vec<String> =
            rows.schema().fields().iter().map(|field| field.name().clone()).collect();
        let store = |rows: RecordBatch| {
            self.session.insert(TABLE, &columns, std::iter::once(Ok(rows))).map(drop)
        };
        let stored = match store(rows.clone()) {
            // Somebody has dropped it.
            Err(stylobate::Error::NotFound(_)) => create(&self.store).and_then(|()| store(rows)),
            stored => stored,
        };
        if stored.is_ok() || matches!(stored, Err(stylobate::Error::Unconfirmed { .. })) {
            self.kept.clear();
        } else if self.kept.len() > MOST_KEPT {
            self.server.running.finished.drop_some(self.kept.len() as u64);
            self.kept.clear();
        }
        stored
    }

    /// Drops the days that are kept no longer.
    fn drop_old_days(&self) -> stylobate::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Some(oldest) = now.checked_sub(self.keep) else { return Ok(()) };
        let mut first = format!("{DAY_COLUMN}=").into_bytes();
        date((oldest.as_secs() / DAY) as i64, &mut first);
        let first = String::from_utf8_lossy(&first);
        let table = self.store.table(TABLE)?;
        let days = partitions(&table.snapshot()?)?.into_iter().map(|day| day.path.to_string());
        let old: Vec<String> = days
            .filter(|day| day.len() == first.len() && day.starts_with(DAY_COLUMN) && **day < *first)
            .collect();
        if !old.is_empty() {
            drop_partitions(&table, &old)?;
        }
        Ok(())
    }
}

/// The columns, by their names and types.
fn columns() -> Vec<(&'static str, DataType)> {
    let moment = || DataType::Timestamp { unit: TimeUnit::Microsecond, zone: None };
    vec![
        ("type", DataType::Utf8),
        (DAY_COLUMN, DataType::Date),
        ("event_time", moment()),
        ("query_start_time", moment()),
        ("query_duration_ms", DataType::Float64),
        ("query_id", DataType::Utf8),
        ("user", DataType::Utf8),
        ("interface", DataType::Utf8),
        ("read_rows", DataType::UInt64),
        ("result_rows", DataType::UInt64),
        ("result_bytes", DataType::UInt64),
        ("written_rows", DataType::UInt64),
        ("memory_usage", DataType::UInt64),
        ("ended", DataType::Utf8),
        ("exception_code", DataType::Int32),
        ("exception", DataType::Utf8),
        ("query", DataType::Utf8),
    ]
}

/// Makes the table, partitioned by day.
fn create(store: &Store) -> stylobate::Result<()> {
    let schema = Schema::from_names(columns())?;
    let keys = [DAY_COLUMN.to_owned()];
    let partition_by = partition_keys(&keys, &schema, &SqlExpressions::default())?;
    let mut writer = store.table(TABLE)?.writer(Some((schema, TableOptions::default())))?;
    if writer.is_new() {
        let arrangement = Arrangement { partition_by, ..Arrangement::default() };
        writer.commit_changes(Changes { arrangement, ..writer.changes() })?;
    }
    Ok(())
}

/// Whether a table that is there has the columns of a log.
fn check(schema: &Schema) -> Result<(), Failure> {
    let is_there = |(name, data_type): &(&str, DataType)| {
        let mut known = schema.columns().iter();
        known.any(|column| *column.name == **name && column.data_type == *data_type)
    };
    match columns().iter().find(|column| !is_there(column)) {
        None => Ok(()),
        Some((name, data_type)) => {
            let what = format!(
                "table {TABLE} of the store is no query log: it has no column {name} of type \
                 {data_type}"
            );
            Err(Failure::failed(what).hint("give it another name, or leave out --query-log"))
        }
    }
}

/// The rows of statements.
fn rows(statements: &[Finished]) -> stylobate::Result<RecordBatch> {
    fn micros(time: SystemTime) -> i64 {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }
    let end = |it: &Finished| it.begun + it.time;
    let day = |it: &Finished| (micros(end(it)) / 1_000_000 / DAY as i64) as i32;
    let failure = |it: &Finished| it.done.failure.is_some() || it.ended.is_some();
    let kind = |it| if failure(it) { "ExceptionWhileProcessing" } else { "QueryFinish" };
    let code = |it: &Finished| it.done.failure.as_ref().map_or(0, |(code, _)| i32::from(*code));
    let all = || statements.iter();
    let counts = |count: fn(&Finished) -> Option<u64>| -> ArrayRef {
        Arc::new(UInt64Array::from_iter(all().map(count)))
    };
    let texts = |text: fn(&Finished) -> Option<&str>| -> ArrayRef {
        Arc::new(StringArray::from_iter(all().map(text)))
    };
    let moments = |moment: fn(&Finished) -> SystemTime| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from_iter_values(all().map(|it| micros(moment(it)))))
    };
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(all().map(kind))),
        Arc::new(Date32Array::from_iter_values(all().map(day))),
        moments(|it| it.begun + it.time),
        moments(|it| it.begun),
        Arc::new(Float64Array::from_iter_values(
            all().map(|it| it.time.as_micros() as f64 / 1000.0),
        )),
        texts(|it| Some(it.id.as_str())),
        texts(|it| Some(it.user.as_str())),
        texts(|it| Some(it.protocol)),
        counts(|it| it.done.rows_read),
        counts(|it| Some(it.done.rows)),
        counts(|it| Some(it.done.bytes)),
        counts(|it| Some(it.done.rows_written)),
        counts(|it| it.done.memory),
        texts(|it| it.ended),
        Arc::new(Int32Array::from_iter_values(all().map(code))),
        // What an answer lacks stands where the failure would.
        texts(|it| match &it.done.failure {
            Some((_, message)) => Some(message.as_str()),
            None => it.done.notes.as_deref(),
        }),
        texts(|it| Some(it.sql.as_str())),
    ];
    let named = columns().into_iter().zip(arrays).map(|((name, _), array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(named)
        .map_err(|error| stylobate::Error::InvalidInput(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::finished::Done;
    use arrow_array::Array as _;

    #[test]
    fn a_statement_is_a_row_and_fits_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path());
        create(&store).unwrap();
        create(&store).unwrap();
        check(store.table(TABLE).unwrap().snapshot().unwrap().schema()).unwrap();
        let mut done = Done { rows: 3, memory: Some(1 << 20), ..Done::default() };
        done.fail(60, "no table t");
        let noted = Finished {
            begun: UNIX_EPOCH,
            time: Duration::ZERO,
            id: "n".to_owned(),
            user: "u".to_owned(),
            protocol: "http",
            sql: "SELECT 1".to_owned(),
            ended: None,
            done: Done::default(),
        };
        let mut partial = noted.clone();
        partial.done.note(&["rows are left out".to_owned(), "others, too".to_owned()]);
        let said = rows(&[noted, partial]).unwrap();
        let said = said.column_by_name("exception").unwrap();
        let said = said.as_any().downcast_ref::<StringArray>().unwrap();
        assert!(said.is_null(0) && said.value(1) == "rows are left out; others, too");
        let statement = Finished {
            begun: UNIX_EPOCH + Duration::from_secs(20_000 * DAY - 1),
            time: Duration::from_millis(1500),
            id: "q".to_owned(),
            user: "u".to_owned(),
            protocol: "http",
            sql: "SELECT 'x'".to_owned(),
            ended: Some("timeout"),
            done,
        };
        let batch = rows(&[statement]).unwrap();
        let session = Session::open(&store, &SessionOptions::default()).unwrap();
        session.insert(TABLE, &[], std::iter::once(Ok(batch))).unwrap();
        let snapshot = store.table(TABLE).unwrap().snapshot().unwrap();
        let days = partitions(&snapshot).unwrap();
        assert_eq!(&*days[0].path, "event_date=2024-10-04");
        let other = Schema::from_names([("type", DataType::Utf8)]).unwrap();
        assert!(check(&other).is_err());
    }
}
