//! Actions: to prepare a statement and to close it, and to end one that runs. Those of transactions
//! are refused, since each statement is a commit of its own.

use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
    ProstMessageExt,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo,
    RenewFlightEndpointRequest,
};
use prost::Message as _;
use tonic::codegen::Bytes;
use tonic::{Code, Status};

use super::call::Call;
use super::errors::{invalid, status};
use super::ingest::no_transaction;
use super::messages::schema_bytes;
use super::queries;
use super::tickets::{Ticket, Wanted};
use crate::serve::running::Ended;

const PREPARE: &str = "CreatePreparedStatement";
const CLOSE: &str = "ClosePreparedStatement";
const CANCEL_QUERY: &str = "CancelQuery";
const CANCEL_INFO: &str = "CancelFlightInfo";
const RENEW: &str = "RenewFlightEndpoint";

/// The actions, and what each does.
const ACTIONS: [(&str, &str); 5] = [
    (PREPARE, "Prepares a statement: ActionCreatePreparedStatementRequest to …Result"),
    (CLOSE, "Forgets a prepared statement: ActionClosePreparedStatementRequest to nothing"),
    (CANCEL_INFO, "Ends the statement of an info: CancelFlightInfoRequest to …Result"),
    (CANCEL_QUERY, "Ends the statement of an info: ActionCancelQueryRequest to …Result"),
    (RENEW, "Tells a place that is good for longer: RenewFlightEndpointRequest to FlightEndpoint"),
];

/// Actions that there are elsewhere.
const OF_TRANSACTIONS: [&str; 4] =
    ["BeginTransaction", "EndTransaction", "BeginSavepoint", "EndSavepoint"];

/// All actions.
pub(super) fn list() -> Vec<ActionType> {
    let one = |(name, does): (&str, &str)| ActionType {
        r#type: name.to_owned(),
        description: does.to_owned(),
    };
    ACTIONS.map(one).to_vec()
}

/// Does something; returns the one result, if there is one.
pub(super) async fn run(call: Call, action: Action) -> Result<Option<Bytes>, Status> {
    match action.r#type.as_str() {
        PREPARE => prepare(call, unpacked(&action)?).await.map(Some),
        CLOSE => {
            let command: ActionClosePreparedStatementRequest = unpacked(&action)?;
            call.shared.prepared.remove(&call.user, &command.prepared_statement_handle);
            Ok(None)
        }
        CANCEL_INFO => {
            let command = CancelFlightInfoRequest::decode(action.body).map_err(malformed)?;
            let status = cancel(&call, command.info.unwrap_or_default());
            Ok(Some(CancelFlightInfoResult { status: status.into() }.encode_to_vec().into()))
        }
        CANCEL_QUERY => {
            let command: ActionCancelQueryRequest = unpacked(&action)?;
            let info = FlightInfo::decode(command.info).map_err(malformed)?;
            // Both messages number the outcomes alike.
            let result = ActionCancelQueryResult { result: cancel(&call, info).into() };
            Ok(Some(result.as_any().encode_to_vec().into()))
        }
        RENEW => {
            let command = RenewFlightEndpointRequest::decode(action.body).map_err(malformed)?;
            let place = command.endpoint.unwrap_or_default();
            // Others do not get old.
            if let Some(Ok(Ticket { wanted: Wanted::Part { answer, .. }, .. })) =
                place.ticket.as_ref().map(|it| Ticket::decode(&it.ticket))
            {
                call.shared.divided.renew(&call.user, &answer);
            }
            Ok(Some(place.encode_to_vec().into()))
        }
        name if OF_TRANSACTIONS.contains(&name) => Err(no_transaction()),
        name => {
            let name: String = name.chars().take(100).collect();
            Err(status(Code::Unimplemented, &format!("there is no action '{name}'")))
        }
    }
}

/// The message of an action.
fn unpacked<T: ProstMessageExt>(action: &Action) -> Result<T, Status> {
    let any = Any::decode(&*action.body).map_err(malformed)?;
    let unpacked = any.unpack().map_err(|error| invalid(error.to_string()))?;
    unpacked.ok_or_else(|| invalid(format!("the action {} has another message", action.r#type)))
}

/// The error for bytes that cannot be decoded as a message.
pub(super) fn malformed(error: prost::DecodeError) -> Status {
    invalid(format!("the message cannot be read: {error}"))
}

async fn prepare(
    call: Call,
    command: ActionCreatePreparedStatementRequest,
) -> Result<Bytes, Status> {
    if command.transaction_id.is_some_and(|id| !id.is_empty()) {
        return Err(no_transaction());
    }
    let (shared, user) = (call.shared.clone(), call.user.clone());
    let description = queries::describe(call, command.query.clone(), Vec::new()).await?;
    let failed = |error: arrow_schema::ArrowError| Status::internal(error.to_string());
    let handle = shared.prepared.add(&user, &command.query, description.clone())?;
    let result = ActionCreatePreparedStatementResult {
        prepared_statement_handle: handle.into(),
        // By the absence of columns, drivers know that there is no answer.
        dataset_schema: match &description.answer {
            Some(columns) => schema_bytes(columns).map_err(failed)?,
            None => Bytes::new(),
        },
        parameter_schema: schema_bytes(&description.parameter_columns()).map_err(failed)?,
    };
    Ok(result.as_any().encode_to_vec().into())
}

/// Ends the statements of an info, as far as they run and the user may end them.
fn cancel(call: &Call, info: FlightInfo) -> CancelStatus {
    let tickets = info.endpoint.into_iter().filter_map(|place| place.ticket);
    let tickets: Vec<Ticket> = tickets.filter_map(|it| Ticket::decode(&it.ticket).ok()).collect();
    let ids: Vec<String> = tickets.iter().map(Ticket::id).collect();
    let user = &call.user;
    for ticket in &tickets {
        if let Wanted::Part { answer, .. } = &ticket.wanted {
            call.shared.divided.release(user, answer);
        }
    }
    let may_end_all = user.tables.is_none() && !user.read_only;
    let mut running = call.shared.server.running.list();
    running.retain(|it| ids.contains(&it.id) && (may_end_all || it.user == user.name));
    running.iter().for_each(|statement| statement.end(Ended::Killed));
    match running.is_empty() {
        true => CancelStatus::NotCancellable,
        false => CancelStatus::Cancelling,
    }
}
