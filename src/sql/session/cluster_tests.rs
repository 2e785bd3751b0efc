//! What a machine does for others ends with their calls.

use std::io;
use std::time::{Duration, Instant};

use futures::SinkExt;
use futures::channel::mpsc;
use http_body::Frame;
use http_body_util::StreamBody;

use super::*;
use crate::bytes::Writer;
use crate::sql::SessionOptions;
use crate::sql::run::parts::write_protocol;
use crate::sql::tests::rows;

/// Longer than anything takes here, and shorter than machines wait.
const SOON: Duration = Duration::from_secs(20);

/// What `is_so` says before the time is over.
fn becomes(mut is_so: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    while since.elapsed() < SOON {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    is_so()
}

/// A machine that waits for another writer of a table does so no more once nobody waits for the
/// machine: neither as long as the machine waits by itself, nor as long as the call says.
#[test]
fn a_wait_for_another_writer_ends_with_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let (told, tells) = std::sync::mpsc::channel();
    let begun =
        Arc::new(move |_: &str| told.send(()).unwrap_or_default()) as crate::disk::WaitNotice;
    let wait = LockWait { most: SOON * 6, begun: Some(begun), ..LockWait::default() };
    let store = Store::open(dir.path());
    let options = SessionOptions { threads: Some(1), create: true, ..SessionOptions::default() };
    let engine = Engine::open(&store.clone().with_wait(wait), &options).unwrap();
    rows(&engine.session().unwrap(), "CREATE TABLE t AS SELECT 1 AS a", &[]).unwrap();
    let mut service = engine.node_service().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    for millis in [u64::MAX, 120_000] {
        let writer = store.table("t").unwrap().writer(None).unwrap();
        let mut head = Writer::new();
        write_protocol(&mut head);
        head.blob(b"t");
        head.u64(millis);
        head.put(&writer.base().unwrap().table);
        head.u8(0);
        let head = head.into_vec();
        let (mut to, pieces) = mpsc::channel::<io::Result<Frame<Bytes>>>(4);
        let request = Request::post(DROP).body(Body::new(StreamBody::new(pieces))).unwrap();
        let answer = runtime.block_on(async {
            let length = (head.len() as u64).to_le_bytes();
            to.send(Ok(Frame::data(Bytes::copy_from_slice(&length)))).await.unwrap();
            to.send(Ok(Frame::data(head.into()))).await.unwrap();
            service.call(request).await.unwrap()
        });
        tells.recv_timeout(SOON).expect("it waits for the other writer");
        assert!(!to.is_closed());
        drop(answer);
        assert!(becomes(|| to.is_closed()), "it waits on, for {millis} ms");
        drop(writer);
    }
    let session = engine.session().unwrap();
    assert_eq!(rows(&session, "SELECT a FROM t", &[]).unwrap(), ["1"]);
}
