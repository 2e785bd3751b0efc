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
//! A copy of a table becomes a generation that another machine has in the same way ([`BECOME`]), by
//! a replica (`maintain/replica`) in the place of the transfer.
//!
//! A load begins with one machine after the other, in the order of their names, so that two loads
//! do not wait for each other; a move does not wait.
//!
//! A request that ends before its last byte changes nothing: the files that were written are
//! removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;

use super::calls::{Answer, Answering, Asked, Asking, call};
use super::nodes::Nodes;
use crate::bytes::{Cursor, Writer};
use crate::disk::LockWait;
use crate::error::{Error, Result};
use crate::ingest::load::LoadOptions;
use crate::limits;
use crate::maintain::replica::Replica;
use crate::maintain::transfer::Transfer;
use crate::manifest::Id;
use crate::sql::convert::listed;
use crate::sql::run::parts::{Node, check_protocol, write_protocol};
use crate::store::{Store, Table};

/// Where a machine takes segments.
pub(in crate::sql) const STORE: &str = "/sty.Node/Store";
/// Where its copy of a table becomes what another one has.
pub(in crate::sql) const BECOME: &str = "/sty.Node/Become";

/// The last byte of a request.
pub(super) const COMMIT: u8 = b'C';

pub(super) const BEGUN: u8 = 1;
pub(super) const READY: u8 = 2;
pub(super) const STORED: u8 = 3;

/// The kind of message that has bytes of files.
pub(super) const PIECE: u8 = 3;

/// What a machine has stored of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStored {
    /// Its name.
    pub node: String,
    /// The generation that has the rows.
    pub generation: u64,
    /// Rows.
    pub rows: u64,
    /// Segments, before any was merged with others.
    pub segments: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// Segments that come to a machine. They are gone if it is dropped.
pub(super) struct Delivery {
    node: Arc<Node>,
    asking: Asking,
    answer: Answer,
}

impl Delivery {
    /// Begins to send segments or files, whose bytes and hash follow: `what` is a transfer or a
    /// replica, as `path` says. The machine waits this long for other writers of the table, or as
    /// long as it does otherwise.
    pub(super) async fn begin(
        nodes: &Nodes,
        node: &Arc<Node>,
        path: &str,
        table: &str,
        what: &[u8],
        wait: Option<Duration>,
    ) -> Result<Delivery> {
        let mut head = Writer::new();
        write_protocol(&mut head);
        head.blob(table.as_bytes());
        let millis = wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX - 1));
        head.u64(millis.unwrap_or(u64::MAX));
        head.put(what);
        let (mut asking, answering) = call(nodes, node, path);
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

    /// Waits until the machine has everything in its files, or has prepared what else it is to do;
    /// what it says of that.
    pub(super) async fn arrived(&mut self) -> Result<Bytes> {
        self.answer.expect(READY).await
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

/// Has all machines commit, at a time; what became of it on each. From here on, nothing is stopped
/// in the middle.
pub(super) async fn commit_all(sent: Vec<Delivery>) -> Outcomes {
    let names: Vec<_> = sent.iter().map(|it| it.node().name.to_string()).collect();
    let committed = join_all(sent.into_iter().map(Delivery::commit)).await;
    names.into_iter().zip(committed).collect()
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

/// The generation that each machine has put in force, or why not, by its name.
pub(super) type Outcomes = Vec<(String, Result<u64>)>;

/// An error that says which machines have stored their rows and what to do about the others, unless
/// all have. Of one that is gone since it was told to, nobody knows.
pub(super) fn check_all(generations: &[(String, Result<u64>)], then: &str) -> Result<()> {
    check_done(generations, "stored their rows", then)
}

/// The same of machines that were to do something else: `what` says that they have.
pub(super) fn check_done(outcomes: &[(String, Result<u64>)], what: &str, then: &str) -> Result<()> {
    let failures = || outcomes.iter().filter_map(|(node, it)| Some((node, it.as_ref().err()?)));
    let Some((_, first)) = failures().next() else { return Ok(()) };
    let done = outcomes.iter().filter(|(_, it)| it.is_ok()).map(|(node, _)| node.as_str());
    let names = listed(done.clone());
    let are_unknown = failures().any(|(_, error)| matches!(error, Error::Unreachable(_)));
    let said = match done.count() {
        0 if are_unknown => format!(
            "{first}; whether nodes {} have {what} is not known, and no other node has said so: \
             sty cluster status shows what nodes have",
            listed(failures().map(|(node, _)| node.as_str()))
        ),
        0 => return Err(Error::InvalidInput(format!("{first}; no other node has {what}"))),
        _ => format!(
            "{first}; nodes {names} have {what}, and others have not said so ({}): {then}",
            listed(failures().map(|(node, _)| node.as_str()))
        ),
    };
    Err(Error::PartlyStored(said))
}

/// Passes bytes of files on that another machine gives, and their hash.
pub(super) async fn pass(
    from: &mut Answer,
    to: &mut Delivery,
    bytes: u64,
    cancelled: &AtomicBool,
) -> Result<()> {
    let mut left = bytes.saturating_add(size_of::<Id>() as u64);
    while left > 0 {
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let piece = from.expect(PIECE).await?;
        left = left
            .checked_sub(piece.len() as u64)
            .ok_or_else(|| Error::InvalidInput("more bytes come than the segments have".into()))?;
        to.put(piece.to_vec()).await?;
    }
    Ok(())
}

/// Takes the segments of a request into a store.
pub(in crate::sql) fn take(
    store: &Store,
    options: &LoadOptions,
    request: &mut Asked,
    say: &mut Answering,
) -> Result<()> {
    let head = request.head()?;
    let mut from = Cursor::new(&head);
    let table = table_of(store, &mut from)?;
    let transfer = Transfer::read(&mut from)?;
    from.finish()?;
    let writer = transfer.open(&table)?;
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

/// Makes a copy of a table what another machine has.
pub(in crate::sql) fn become_same(
    store: &Store,
    request: &mut Asked,
    say: &mut Answering,
) -> Result<()> {
    let head = request.head()?;
    let mut from = Cursor::new(&head);
    let table = table_of(store, &mut from)?;
    let replica = Replica::read(&mut from)?;
    from.finish()?;
    let mut writer = replica.open(&table)?;
    say.say(BEGUN, &[])?;
    replica.arrive(&writer, request)?;
    say.say(READY, &[])?;
    if request.word() == Some(COMMIT) {
        let generation = replica.after.generation;
        if replica.before.is_none() {
            table.forget_files();
        }
        writer.adopt(replica.after)?;
        say.say(STORED, &generation.to_le_bytes())?;
    }
    Ok(())
}

/// The table that a request names, whose writers wait as it says.
pub(super) fn table_of(store: &Store, from: &mut Cursor<'_>) -> Result<Table> {
    check_protocol(from)?;
    let (table, wait) = (from.text(limits::MAX_NAME_BYTES)?, from.u64()?);
    match wait {
        u64::MAX => store.table(table),
        millis => {
            let most = Duration::from_millis(millis);
            store.clone().with_wait(LockWait { most, ..store.wait().clone() }).table(table)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_which_machines_have_committed() {
        let gone = || Err(Error::Unreachable("node b: it is gone".into()));
        let refused = || Err(Error::InvalidInput("node c: no space".into()));
        let said = |outcomes: Vec<(&str, Result<u64>)>| {
            let named = outcomes.into_iter().map(|(node, it)| (node.to_owned(), it));
            check_all(&named.collect::<Vec<_>>(), "try")
        };
        assert!(said(vec![("a", Ok(3)), ("b", Ok(1))]).is_ok());
        let some = said(vec![("a", Ok(3)), ("b", gone()), ("c", refused())]);
        assert!(
            matches!(&some, Err(Error::PartlyStored(what)) if what.contains("nodes a have stored")
                && what.contains("others have not said so (b, c): try")),
            "{some:?}"
        );
        // Nobody knows of a machine that is gone.
        let unknown = said(vec![("b", gone()), ("c", refused())]);
        assert!(
            matches!(&unknown, Err(Error::PartlyStored(what)) if what.contains("is not known")),
            "{unknown:?}"
        );
        let none = said(vec![("c", refused())]);
        assert!(
            matches!(&none, Err(Error::InvalidInput(what)) if what.contains("no other node has")),
            "{none:?}"
        );
    }
}
