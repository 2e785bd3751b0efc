//! Two nodes of a cluster in this process, which read one store and share its segments; and a
//! session over both.

use std::sync::Arc;

use stylobate::{
    ClusterDescription, Engine, Node, Parameters, Placement, Session, SessionOptions, Store,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tonic::transport::Server;

/// The nodes; they end when it is dropped.
pub(crate) struct Nodes {
    pub(crate) session: Session,
    _ends: Vec<oneshot::Sender<()>>,
    _runtime: Runtime,
}

impl Nodes {
    pub(crate) fn open(store: &Store) -> Nodes {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let options = SessionOptions {
            threads: Some(2),
            memory_limit: Some(1 << 30),
            ..SessionOptions::default()
        };
        let listeners = ["a", "b"].map(|name| {
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            (Arc::new(Node::new(name, &address).unwrap()), listener)
        });
        let cluster = ClusterDescription {
            nodes: listeners.iter().map(|(node, _)| Arc::clone(node)).collect(),
            secret: "of this test".into(),
            authorities: None,
            placement: Placement::Shared,
            tables: Default::default(),
        };
        // They know each other: rows of joins go from one to the other.
        let options = SessionOptions { cluster: Some(cluster), ..options };
        let mut ends = Vec::new();
        for (_, listener) in listeners {
            let service = Engine::open(store, &options).unwrap().node_service().unwrap();
            let incoming = futures::stream::unfold(listener, |listener| async {
                let connection = listener.accept().await.map(|(stream, _)| stream);
                Some((connection, listener))
            });
            let (end, ended) = oneshot::channel::<()>();
            ends.push(end);
            let over = async { drop(ended.await) };
            let server = Server::builder();
            runtime.spawn(async move {
                server.serve_with_incoming_shutdown(service, incoming, over).await
            });
        }
        let session = Session::new(&options).unwrap();
        // Whatever can be done by several machines is, and joins of few rows are planned as those
        // of many.
        let settings = "SET sty.gather_bytes = 0; SET datafusion.execution.target_partitions = 4; \
            SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0";
        for set in settings.split("; ") {
            let none = Parameters::default();
            session.run(set, &none, |mut stream| stream.try_for_each(|b| b.map(drop))).unwrap();
        }
        Nodes { session, _ends: ends, _runtime: runtime }
    }
}
