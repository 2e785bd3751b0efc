//! Reads a stream on a thread of its own, a few blocks ahead of the consumer.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::stream::{Bytes, read_full};

/// Bytes of a block that the reading thread hands over.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// How many blocks may be queued; with one at each end, this bounds the memory.
const BLOCKS_WAITING: usize = 4;

/// The consumer's end: reads what the thread has read.
pub(super) struct ReadAhead {
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: Vec<u8>,
    at: usize,
    /// Whether this is the last block. A thread that dies earlier must not look like the end of the
    /// input.
    last: bool,
}

impl ReadAhead {
    pub(super) fn start(source: Bytes) -> io::Result<Self> {
        let (sender, blocks) = sync_channel(BLOCKS_WAITING);
        // The thread ends with its input, or when the receiver is dropped.
        std::thread::Builder::new()
            .name("sty-decompress".into())
            .spawn(move || pump(source, &sender))?;
        Ok(ReadAhead { blocks, block: Vec::new(), at: 0, last: false })
    }
}

fn pump(mut source: Bytes, sender: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut block = vec![0; BLOCK_BYTES];
        let filled = read_full(&mut source, &mut block);
        let (message, last) = match filled {
            Ok(n) => {
                block.truncate(n);
                (Ok(block), n < BLOCK_BYTES)
            }
            Err(e) => (Err(e), true),
        };
        if sender.send(message).is_err() || last {
            return;
        }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.block.len() && !self.last {
            let gone = || io::Error::new(io::ErrorKind::UnexpectedEof, "decompression stopped");
            self.block = self.blocks.recv().map_err(|_| gone())??;
            (self.at, self.last) = (0, self.block.len() < BLOCK_BYTES);
        }
        let rest = self.block.get(self.at..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..n), rest.get(..n)) {
            to.copy_from_slice(from);
        }
        self.at += n;
        Ok(n)
    }
}
