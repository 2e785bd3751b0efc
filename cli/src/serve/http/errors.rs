//! Failures as ClickHouse's clients know them: a number, a name, a status of HTTP.

use crate::errors::Failure;
use crate::exit::Exit;
use crate::serve::admission::Refused;
use crate::serve::running::Ended;

/// A failure with the number that ClickHouse gives to its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpError {
    pub(crate) code: u16,
    pub(crate) message: String,
}

/// The kinds that a server of ours has, with ClickHouse's names and statuses for them.
const KINDS: [(u16, &str, u16); 33] = [
    (6, "CANNOT_PARSE_TEXT", 400),
    (16, "NO_SUCH_COLUMN_IN_TABLE", 404),
    (27, "CANNOT_PARSE_INPUT_ASSERTION_FAILED", 400),
    (36, "BAD_ARGUMENTS", 400),
    (46, "UNKNOWN_FUNCTION", 404),
    (47, "UNKNOWN_IDENTIFIER", 404),
    (48, "NOT_IMPLEMENTED", 501),
    (50, "UNKNOWN_TYPE", 404),
    (53, "TYPE_MISMATCH", 400),
    (56, "UNKNOWN_STORAGE", 404),
    (57, "TABLE_ALREADY_EXISTS", 500),
    (60, "UNKNOWN_TABLE", 404),
    (62, "SYNTAX_ERROR", 400),
    (72, "CANNOT_PARSE_NUMBER", 400),
    (73, "UNKNOWN_FORMAT", 404),
    (81, "UNKNOWN_DATABASE", 404),
    (117, "INCORRECT_DATA", 400),
    (153, "ILLEGAL_DIVISION", 500),
    (159, "TIMEOUT_EXCEEDED", 408),
    (164, "READONLY", 403),
    (202, "TOO_MANY_SIMULTANEOUS_QUERIES", 503),
    (209, "SOCKET_TIMEOUT", 408),
    (216, "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING", 500),
    (241, "MEMORY_LIMIT_EXCEEDED", 500),
    (246, "CORRUPTED_DATA", 500),
    (319, "UNKNOWN_STATUS_OF_INSERT", 500),
    (372, "SESSION_NOT_FOUND", 404),
    (373, "SESSION_IS_LOCKED", 500),
    (394, "QUERY_WAS_CANCELLED", 500),
    (456, "UNKNOWN_QUERY_PARAMETER", 400),
    (473, "DEADLOCK_AVOIDED", 500),
    (516, "AUTHENTICATION_FAILED", 403),
    (1002, "UNKNOWN_EXCEPTION", 500),
];

/// What messages about a statement say, and the kind that this is. Clients decide by the kind what
/// to do, for example whether a table is still to be made.
const MESSAGES: [(&str, u16); 10] = [
    ("read-only", 164),
    ("syntax", 62),
    ("no column ", 47),
    ("no function ", 46),
    ("there is a table or view ", 57),
    ("division by zero", 153),
    ("does not hold", 53),
    ("is not of type", 6),
    ("Cannot cast string", 6),
    ("Error parsing", 6),
];

impl HttpError {
    pub(crate) fn of(code: u16, message: impl Into<String>) -> HttpError {
        HttpError { code, message: message.into() }
    }

    /// The failure of a statement that was perhaps asked to end.
    pub(crate) fn of_statement(failure: &Failure, ended: Option<Ended>) -> HttpError {
        // What is stored is said, also to who has ended the statement.
        let ended = ended.filter(|_| failure.code != "partly-stored");
        let code = match (ended, failure.code, failure.exit) {
            (Some(Ended::Late), ..) => 159,
            (Some(Ended::Killed | Ended::Gone | Ended::Ending), ..) => 394,
            (_, "busy", _) => 473,
            (_, "partly-stored", _) => 319,
            (_, "unsupported", _) => 48,
            (_, "not-found", _) => 60,
            (_, "rejected", _) => 27,
            (_, _, Exit::Corrupt) => 246,
            (_, _, Exit::Limit) => 241,
            (_, _, Exit::Interrupted) => 394,
            (_, "invalid-input", _) => {
                let known = MESSAGES.iter().find(|(what, _)| failure.message.contains(what));
                known.map_or(36, |(_, code)| *code)
            }
            _ => 1002,
        };
        let what = match ended {
            Some(Ended::Late) => "the time of the statement is over",
            Some(Ended::Killed) => "the statement was killed",
            Some(Ended::Gone) => "the client is gone",
            Some(Ended::Ending) => "the server ends",
            None => &*failure.message,
        };
        let hint = failure.hint.as_deref().filter(|_| ended.is_none());
        let message = match hint {
            Some(hint) => format!("{what}; {hint}"),
            None => what.to_owned(),
        };
        HttpError { code, message }
    }

    /// The failure of a statement that may not begin.
    pub(crate) fn of_refusal(refused: Refused) -> HttpError {
        HttpError::of(
            202,
            match refused {
                Refused::Full => "too many statements run and wait; try again in a moment",
                Refused::TooLate => "the statement has waited too long for its turn; try again",
                Refused::Ending => "the server ends",
            },
        )
    }

    fn kind(&self) -> (&'static str, u16) {
        let known = KINDS.iter().find(|(code, ..)| *code == self.code);
        known.map_or(("UNKNOWN_EXCEPTION", 500), |(_, name, status)| (name, *status))
    }

    /// The status of a reply that has nothing else to say.
    pub(crate) fn status(&self) -> u16 {
        self.kind().1
    }

    /// As ClickHouse writes it; clients read number and name from the text.
    pub(crate) fn text(&self) -> String {
        let (name, _) = self.kind();
        let period = if self.message.ends_with(['.', '?', '!']) { "" } else { "." };
        format!("Code: {}. DB::Exception: {}{period} ({name})\n", self.code, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_their_kind() {
        let of = |error: stylobate::Error, ended| {
            let error = HttpError::of_statement(&Failure::from(error), ended);
            (error.code, error.status())
        };
        use stylobate::Error;
        assert_eq!(of(Error::NotFound("no table t".into()), None), (60, 404));
        assert_eq!(of(Error::LimitExceeded("memory".into()), None), (241, 500));
        assert_eq!(of(Error::Cancelled, Some(Ended::Late)), (159, 408));
        assert_eq!(of(Error::Cancelled, Some(Ended::Killed)), (394, 500));
        assert_eq!(of(Error::InvalidInput("this session is read-only".into()), None), (164, 403));
        assert_eq!(of(Error::InvalidInput("no column x".into()), None), (47, 404));
        assert_eq!(of(Error::InvalidInput("anything else".into()), None), (36, 400));
        let text = HttpError::of(60, "no table t").text();
        assert_eq!(text, "Code: 60. DB::Exception: no table t. (UNKNOWN_TABLE)\n");
    }
}
