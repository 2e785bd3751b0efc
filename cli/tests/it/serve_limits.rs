//! `sty serve` under clients that are slow, silent, many, or wrong.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::serve::{Server, send, wait_for};

/// What comes back for bytes that are sent as they are, until the server closes the connection.
fn answer(server: &Server, request: &[u8]) -> String {
    let mut stream = server.connect();
    stream.write_all(request).unwrap();
    let mut reply = Vec::new();
    // A server that has not read all closes the connection at once.
    let _ = stream.read_to_end(&mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn wrong_requests_are_told_so() {
    let server = Server::start(&[]);
    let status = |request: &str| {
        let reply = answer(&server, request.as_bytes());
        reply.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(status("GET /ping HTTP/1.0\r\n\r\n"), "200");
    assert_eq!(status("hello world\r\n\r\n"), "400");
    let headers: String = (0..200).map(|at| format!("X-{at}: a\r\n")).collect();
    assert_eq!(status(&format!("GET /ping HTTP/1.1\r\n{headers}\r\n")), "431");
    assert_eq!(status(&format!("GET /?q={} HTTP/1.1\r\n\r\n", "a".repeat(70_000))), "414");
    // Many parameters are no trouble.
    let values: String = (0..3000).map(|at| format!("&param_a{at}={at}")).collect();
    assert_eq!(server.post(&format!("/?{values}"), "SELECT {a2999:UInt16}").text(), "2999\n");
}

/// What was asked is answered, whatever follows it on the same connection.
#[test]
fn half_a_request_does_not_hold_up_the_one_before() {
    let server = Server::start(&[]);
    for next in ["GET /pi", "nonsense\r\n\r\n"] {
        let mut stream = server.connect();
        let request = format!("GET /ping HTTP/1.1\r\nHost: x\r\n\r\n{next}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"HTTP/1.1 200");
    }
}

#[test]
fn idle_and_halting_clients_are_in_nobodys_way() {
    let server = Server::start(&["--max-running", "1", "--max-wait", "1s"]);
    let mut clients: Vec<TcpStream> = (0..300).map(|_| server.connect()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        match at % 3 {
            0 => {}
            1 => client.write_all(b"POST / HTTP/1.1\r\nHo").unwrap(),
            // The statement has a place only when its text is there.
            _ => client
                .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nSELECT")
                .unwrap(),
        }
    }
    let since = Instant::now();
    assert_eq!(server.ask("SELECT 1"), "1\n");
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
}

/// The memory of a process that no file stands behind, in MiB.
#[cfg(target_os = "linux")]
fn anonymous_memory(server: &Server) -> u64 {
    let status = format!("/proc/{}/status", server.process.id());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[cfg(target_os = "linux")]
#[test]
fn clients_that_read_slowly_take_no_memory() {
    let server = Server::start(&[]);
    let sql = "SELECT value, repeat(CAST(value AS VARCHAR), 20) FROM generate_series(1, 100000000)";
    let running = "SELECT count(*) FROM system.processes WHERE query LIKE '%repeat%'";
    let mut clients: Vec<TcpStream> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        send(client, "POST / HTTP/1.1\r\nHost: x", sql.as_bytes());
        client.read_exact(&mut [0; 100_000]).unwrap();
    }
    let before = anonymous_memory(&server);
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(200));
        clients.iter_mut().for_each(|client| client.read_exact(&mut [0; 1000]).unwrap());
    }
    let after = anonymous_memory(&server);
    assert!(after < before + 100, "{before} MiB, then {after}");
    // The question itself runs, too.
    assert_eq!(server.ask(running), "5\n");
    drop(clients);
    wait_for("they end with their clients", || server.ask(running) == "1\n");
}

/// The allocator keeps what one thread took and another one freed, until the first thread ends.
#[cfg(target_os = "linux")]
#[test]
fn threads_that_wait_for_statements_end_and_leave_no_memory() {
    let server = Server::start(&[]);
    let sql = "SELECT count(*) FROM (SELECT CAST(value AS VARCHAR) AS s, count(*) FROM \
               generate_series(1, 500000) t(value) GROUP BY s)";
    std::thread::scope(|scope| {
        let ask = || (0..3).for_each(|_| assert_eq!(server.ask(sql), "500000\n"));
        (0..6).for_each(|_| drop(scope.spawn(ask)));
    });
    let of_statements = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process.id())).unwrap();
        let names = tasks.flatten().filter_map(|it| std::fs::read(it.path().join("comm")).ok());
        names.filter(|it| it.starts_with(b"sty-worker") || it.starts_with(b"sty-query")).count()
    };
    assert!(of_statements() > 0);
    wait_for("they end", || of_statements() == 0);
    wait_for("their memory goes", || anonymous_memory(&server) < 64);
    assert_eq!(server.ask("SELECT 1"), "1\n");
}
