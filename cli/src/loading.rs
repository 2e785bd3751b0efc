//! Where the rows of `sty ingest` go: into a table of a store, or to the machines of a cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stylobate::internal::ingest::rejected_before;
use stylobate::{Input, LoadOptions, OnError, Schema, Snapshot, Table, TableOptions, TableWriter};

use crate::context::Context;
use crate::errors::Failure;
use crate::output::already_exists;

/// Where rows go.
pub(crate) enum Target {
    /// The table, and its generation before the load.
    Table(Table, Option<u64>),
    /// Machines of a cluster.
    #[cfg(feature = "cluster")]
    Cluster(Box<cluster::OfCluster>),
}

impl Target {
    pub(crate) fn table(table: Table) -> Result<Target, Failure> {
        let before = table.generation()?;
        Ok(Target::Table(table, before))
    }

    /// Refuses a file for rejected rows that is there and cannot be that of an earlier load.
    pub(crate) fn check_rejects(&self, load: &LoadOptions) -> Result<(), Failure> {
        let is_first = match self {
            Target::Table(_, before) => before.is_none(),
            #[cfg(feature = "cluster")]
            Target::Cluster(_) => true,
        };
        match kept_rejects(load).filter(|_| is_first) {
            Some(file) => Err(already_exists(&file)),
            None => Ok(()),
        }
    }

    /// Begins to load `inputs`, or some of them if others have to come later. A table that does not
    /// exist will have these options.
    pub(crate) fn begin(
        &mut self,
        inputs: Vec<Input>,
        options: TableOptions,
        load: &mut LoadOptions,
    ) -> Result<(TableWriter, Vec<Input>), Failure> {
        match self {
            Target::Table(table, _) => {
                let writer = table.writer(Some((Schema::default(), options)))?;
                if let Some(file) = kept_rejects(load)
                    && rejected_before(&writer, &inputs, load.if_loaded)? == 0
                {
                    return Err(already_exists(&file));
                }
                Ok((writer, inputs))
            }
            #[cfg(feature = "cluster")]
            Target::Cluster(of_cluster) => of_cluster.begin(inputs, options, load),
        }
    }

    /// What a load would begin with: the table as it is, if there is one, and the inputs that it
    /// would load first. Nothing is stored.
    pub(crate) fn foresee(
        &mut self,
        inputs: Vec<Input>,
        options: TableOptions,
        load: &LoadOptions,
        context: &Context,
    ) -> Result<(Option<Snapshot>, Vec<Input>), Failure> {
        match self {
            Target::Table(table, _) => {
                table.check_writable()?;
                let snapshot = table.generation()?.map(|_| table.snapshot()).transpose()?;
                Ok((snapshot, inputs))
            }
            #[cfg(feature = "cluster")]
            Target::Cluster(of_cluster) => of_cluster.foresee(inputs, options, load, context),
        }
    }

    /// The note for the user that this part finishes an earlier load, if it does.
    pub(crate) fn note(&self) -> Option<String> {
        match self {
            Target::Table(..) => None,
            #[cfg(feature = "cluster")]
            Target::Cluster(of_cluster) => of_cluster.note(),
        }
    }

    /// Puts in force what was loaded, where the load itself has not. Machines of a cluster wait
    /// this long for other writers, and as long as they do otherwise if it is nothing.
    pub(crate) fn finish(&mut self, wait: Duration) -> Result<Stored, Failure> {
        match self {
            Target::Table(..) => Ok(Stored { is_last: true, nodes: Vec::new() }),
            #[cfg(feature = "cluster")]
            Target::Cluster(of_cluster) => of_cluster.finish(wait),
        }
    }

    /// Whether nothing is stored of the load that has begun.
    pub(crate) fn is_unchanged(&self) -> bool {
        match self {
            Target::Table(table, before) => table.generation().ok() == Some(*before),
            #[cfg(feature = "cluster")]
            Target::Cluster(_) => true,
        }
    }
}

/// What is stored.
pub(crate) struct Stored {
    /// Whether all inputs have been loaded.
    pub(crate) is_last: bool,
    /// What machines of a cluster have of it.
    pub(crate) nodes: Vec<OnNode>,
}

/// What a machine of a cluster has stored.
pub(crate) struct OnNode {
    pub(crate) node: String,
    pub(crate) generation: u64,
    pub(crate) rows: u64,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
}

/// The file of rejected rows, if it exists and is not to be replaced.
fn kept_rejects(load: &LoadOptions) -> Option<PathBuf> {
    match &load.on_error {
        OnError::Reject { file, replace: false } if file.is_file() => Some(file.clone()),
        _ => None,
    }
}

#[cfg(feature = "cluster")]
pub(crate) mod cluster {
    //! Machines of a cluster.

    use std::fs::{File, OpenOptions};
    use std::io::{self, BufRead as _, BufReader};
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use stylobate::{
        ClusterDescription, ClusterLoad, ClusterRound, Input, LoadOptions, NodeStored, OnError,
        Snapshot, TableOptions, TableWriter,
    };

    use super::{OnNode, Stored};
    use crate::context::Context;
    use crate::errors::{Failure, IoResult as _};
    use crate::{signals, watch};

    /// A load for machines of a cluster, and the part of it that runs.
    pub(crate) struct OfCluster {
        load: ClusterLoad,
        round: Option<ClusterRound>,
        rejects: Option<Rejects>,
    }

    /// The file of rejected rows, which are kept beside the segments until these are stored.
    struct Rejects {
        file: PathBuf,
        staged: PathBuf,
        /// Parts of the load that have begun.
        parts: u32,
        /// Whether one of them has written the file.
        is_begun: bool,
    }

    impl OfCluster {
        pub(crate) fn new(
            description: ClusterDescription,
            table: &str,
            temporary: Option<&Path>,
        ) -> Result<OfCluster, Failure> {
            let load = ClusterLoad::begin(description, table, temporary)?;
            watch::remove_directory_at_end(load.staging());
            Ok(OfCluster { load, round: None, rejects: None })
        }

        /// See [`super::Target::begin`].
        pub(crate) fn begin(
            &mut self,
            inputs: Vec<Input>,
            options: TableOptions,
            load: &mut LoadOptions,
        ) -> Result<(TableWriter, Vec<Input>), Failure> {
            if self.rejects.is_none()
                && let OnError::Reject { file, .. } = &load.on_error
            {
                let (file, staged) = (file.clone(), PathBuf::new());
                self.rejects = Some(Rejects { file, staged, parts: 0, is_begun: false });
            }
            if let Some(rejects) = &mut self.rejects {
                rejects.parts += 1;
                let name = format!("rejects-{}.csv", rejects.parts);
                rejects.staged = self.load.staging().join(name);
                load.on_error = OnError::Reject { file: rejects.staged.clone(), replace: false };
            }
            if let Some(every) = load.commit_every.take() {
                self.load.commit_every(every);
            }
            let (round, writer, inputs) = self.load.begin_round(inputs, options, load)?;
            self.round = Some(round);
            Ok((writer, inputs))
        }

        /// See [`super::Target::foresee`].
        pub(crate) fn foresee(
            &mut self,
            inputs: Vec<Input>,
            options: TableOptions,
            load: &LoadOptions,
            context: &Context,
        ) -> Result<(Option<Snapshot>, Vec<Input>), Failure> {
            let count = inputs.len();
            let (table, inputs, finishes) = self.load.foresee(inputs, options, load)?;
            if let Some(finishes) = finishes {
                let others =
                    if inputs.len() < count { "; other files come after that" } else { "" };
                context.note(&format!("{finishes}{others}"));
            }
            Ok((table, inputs))
        }

        /// See [`super::Target::note`].
        pub(crate) fn note(&self) -> Option<String> {
            self.round.as_ref()?.finishes.clone()
        }

        /// Has the machines store what was loaded.
        pub(crate) fn finish(&mut self, wait: Duration) -> Result<Stored, Failure> {
            let Some(round) = self.round.take() else {
                return Ok(Stored { is_last: true, nodes: Vec::new() });
            };
            let is_last = round.is_last;
            let wait = Some(wait).filter(|wait| !wait.is_zero());
            let stored = self.load.finish_round(round, wait, &signals::cancellation());
            // What some machines have stored, the same command may not read again.
            let kept = match &mut self.rejects {
                Some(rejects) if stored.is_ok() || self.load.is_partly_stored() => rejects.keep(),
                _ => Ok(()),
            };
            let on_node = |stored: NodeStored| {
                let NodeStored { node, generation, rows, segments, bytes } = stored;
                OnNode { node, generation, rows, segments, bytes }
            };
            let nodes = stored?.into_iter().flatten().map(on_node).collect();
            kept.map_err(Failure::after_commit)?;
            Ok(Stored { is_last, nodes })
        }
    }

    impl Rejects {
        /// Moves rows to where they are to be, behind those of the parts before.
        fn keep(&mut self) -> Result<(), Failure> {
            let Ok(staged) = File::open(&self.staged) else { return Ok(()) };
            let mut staged = BufReader::new(staged);
            let mut options = OpenOptions::new();
            if self.is_begun {
                // The names of the columns are there.
                staged.read_until(b'\n', &mut Vec::new()).with_path(&self.staged)?;
                options.append(true);
            } else {
                options.write(true).create(true).truncate(true);
            }
            let mut to = options.open(&self.file).with_path(&self.file)?;
            io::copy(&mut staged, &mut to).with_path(&self.file)?;
            to.sync_all().with_path(&self.file)?;
            self.is_begun = true;
            Ok(())
        }
    }
}

/// Refuses to write rejected rows over an input.
pub(crate) fn check_not_read(rejects: Option<&Path>, inputs: &[Input]) -> Result<(), Failure> {
    let Some(file) = rejects.and_then(|file| file.canonicalize().ok()) else { return Ok(()) };
    let is_it = |input: &&Input| input.name().canonicalize().is_ok_and(|name| name == file);
    match inputs.iter().find(is_it) {
        Some(input) => Err(Failure::usage(format!(
            "{} is an input; --rejects would write over it: name another file",
            input.name().display()
        ))),
        None => Ok(()),
    }
}
