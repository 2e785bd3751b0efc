//! Answers of statements: what they are is told first, with a ticket, for which the rows come.
//!
//! The statement runs when the ticket is brought, and reads what is in force then: all of an answer
//! is of one generation of each table. Where the columns are others by then than what was told, the
//! answer is refused. If the client asks for several endpoints, each has a ticket for a part of the
//! rows; all parts read the generation that was in force at GetFlightInfo.

use std::sync::Arc;

use arrow_flight::{
    FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, Ticket as FlightTicket,
};
use arrow_schema::{DataType, SchemaRef};
use stylobate::{BatchStream, Parameters};
use tonic::Status;
use tonic::codegen::Bytes;

use super::call::Call;
use super::description::Description;
use super::errors::{Stop, invalid};
use super::messages::{Encoder, schema_bytes, schema_message};
use super::parameters::{check_count, row};
use super::prepared::Prepared;
use super::statements::{self, numbered};
use super::tickets::{Ticket, Wanted};
use super::types::sent_schema;
use super::work::{Answer, Sending, Used, Work};
use crate::serve::running::rows_changed;

/// What is told of an answer, for which a ticket is given.
pub(super) async fn info(
    call: Call,
    descriptor: FlightDescriptor,
    wanted: Wanted,
) -> Result<FlightInfo, Status> {
    let sql = match &wanted {
        // The parts of a session with a name would wait for each other.
        _ if call.endpoints < 2 || call.session.is_some() => None,
        Wanted::Statement(sql) => Some(sql.clone()),
        Wanted::Prepared(handle) => {
            let prepared = call.shared.prepared.get(&call.user, handle)?;
            let is_plain = prepared.description.parameters.is_empty();
            is_plain.then(|| prepared.sql.to_string())
        }
        Wanted::Part { .. } => None,
    };
    let (columns, parts) = match sql {
        Some(sql) => in_parts(call, sql).await?,
        None => (columns(call, &wanted).await?, Vec::new()),
    };
    let wanted = if parts.is_empty() { vec![wanted] } else { parts };
    let tickets = wanted.into_iter().map(|wanted| Ok(Ticket::new(wanted, &columns)?.encode()));
    let info = info_of(&columns, descriptor, tickets.collect::<Result<_, Status>>()?)?;
    // Drivers that know no columns wait for them, and so for the end of a statement that writes.
    Ok(match columns.fields().is_empty() {
        true => FlightInfo { schema: Bytes::new(), ..info },
        false => info,
    })
}

/// The columns of an answer and, if it has several parts, what the ticket of each part is for.
async fn in_parts(call: Call, sql: String) -> Result<(SchemaRef, Vec<Wanted>), Status> {
    let (shared, user) = (Arc::clone(&call.shared), Arc::clone(&call.user));
    let most = call.endpoints;
    let work = Work::new(call, None, sql)?;
    let described =
        work.on_thread(move |work, used| statements::describe_in_parts(used, &work.sql, most));
    let described = described.await?;
    let (description, Some(answer)) = described else {
        return Ok((described.0.columns(), Vec::new()));
    };
    let parts = 0..u32::try_from(answer.parts()).unwrap_or(u32::MAX);
    let number = shared.divided.hold(&user, answer)?;
    let of = |answer| parts.map(|at| Wanted::Part { answer, at }).collect();
    Ok((description.columns(), number.map(of).unwrap_or_default()))
}

/// The columns of an answer. Those of a prepared statement are known, unless they depend on the
/// values that are bound.
pub(super) async fn columns(call: Call, wanted: &Wanted) -> Result<SchemaRef, Status> {
    let (sql, types) = match wanted {
        Wanted::Statement(sql) => (sql.clone(), Vec::new()),
        Wanted::Prepared(handle) => {
            let prepared = call.shared.prepared.get(&call.user, handle)?;
            match prepared.description.types_with(prepared.values.as_ref()) {
                None => return Ok(prepared.description.columns()),
                Some(types) => (prepared.sql.to_string(), types),
            }
        }
        Wanted::Part { .. } => return Err(unlike_descriptor()),
    };
    Ok(describe(call, sql, types).await?.columns())
}

/// What a statement takes and gives, of which some parameters' types are known.
pub(super) async fn describe(
    call: Call,
    sql: String,
    types: Vec<Option<DataType>>,
) -> Result<Description, Status> {
    let work = Work::new(call, None, sql)?;
    work.on_thread(move |work, used| statements::describe(used, &work.sql, &types)).await
}

/// The info of an answer. It has an endpoint for each ticket.
pub(super) fn info_of(
    columns: &SchemaRef,
    descriptor: FlightDescriptor,
    tickets: Vec<Vec<u8>>,
) -> Result<FlightInfo, Status> {
    let schema = schema_bytes(columns);
    let schema = schema.map_err(|error| Status::internal(error.to_string()))?;
    let is_ordered = tickets.len() == 1;
    let info = FlightInfo { schema, ..FlightInfo::new() }.with_descriptor(descriptor);
    let info = tickets.into_iter().fold(info, |info, ticket| {
        info.with_endpoint(FlightEndpoint::new().with_ticket(FlightTicket::new(ticket)))
    });
    Ok(info.with_ordered(is_ordered))
}

fn prepared_of(call: &Call, wanted: &Wanted) -> Result<Prepared, Status> {
    match wanted {
        Wanted::Statement(sql) => {
            Ok(Prepared { sql: sql.as_str().into(), description: Arc::default(), values: None })
        }
        Wanted::Prepared(handle) => call.shared.prepared.get(&call.user, handle),
        Wanted::Part { .. } => Err(unlike_descriptor()),
    }
}

#[cold]
fn unlike_descriptor() -> Status {
    invalid("a part of an answer is fetched, and not described")
}

/// The answer for a ticket.
pub(super) async fn answer(call: Call, ticket: Ticket) -> Result<Answer, Status> {
    if let Wanted::Part { answer, at } = ticket.wanted {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let answer = call.shared.divided.get(&call.user, &answer, at)?;
        let work = Work::new(call, Some(ticket.id()), answer.text().to_owned())?;
        let send = move |work: &Work, used: &Used, sending: &Sending| {
            let mut reply = Reply::new(work, sending, Some(&ticket));
            let stream = used.session.execute_part(&answer, at)?;
            reply.note(used);
            reply.send(stream)?;
            reply.end()
        };
        return work.streamed(send).await;
    }
    let prepared = prepared_of(&call, &ticket.wanted)?;
    let work = Work::new(call, Some(ticket.id()), prepared.sql.to_string())?;
    work.streamed(move |work, used, sending| send(work, used, sending, &prepared, Some(&ticket)))
        .await
}

/// The answer of a prepared statement, whose handle is brought as a ticket.
pub(super) async fn answer_of_handle(call: Call, handle: &[u8]) -> Result<Answer, Status> {
    let prepared = call.shared.prepared.get(&call.user, handle)?;
    let work = Work::new(call, None, prepared.sql.to_string())?;
    work.streamed(move |work, used, sending| send(work, used, sending, &prepared, None)).await
}

/// Runs a statement, once for each row of values, and sends what it answers.
fn send(
    work: &Work,
    used: &Used,
    sending: &Sending,
    prepared: &Prepared,
    ticket: Option<&Ticket>,
) -> Result<(), Stop> {
    let statement = used.parse(&numbered(&prepared.sql).0)?;
    let mut reply = Reply::new(work, sending, ticket);
    for values in all_values(prepared)? {
        let values = values?;
        let stream = used.session.execute(&statement, &values)?;
        reply.note(used);
        reply.send(stream)?;
    }
    reply.end()
}

/// The values of a statement for each time that it runs: once, if none are bound.
fn all_values(
    prepared: &Prepared,
) -> Result<Box<dyn Iterator<Item = Result<Parameters, Stop>> + '_>, Stop> {
    let Prepared { description, values, .. } = prepared;
    let Some(batch) = values else {
        return Ok(Box::new(std::iter::once(Ok(Parameters::default()))));
    };
    check_count(description.parameters.len(), batch)?;
    Ok(Box::new((0..batch.num_rows()).map(|at| row(batch, at, &description.parameters))))
}

/// An answer that is being sent.
struct Reply<'a> {
    work: &'a Work,
    sending: &'a Sending,
    ticket: Option<&'a Ticket>,
    /// Once the columns have been sent.
    encoder: Option<(SchemaRef, Encoder)>,
    /// Notes about the answer, such as missing rows, that have not been sent yet.
    notes: Vec<String>,
}

impl<'a> Reply<'a> {
    fn new(work: &'a Work, sending: &'a Sending, ticket: Option<&'a Ticket>) -> Reply<'a> {
        Reply { work, sending, ticket, encoder: None, notes: Vec::new() }
    }

    /// Notes what the session says of the statement that has begun.
    fn note(&mut self, used: &Used) {
        let notes = used.session.take_notes();
        self.work.current.tell(|told| told.note(&notes));
        self.notes.extend(notes);
    }

    fn send(&mut self, mut stream: BatchStream) -> Result<(), Stop> {
        if stream.has_committed() || stream.schema().fields().is_empty() {
            // What is stored stays, whatever becomes of the reply.
            let has_committed = stream.has_committed();
            let rows = rows_changed(&mut stream)?;
            if has_committed {
                self.work.has_stored(rows);
            }
            return Ok(());
        }
        self.begin(&sent_schema(&stream.schema()))?;
        let Some((_, encoder)) = &mut self.encoder else { return Ok(()) };
        let mut notes = std::mem::take(&mut self.notes);
        for batch in stream {
            let batch = batch?;
            for piece in encoder.pieces(&batch) {
                let piece = with_notes(&notes, piece?);
                notes.clear();
                self.sending.send(piece)?;
            }
            self.work.has_sent(batch.num_rows() as u64);
        }
        Ok(())
    }

    /// Sends the columns, unless they have been sent.
    fn begin(&mut self, columns: &SchemaRef) -> Result<(), Stop> {
        if let Some((known, _)) = &self.encoder {
            return match known == columns {
                true => Ok(()),
                false => {
                    let what = "the values that are bound give answers of different columns";
                    Err(invalid(what).into())
                }
            };
        }
        if self.ticket.is_some_and(|ticket| !ticket.has_columns(columns)) {
            let what = "the columns of the answer are others than was told; ask or prepare anew";
            return Err(Status::failed_precondition(what).into());
        }
        self.sending.send(with_notes(&self.notes, schema_message(columns)))?;
        self.encoder = Some((SchemaRef::clone(columns), Encoder::new(SchemaRef::clone(columns))));
        Ok(())
    }

    /// The answer of a statement that has none has no columns, either.
    fn end(self) -> Result<(), Stop> {
        if self.encoder.is_none() {
            self.sending.send(schema_message(&arrow_schema::Schema::empty()))?;
        }
        Ok(())
    }
}

/// A message with notes in its metadata. Some clients read the metadata of the schema message,
/// others only that of row messages, so both carry the notes.
fn with_notes(notes: &[String], message: FlightData) -> FlightData {
    match notes.is_empty() {
        true => message,
        false => FlightData { app_metadata: notes.join("\n").into(), ..message },
    }
}
