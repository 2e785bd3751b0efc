//! `sty serve --flight` under clients that may not, do not wait, or are wrong.

use std::time::{Duration, Instant};

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    Any, CommandPreparedStatementQuery, CommandStatementIngest, CommandStatementQuery,
    ProstMessageExt as _, TicketStatementQuery,
};
use arrow_flight::{
    Action, BasicAuth, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightData,
    FlightDescriptor, HandshakeRequest, Ticket,
};
use prost::Message as _;
use tonic::codegen::tokio_stream::{self, StreamExt as _};
use tonic::{Code, Request};

use crate::serve::wait_for;
use crate::serve_flight::{Client, Server, code, fetch, numbers};

/// A statement that runs for minutes.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b \
                    WHERE a.value + b.value < 0";
/// One whose answer has no end.
const ENDLESS: &str = "SELECT value FROM generate_series(1, 100000000000)";

/// The statements of Flight that run.
fn running(server: &Server) -> usize {
    let sql = "SELECT count(*) FROM system.processes WHERE interface = 'flight'";
    server.http("POST /", sql).trim().parse().unwrap()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file of users is none of a store")]
fn users_do_what_they_may() {
    let dir = tempfile::tempdir().unwrap();
    let hash = |secret: &str| {
        let mut hash = crate::sty(&["serve", "--new-password"]);
        let output = hash.write_stdin(format!("{secret}\n")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (_, token, _) = crate::run(&["serve", "--new-token"]);
    let users = format!(
        "[users.anna]\n{}[users.bob]\n{}{token}read_only = true\ntables = ['log_*']\n",
        hash("one"),
        hash("two")
    );
    let token = token.lines().next().unwrap().trim_start_matches("# ").to_owned();
    std::fs::write(dir.path().join("users.toml"), users).unwrap();
    let server = Server::start_in(dir, &["--users", "users.toml"]);
    let mut nobody = server.connect();
    let error = server.try_ask(&mut nobody, "SELECT 1").unwrap_err();
    assert_eq!(code(error), Code::Unauthenticated);
    assert!(server.wait(nobody.handshake("anna", "two")).is_err());
    nobody.set_token("nonsense".to_owned());
    let error = server.try_ask(&mut nobody, "SELECT 1").unwrap_err();
    assert_eq!(code(error), Code::Unauthenticated);

    // A handshake gives a token; each call may also say name and password, or a token.
    let mut anna = server.connect();
    server.wait(anna.handshake("anna", "one")).unwrap();
    assert!(anna.token().is_some());
    server.update(&mut anna, "CREATE TABLE log_1 AS SELECT 1 AS a");
    server.update(&mut anna, "CREATE TABLE secret AS SELECT 1 AS a");
    // anna:one; some clients leave the padding out.
    for said in ["Basic YW5uYTpvbmU=", "basic YW5uYTpvbmU"] {
        let mut basic = server.connect();
        basic.set_header("authorization", said);
        assert_eq!(numbers(&server.ask(&mut basic, "SELECT a FROM secret"), 0), [1]);
    }
    let mut bob = server.connect();
    bob.set_token(token);
    assert_eq!(numbers(&server.ask(&mut bob, "SELECT a FROM log_1"), 0), [1]);
    for (sql, expected) in
        [("SELECT a FROM secret", Code::NotFound), ("DELETE FROM log_1", Code::PermissionDenied)]
    {
        assert_eq!(code(server.try_ask(&mut bob, sql).unwrap_err()), expected, "{sql}");
    }
    let rows = server.wait(async {
        let info = bob.get_tables(Default::default()).await.unwrap();
        fetch(&mut bob, info).await.unwrap()
    });
    assert_eq!(rows.num_rows(), 1);
    // A prepared statement is its user's; a ticket gives no rights.
    server.wait(async {
        let mut prepared = anna.prepare("SELECT * FROM secret".to_owned(), None).await.unwrap();
        let info = prepared.execute().await.unwrap();
        assert_eq!(code(fetch(&mut bob, info).await.unwrap_err()), Code::NotFound);
        let info = anna.execute("SELECT * FROM secret".to_owned(), None).await.unwrap();
        assert_eq!(code(fetch(&mut bob, info).await.unwrap_err()), Code::NotFound);
    });
    // Older clients say name and password in a message, and get a token for a header of theirs.
    server.wait(async {
        let mut old = FlightServiceClient::new(server_channel(&server).await);
        let said = BasicAuth { username: "bob".to_owned(), password: "two".to_owned() };
        let first = HandshakeRequest { protocol_version: 1, payload: said.encode_to_vec().into() };
        let mut reply = old.handshake(tokio_stream::iter([first])).await.unwrap().into_inner();
        let token = reply.message().await.unwrap().unwrap().payload;
        let mut list = Request::new(arrow_flight::Empty {});
        let value = tonic::metadata::MetadataValue::from_bytes(&token);
        list.metadata_mut().insert_bin("auth-token-bin", value);
        let mut actions = old.list_actions(list).await.unwrap().into_inner();
        assert!(actions.message().await.unwrap().is_some());
        let error = old.list_actions(arrow_flight::Empty {}).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated);
    });
}

async fn server_channel(server: &Server) -> tonic::transport::Channel {
    let url = format!("http://{}", server.address);
    tonic::transport::Endpoint::from_shared(url).unwrap().connect().await.unwrap()
}

#[test]
fn statements_end_with_their_client_by_time_and_when_they_are_cancelled() {
    let server = Server::start(&["--timeout", "20s"]);
    let mut client = server.connect();
    // The client stops to read, or to wait.
    server.wait(async {
        let info = client.execute(ENDLESS.to_owned(), None).await.unwrap();
        let mut stream = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        stream.next().await.unwrap().unwrap();
        wait_for("it runs", || running(&server) == 1);
        let since = Instant::now();
        drop(stream);
        wait_for("it ends with its client", || running(&server) == 0);
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    });
    server.wait(async {
        let sql = LONG.replace("SELECT count(*)", "CREATE TABLE t AS SELECT a.value");
        let update = client.execute_update(sql, None);
        assert!(tokio::time::timeout(Duration::from_millis(300), update).await.is_err());
    });
    wait_for("it ends with its client", || running(&server) == 0);
    // Another call ends it.
    let other = server.connect();
    let failed = server.wait(async {
        let info = client.execute(LONG.to_owned(), None).await.unwrap();
        let cancel = |mut other: Client, info| async move {
            let body = CancelFlightInfoRequest::new(info).encode_to_vec();
            let mut results = other.do_action(Action::new("CancelFlightInfo", body)).await.unwrap();
            let result = results.message().await.unwrap().unwrap();
            CancelFlightInfoResult::decode(result.body).unwrap().status()
        };
        // There is nothing to end yet.
        let told = cancel(other.clone(), info.clone()).await;
        assert_eq!(told, CancelStatus::NotCancellable);
        let again = info.clone();
        let cancelling = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                if cancel(other.clone(), again.clone()).await == CancelStatus::Cancelling {
                    return;
                }
            }
        });
        let failed = fetch(&mut client, info).await.unwrap_err();
        cancelling.await.unwrap();
        failed
    });
    assert_eq!(code(failed), Code::Cancelled);
    // The time that the client says is over for the server, too.
    let mut hasty = server.connect();
    hasty.set_header("grpc-timeout", "200m");
    let failed = server.try_ask(&mut hasty, LONG).unwrap_err();
    assert!(matches!(code(failed), Code::DeadlineExceeded | Code::Cancelled));
    wait_for("it ends with its time", || running(&server) == 0);
    drop(server);
    let server = Server::start(&["--timeout", "200ms"]);
    let failed = server.try_ask(&mut server.connect(), LONG).unwrap_err();
    assert_eq!(code(failed), Code::DeadlineExceeded);
}

#[test]
fn a_crowd_is_refused_and_a_server_ends_in_order() {
    let mut server =
        Server::start(&["--max-running", "1", "--max-waiting", "0", "--grace", "200ms"]);
    let (mut client, mut other) = (server.connect(), server.connect());
    let pid = server.process.id().to_string();
    let failed = server.wait(async {
        let info = client.execute(LONG.to_owned(), None).await.unwrap();
        let long = tokio::spawn(async move { fetch(&mut client, info).await.unwrap_err() });
        while running(&server) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let refused = other.execute("SELECT 1".to_owned(), None).await.unwrap_err();
        assert_eq!(code(refused), Code::ResourceExhausted);
        // What is asked about the server does not wait.
        let info = other.get_catalogs().await.unwrap();
        assert_eq!(fetch(&mut other, info).await.unwrap().num_rows(), 1);
        assert!(std::process::Command::new("kill").arg(&pid).status().unwrap().success());
        long.await.unwrap()
    });
    assert_eq!(code(failed), Code::Unavailable);
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
}

#[test]
fn another_address_needs_users() {
    let (code, _, stderr) = crate::run(&["serve", "db", "--http", "0", "--flight", "0.0.0.0:0"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("--users") && stderr.contains("--anyone"), "{stderr}");
}

/// Bytes that look like chance, and are the same each time.
struct Bytes(u64);

impl Bytes {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn some(&mut self) -> Vec<u8> {
        let count = self.next() % 64;
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// A message with some of its bytes changed.
    fn spoiled(&mut self, mut message: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.next() % 3 {
            let at = self.next() as usize % message.len().max(1);
            match (self.next() % 4, message.get_mut(at)) {
                (0, _) => message.truncate(at),
                (1, _) => message.splice(at..at, self.some()).for_each(drop),
                (_, Some(byte)) => *byte = self.next() as u8,
                (_, None) => {}
            }
        }
        message
    }
}

#[test]
fn nonsense_is_refused_and_harms_nobody() {
    let server = Server::start(&["--timeout", "5s"]);
    let mut client = server.connect();
    server.update(&mut client, "CREATE TABLE t AS SELECT 1 AS a");
    let info = server.wait(client.execute("SELECT * FROM t".to_owned(), None)).unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap().ticket.to_vec();
    let query = CommandStatementQuery { query: "SELECT 1".to_owned(), transaction_id: None };
    let query = query.as_any().encode_to_vec();
    let handle = CommandPreparedStatementQuery { prepared_statement_handle: ticket.clone().into() };
    let handle = handle.as_any().encode_to_vec();
    let within = TicketStatementQuery { statement_handle: ticket.clone().into() };
    let within = within.as_any().encode_to_vec();
    let ingest = CommandStatementIngest { table: "t".to_owned(), ..Default::default() };
    let ingest = ingest.as_any().encode_to_vec();
    let models = [ticket, query.clone(), handle, within, ingest.clone(), Vec::new()];
    let actions = [
        "CreatePreparedStatement",
        "ClosePreparedStatement",
        "CancelQuery",
        "CancelFlightInfo",
        "RenewFlightEndpoint",
        "BeginTransaction",
        "nonsense",
    ];
    let mut bytes = Bytes(7);
    let mut flight = FlightServiceClient::new(server.channel());
    server.wait(async {
        let mut codes = Vec::new();
        for round in 0..300 {
            let model = models[round % models.len()].clone();
            let message = match round % 2 {
                0 => bytes.some(),
                _ => bytes.spoiled(model),
            };
            let told = match round % 5 {
                0 => match flight.do_get(Ticket::new(message)).await {
                    Ok(reply) => reply.into_inner().message().await.map(drop),
                    Err(status) => Err(status),
                },
                1 => flight.get_flight_info(FlightDescriptor::new_cmd(message)).await.map(drop),
                2 => flight.get_schema(FlightDescriptor::new_cmd(message)).await.map(drop),
                3 => {
                    let action = Action::new(actions[round % actions.len()], message);
                    flight.do_action(action).await.map(drop)
                }
                _ => {
                    let command = if round % 3 == 0 { ingest.clone() } else { message.clone() };
                    let first = FlightData::new()
                        .with_descriptor(FlightDescriptor::new_cmd(command))
                        .with_data_header(message.clone())
                        .with_data_body(bytes.some());
                    let second = FlightData::new().with_data_header(message);
                    flight.do_put(tokio_stream::iter([first, second])).await.map(drop)
                }
            };
            codes.extend(told.err().map(|status| (status.code(), status.message().to_owned())));
        }
        assert!(codes.len() > 200, "{}", codes.len());
        for (code, message) in codes {
            // A panic would be one of these.
            let is_ours = !matches!(code, Code::Internal | Code::Unknown | Code::Unavailable);
            assert!(is_ours && !message.is_empty(), "{code:?} {message}");
        }
        // A frame that is longer than any may be, and a statement.
        let long = vec![b'x'; 5 << 20];
        let error = flight.do_get(Ticket::new(long)).await.unwrap_err();
        assert_eq!(error.code(), Code::OutOfRange);
        let sql = format!("SELECT '{}'", "x".repeat(2 << 20));
        let error = client.execute(sql, None).await.unwrap_err();
        assert_eq!(crate::serve_flight::code(error), Code::InvalidArgument);
        let unknown = Any { type_url: "x/y".to_owned(), value: Default::default() };
        let unknown = FlightDescriptor::new_cmd(unknown.encode_to_vec());
        let error = flight.get_flight_info(unknown).await.unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented);
    });
    assert_eq!(numbers(&server.ask(&mut client, "SELECT count(*) FROM t"), 0), [1]);
}
