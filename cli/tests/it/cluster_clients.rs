//! `sty serve --cluster`: each protocol warns its clients about incomplete answers.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tonic::codegen::tokio_stream::StreamExt as _;
use tonic::transport::Endpoint;

use crate::cluster::Cluster;
use crate::serve::{Reply, parse, send};
use crate::{serve_flight, serve_postgres};

/// A server over the store of the first node, which ends with the test, and where it listens: HTTP,
/// PostgreSQL, Flight.
struct Server {
    process: Child,
    addresses: [SocketAddr; 3],
}

impl Server {
    fn start(cluster: &Cluster) -> Server {
        let mut process = Command::new(env!("CARGO_BIN_EXE_sty"))
            .args(["serve", "n0", "--http", "0", "--pg", "0", "--flight", "0", "--query-log"])
            .args(["--cluster", "nodes.toml"])
            .current_dir(cluster.path())
            .env("STY_CONFIG", "")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let addresses = [(); 3].map(|()| {
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            let address = line.trim().rsplit("//").next().unwrap().trim_end_matches('/');
            address.parse().unwrap_or_else(|_| panic!("{line}"))
        });
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Server { process, addresses }
    }

    /// Answers over HTTP, in a session with a name.
    fn post(&self, sql: &str) -> Reply {
        let mut stream = TcpStream::connect(self.addresses[0]).unwrap();
        let head = "POST /?session_id=s HTTP/1.1\r\nHost: x\r\nConnection: close";
        send(&mut stream, head, sql.as_bytes());
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        parse(&reply)
    }

    /// Asks the server to end, and waits for it.
    fn end(&mut self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const SOME: &str = "SET sty.partial_answers = on";
const COUNT: &str = "SELECT count(*) FROM t";
const LACKS: &str = "the answer leaves out rows of t: node n1 (http://127.0.0.1:";

/// The notes and the rows of an answer over Flight.
fn over_flight(address: SocketAddr) -> (Vec<String>, i64) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let work = async {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let mut client = serve_flight::Client::new(endpoint.connect().await.unwrap());
        client.set_header("session_id", "s");
        client.execute_update(SOME.to_owned(), None).await.unwrap();
        let info = client.execute(COUNT.to_owned(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let mut messages = client.do_get(ticket).await.unwrap().into_inner();
        let (mut told, mut rows) = (Vec::new(), 0);
        while let Some(message) = messages.next().await {
            let message = message.unwrap();
            told.push(String::from_utf8(message.inner.app_metadata.to_vec()).unwrap());
            if let arrow_flight::decode::DecodedPayload::RecordBatch(batch) = message.payload {
                rows += serve_flight::numbers(&batch, 0)[0];
            }
        }
        (told, rows)
    };
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), work).await.unwrap() })
}

#[test]
fn answers_that_lack_rows_say_so_over_each_protocol() {
    let mut cluster = Cluster::start(2, 3_000);
    let mut server = Server::start(&cluster);
    let [_, pg, flight] = server.addresses;
    let mut client = serve_postgres::Client::connect(pg);
    // Whole answers say nothing.
    assert_eq!(server.post(SOME).status, 200);
    let whole = server.post(COUNT);
    assert_eq!((whole.text().as_str(), whole.header("x-sty-note")), ("3000\n", None));
    assert!(!client.ask(SOME).contains('!'));
    assert_eq!(client.ask(COUNT), "3000 SELECT 1 I");
    let (told, rows) = over_flight(flight);
    assert!(rows == 3000 && told.iter().all(String::is_empty), "{told:?}");

    cluster.kill(1);
    let some = server.post(COUNT);
    assert_eq!(some.text(), "1500\n");
    let note = some.header("x-sty-note").unwrap_or_default();
    assert!(note.starts_with(LACKS), "{note}");
    // Only the statement that lacks rows says so.
    assert_eq!(server.post("SELECT 1").header("x-sty-note"), None);
    assert_eq!(client.ask(COUNT), "1500 ?01000 SELECT 1 I");
    assert_eq!(client.ask("SELECT 1"), "1 SELECT 1 I");
    let (told, rows) = over_flight(flight);
    assert!(rows == 1500 && told.len() == 2, "{told:?}");
    assert!(told.iter().all(|told| told.starts_with(LACKS)), "{told:?}");

    // The log of the server is in its store.
    server.end();
    let logged = "SELECT interface, exception_code, count(exception) FROM query_log \
                  WHERE query LIKE 'SELECT count(%' AND exception LIKE 'the answer leaves out%' \
                  GROUP BY ALL ORDER BY 1";
    let logged = cluster.ask(&["n0", logged]);
    let (logged, said) =
        (String::from_utf8(logged.stdout).unwrap(), String::from_utf8(logged.stderr).unwrap());
    assert!(logged.ends_with("flight,0,1\nhttp,0,1\npostgres,0,1\n"), "{logged}{said}");
}

#[test]
fn clients_write_over_each_protocol() {
    let mut cluster = Cluster::start(2, 3_000);
    let server = Server::start(&cluster);
    let mut client = serve_postgres::Client::connect(server.addresses[1]);
    let stored = |sql: &str| {
        let reply = server.post(sql);
        assert_eq!(reply.status, 200, "{sql}: {}", reply.text());
    };
    stored("CREATE TABLE w (id BIGINT, name VARCHAR)");
    stored("INSERT INTO w VALUES (1, 'one'), (2, 'two')");
    stored("INSERT INTO w FORMAT TSV\n3\tthree\n4\tfour\n");
    assert_eq!(client.ask("INSERT INTO w SELECT id + 10, name FROM w"), "INSERT 0 4 I");
    assert_eq!(client.ask("UPDATE w SET name = upper(name) WHERE id > 10"), "UPDATE 4 I");
    assert_eq!(client.ask("DELETE FROM w WHERE id IN (2, 12)"), "DELETE 2 I");
    let names = "SELECT string_agg(name, ' ' ORDER BY id) FROM w";
    assert_eq!(server.post(names).text(), "one three four ONE THREE FOUR\n");
    assert_eq!(client.ask("DELETE FROM small WHERE seven > 0"), "DELETE 4 I");
    assert_eq!(server.post("SELECT word FROM small").text(), "zero\n");

    // Nothing is stored while a machine is gone.
    cluster.kill(1);
    let refused = server.post("INSERT INTO w VALUES (9, 'nine')");
    assert!(
        refused.status >= 400 && refused.text().contains("node n1 (http"),
        "{}",
        refused.text()
    );
    assert!(client.ask("DELETE FROM w").contains("!58000"));
    assert!(client.ask("UPDATE small SET word = 'none'").contains("!58000"));
    assert_eq!(server.post("SELECT word FROM small").text(), "zero\n");
}
