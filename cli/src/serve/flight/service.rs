//! The calls of Flight, each to what answers it.

use std::sync::Arc;

use arrow_flight::flight_descriptor::DescriptorType;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{
    Any, Command, CommandPreparedStatementQuery, CommandStatementIngest,
    DoPutPreparedStatementResult, DoPutUpdateResult,
};
use arrow_flight::{
    Action, ActionType, BasicAuth, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use arrow_schema::SchemaRef;
use prost::Message as _;
use tonic::codegen::{BoxStream, tokio_stream};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Request, Response, Status, Streaming};

use super::actions::{self, malformed};
use super::authentication::{by_password, who_are_you};
use super::call::{Call, Caller, Shared};
use super::errors::{invalid, of_refusal, status};
use super::ingest::{self, no_transaction};
use super::messages::schema_bytes;
use super::metadata;
use super::queries;
use super::received::{Messages, Received};
use super::tickets::{self, Wanted};
use super::updates;
use super::work::{Answer, Work};
use crate::serve::admission::Refused;

/// The most bytes of values that are bound to a prepared statement.
const MOST_BOUND: usize = 16 << 20;
/// The most tables that are listed as flights.
const MOST_LISTED: usize = 10_000;

/// Answers calls.
#[derive(Clone)]
pub(super) struct Service(pub(super) Arc<Shared>);

/// What a descriptor asks for.
enum Asked {
    Answer(Wanted),
    /// Something about the server, with the columns of the answer.
    Metadata(SchemaRef),
}

impl Service {
    /// What a descriptor asks for: a command, or the rows of a table by its name.
    fn asked(descriptor: &FlightDescriptor) -> Result<Asked, Status> {
        if descriptor.r#type() == DescriptorType::Path {
            let table = table_of(&descriptor.path)?;
            let sql = format!("SELECT * FROM {}", metadata::quoted(table));
            return Ok(Asked::Answer(Wanted::Statement(sql)));
        }
        let command = command_of(&descriptor.cmd)?;
        if let Some(columns) = metadata::columns(&command)? {
            return Ok(Asked::Metadata(columns));
        }
        match command {
            Command::CommandStatementQuery(command) => {
                no_transaction_in(command.transaction_id.as_deref())?;
                Ok(Asked::Answer(Wanted::Statement(command.query)))
            }
            Command::CommandPreparedStatementQuery(command) => {
                Ok(Asked::Answer(Wanted::Prepared(command.prepared_statement_handle.to_vec())))
            }
            other => Err(unknown(&other)),
        }
    }

    async fn info(&self, request: Request<FlightDescriptor>) -> Result<FlightInfo, Status> {
        let call = Call::of(&self.0, &request)?;
        let descriptor = request.into_inner();
        match Service::asked(&descriptor)? {
            Asked::Answer(wanted) => queries::info(call, descriptor, wanted).await,
            Asked::Metadata(columns) => {
                // The command is the ticket.
                let ticket = descriptor.cmd.to_vec();
                queries::info_of(&columns, descriptor, vec![ticket])
            }
        }
    }

    /// Takes rows, or a statement that has no answer; returns what is told of it.
    async fn put(&self, request: Request<Streaming<FlightData>>) -> Result<PutResult, Status> {
        let call = Call::of(&self.0, &request)?;
        let server = &self.0.server;
        let patience = server.admission.limits().patience;
        let sending = Arc::clone(&self.0.sending).acquire_owned();
        let sending = tokio::time::timeout(patience, sending).await;
        let sending = sending.map_err(|_| of_refusal(Refused::TooLate))?;
        let sending = sending.map_err(|_| of_refusal(Refused::Ending))?;
        let (stall, stream) = (server.limits.stall, request.into_inner());
        let (descriptor, messages) = Messages::begin(stream, stall).await?;
        let command = match descriptor.r#type() {
            // Rows for a table by its name.
            DescriptorType::Path => Command::CommandStatementIngest(CommandStatementIngest {
                table: table_of(&descriptor.path)?.to_owned(),
                ..CommandStatementIngest::default()
            }),
            _ => command_of(&descriptor.cmd)?,
        };
        let told = match command {
            Command::CommandStatementUpdate(command) => {
                // It takes no rows, and may take long.
                drop(sending);
                no_transaction_in(command.transaction_id.as_deref())?;
                let rows = updates::update(call, command.query).await?;
                drop(messages);
                counted(rows)
            }
            command => {
                let (forward, received) = messages.split(stall);
                let forwarding = async move {
                    forward.run().await;
                    drop(sending);
                };
                alongside(forwarding, put(call, command, received)).await?
            }
        };
        Ok(PutResult { app_metadata: told.into() })
    }
}

/// The result of `work`, while something else goes on beside it, as long as that takes.
async fn alongside<T>(beside: impl Future<Output = ()>, work: impl Future<Output = T>) -> T {
    let (mut beside, mut work) = (std::pin::pin!(beside), std::pin::pin!(work));
    let mut goes_on = true;
    std::future::poll_fn(|context| {
        goes_on = goes_on && beside.as_mut().poll(context).is_pending();
        work.as_mut().poll(context)
    })
    .await
}

/// What is told of so many rows.
fn counted(rows: u64) -> Vec<u8> {
    let record_count = i64::try_from(rows).unwrap_or(i64::MAX);
    DoPutUpdateResult { record_count }.encode_to_vec()
}

/// Does what a command says with the rows that are received; returns the bytes of what is told.
async fn put(call: Call, command: Command, received: Received) -> Result<Vec<u8>, Status> {
    match command {
        Command::CommandStatementIngest(command) => {
            ingest::run(call, command, received).await.map(counted)
        }
        Command::CommandPreparedStatementUpdate(command) => {
            let handle = &command.prepared_statement_handle;
            let prepared = call.shared.prepared.get(&call.user, handle)?;
            updates::update_with(call, prepared, received).await.map(counted)
        }
        Command::CommandPreparedStatementQuery(command) => bind(call, command, received).await,
        other => Err(unknown(&other)),
    }
}

/// Binds values to a prepared statement.
async fn bind(
    call: Call,
    command: CommandPreparedStatementQuery,
    received: Received,
) -> Result<Vec<u8>, Status> {
    let handle = command.prepared_statement_handle;
    // Whether there is such a statement is said before values are read.
    let prepared = call.shared.prepared.get(&call.user, &handle)?;
    let values = received.whole(MOST_BOUND).await?;
    let values = values.map(|values| prepared.description.in_order(values)).transpose();
    let values = values.map_err(|error| invalid(error.to_string()))?;
    call.shared.prepared.bind(&call.user, &handle, values)?;
    let result = DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) };
    Ok(result.encode_to_vec())
}

/// The table that a path names.
fn table_of(path: &[String]) -> Result<&str, Status> {
    match path {
        [table] => Ok(table),
        [schema, table] if schema == metadata::SCHEMA => Ok(table),
        _ => Err(invalid("a path is the name of a table")),
    }
}

fn command_of(bytes: &[u8]) -> Result<Command, Status> {
    let any = Any::decode(bytes).map_err(malformed)?;
    Command::try_from(any).map_err(|error| invalid(error.to_string()))
}

fn no_transaction_in(id: Option<&[u8]>) -> Result<(), Status> {
    match id.is_some_and(|id| !id.is_empty()) {
        true => Err(no_transaction()),
        false => Ok(()),
    }
}

fn unknown(command: &Command) -> Status {
    let name: String = command.type_url().chars().take(200).collect();
    status(Code::Unimplemented, &format!("there is no command '{name}' here"))
}

fn boxed<T: Send + 'static>(items: Vec<T>) -> BoxStream<T> {
    Box::pin(tokio_stream::iter(items.into_iter().map(Ok)))
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = BoxStream<HandshakeResponse>;
    type ListFlightsStream = BoxStream<FlightInfo>;
    type DoGetStream = Answer;
    type DoPutStream = BoxStream<PutResult>;
    type DoActionStream = BoxStream<arrow_flight::Result>;
    type ListActionsStream = BoxStream<ActionType>;
    type DoExchangeStream = BoxStream<FlightData>;

    /// Gives a token to who has said name and password: in the header, or in the first message.
    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let caller = request.extensions().get::<Caller>().map(|caller| Arc::clone(&caller.0));
        let (user, protocol_version) = match caller {
            Some(user) => (user, 0),
            None => {
                let stall = self.0.server.limits.stall;
                let mut messages = request.into_inner();
                let first = tokio::time::timeout(stall, messages.message()).await;
                let first = first.map_err(|_| Status::deadline_exceeded("no name has come"))??;
                let first = first.ok_or_else(who_are_you)?;
                let said = BasicAuth::decode(first.payload).map_err(malformed)?;
                let user = by_password(&self.0, said.username, said.password).await?;
                (user, first.protocol_version)
            }
        };
        let token = self.0.tokens.give(&user)?;
        let header: Result<MetadataValue<Ascii>, _> = format!("Bearer {token}").parse();
        let payload = token.into_bytes().into();
        let mut response =
            Response::new(boxed(vec![HandshakeResponse { protocol_version, payload }]));
        let header = header.map_err(|_| Status::internal("the token is no header"))?;
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        let call = Call::of(&self.0, &request)?;
        let work = Work::about_server(call, "ListFlights")?;
        let tables = work.on_thread(|_, used| Ok(used.session.table_names())).await?;
        let infos = tables.into_iter().take(MOST_LISTED).map(|table| {
            FlightInfo::new().with_descriptor(FlightDescriptor::new_path(vec![table]))
        });
        Ok(Response::new(boxed(infos.collect())))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.info(request).await.map(Response::new)
    }

    /// What is asked for is there at once: a statement runs when its ticket is brought.
    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        let info = Some(self.info(request).await?);
        Ok(Response::new(PollInfo { info, progress: Some(1.0), ..PollInfo::default() }))
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let call = Call::of(&self.0, &request)?;
        let columns = match Service::asked(request.get_ref())? {
            Asked::Answer(wanted) => queries::columns(call, &wanted).await?,
            Asked::Metadata(columns) => columns,
        };
        let schema = schema_bytes(&columns);
        let schema = schema.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(SchemaResult { schema }))
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        let call = Call::of(&self.0, &request)?;
        let bytes = request.into_inner().ticket;
        if let Ok(ticket) = tickets::Ticket::decode(&bytes) {
            return queries::answer(call, ticket).await.map(Response::new);
        }
        let answer = match command_of(&bytes)? {
            Command::TicketStatementQuery(command) => {
                let ticket = tickets::Ticket::decode(&command.statement_handle)?;
                queries::answer(call, ticket).await?
            }
            Command::CommandPreparedStatementQuery(command) => {
                queries::answer_of_handle(call, &command.prepared_statement_handle).await?
            }
            command => match metadata::columns(&command)? {
                Some(_) => metadata::answer(call, command).await?,
                None => return Err(unknown(&command)),
            },
        };
        Ok(Response::new(answer))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let result = self.put(request).await?;
        Ok(Response::new(boxed(vec![result])))
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        let call = Call::of(&self.0, &request)?;
        let result = actions::run(call, request.into_inner()).await?;
        let results = result.map(|body| arrow_flight::Result { body });
        Ok(Response::new(boxed(results.into_iter().collect())))
    }

    async fn list_actions(
        &self,
        request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        Call::of(&self.0, &request)?;
        Ok(Response::new(boxed(actions::list())))
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Call::of(&self.0, &request)?;
        Err(status(Code::Unimplemented, "DoExchange: rows are sent by DoPut, and got by DoGet"))
    }
}
