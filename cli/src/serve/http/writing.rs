//! The reply to a statement while it is written: compressed, with a head that tells of failures as
//! long as it has not been sent.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::encoding::{Encoder, Encoding};
use super::errors::HttpError;
use super::request::Asked;
use super::system;
use crate::serve::finished::Done;
use crate::serve::reply::{Gone, PIECE_BYTES, Reply};

/// The letters of the tag of an exception behind the head.
const TAG_LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";

/// The most bytes of a failure's text behind a reply: clients look at 16 KiB.
const MOST_MARKED: usize = 15 << 10;

/// The header with the notes about an answer, such as missing rows.
const NOTES_HEADER: &str = "x-sty-note";

/// What the head of a reply says.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) encoding: Encoding,
}

impl Head {
    /// The head of an error.
    pub(crate) fn of_error(error: &HttpError) -> Head {
        let headers = vec![
            ("content-type", "text/plain; charset=UTF-8".to_owned()),
            ("x-clickhouse-exception-code", error.code.to_string()),
        ];
        Head { status: error.status(), headers, encoding: Encoding::None }
    }
}

/// Why a reply ends.
pub(super) enum Stop {
    Error(HttpError),
    Gone,
}

impl From<HttpError> for Stop {
    fn from(error: HttpError) -> Stop {
        Stop::Error(error)
    }
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Stop {
        Stop::Gone
    }
}

/// A reply that is being written.
pub(super) struct Writing {
    reply: Reply<Head>,
    encoding: Encoding,
    encoder: Option<Encoder>,
    cuts_short: bool,
    /// Bytes that are not compressed yet.
    pub(super) plain: Vec<u8>,
    pub(super) query_id: String,
    /// The name of the format, and what Content-Type says.
    pub(super) format: Option<(String, &'static str)>,
    tag: String,
    started: Instant,
    pub(super) read_rows: u64,
    pub(super) result_rows: u64,
    /// Bytes of rows, before they are compressed.
    pub(super) result_bytes: u64,
    pub(super) written_rows: Option<u64>,
    /// Notes about the answer, such as missing rows.
    notes: Vec<String>,
}

/// The most bytes of notes in a header.
const MOST_OF_NOTES: usize = 4 << 10;

impl Writing {
    pub(super) fn new(reply: Reply<Head>, asked: &Asked) -> Writing {
        Writing {
            reply,
            encoding: asked.reply,
            encoder: Encoder::new(asked.reply).ok(),
            cuts_short: asked.cuts_short,
            plain: Vec::new(),
            query_id: String::new(),
            format: None,
            tag: new_tag(),
            started: Instant::now(),
            read_rows: 0,
            result_rows: 0,
            result_bytes: 0,
            written_rows: None,
            notes: Vec::new(),
        }
    }

    /// Adds notes for the response headers, if they are not sent yet, and for the query log.
    pub(super) fn note(&mut self, notes: Vec<String>) {
        self.notes.extend(notes);
    }

    /// The notes as one header value, in printable ASCII.
    fn notes(&self) -> Option<String> {
        let printable = |letter: char| match letter {
            ' '..='~' => letter,
            _ => '?',
        };
        let all: String =
            self.notes.join("; ").chars().map(printable).take(MOST_OF_NOTES).collect();
        (!all.is_empty()).then_some(all)
    }

    /// Hands over what has been written, if it is enough.
    pub(super) fn pass_on(&mut self) -> Result<(), Stop> {
        if self.plain.len() >= PIECE_BYTES || !self.reply.may_change_head() {
            self.encode()?;
        }
        match self.reply.has_enough() {
            true => Ok(self.reply.hand_over(self.head())?),
            false => Ok(()),
        }
    }

    fn encode(&mut self) -> Result<(), Stop> {
        if let Some(encoder) = &mut self.encoder {
            let encoded = encoder.encode(&mut self.plain, &mut self.reply.bytes);
            encoded.map_err(|error| HttpError::of(1002, error.to_string()))?;
        }
        Ok(())
    }

    fn head(&self) -> Head {
        let (format, kind) = match &self.format {
            Some((name, kind)) => (name.as_str(), *kind),
            None => ("TabSeparated", "text/plain; charset=UTF-8"),
        };
        let mut headers = vec![
            ("content-type", kind.to_owned()),
            ("x-clickhouse-query-id", self.query_id.clone()),
            ("x-clickhouse-format", format.to_owned()),
            ("x-clickhouse-timezone", "UTC".to_owned()),
            ("x-clickhouse-server-display-name", system::NAME.to_owned()),
            ("x-clickhouse-summary", self.summary()),
            ("x-clickhouse-exception-tag", self.tag.clone()),
        ];
        headers.extend(self.notes().map(|notes| (NOTES_HEADER, notes)));
        Head { status: 200, headers, encoding: self.encoding }
    }

    /// Tells the query log what the statement has done.
    pub(super) fn tell<T>(&self, outcome: &Result<T, Stop>, done: &mut Done) {
        done.rows_read = Some(self.read_rows).filter(|rows| *rows > 0);
        (done.rows, done.bytes) = (self.result_rows, self.result_bytes);
        done.rows_written = self.written_rows.unwrap_or_default();
        done.note(&self.notes);
        if let Err(Stop::Error(error)) = outcome {
            done.fail(error.code, &error.message);
        }
    }

    /// What the statement has done, as ClickHouse's clients read it.
    fn summary(&self) -> String {
        let (read, result) = (self.read_rows, self.result_rows);
        let written = self.written_rows.unwrap_or_default();
        let nanos = self.started.elapsed().as_nanos();
        format!(
            "{{\"read_rows\":\"{read}\",\"read_bytes\":\"0\",\"written_rows\":\"{written}\",\
             \"written_bytes\":\"0\",\"total_rows_to_read\":\"0\",\"result_rows\":\"{result}\",\
             \"result_bytes\":\"0\",\"elapsed_ns\":\"{nanos}\"}}"
        )
    }

    pub(super) fn end(mut self) -> Result<(), Stop> {
        self.end_encoding()?;
        let head = self.head();
        Ok(self.reply.end(head)?)
    }

    fn end_encoding(&mut self) -> Result<(), Stop> {
        self.encode()?;
        if let Some(encoder) = self.encoder.take()
            && (self.format.is_some() || self.encoding == Encoding::None)
        {
            let end = encoder.finish(&mut self.reply.bytes);
            end.map_err(|error| HttpError::of(1002, error.to_string()))?;
        }
        Ok(())
    }

    /// Ends with an error: by the head, or behind what has been written. There the reply is also
    /// cut short, because not every client looks for the marks, and rows that are missing must
    /// not look like the end. Clients that look for them may say so: browsers lose the last bytes
    /// of what is cut short.
    pub(super) fn end_with(mut self, error: &HttpError) -> Result<(), Stop> {
        if self.reply.may_change_head() {
            let mut head = Head::of_error(error);
            head.headers.push(("x-clickhouse-query-id", self.query_id.clone()));
            self.reply.bytes = error.text().into_bytes();
            return Ok(self.reply.end(head)?);
        }
        self.encode()?;
        if let Some(Encoder::Blocks(blocks)) = &mut self.encoder {
            // Clients expect the text at the beginning of a block.
            let flushed = blocks.flush(&mut self.reply.bytes);
            flushed.map_err(|failure| HttpError::of(1002, failure.message.to_string()))?;
        }
        let (tag, mut text) = (&self.tag, error.text());
        text.truncate(text.floor_char_boundary(MOST_MARKED));
        let length = text.len();
        let marked =
            format!("\r\n__exception__\r\n{tag}\r\n{text}{length} {tag}\r\n__exception__\r\n");
        self.plain.extend_from_slice(marked.as_bytes());
        self.end_encoding()?;
        let head = self.head();
        match self.cuts_short {
            true => Ok(self.reply.cut_short(head)?),
            false => Ok(self.reply.end(head)?),
        }
    }
}

/// A name for a statement, which no other has.
pub(super) fn new_id() -> String {
    let mut bytes = random_bytes();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// What marks an exception behind the head of a reply.
fn new_tag() -> String {
    let letter = |byte: &u8| char::from(TAG_LETTERS[usize::from(*byte) % TAG_LETTERS.len()]);
    random_bytes().iter().map(letter).collect()
}

/// Bytes that differ each time; they are no secret.
fn random_bytes() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let hash = RandomState::new();
    (u128::from(hash.hash_one(now)) << 64 | u128::from(hash.hash_one((now, 1)))).to_le_bytes()
}
