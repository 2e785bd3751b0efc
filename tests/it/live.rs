//! Loads of inputs that may never end.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use stylobate::{CommitEvery, Input, LoadOptions};

use super::loading::{Database, options, values};

/// A pipe whose bytes come through a channel.
struct Pipe(Receiver<&'static str>);

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.recv().map_or(Ok(0), |text| text.as_bytes().read(buffer))
    }
}

#[test]
fn a_pipe_commits_by_time_and_may_be_ended_within_a_row() {
    let db = Database::new();
    let every = CommitEvery::Time(Duration::from_millis(20));
    let options = LoadOptions { commit_every: Some(every), ..options() };
    let (sender, bytes) = channel();
    std::thread::scope(|scope| {
        let pipe = Input::reader("pipe.csv", Box::new(Pipe(bytes)));
        let load = scope.spawn(|| db.load("t", vec![pipe], &options));
        let wait_for = |rows: u64| {
            let stored = || db.table("t").snapshot().map_or(0, |snapshot| snapshot.rows());
            let pause = || std::thread::sleep(Duration::from_millis(5));
            assert!((0..2000).any(|_| stored() == rows || (pause(), false).1), "{}", stored());
        };
        sender.send("a,b\n1,x\n").unwrap();
        wait_for(1);
        sender.send("2,y\n3,").unwrap();
        wait_for(2);
        sender.send("\"z\n").unwrap();
        sender.send("z\"\n4").unwrap();
        wait_for(3);
        options.end_input.store(true, Ordering::Relaxed);
        let report = load.join().unwrap().unwrap();
        assert_eq!((report.rows_stored, report.commits), (3, 3));
    });
    assert_eq!(values(&db.table("t"), "a"), ["1", "2", "3"]);
    assert_eq!(values(&db.table("t"), "b"), ["x", "y", "z\nz"]);
    drop(sender);

    // A header alone decides nothing, and neither does a column without values.
    let (sender, bytes) = channel();
    let options = LoadOptions { end_input: Arc::default(), ..options };
    std::thread::scope(|scope| {
        let pipe = Input::reader("pipe.csv", Box::new(Pipe(bytes)));
        let load = scope.spawn(|| db.load("late", vec![pipe], &options));
        for text in ["id,code,v\n", "1,,NA\n", "2,A1,5\n", "3,7,6\n"] {
            sender.send(text).unwrap();
            std::thread::sleep(Duration::from_millis(60));
        }
        drop(sender);
        assert_eq!(load.join().unwrap().unwrap().rows_stored, 3);
    });
    assert_eq!(values(&db.table("late"), "code"), ["∅", "A1", "7"]);

    // A pipe that ends by itself may lack the last line feed.
    let (sender, bytes) = channel();
    sender.send("a,b\n5,v").unwrap();
    drop(sender);
    let options = LoadOptions { end_input: Arc::default(), ..options };
    let pipe = Input::reader("pipe.csv", Box::new(Pipe(bytes)));
    db.load("t", vec![pipe], &options).unwrap();
    assert_eq!(values(&db.table("t"), "a"), ["1", "2", "3", "5"]);
}
