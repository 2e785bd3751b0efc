//! `sty serve --flight` as clients of Arrow Flight SQL see it: answers, values, rows that are sent,
//! and what is asked about the server.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandStatementIngest, SqlInfo, TableDefinitionOptions,
};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage};
use arrow_schema::{ArrowError, DataType, Schema};
use tempfile::TempDir;
use tonic::codegen::tokio_stream::{self, StreamExt as _};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A server over a store of its own, which ends with the test.
pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) address: SocketAddr,
    http: SocketAddr,
    runtime: tokio::runtime::Runtime,
    _dir: TempDir,
}

pub(crate) type Client = FlightSqlServiceClient<Channel>;

impl Server {
    pub(crate) fn start(options: &[&str]) -> Server {
        Server::start_in(tempfile::tempdir().unwrap(), options)
    }

    pub(crate) fn start_in(dir: TempDir, options: &[&str]) -> Server {
        std::fs::create_dir_all(dir.path().join("db")).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_sty"))
            .args(["serve", "db", "--http", "0", "--flight", "0"])
            .args(options)
            .current_dir(dir.path())
            .env("STY_CONFIG", "")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut address = || {
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            let address = line.trim().rsplit("//").next().unwrap().trim_end_matches('/').to_owned();
            address.parse().unwrap_or_else(|_| panic!("{line}"))
        };
        let (http, address) = (address(), address());
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        Server { process, address, http, runtime, _dir: dir }
    }

    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(60), work).await.unwrap() })
    }

    pub(crate) fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        self.wait(endpoint.connect()).unwrap()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(self.channel())
    }

    /// The answer over HTTP.
    pub(crate) fn http(&self, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        let head = format!("{head} HTTP/1.1\r\nHost: x\r\nConnection: close");
        crate::serve::send(&mut stream, &head, body.as_bytes());
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        crate::serve::parse(&reply).text()
    }

    /// The rows of an answer, in one batch.
    pub(crate) fn ask(&self, client: &mut Client, sql: &str) -> RecordBatch {
        self.try_ask(client, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub(crate) fn try_ask(
        &self,
        client: &mut Client,
        sql: &str,
    ) -> Result<RecordBatch, FlightError> {
        self.wait(async {
            let info = client.execute(sql.to_owned(), None).await?;
            fetch(client, info).await
        })
    }

    /// The rows that a statement says it has stored, deleted or changed.
    pub(crate) fn update(&self, client: &mut Client, sql: &str) -> i64 {
        self.wait(client.execute_update(sql.to_owned(), None)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The rows of an info, which has told their columns.
pub(crate) async fn fetch(
    client: &mut Client,
    info: FlightInfo,
) -> Result<RecordBatch, FlightError> {
    // What a statement without an answer gives is not told.
    let told = match info.schema.is_empty() {
        true => Schema::empty(),
        false => Schema::try_from(IpcMessage(info.schema.clone()))?,
    };
    let [place] = &info.endpoint[..] else { panic!("one place") };
    let rows = fetch_from(client, place).await?;
    assert_eq!(rows.schema().fields(), told.fields());
    Ok(rows)
}

/// The rows of one place.
pub(crate) async fn fetch_from(
    client: &mut Client,
    place: &FlightEndpoint,
) -> Result<RecordBatch, FlightError> {
    let mut stream = client.do_get(place.ticket.clone().unwrap()).await?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        batches.push(batch?);
    }
    let schema = stream.schema().unwrap().clone();
    Ok(arrow_select::concat::concat_batches(&schema, &batches)?)
}

/// The code of a failure.
pub(crate) fn code(error: FlightError) -> Code {
    match error {
        FlightError::Tonic(status) => status.code(),
        FlightError::Arrow(ArrowError::ExternalError(error)) => {
            error.downcast_ref::<Status>().unwrap().code()
        }
        other => panic!("{other}"),
    }
}

pub(crate) fn numbers(batch: &RecordBatch, column: usize) -> Vec<i64> {
    batch.column(column).as_primitive::<Int64Type>().values().to_vec()
}

pub(crate) fn texts(batch: &RecordBatch, column: usize) -> Vec<String> {
    let values = batch.column(column).as_string::<i32>();
    values.iter().map(|value| value.unwrap_or("NULL").to_owned()).collect()
}

fn ints(name: &str, values: Vec<i64>) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from(values));
    RecordBatch::try_from_iter([(name, values)]).unwrap()
}

#[test]
fn queries_are_answered() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    assert_eq!(server.update(&mut client, "CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR)"), 0);
    let insert = "INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, 'longer than any view holds')";
    assert_eq!(server.update(&mut client, insert), 3);
    let rows = server.ask(&mut client, "SELECT a, b, [b, 'y'] AS l, {n: b} AS s FROM t ORDER BY a");
    assert_eq!(numbers(&rows, 0), [1, 2, 3]);
    assert_eq!(texts(&rows, 1), ["x", "NULL", "longer than any view holds"]);
    let schema = rows.schema();
    assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
    assert!(!format!("{schema:?}").contains("View"), "{schema:?}");
    assert_eq!(rows.column(2).as_list::<i32>().value(0).as_string::<i32>().value(1), "y");
    assert_eq!(rows.column(3).as_struct().column(0).as_string::<i32>().value(0), "x");
    // An answer without rows has its columns.
    let none = server.ask(&mut client, "SELECT a FROM t WHERE a > 9;");
    assert_eq!((none.num_rows(), none.num_columns()), (0, 1));
    // A statement that describes the session has an answer, too, with the columns announced for it.
    let told = server.ask(&mut client, "DESCRIBE SELECT a, b FROM t");
    assert_eq!(texts(&told, 0), ["a", "b"]);
    let told = server.ask(&mut client, "SHOW CREATE TABLE t");
    assert_eq!((texts(&told, 2), told.num_columns()), (vec!["t".to_owned()], 4));
    assert_eq!(server.ask(&mut client, "SHOW FUNCTIONS").num_columns(), 7);
    // More than a message holds.
    let sql = "SELECT value AS v, repeat('ä', 100) AS r FROM generate_series(1, 100000)";
    let many = server.ask(&mut client, sql);
    assert_eq!(many.num_rows(), 100_000);
    assert_eq!(numbers(&many, 0).iter().sum::<i64>(), 5_000_050_000);
    // A statement that writes has no answer, and is run once.
    let wrote = server.ask(&mut client, "INSERT INTO t VALUES (4, 'z')");
    assert_eq!(wrote.num_columns(), 0);
    assert_eq!(numbers(&server.ask(&mut client, "SELECT count(*) FROM t"), 0), [4]);
    assert_eq!(server.update(&mut client, "DELETE FROM t WHERE a > 2"), 2);
    // A name of a table as a path; the columns are told before.
    let rows = server.wait(async {
        let path = FlightDescriptor::new_path(vec!["t".to_owned()]);
        let info = client.inner_mut().get_flight_info(path).await.unwrap().into_inner();
        fetch(&mut client, info).await.unwrap()
    });
    assert_eq!(numbers(&rows, 0), [1, 2]);
    let metrics = server.http("GET /metrics", "");
    assert!(metrics.contains("sty_protocol_connections{protocol=\"flight\"} 1\n"), "{metrics}");
}

#[test]
fn failures_have_codes() {
    let server = Server::start(&["--statement-memory", "40MiB"]);
    let mut client = server.connect();
    server.update(&mut client, "CREATE TABLE t AS SELECT 1 AS a");
    for (sql, expected) in [
        ("SELECT nope FROM t", Code::InvalidArgument),
        ("SELECT * FROM nope", Code::NotFound),
        ("SELEC 1", Code::InvalidArgument),
        ("", Code::InvalidArgument),
        ("SELECT 1; SELECT 2", Code::InvalidArgument),
        ("SELECT CAST('x' AS INT)", Code::InvalidArgument),
        ("CREATE TABLE t AS SELECT 2 AS a", Code::AlreadyExists),
        ("COPY t TO 'x.csv'", Code::Unimplemented),
        ("SELECT * FROM read_csv('/etc/passwd')", Code::InvalidArgument),
        (
            "SELECT array_agg(repeat(value::text, 100)) FROM generate_series(1, 3000000)",
            Code::ResourceExhausted,
        ),
    ] {
        let error = server.try_ask(&mut client, sql).unwrap_err();
        assert_eq!(code(error), expected, "{sql}");
    }
    let error = server.wait(client.execute_update("SELECT 1".to_owned(), None)).unwrap_err();
    assert_eq!(code(error), Code::InvalidArgument);
    let error = server.wait(client.begin_transaction()).unwrap_err();
    assert_eq!(code(error), Code::Unimplemented);
    let error = server.wait(client.execute("SELECT 1".to_owned(), Some("t1".into()))).unwrap_err();
    assert_eq!(code(error), Code::Unimplemented);
    // Columns that were told, and are others when the rows are fetched.
    let info = server.wait(client.execute("SELECT * FROM t".to_owned(), None)).unwrap();
    server.update(&mut client, "CREATE OR REPLACE TABLE t AS SELECT 'x' AS a");
    let error = server.wait(fetch(&mut client, info)).unwrap_err();
    assert_eq!(code(error), Code::FailedPrecondition);
}

#[test]
fn statements_are_prepared() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    server.update(&mut client, "CREATE TABLE t (a BIGINT, b VARCHAR)");
    server.wait(async {
        let sql = "INSERT INTO t (a, b) VALUES (?, ?)".to_owned();
        let mut insert = client.prepare(sql, None).await.unwrap();
        assert!(insert.dataset_schema().unwrap().fields().is_empty());
        let types = insert.parameter_schema().unwrap().clone();
        let types: Vec<_> = types.fields().iter().map(|it| it.data_type().clone()).collect();
        assert_eq!(types, [DataType::Int64, DataType::Utf8]);
        let a: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let names = (0..1000).map(|at| format!("n{at}"));
        let b: ArrayRef = Arc::new(StringArray::from_iter_values(names));
        let rows = RecordBatch::try_from_iter([("$1", a), ("$2", b)]).unwrap();
        insert.set_parameters(rows).unwrap();
        assert_eq!(insert.execute_update().await.unwrap(), 1000);
        insert.close().await.unwrap();

        let sql = "SELECT b FROM t WHERE a = $1 OR a = $1 + 1 ORDER BY a".to_owned();
        let mut select = client.prepare(sql, None).await.unwrap();
        assert_eq!(select.dataset_schema().unwrap().fields().len(), 1);
        for (first, expected) in [(5, ["n5", "n6"]), (7, ["n7", "n8"])] {
            select.set_parameters(ints("$1", vec![first])).unwrap();
            let info = select.execute().await.unwrap();
            assert_eq!(texts(&fetch(&mut client, info).await.unwrap(), 0), expected);
        }
        // Each row of values is a run.
        select.set_parameters(ints("$1", vec![1, 4])).unwrap();
        let info = select.execute().await.unwrap();
        let rows = fetch(&mut client, info).await.unwrap();
        assert_eq!(texts(&rows, 0), ["n1", "n2", "n4", "n5"]);
        // A text for a number, as drivers send what people type.
        let text: ArrayRef = Arc::new(StringArray::from(vec!["998"]));
        select.set_parameters(RecordBatch::try_from_iter([("0", text)]).unwrap()).unwrap();
        let info = select.execute().await.unwrap();
        assert_eq!(texts(&fetch(&mut client, info).await.unwrap(), 0), ["n998", "n999"]);

        let mut delete =
            client.prepare("DELETE FROM t WHERE a < ?".to_owned(), None).await.unwrap();
        delete.set_parameters(ints("x", vec![10, 30])).unwrap();
        assert_eq!(delete.execute_update().await.unwrap(), 30);

        let mut named = client.prepare("SELECT $n + 1".to_owned(), None).await.unwrap();
        named.set_parameters(ints("n", vec![41])).unwrap();
        let info = named.execute().await.unwrap();
        assert_eq!(numbers(&fetch(&mut client, info).await.unwrap(), 0), [42]);
        // Nothing but the values tells these types.
        let mut sum = client.prepare("SELECT ? + ?".to_owned(), None).await.unwrap();
        let column = |value| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let values = [("0", column(1)), ("1", column(2))];
        sum.set_parameters(RecordBatch::try_from_iter(values).unwrap()).unwrap();
        let info = sum.execute().await.unwrap();
        assert_eq!(numbers(&fetch(&mut client, info).await.unwrap(), 0), [3]);
        // Too many values, and a handle that is closed.
        let two: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let two = RecordBatch::try_from_iter([("0", two.clone()), ("1", two)]).unwrap();
        delete.set_parameters(two).unwrap();
        assert_eq!(code(delete.execute_update().await.unwrap_err()), Code::InvalidArgument);
        let mut same = client.prepare("SELECT 1".to_owned(), None).await.unwrap();
        let info = same.execute().await.unwrap();
        same.close().await.unwrap();
        assert_eq!(code(fetch(&mut client, info).await.unwrap_err()), Code::NotFound);
    });
    let wrong = server.wait(client.prepare("SELECT * FROM nope".to_owned(), None));
    assert_eq!(code(wrong.unwrap_err()), Code::NotFound);
}

/// Sends batches for a table; 0 leaves open what to do.
fn ingest(
    server: &Server,
    client: &mut Client,
    table: &str,
    (if_not_exist, if_exists): (i32, i32),
    batches: Vec<RecordBatch>,
) -> Result<i64, FlightError> {
    let command = CommandStatementIngest {
        table_definition_options: Some(TableDefinitionOptions { if_not_exist, if_exists }),
        table: table.to_owned(),
        ..CommandStatementIngest::default()
    };
    let batches = tokio_stream::iter(batches.into_iter().map(Ok));
    server.wait(client.execute_ingest(command, batches))
}

#[test]
fn rows_are_ingested() {
    const CREATE: (i32, i32) = (1, 1);
    const APPEND: (i32, i32) = (2, 2);
    const REPLACE: (i32, i32) = (1, 3);
    let server = Server::start(&[]);
    let mut client = server.connect();
    let batch = |from: i64, to: i64| {
        let names = (from..to).map(|at| format!("name {at}"));
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(Int64Array::from_iter_values(from..to))),
            ("Name", Arc::new(StringArray::from_iter_values(names))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let rows = vec![batch(0, 70_000), batch(70_000, 100_000)];
    assert_eq!(ingest(&server, &mut client, "trips", CREATE, rows).unwrap(), 100_000);
    let failed = ingest(&server, &mut client, "trips", CREATE, vec![batch(0, 1)]).unwrap_err();
    assert_eq!(code(failed), Code::AlreadyExists);
    let failed = ingest(&server, &mut client, "other", APPEND, vec![batch(0, 1)]).unwrap_err();
    assert_eq!(code(failed), Code::NotFound);
    assert_eq!(ingest(&server, &mut client, "trips", APPEND, vec![batch(5, 7)]).unwrap(), 2);
    let sql = "SELECT count(*), sum(id), count(DISTINCT \"Name\") FROM trips";
    let rows = server.ask(&mut client, sql);
    let counted = [0, 1, 2].map(|at| numbers(&rows, at)[0]);
    assert_eq!(counted, [100_002, 4_999_950_011, 100_000]);
    // Columns go by name; what is not sent is null.
    assert_eq!(
        ingest(&server, &mut client, "trips", APPEND, vec![ints("ID", vec![-1])]).unwrap(),
        1
    );
    assert_eq!(
        texts(&server.ask(&mut client, "SELECT \"Name\" FROM trips WHERE id < 0"), 0),
        ["NULL"]
    );
    // A wrong row stores none, and makes no table.
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1", "x"]));
    let wrong = RecordBatch::try_from_iter([("id", texts)]).unwrap();
    let failed = ingest(&server, &mut client, "trips", APPEND, vec![wrong]).unwrap_err();
    assert_eq!(code(failed), Code::InvalidArgument);
    let failed = ingest(&server, &mut client, "trips", APPEND, vec![ints("nope", vec![1])]);
    assert_eq!(code(failed.unwrap_err()), Code::InvalidArgument);
    assert_eq!(numbers(&server.ask(&mut client, "SELECT count(*) FROM trips"), 0), [100_003]);
    assert_eq!(ingest(&server, &mut client, "trips", REPLACE, vec![batch(0, 3)]).unwrap(), 3);
    assert_eq!(numbers(&server.ask(&mut client, "SELECT count(*) FROM trips"), 0), [3]);
    // A table without rows has its columns.
    assert_eq!(ingest(&server, &mut client, "empty", CREATE, vec![batch(0, 0)]).unwrap(), 0);
    assert_eq!(server.ask(&mut client, "SELECT * FROM empty").num_columns(), 2);
}

#[test]
fn it_is_told_what_is_there() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    server
        .update(&mut client, "CREATE TABLE trips (id BIGINT NOT NULL, fare DOUBLE, name VARCHAR)");
    server.update(&mut client, "CREATE TABLE other AS SELECT 1 AS a");
    let told = |client: &mut Client, info: FlightInfo| server.wait(fetch(client, info)).unwrap();
    let info = server.wait(client.get_catalogs()).unwrap();
    assert_eq!(texts(&told(&mut client, info), 0), ["stylobate"]);
    let all = CommandGetDbSchemas::default();
    let info = server.wait(client.get_db_schemas(all)).unwrap();
    assert_eq!(texts(&told(&mut client, info), 1), ["public"]);
    let info = server.wait(client.get_table_types()).unwrap();
    assert_eq!(texts(&told(&mut client, info), 0), ["TABLE", "VIEW"]);
    let tables = CommandGetTables { include_schema: true, ..CommandGetTables::default() };
    let info = server.wait(client.get_tables(tables.clone())).unwrap();
    let rows = told(&mut client, info);
    assert_eq!(texts(&rows, 2), ["other", "trips"]);
    let columns = rows.column(4).as_binary::<i32>().value(1).to_vec();
    let columns = Schema::try_from(IpcMessage(columns.into())).unwrap();
    assert_eq!(columns.field(0).data_type(), &DataType::Int64);
    assert!(!columns.field(0).is_nullable() && columns.field(1).is_nullable());
    assert_eq!(columns.field(2).data_type(), &DataType::Utf8);
    assert_eq!(columns.field(1).metadata()["ARROW:FLIGHT:SQL:TYPE_NAME"], "float64");
    for (pattern, kind, expected) in
        [("tr%", "TABLE", 1), ("_rips", "TABLE", 1), ("%", "VIEW", 0), ("x", "TABLE", 0)]
    {
        let table_types = vec![kind.to_owned()];
        let table_name_filter_pattern = Some(pattern.to_owned());
        let some = CommandGetTables { table_types, table_name_filter_pattern, ..tables.clone() };
        let info = server.wait(client.get_tables(some)).unwrap();
        assert_eq!(told(&mut client, info).num_rows(), expected, "{pattern} {kind}");
    }
    let infos = vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerReadOnly];
    let info = server.wait(client.get_sql_info(infos)).unwrap();
    assert_eq!(told(&mut client, info).num_rows(), 2);
    let info = server.wait(client.get_sql_info(Vec::new())).unwrap();
    assert!(told(&mut client, info).num_rows() > 80);
    let types = CommandGetXdbcTypeInfo { data_type: Some(8) };
    let info = server.wait(client.get_xdbc_type_info(types)).unwrap();
    assert_eq!(texts(&told(&mut client, info), 0), ["DOUBLE"]);
    let keys = CommandGetPrimaryKeys { table: "trips".to_owned(), ..Default::default() };
    let info = server.wait(client.get_primary_keys(keys)).unwrap();
    let keys = told(&mut client, info);
    assert_eq!((keys.num_rows(), keys.num_columns()), (0, 6));
}

#[test]
fn sessions_with_a_name_keep_what_is_set() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    server.update(&mut client, "CREATE TABLE t AS SELECT 1.5 AS a");
    let mut named = server.connect();
    named.set_header("session_id", "s");
    server.update(&mut named, "CREATE TEMP VIEW v AS SELECT a + 1 AS b FROM t");
    let rows = server.ask(&mut named, "SELECT b::DOUBLE FROM v");
    assert_eq!(rows.column(0).as_primitive::<Float64Type>().value(0), 2.5);
    assert_eq!(code(server.try_ask(&mut client, "SELECT * FROM v").unwrap_err()), Code::NotFound);
}
