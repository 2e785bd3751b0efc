//! Rows that a client sends: messages of Flight, handed from its connection to the thread of a
//! statement, and read there as the stream of Arrow IPC that they are. Few wait at a time, so that
//! a client sends as fast as rows are stored.

use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_flight::{FlightData, FlightDescriptor};
use arrow_schema::SchemaRef;
use stylobate::internal::ingest::ArrowBatches;
use tokio::sync::mpsc;
use tonic::codegen::Bytes;
use tonic::{Code, Status, Streaming};

use super::errors::{Stop, invalid, of_stop, status};
use crate::serve::reply::{self, TooLate};

/// The most bytes of a message with rows.
pub(super) const MOST_MESSAGE: usize = 256 << 20;
/// What begins a message of IPC, and what ends all of them.
const CONTINUATION: [u8; 4] = [0xff; 4];
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// The boundary on which messages begin.
const ALIGNMENT: usize = 8;

/// A message on its way to a thread.
enum Part {
    Message(FlightData),
    /// The client has sent all.
    End,
}

/// The messages of a call, of which the first is here.
pub(super) struct Messages {
    first: FlightData,
    rest: Streaming<FlightData>,
}

/// Hands messages over until there are no more, or nobody takes them.
pub(super) struct Forward {
    messages: Messages,
    parts: mpsc::Sender<Part>,
    wrong: Arc<OnceLock<Status>>,
}

/// Messages as the thread of a statement gets them.
pub(super) struct Received {
    parts: mpsc::Receiver<Part>,
    wrong: Arc<OnceLock<Status>>,
    stall: Duration,
}

impl Messages {
    /// Waits for the first message, which says what the others are for.
    pub(super) async fn begin(
        mut stream: Streaming<FlightData>,
        stall: Duration,
    ) -> Result<(FlightDescriptor, Messages), Status> {
        let first = tokio::time::timeout(stall, stream.message()).await;
        let first = first.map_err(|_| stalled())?.map_err(refused)?;
        // ADBC's driver sends nothing for a table that has no batches.
        let mut first = first.ok_or_else(|| {
            invalid(
                "nothing has come, not even what is to be done; for a table without rows, send a \
                 batch without rows",
            )
        })?;
        let descriptor = first.flight_descriptor.take();
        let descriptor =
            descriptor.ok_or_else(|| invalid("the first message has no descriptor"))?;
        Ok((descriptor, Messages { first, rest: stream }))
    }

    /// Two ends: the connection's, and the thread's.
    pub(super) fn split(self, stall: Duration) -> (Forward, Received) {
        let (send, receive) = mpsc::channel(1);
        let wrong = Arc::<OnceLock<Status>>::default();
        let forward = Forward { messages: self, parts: send, wrong: Arc::clone(&wrong) };
        (forward, Received { parts: receive, wrong, stall })
    }
}

impl Forward {
    /// Hands over what comes.
    pub(super) async fn run(self) {
        let Forward { messages: Messages { first, mut rest }, parts, wrong } = self;
        let mut next = Some(first);
        while let Some(message) = next {
            if parts.send(Part::Message(message)).await.is_err() {
                return;
            }
            next = match rest.message().await {
                Ok(next) => next,
                Err(status) => {
                    let _ = wrong.set(refused(status));
                    return;
                }
            };
        }
        // Whoever waits for rows may have gone.
        let _ = parts.send(Part::End).await;
    }
}

/// A failure of the stream of messages.
fn refused(error: Status) -> Status {
    // tonic says so of a message that is too long.
    match error.code() == Code::OutOfRange {
        true => status(
            Code::ResourceExhausted,
            &format!(
                "a message has more than {MOST_MESSAGE} bytes; send batches of fewer rows, as \
                 table.to_reader(max_chunksize=100000) has them"
            ),
        ),
        false => error,
    }
}

fn stalled() -> Status {
    Status::deadline_exceeded("the rows of the call have stalled")
}

impl Received {
    /// The columns and rows; `None` if the client sends neither.
    pub(super) fn batches(mut self) -> Result<Option<Batches>, Stop> {
        let Some(first) = self.next()? else { return Ok(None) };
        let wrong = Arc::clone(&self.wrong);
        let mut bytes = IpcBytes {
            received: self,
            head: io::Cursor::default(),
            body: Bytes::new(),
            is_over: false,
        };
        bytes.begin_message(first)?;
        let opened =
            ArrowBatches::of_bytes(Path::new("the rows"), Box::new(bytes), MOST_MESSAGE as u64);
        let batches = opened.map_err(|error| or_wrong(&wrong, error))?;
        let schema = batches.columns()?;
        Ok(Some(Batches { schema, batches, wrong }))
    }

    /// All rows in one batch of at most so many bytes, read on a thread; `None` if there are none.
    pub(super) async fn whole(self, most: usize) -> Result<Option<RecordBatch>, Status> {
        let reading = tokio::task::spawn_blocking(move || match self.batches()? {
            Some(batches) => batches.whole(most),
            None => Ok(None),
        });
        let read = reading.await.map_err(|_| Status::internal("the rows cannot be read"))?;
        read.map_err(|stop| of_stop(stop, None))
    }

    /// The next message that holds something; `None` if there are no more.
    fn next(&mut self) -> Result<Option<FlightData>, Status> {
        loop {
            match reply::receive(&mut self.parts, Some(self.stall)) {
                Ok(Some(Part::Message(message))) if message.data_header.is_empty() => {}
                Ok(Some(Part::Message(message))) => return Ok(Some(message)),
                Ok(Some(Part::End)) => return Ok(None),
                Ok(None) => {
                    let known = self.wrong.get().cloned();
                    return Err(known.unwrap_or_else(|| Status::cancelled("the client is gone")));
                }
                Err(TooLate) => return Err(stalled()),
            }
        }
    }
}

/// The rows that a client sends.
pub(super) struct Batches {
    pub(super) schema: SchemaRef,
    batches: ArrowBatches,
    wrong: Arc<OnceLock<Status>>,
}

impl Batches {
    /// Where it is told what is wrong with the call.
    pub(super) fn wrong(&self) -> Arc<OnceLock<Status>> {
        Arc::clone(&self.wrong)
    }

    /// All rows in one batch of at most so many bytes; `None` if there are none.
    fn whole(mut self, most: usize) -> Result<Option<RecordBatch>, Stop> {
        let (mut all, mut bytes) = (Vec::new(), 0_usize);
        for batch in &mut self.batches {
            let batch = batch.map_err(|error| or_wrong(&self.wrong, error))?;
            bytes = bytes.saturating_add(batch.get_array_memory_size());
            if bytes > most {
                let what = format!("more than {most} bytes of values");
                return Err(status(Code::ResourceExhausted, &what).into());
            }
            if batch.num_rows() > 0 && batch.num_columns() > 0 {
                all.push(batch);
            }
        }
        if all.is_empty() {
            return Ok(None);
        }
        Ok(Some(arrow_select::concat::concat_batches(&self.schema, &all)?))
    }
}

impl Iterator for Batches {
    type Item = stylobate::Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

/// Why rows have failed: what is wrong with the call, if that is known.
fn or_wrong(wrong: &OnceLock<Status>, error: stylobate::Error) -> Stop {
    match wrong.get() {
        Some(status) => Stop::Status(status.clone()),
        None => error.into(),
    }
}

/// The bytes of a stream of Arrow IPC, put together of messages.
struct IpcBytes {
    received: Received,
    /// What is in front of a body.
    head: io::Cursor<Vec<u8>>,
    body: Bytes,
    is_over: bool,
}

impl IpcBytes {
    /// Takes the next message, once all of the last one has been read.
    fn advance(&mut self) -> Result<(), Status> {
        match self.received.next()? {
            Some(message) => self.begin_message(message),
            None => {
                self.head = io::Cursor::new(END.to_vec());
                self.is_over = true;
                Ok(())
            }
        }
    }

    fn begin_message(&mut self, message: FlightData) -> Result<(), Status> {
        self.body = check(&message)?;
        let metadata = message.data_header;
        let padded = metadata.len().next_multiple_of(ALIGNMENT);
        let length = u32::try_from(padded).map_err(|_| invalid("a message is too long"))?;
        let mut head = [CONTINUATION, length.to_le_bytes()].concat();
        head.extend_from_slice(&metadata);
        head.resize(padded + CONTINUATION.len() + size_of::<u32>(), 0);
        self.head = io::Cursor::new(head);
        Ok(())
    }
}

/// The body of a message, which must be as long as its head says: what follows would be taken for
/// it.
fn check(message: &FlightData) -> Result<Bytes, Status> {
    let head = arrow_ipc::root_as_message(&message.data_header);
    let head = head.map_err(|error| invalid(format!("a message is no Arrow IPC: {error}")))?;
    let length = usize::try_from(head.bodyLength()).ok();
    let body = length.and_then(|length| message.data_body.get(..length).map(|_| length));
    let length = body.ok_or_else(|| {
        let (said, given) = (head.bodyLength(), message.data_body.len());
        invalid(format!("a message says that {said} bytes follow, and {given} do"))
    })?;
    Ok(message.data_body.slice(..length))
}

impl Read for IpcBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.head.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            if !self.body.is_empty() {
                let count = (&*self.body).read(buffer)?;
                drop(self.body.split_to(count));
                return Ok(count);
            }
            if self.is_over {
                return Ok(0);
            }
            if let Err(status) = self.advance() {
                self.is_over = true;
                let error = io::Error::other(status.message().to_owned());
                let _ = self.received.wrong.set(status);
                return Err(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array};

    use super::super::messages::{Encoder, schema_message};

    fn received(messages: Vec<Option<FlightData>>) -> Received {
        let (send, receive) = mpsc::channel(messages.len().max(1));
        for message in messages {
            send.try_send(message.map_or(Part::End, Part::Message)).unwrap();
        }
        Received { parts: receive, wrong: Arc::default(), stall: Duration::from_secs(1) }
    }

    fn whole(messages: Vec<Option<FlightData>>) -> Result<Option<RecordBatch>, Stop> {
        received(messages).batches()?.unwrap().whole(1 << 20)
    }

    fn messages() -> Vec<Option<FlightData>> {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("a", values)]).unwrap();
        let mut encoder = Encoder::new(super::super::types::sent_schema(&batch.schema()));
        let mut all = vec![Some(schema_message(&batch.schema()))];
        all.extend(encoder.pieces(&batch).map(|message| Some(message.unwrap())));
        all.push(None);
        all
    }

    #[test]
    fn messages_become_batches() {
        let mut all = messages();
        all.insert(1, Some(FlightData::default()));
        let whole = whole(all).unwrap().unwrap();
        assert_eq!((whole.num_rows(), whole.num_columns()), (3, 1));
    }

    #[test]
    fn rows_without_their_end_are_an_error() {
        let mut cut = messages();
        cut.pop();
        let failed = whole(cut).unwrap_err();
        assert_eq!(of_stop(failed, None).code(), Code::Cancelled);
        let mut long = messages();
        let short = long[1].as_mut().unwrap();
        short.data_body = short.data_body.slice(..8);
        let failed = whole(long).unwrap_err();
        assert_eq!(of_stop(failed, None).code(), Code::InvalidArgument);
    }
}
