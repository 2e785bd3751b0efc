//! Opens inputs one after the other, and the next one while the current one is read.
//!
//! Opening may be slow: the disk has to find the file, and a compressed file starts to be
//! decompressed, a few blocks ahead, which bounds the memory. Only regular files are opened early;
//! a pipe is not touched before its turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, sync_channel};

use super::input::{Input, Opened};
use crate::error::{Error, Result};

/// Inputs, in order.
pub(crate) struct Inputs {
    waiting: VecDeque<Input>,
    opening: Option<Opening>,
    /// Number of the next input.
    number: usize,
}

struct Opening {
    consumed: Arc<AtomicU64>,
    opened: Receiver<Result<Opened>>,
}

#[derive(Debug)]
pub(crate) struct NextInput {
    /// Number of the input, from 0.
    pub number: usize,
    /// Bytes read from it so far; see [`Input::consumed`].
    pub consumed: Arc<AtomicU64>,
    /// The open input, or why it cannot be opened.
    pub opened: Result<Opened>,
}

impl Inputs {
    /// Opens none of the inputs yet.
    pub(crate) fn new(inputs: Vec<Input>) -> Self {
        Inputs { waiting: inputs.into(), opening: None, number: 0 }
    }

    /// Starts opening the next input, if it is a file.
    fn prefetch(&mut self) {
        let Some(input) = self.waiting.pop_front_if(|input| input.size().is_some()) else { return };
        let (to, opened) = sync_channel(1);
        let consumed = input.consumed();
        // If the receiver is gone, the opened input is dropped. If no thread can be started, the
        // input's turn is an error.
        let _ = std::thread::Builder::new()
            .name("sty-open".into())
            .spawn(move || to.send(input.open()));
        self.opening = Some(Opening { consumed, opened });
    }
}

impl Iterator for Inputs {
    type Item = NextInput;

    fn next(&mut self) -> Option<NextInput> {
        let (consumed, opened) = match self.opening.take() {
            Some(next) => {
                let gone = |_| {
                    Error::LimitExceeded("an input could not be opened: no thread for it".into())
                };
                (next.consumed, next.opened.recv().map_err(gone).flatten())
            }
            None => {
                let input = self.waiting.pop_front()?;
                (input.consumed(), input.open())
            }
        };
        let number = self.number;
        self.number += 1;
        self.prefetch();
        Some(NextInput { number, consumed, opened })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read, Write};

    use super::*;

    /// Files and readers come in order, and a missing file is an error in its turn only.
    #[test]
    fn inputs_come_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = directory.path().join(name);
            std::fs::File::create_new(&path).unwrap().write_all(name.as_bytes()).unwrap();
            Input::path(path)
        };
        let missing = Input::path(directory.path().join("missing"));
        let reader = Input::reader("r", Box::new(Cursor::new(b"r".to_vec())));
        let inputs = Inputs::new(vec![file("a"), file("b"), reader, missing, file("c")]);
        let read = inputs.map(|turn| {
            let mut text = String::new();
            match turn.opened {
                Ok(mut opened) => opened.bytes.read_to_string(&mut text).unwrap(),
                Err(_) => 0,
            };
            (turn.number, text, turn.consumed.load(std::sync::atomic::Ordering::Relaxed))
        });
        let read: Vec<_> = read.collect();
        let expected = [(0, "a", 1), (1, "b", 1), (2, "r", 1), (3, "", 0), (4, "c", 1)];
        assert_eq!(read, expected.map(|(number, text, bytes)| (number, text.to_owned(), bytes)));
    }
}
