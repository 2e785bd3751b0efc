//! What a client of PostgreSQL sends, read from bytes.
//!
//! A message is read once all of it is there, and its length is believed only up to a bound. The
//! crate `pgwire` is not used: its readers panic where a message ends too early.

use super::errors::PgError;

/// The most bytes of a message; what is known of a client before it is let in needs less.
const MOST_BYTES: usize = 64 << 20;
const MOST_BYTES_BEFORE: usize = 10_000;
/// Memory that a connection keeps for the next message.
const KEPT_BYTES: usize = 64 << 10;
/// Codes in the place of a version.
const CANCEL: i32 = 80_877_102;
const TLS: i32 = 80_877_103;
const GSS: i32 = 80_877_104;

/// The first message of a connection.
#[derive(Debug)]
pub(super) enum First {
    /// The client would like to speak TLS.
    Tls,
    /// The client would like to encrypt with GSSAPI.
    Gss,
    Cancel {
        number: i32,
        secret: i32,
    },
    /// A session begins. `minor` is the version after 3.
    Start {
        minor: i32,
        parameters: Vec<(String, String)>,
    },
}

/// What a name in Describe and Close means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Statement,
    Portal,
}

/// A message of a session.
#[derive(Debug)]
pub(super) enum Message {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Target, String),
    Execute {
        portal: String,
        most_rows: usize,
    },
    Close(Target, String),
    Flush,
    Sync,
    End,
    /// A part of the proof of who the client is.
    Proof(Vec<u8>),
    CopyData(Vec<u8>),
    CopyDone,
    CopyFail(String),
    /// A message of a kind that is not known.
    Unknown(u8),
}

/// A statement gets its values.
#[derive(Debug)]
pub(super) struct Bind {
    pub(super) portal: String,
    pub(super) statement: String,
    /// 1 is binary: one for each value, one for all of them, or none.
    pub(super) formats: Vec<i16>,
    pub(super) values: Vec<Option<Vec<u8>>>,
    /// The same for the columns of the answer.
    pub(super) result_formats: Vec<i16>,
}

/// Bytes that have come, of which messages are taken.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    /// Where the first message begins that is not taken.
    at: usize,
}

impl Inbox {
    /// Adds what has come.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.at == self.bytes.len() || self.at > self.bytes.len() / 2 {
            self.bytes.drain(..self.at);
            self.at = 0;
            if self.bytes.len() < KEPT_BYTES {
                // A connection that waits does not keep the memory of a long message.
                self.bytes.shrink_to(KEPT_BYTES);
            }
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that are not taken yet.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The length of what follows `before` bytes, once it is known; it counts itself.
    fn length(&self, before: usize, most: usize) -> Result<Option<usize>, PgError> {
        let length = self.rest().get(before..before + 4).and_then(|it| it.first_chunk());
        let Some(length) = length.map(|bytes| i32::from_be_bytes(*bytes)) else { return Ok(None) };
        match usize::try_from(length).ok().filter(|length| (4..=most).contains(length)) {
            Some(length) => Ok(Some(length)),
            None => {
                let what = format!("a message of {length} bytes; at most {most} are taken");
                Err(PgError::of("08P01", what))
            }
        }
    }

    /// Takes the first message of a connection.
    pub(super) fn take_first(&mut self) -> Result<Option<First>, PgError> {
        let Some(length) = self.length(0, MOST_BYTES_BEFORE)? else { return Ok(None) };
        let Some(message) = self.rest().get(4..length) else { return Ok(None) };
        let mut fields = Fields(message);
        let first = match fields.int()? {
            TLS => First::Tls,
            GSS => First::Gss,
            CANCEL => First::Cancel { number: fields.int()?, secret: fields.int()? },
            version if version >> 16 == 3 => {
                let mut parameters = Vec::new();
                loop {
                    let name = fields.text()?;
                    if name.is_empty() {
                        break;
                    }
                    parameters.push((name, fields.text()?));
                }
                First::Start { minor: version & 0xffff, parameters }
            }
            version => {
                let what =
                    format!("version {}.{} of the protocol", version >> 16, version & 0xffff);
                return Err(PgError::of("0A000", format!("{what} is not spoken; 3.0 is")));
            }
        };
        self.at += length;
        Ok(Some(first))
    }

    /// Takes the next message, if all of it is there. `is_in` says whether the client is known.
    pub(super) fn take(&mut self, is_in: bool) -> Result<Option<Message>, PgError> {
        let most = if is_in { MOST_BYTES } else { MOST_BYTES_BEFORE };
        let Some(length) = self.length(1, most)? else { return Ok(None) };
        let (Some(kind), Some(body)) = (self.rest().first(), self.rest().get(5..1 + length)) else {
            return Ok(None);
        };
        let message = read(*kind, Fields(body))?;
        self.at += 1 + length;
        Ok(Some(message))
    }
}

fn read(kind: u8, mut fields: Fields) -> Result<Message, PgError> {
    Ok(match kind {
        b'Q' => Message::Query(fields.text()?),
        b'P' => {
            let (name, sql) = (fields.text()?, fields.text()?);
            let types = fields.list(|fields| Ok(fields.int()?.cast_unsigned()))?;
            Message::Parse { name, sql, types }
        }
        b'B' => Message::Bind(Bind {
            portal: fields.text()?,
            statement: fields.text()?,
            formats: fields.list(Fields::short)?,
            values: fields.list(Fields::value)?,
            result_formats: fields.list(Fields::short)?,
        }),
        b'D' => Message::Describe(fields.target()?, fields.text()?),
        b'E' => {
            let (portal, most) = (fields.text()?, fields.int()?);
            Message::Execute { portal, most_rows: usize::try_from(most).unwrap_or(0) }
        }
        b'C' => Message::Close(fields.target()?, fields.text()?),
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::End,
        b'p' => Message::Proof(fields.0.to_vec()),
        b'd' => Message::CopyData(fields.0.to_vec()),
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(fields.text()?),
        other => Message::Unknown(other),
    })
}

/// The fields of a message that are not read yet.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes(&mut self, count: usize) -> Result<&[u8], PgError> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], PgError> {
        self.bytes(N)?.first_chunk().copied().ok_or_else(too_short)
    }

    fn short(&mut self) -> Result<i16, PgError> {
        Ok(i16::from_be_bytes(self.fixed()?))
    }

    fn int(&mut self) -> Result<i32, PgError> {
        Ok(i32::from_be_bytes(self.fixed()?))
    }

    /// A text that ends with a zero byte.
    fn text(&mut self) -> Result<String, PgError> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(too_short)?;
        let text = self.bytes(end)?.to_vec();
        self.bytes(1)?;
        String::from_utf8(text).map_err(|_| PgError::of("22021", "a text of a message is no UTF-8"))
    }

    fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, PgError>,
    ) -> Result<Vec<T>, PgError> {
        let count = u16::from_be_bytes(self.fixed()?);
        (0..count).map(|_| one(self)).collect()
    }

    fn value(&mut self) -> Result<Option<Vec<u8>>, PgError> {
        match self.int()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| too_short())?;
                Ok(Some(self.bytes(length)?.to_vec()))
            }
        }
    }

    fn target(&mut self) -> Result<Target, PgError> {
        match self.fixed()? {
            [b'S'] => Ok(Target::Statement),
            [b'P'] => Ok(Target::Portal),
            _ => Err(PgError::of("08P01", "neither a statement nor a portal is named")),
        }
    }
}

fn too_short() -> PgError {
    PgError::of("08P01", "a message is shorter than what it should hold")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    const BIND: &[u8] = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02\0\x07\xff\xff\xff\xff\0\x01\0\x01";

    #[test]
    fn messages_are_taken_once_they_are_complete() {
        let bytes =
            [message(b'B', BIND), message(b'S', b""), message(b'Q', b"SELECT 1\0")].concat();
        for cut in 0..bytes.len() {
            let mut inbox = Inbox::default();
            let mut taken = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                inbox.push(part);
                while let Some(message) = inbox.take(true).unwrap() {
                    taken.push(message);
                }
            }
            let [Message::Bind(bind), Message::Sync, Message::Query(sql)] = &taken[..] else {
                panic!("{taken:?}")
            };
            assert_eq!((bind.portal.as_str(), bind.statement.as_str()), ("p", "s"));
            assert_eq!(bind.values, [Some(vec![0, 7]), None]);
            assert_eq!((bind.formats.as_slice(), sql.as_str()), (&[1][..], "SELECT 1"));
            assert_eq!(inbox.len(), 0);
        }
    }

    #[test]
    fn messages_that_end_too_early_are_errors() {
        let parse = b"name\0SELECT $1\0\0\x01\0\0\0\x17";
        for (kind, body) in
            [(b'B', BIND), (b'P', &parse[..]), (b'D', b"Sx\0"), (b'E', b"\0\0\0\0\0")]
        {
            for length in 0..body.len() {
                let mut inbox = Inbox::default();
                inbox.push(&message(kind, &body[..length]));
                assert_eq!(inbox.take(true).unwrap_err().code, "08P01");
            }
        }
        for length in [-1, 0, 3, i32::MAX] {
            let mut inbox = Inbox::default();
            inbox.push(&[&b"Q"[..], &length.to_be_bytes()].concat());
            assert_eq!(inbox.take(true).unwrap_err().code, "08P01");
            let mut inbox = Inbox::default();
            inbox.push(&length.to_be_bytes());
            assert_eq!(inbox.take_first().unwrap_err().code, "08P01");
        }
    }

    #[test]
    fn connections_begin() {
        let first = |body: &[u8]| {
            let mut inbox = Inbox::default();
            inbox.push(&(body.len() as u32 + 4).to_be_bytes());
            inbox.push(body);
            inbox.take_first()
        };
        let start = [&196_608_i32.to_be_bytes()[..], b"user\0anna\0database\0db\0\0"].concat();
        let Ok(Some(First::Start { minor: 0, parameters })) = first(&start) else { panic!() };
        assert_eq!(parameters[0], ("user".to_owned(), "anna".to_owned()));
        assert!(matches!(first(&TLS.to_be_bytes()), Ok(Some(First::Tls))));
        let cancel = [CANCEL.to_be_bytes(), 7_i32.to_be_bytes(), 9_i32.to_be_bytes()].concat();
        let cancel = first(&cancel);
        assert!(matches!(cancel, Ok(Some(First::Cancel { number: 7, secret: 9 }))));
        assert_eq!(first(&(2_i32 << 16).to_be_bytes()).unwrap_err().code, "0A000");
        assert_eq!(first(&start[..9]).unwrap_err().code, "08P01");
    }
}
