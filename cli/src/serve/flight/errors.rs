//! Failures as clients of Flight know them: a code of gRPC, and a text.

use tonic::{Code, Status};

use crate::errors::Failure;
use crate::exit::Exit;
use crate::serve::admission::Refused;
use crate::serve::reply::Gone;
use crate::serve::running::Ended;

/// The most bytes of a text: clients take few kilobytes behind an answer.
const MOST_TEXT: usize = 2 << 10;

/// What messages about wrong input say, and the code of each; the first that fits counts.
const KINDS: [(&str, Code); 3] = [
    ("read-only", Code::PermissionDenied),
    ("there is a table or view", Code::AlreadyExists),
    ("already exists", Code::AlreadyExists),
];

/// Why a statement has no answer, before it is known whether it was ended.
#[derive(Debug)]
pub(super) enum Stop {
    Failure(Failure),
    Status(Status),
    /// Nobody waits for it any more.
    Gone,
}

impl From<stylobate::Error> for Stop {
    fn from(error: stylobate::Error) -> Stop {
        Stop::Failure(error.into())
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failure(failure)
    }
}

impl From<Status> for Stop {
    fn from(status: Status) -> Stop {
        Stop::Status(status)
    }
}

impl From<arrow_schema::ArrowError> for Stop {
    fn from(error: arrow_schema::ArrowError) -> Stop {
        Stop::Failure(error.into())
    }
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Stop {
        Stop::Gone
    }
}

/// A failure with a text of bounded length.
pub(super) fn status(code: Code, text: &str) -> Status {
    let end = text.floor_char_boundary(MOST_TEXT.min(text.len()));
    Status::new(code, text.get(..end).unwrap_or_default())
}

/// What a client asks is wrong.
pub(super) fn invalid(text: impl AsRef<str>) -> Status {
    status(Code::InvalidArgument, text.as_ref())
}

/// The failure of a statement that was perhaps asked to end.
pub(super) fn of_stop(stop: Stop, ended: Option<Ended>) -> Status {
    match (ended, stop) {
        (Some(Ended::Late), _) => Status::deadline_exceeded("the time of the statement is over"),
        (Some(Ended::Killed), _) => Status::cancelled("the statement was cancelled"),
        (Some(Ended::Ending), _) => Status::unavailable("the server ends"),
        (Some(Ended::Gone), _) | (None, Stop::Gone) => {
            Status::cancelled("the client is gone, or takes nothing")
        }
        (None, Stop::Status(status)) => status,
        (None, Stop::Failure(failure)) => of_failure(&failure),
    }
}

fn of_failure(failure: &Failure) -> Status {
    let message = &*failure.message;
    let code = match (failure.code, failure.exit) {
        ("busy", _) => Code::Aborted,
        ("unreachable", _) => Code::Unavailable,
        ("unsupported", _) => Code::Unimplemented,
        ("not-found", _) => Code::NotFound,
        ("rejected", _) => Code::InvalidArgument,
        (_, Exit::Corrupt) => Code::DataLoss,
        (_, Exit::Limit) => Code::ResourceExhausted,
        (_, Exit::Interrupted) => Code::Cancelled,
        ("invalid-input", _) => {
            let kind = KINDS.iter().find(|(says, _)| message.contains(says));
            kind.map_or(Code::InvalidArgument, |(_, code)| *code)
        }
        _ => Code::Internal,
    };
    match &failure.hint {
        Some(hint) => status(code, &format!("{message}; {hint}")),
        None => status(code, message),
    }
}

/// The failure of a statement that may not begin.
pub(super) fn of_refusal(refused: Refused) -> Status {
    match refused {
        Refused::Full => {
            Status::resource_exhausted("too many statements run and wait; try again in a moment")
        }
        Refused::TooLate => {
            Status::resource_exhausted("the statement has waited too long for its turn; try again")
        }
        Refused::Ending => Status::unavailable("the server ends"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylobate::Error;

    #[test]
    fn failures_have_their_code() {
        let of = |error: Error, ended| of_stop(error.into(), ended).code();
        assert_eq!(of(Error::NotFound("no table t".into()), None), Code::NotFound);
        assert_eq!(of(Error::LimitExceeded("memory".into()), None), Code::ResourceExhausted);
        assert_eq!(of(Error::Cancelled, Some(Ended::Late)), Code::DeadlineExceeded);
        assert_eq!(of(Error::Cancelled, Some(Ended::Killed)), Code::Cancelled);
        let read_only = Error::InvalidInput("this session is read-only".into());
        assert_eq!(of(read_only, None), Code::PermissionDenied);
        assert_eq!(of(Error::InvalidInput("x".into()), None), Code::InvalidArgument);
        assert_eq!(of(Error::Unsupported("x".into()), None), Code::Unimplemented);
        assert_eq!(of(Error::Busy("try again".into()), None), Code::Aborted);
        assert_eq!(of(Error::Unreachable("node b is gone".into()), None), Code::Unavailable);
        let long = of_stop(Error::NotFound("ä".repeat(5000)).into(), None);
        assert!(long.message().len() <= MOST_TEXT);
    }
}
