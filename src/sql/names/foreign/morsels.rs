//! The steps of a scan, each guarded: planning a file, reading its metadata, decoding its batches.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener};
use datafusion::error::Result;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::Stream;
use futures::stream::BoxStream;

use super::{Kind, Place};
use crate::ingest::sources::foreign::guarded;

type Batches = BoxStream<'static, Result<RecordBatch>>;

#[derive(Debug)]
pub(super) struct GuardedMorselizer {
    inner: Box<dyn Morselizer>,
    kind: Kind,
}

impl GuardedMorselizer {
    pub(super) fn new(inner: Box<dyn Morselizer>, kind: Kind) -> Self {
        GuardedMorselizer { inner, kind }
    }
}

impl Morselizer for GuardedMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let place = Place::new(&file.object_meta.location, self.kind);
        let inner = place.guard(|| self.inner.plan_file(file))?;
        Ok(Box::new(GuardedPlanner { inner, place }))
    }
}

#[derive(Debug)]
struct GuardedPlanner {
    inner: Box<dyn MorselPlanner>,
    place: Place,
}

impl MorselPlanner for GuardedPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let GuardedPlanner { inner, place } = *self;
        let Some(mut plan) = place.guard(|| inner.plan())? else { return Ok(None) };
        let planner = |inner: Box<dyn MorselPlanner>| -> Box<dyn MorselPlanner> {
            Box::new(GuardedPlanner { inner, place: place.clone() })
        };
        let morsel = |inner: Box<dyn Morsel>| -> Box<dyn Morsel> {
            Box::new(GuardedMorsel { inner, place: place.clone() })
        };
        let mut guarded = MorselPlan::new()
            .with_planners(plan.take_ready_planners().into_iter().map(planner).collect())
            .with_morsels(plan.take_morsels().into_iter().map(morsel).collect());
        if let Some(pending) = plan.take_pending_planner() {
            guarded.set_pending_planner(async move {
                let inner = place.guard_future(pending.into_future()).await?;
                Ok(Box::new(GuardedPlanner { inner, place }) as Box<dyn MorselPlanner>)
            });
        }
        Ok(Some(guarded))
    }
}

#[derive(Debug)]
struct GuardedMorsel {
    inner: Box<dyn Morsel>,
    place: Place,
}

impl Morsel for GuardedMorsel {
    fn into_stream(self: Box<Self>) -> Batches {
        let GuardedMorsel { inner, place } = *self;
        match place.guard(|| Ok(inner.into_stream())) {
            Ok(inner) => Box::pin(GuardedBatches { inner: Some(inner), place }),
            Err(error) => Box::pin(futures::stream::iter([Err(error)])),
        }
    }
}

/// Batches of a reader that may panic. After that it is dropped.
struct GuardedBatches {
    inner: Option<Batches>,
    place: Place,
}

impl Stream for GuardedBatches {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        match guarded(|| inner.as_mut().poll_next(context)) {
            Ok(poll) => {
                poll.map(|batch| batch.map(|batch| batch.map_err(|error| self.place.named(error))))
            }
            Err(panicked) => {
                let inner = self.inner.take();
                // What it left behind may panic once more.
                let _ = guarded(|| drop(inner));
                Poll::Ready(Some(Err(self.place.panicked(panicked))))
            }
        }
    }
}

/// The files of an opener, each as one morsel.
pub(super) struct StreamMorselizer(Arc<dyn FileOpener>);

impl StreamMorselizer {
    pub(super) fn new(opener: Arc<dyn FileOpener>) -> Self {
        StreamMorselizer(opener)
    }
}

impl fmt::Debug for StreamMorselizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamMorselizer")
    }
}

impl Morselizer for StreamMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        Ok(Box::new(StreamPlanner::Opening(self.0.open(file)?)))
    }
}

enum StreamPlanner {
    Opening(FileOpenFuture),
    Open(Batches),
}

impl fmt::Debug for StreamPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamPlanner")
    }
}

impl MorselPlanner for StreamPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(Some(match *self {
            StreamPlanner::Opening(opening) => MorselPlan::new().with_pending_planner(async {
                let batches = opening.await?;
                Ok(Box::new(StreamPlanner::Open(batches)) as Box<dyn MorselPlanner>)
            }),
            StreamPlanner::Open(batches) => {
                MorselPlan::new().with_morsels(vec![Box::new(StreamMorsel(batches))])
            }
        }))
    }
}

struct StreamMorsel(Batches);

impl fmt::Debug for StreamMorsel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamMorsel")
    }
}

impl Morsel for StreamMorsel {
    fn into_stream(self: Box<Self>) -> Batches {
        self.0
    }
}
