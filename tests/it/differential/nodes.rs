//! Two nodes of a cluster in this process, which read one store and share its segments; and a
//! session over both.

use std::sync::Arc;

use stylobate::{ClusterDescription, Engine, Node, Placement, Session, SessionOptions, Store};
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
        let (mut nodes, mut ends) = (Vec::new(), Vec::new());
        for name in ["a", "b"] {
            let service = Engine::open(store, &options).unwrap().node_service().unwrap();
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            nodes.push(Arc::new(Node::new(name, &address).unwrap()));
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
        let cluster = ClusterDescription {
            nodes,
            secret: "of this test".into(),
            authorities: None,
            placement: Placement::Shared,
            tables: Default::default(),
        };
        let options = SessionOptions { cluster: Some(cluster), ..options };
        let session = Session::new(&options).unwrap();
        Nodes { session, _ends: ends, _runtime: runtime }
    }
}
