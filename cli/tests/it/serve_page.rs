//! The page of `sty serve` as it is served. What it does in a browser is tried by
//! `tests/clients/page.py`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::serve::{Reply, Server};

fn ask(server: &Server, first: &str, more: &str) -> Reply {
    server.request(&format!("{first} HTTP/1.1\r\nHost: localhost{more}"), b"")
}

#[test]
fn browsers_get_a_page_that_needs_nothing_else() {
    let server = Server::start(&[]);
    let page = ask(&server, "GET /play", "");
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=UTF-8"));
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let policy = page.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'sha256-",
        "style-src 'sha256-",
        "connect-src 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let text = page.text();
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"), "{text}");
    assert_eq!(page.header("content-length"), Some(text.len().to_string().as_str()));

    let tag = page.header("etag").unwrap();
    let again = ask(&server, "GET /play", &format!("\r\nIf-None-Match: {tag}"));
    assert_eq!((again.status, again.text().as_str(), again.header("etag")), (304, "", Some(tag)));
    let head = ask(&server, "HEAD /play", "");
    assert_eq!((head.status, head.text().as_str()), (200, ""));
    assert_eq!(head.header("content-length"), page.header("content-length"));
    assert_eq!(ask(&server, "POST /play", "").status, 405);

    // What asks whether the server is there sees what it has always seen.
    assert_eq!(ask(&server, "GET /", "\r\nAccept: */*").text(), "Ok.\n");
    let hint = ask(&server, "GET /", "\r\nAccept: text/html,application/xhtml+xml").text();
    assert!(hint.contains("Ok.") && hint.contains("href=\"play\""), "{hint}");
}

#[test]
fn the_page_is_everyones_and_its_statements_are_not() {
    let server = Server::start(&[]);
    // A page of another site, and one that has pointed its own name here.
    for from in ["localhost\r\nOrigin: http://evil.example", "evil.example"] {
        let refused =
            server.request(&format!("POST / HTTP/1.1\r\nHost: {from}"), b"DROP TABLE trips");
        assert_eq!(refused.status, 403, "{from}: {}", refused.text());
        assert!(refused.text().contains("pages of other sites"), "{}", refused.text());
    }
    let own = "POST / HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:1";
    assert_eq!(server.request(own, b"SELECT 1").text(), "1\n");
    assert_eq!(ask(&server, "GET /play", "\r\nSec-Fetch-Site: cross-site").status, 200);
}

#[test]
fn a_server_says_where_its_page_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_sty"))
        .args(["serve", ".", "--http", "0", "--pg", "0"])
        .current_dir(dir.path())
        .env("STY_CONFIG", "")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(process.stderr.take().unwrap());
    let mut lines = Vec::new();
    for _ in 0..3 {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        lines.push(line.trim().to_owned());
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let (_, url) = lines[0].split_once(" at ").unwrap();
    assert_eq!(lines[2], format!("a page for browsers: {url}play"));
}
