//! Tickets: what a client brings to get an answer. They hold what is to be run, so that the server
//! keeps nothing for answers that nobody fetches, unless they have several parts. A ticket gives no
//! rights beyond those of the user who brings it.
//!
//! ```text
//! ┌─────────┬──────┬──────────┬─────────────┬────────────────────────────────────┐
//! │ "sty"   │ kind │ number   │ columns     │ statement, or handle of a prepared │
//! │ 3 bytes │ 1    │ 16       │ 8           │ one, or 16 bytes that name an      │
//! │         │      │          │             │ answer and 4 that number its part  │
//! └─────────┴──────┴──────────┴─────────────┴────────────────────────────────────┘
//! ```

use arrow_schema::Schema;
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use tonic::Status;

use super::errors::invalid;

/// How a ticket begins.
const MARK: &[u8] = b"sty";
const NUMBER_BYTES: usize = 16;
/// Identifies an answer that the server holds, or the statement of a ticket.
pub(super) type Number = [u8; NUMBER_BYTES];
const COLUMNS_BYTES: usize = 8;

/// What a ticket is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The answer of this statement.
    Statement(String),
    /// That of a prepared one.
    Prepared(Vec<u8>),
    /// A part of an answer that is held.
    Part { answer: Number, at: u32 },
}

/// A ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// By which the statement is known while it runs.
    pub(super) number: Number,
    /// What the columns are, as the client was told.
    pub(super) columns: [u8; COLUMNS_BYTES],
    pub(super) wanted: Wanted,
}

impl Ticket {
    /// A ticket with a number of its own, for an answer with these columns.
    pub(super) fn new(wanted: Wanted, columns: &Schema) -> Result<Ticket, Status> {
        Ok(Ticket { number: random()?, columns: mark_of(columns), wanted })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, rest) = match &self.wanted {
            Wanted::Statement(sql) => (b'S', sql.as_bytes().to_vec()),
            Wanted::Prepared(handle) => (b'P', handle.clone()),
            Wanted::Part { answer, at } => (b'D', [&answer[..], &at.to_le_bytes()].concat()),
        };
        [MARK, &[kind], &self.number, &self.columns, &rest].concat()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Ticket, Status> {
        let wrong = || invalid("this is no ticket of this server; GetFlightInfo gives one");
        let rest = bytes.strip_prefix(MARK).ok_or_else(wrong)?;
        let (kind, rest) = rest.split_first().ok_or_else(wrong)?;
        let (number, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let (columns, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let wanted = match kind {
            b'S' => {
                let sql = std::str::from_utf8(rest).map_err(|_| wrong())?;
                Wanted::Statement(sql.to_owned())
            }
            b'P' => Wanted::Prepared(rest.to_vec()),
            b'D' => {
                let (answer, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
                let at = rest.try_into().map(u32::from_le_bytes).map_err(|_| wrong())?;
                Wanted::Part { answer: *answer, at }
            }
            _ => return Err(wrong()),
        };
        Ok(Ticket { number: *number, columns: *columns, wanted })
    }

    /// The name of the statement while it runs.
    pub(super) fn id(&self) -> String {
        id_of(&self.number)
    }

    /// Whether the client was told of these columns.
    pub(super) fn has_columns(&self, columns: &Schema) -> bool {
        self.columns == mark_of(columns)
    }
}

/// The name that a statement of this number has.
pub(super) fn id_of(number: &[u8]) -> String {
    format!("flight-{}", hex(number))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> Result<[u8; N], Status> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Status::internal("the system gives no random numbers"))?;
    Ok(bytes)
}

/// What tells columns from others.
fn mark_of(columns: &Schema) -> [u8; COLUMNS_BYTES] {
    let mut text = String::new();
    for field in columns.fields() {
        text.push_str(&format!("{:?} {:?};", field.name(), field.data_type()));
    }
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    hash.as_ref().first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field};

    #[test]
    fn tickets_come_back() {
        let columns = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        let part = Wanted::Part { answer: [7; NUMBER_BYTES], at: 258 };
        for wanted in [Wanted::Statement("SELECT 'ä'".into()), Wanted::Prepared(vec![0, 255]), part]
        {
            let ticket = Ticket::new(wanted, &columns).unwrap();
            let bytes = ticket.encode();
            assert_eq!(Ticket::decode(&bytes).unwrap(), ticket);
            assert!(ticket.has_columns(&columns) && !ticket.has_columns(&Schema::empty()));
            for cut in 0..28 {
                assert!(Ticket::decode(&bytes[..cut]).is_err(), "{cut}");
            }
        }
        assert!(Ticket::decode(b"styS0123456789abcdef01234567\xff").is_err());
        assert!(Ticket::decode(b"styD0123456789abcdef012345670123456789abcdef012").is_err());
    }
}
