//! Reads a stream on a thread of its own, a few blocks ahead of the consumer.

use std::io::{self, Cursor, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::stream::{Bytes, read_full};

/// Bytes of a block that the reading thread hands over.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// How many blocks may be queued; with one at each end, this bounds the memory.
const BLOCKS_WAITING: usize = 4;

/// The consumer's end: reads what the thread has read.
pub(super) struct ReadAhead {
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: Cursor<Vec<u8>>,
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
        Ok(ReadAhead { blocks, block: Cursor::default(), last: false })
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
        let n = self.block.read(buffer)?;
        if n > 0 || buffer.is_empty() || self.last {
            return Ok(n);
        }
        let gone = || io::Error::new(io::ErrorKind::UnexpectedEof, "decompression stopped");
        let block = self.blocks.recv().map_err(|_| gone())??;
        self.last = block.len() < BLOCK_BYTES;
        self.block = Cursor::new(block);
        self.block.read(buffer)
    }
}
