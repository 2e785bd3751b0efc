//! A stream of batches from straight-line code: a scan is a loop that keeps blocks open while it
//! emits, which a hand-written `poll` could not.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::Stream;

use crate::error::Result;

/// Where a generator puts its batches.
#[derive(Clone, Default)]
pub(crate) struct Output {
    slot: Arc<Mutex<Option<RecordBatch>>>,
}

impl Output {
    /// Hands out a batch, and goes on when the next one is asked for.
    pub(crate) async fn emit(&self, batch: RecordBatch) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch);
        let mut emitted = false;
        std::future::poll_fn(|_| {
            if emitted {
                return Poll::Ready(());
            }
            emitted = true;
            Poll::Pending
        })
        .await;
    }

    fn take(&self) -> Option<RecordBatch> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The batches that `generator` emits into its output. It runs only while a batch is being asked
/// for.
pub(crate) fn generate<F>(
    schema: SchemaRef,
    generator: impl FnOnce(Output) -> F,
) -> SendableRecordBatchStream
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let output = Output::default();
    let running = Some(Box::pin(generator(output.clone())));
    Box::pin(RecordBatchStreamAdapter::new(schema, Generated { running, output }))
}

/// Lets other tasks of this thread go first, or to other threads.
pub(crate) async fn give_way() {
    let mut given = false;
    std::future::poll_fn(|context| {
        if given {
            return Poll::Ready(());
        }
        given = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

struct Generated<F> {
    running: Option<Pin<Box<F>>>,
    output: Output,
}

impl<F: Future<Output = Result<()>>> Stream for Generated<F> {
    type Item = DataFusionResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(running) = self.running.as_mut() else { return Poll::Ready(None) };
        match running.as_mut().poll(context) {
            Poll::Pending => match self.output.take() {
                Some(batch) => Poll::Ready(Some(Ok(batch))),
                None => Poll::Pending,
            },
            Poll::Ready(done) => {
                self.running = None;
                Poll::Ready(done.err().map(|error| Err(error.into())))
            }
        }
    }
}
