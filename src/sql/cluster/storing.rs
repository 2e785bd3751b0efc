//! How segments come into the store of another machine, in two steps: all machines of a load have
//! everything in their files before the first of them commits.
//!
//! ```text
//! request   head's length u64 · head: version u8 · the table's name · how long to wait for other
//!           writers u64: milliseconds, or all bits set for as long as the machine does otherwise
//!           · a transfer (`maintain/transfer`) · bytes of its segments · their hash · COMMIT u8
//! answer    BEGUN: no other writer comes from now on · READY · STORED with a generation u64
//! ```
//!
//! A load begins with one machine after the other, in the order of their names, so that two loads
//! do not wait for each other; a move does not wait.
//!
//! A request that ends before its last byte changes nothing: the files that were written are
//! removed.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{Answer, Answering, Asked, Asking, call};
use super::nodes::Nodes;
use crate::bytes::{Cursor, Writer};
use crate::disk::LockWait;
use crate::error::{Error, Result};
use crate::ingest::load::LoadOptions;
use crate::limits;
use crate::maintain::transfer::Transfer;
use crate::sql::run::parts::{Node, check_protocol, write_protocol};
use crate::store::Store;

/// Where a machine takes segments.
pub(in crate::sql) const STORE: &str = "/sty.Node/Store";

/// The last byte of a request.
const COMMIT: u8 = b'C';

const BEGUN: u8 = 1;
const READY: u8 = 2;
const STORED: u8 = 3;

/// Segments that come to a machine. They are gone if it is dropped.
pub(super) struct Delivery {
    node: Arc<Node>,
    asking: Asking,
    answer: Answer,
}

impl Delivery {
    /// Begins to send segments, whose bytes and hash follow. The machine waits this long for other
    /// writers of the table, or as long as it does otherwise.
    pub(super) async fn begin(
        nodes: &Nodes,
        node: &Arc<Node>,
        table: &str,
        transfer: &Transfer,
        wait: Option<Duration>,
    ) -> Result<Delivery> {
        let mut head = Writer::new();
        write_protocol(&mut head);
        head.blob(table.as_bytes());
        let millis = wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX - 1));
        head.u64(millis.unwrap_or(u64::MAX));
        head.put(&transfer.encode());
        let (mut asking, answering) = call(nodes, node, STORE);
        let (answer, sent) = futures::join!(answering, asking.put_head(head.into_vec()));
        let mut delivery = Delivery { node: Arc::clone(node), asking, answer: answer? };
        if sent.is_err() {
            return Err(delivery.why().await);
        }
        delivery.answer.expect(BEGUN).await?;
        Ok(delivery)
    }

    /// Sends a piece of the bytes.
    pub(super) async fn put(&mut self, piece: Vec<u8>) -> Result<()> {
        match self.asking.put(piece).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.why().await),
        }
    }

    /// Waits until the machine has everything in its files.
    pub(super) async fn arrived(&mut self) -> Result<()> {
        self.answer.expect(READY).await.map(drop)
    }

    /// Puts the segments in force; the generation that has them.
    pub(super) async fn commit(mut self) -> Result<u64> {
        // If it does not come, the answer says why.
        let _ = self.asking.put(&[COMMIT][..]).await;
        let stored = self.answer.expect(STORED).await?;
        Cursor::new(&stored).u64()
    }

    /// Why the machine takes no more.
    async fn why(&mut self) -> Error {
        match self.answer.next().await {
            Ok(_) => self.answer.lost("it takes no more"),
            Err(error) => error,
        }
    }

    /// Ends it, so that what has come is not taken for all there is.
    pub(super) async fn break_off(mut self, why: &Error) {
        self.asking.break_off(why).await;
    }

    /// The machine.
    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }
}

/// Sends the bytes of segments and their hash, and waits until the machine has them in its files.
pub(super) async fn send(
    mut delivery: Delivery,
    pieces: impl Iterator<Item = Result<Vec<u8>>>,
) -> Result<Delivery> {
    for piece in pieces {
        let sent = match piece {
            Ok(piece) => delivery.put(piece).await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            delivery.break_off(&error).await;
            return Err(error);
        }
    }
    delivery.arrived().await?;
    Ok(delivery)
}

/// Takes the segments of a request into a store.
pub(in crate::sql) fn take(
    store: &Store,
    options: &LoadOptions,
    mut request: Asked,
    mut say: Answering,
) {
    if let Err(error) = take_all(store, options, &mut request, &mut say) {
        say.fail(&error);
    }
}

fn take_all(
    store: &Store,
    options: &LoadOptions,
    request: &mut Asked,
    say: &mut Answering,
) -> Result<()> {
    let head = request.head()?;
    let mut from = Cursor::new(&head);
    check_protocol(&mut from)?;
    let (table, wait) = (from.text(limits::MAX_NAME_BYTES)?, from.u64()?);
    let transfer = Transfer::read(&mut from)?;
    from.finish()?;
    let store = match wait {
        u64::MAX => store.clone(),
        millis => {
            let most = Duration::from_millis(millis);
            store.clone().with_wait(LockWait { most, ..LockWait::default() })
        }
    };
    let writer = transfer.open(&store.table(table)?)?;
    say.say(BEGUN, &[])?;
    let arrived = transfer.arrive(writer, request, options)?;
    say.say(READY, &[])?;
    // Without that word, nothing is stored.
    if request.word() == Some(COMMIT) {
        let generation = arrived.commit()?.generation;
        say.say(STORED, &generation.to_le_bytes())?;
    }
    Ok(())
}
