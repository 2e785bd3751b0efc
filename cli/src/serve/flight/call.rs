//! A call of a client: who it is, what it may take, and what is shared by all calls.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tonic::{Request, Status};

use super::divided::DividedAnswers;
use super::prepared::PreparedStatements;
use super::tokens::Tokens;
use crate::serve::server::Server;
use crate::serve::users::User;

/// How long a session with a name lives without a statement, unless the client says otherwise; and
/// at most.
const SESSION_TIME: Duration = Duration::from_secs(60);
const MOST_SESSION_TIME: Duration = Duration::from_secs(3600);
/// How many clients send rows at a time. Their messages may be long.
const MOST_SENDING: usize = 8;

/// The most endpoints of an answer.
const MOST_ENDPOINTS: usize = 64;

/// What the calls of a server share.
pub(in crate::serve) struct Shared {
    pub(super) server: Arc<Server>,
    pub(super) tokens: Tokens,
    pub(super) prepared: PreparedStatements,
    pub(super) divided: Arc<DividedAnswers>,
    /// Clients that may send rows.
    pub(super) sending: Arc<Semaphore>,
}

impl Shared {
    pub(in crate::serve) fn new(server: Arc<Server>) -> Arc<Shared> {
        Arc::new(Shared {
            server,
            tokens: Tokens::default(),
            prepared: PreparedStatements::default(),
            divided: Arc::default(),
            sending: Arc::new(Semaphore::new(MOST_SENDING)),
        })
    }
}

/// Who has called, as the interceptor has found.
#[derive(Clone, Debug)]
pub(super) struct Caller(pub(super) Arc<User>);

/// A call, without its message.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) shared: Arc<Shared>,
    pub(super) user: Arc<User>,
    /// The session, by name, and how long it lives.
    pub(super) session: Option<(String, Duration)>,
    /// The most endpoints that the client wants for an answer. It fetches them at the same time.
    pub(super) endpoints: usize,
    /// How long the client waits.
    pub(super) most: Option<Duration>,
}

impl Call {
    pub(super) fn of<T>(shared: &Arc<Shared>, request: &Request<T>) -> Result<Call, Status> {
        let caller = request.extensions().get::<Caller>();
        let user = caller.map(|caller| Arc::clone(&caller.0));
        let user = user.ok_or_else(|| Status::unauthenticated("a user is to be named"))?;
        let header = |name: &str| request.metadata().get(name).and_then(|it| it.to_str().ok());
        let session = header("session_id").filter(|id| !id.is_empty()).map(|id| {
            let time = header("session_timeout").and_then(|text| text.parse().ok());
            let time = time.map_or(SESSION_TIME, Duration::from_secs).min(MOST_SESSION_TIME);
            (id.to_owned(), time)
        });
        let most = header("grpc-timeout").and_then(timeout);
        let endpoints = match header("endpoints") {
            None => 1,
            Some(text) => {
                text.parse().ok().filter(|n| (1..=MOST_ENDPOINTS).contains(n)).ok_or_else(|| {
                    let what =
                        format!("the header endpoints is a number from 1 to {MOST_ENDPOINTS}");
                    Status::invalid_argument(what)
                })?
            }
        };
        Ok(Call { shared: Arc::clone(shared), user, session, endpoints, most })
    }
}

/// The time of a header `grpc-timeout`: up to eight digits, and a unit.
fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(number.checked_mul(3600)?),
        "M" => Duration::from_secs(number.checked_mul(60)?),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(timeout("100m"), Some(Duration::from_millis(100)));
        assert_eq!(timeout("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for wrong in ["", "S", "1", "-1S", "123456789S", "1ä", "1x"] {
            assert_eq!(timeout(wrong), None, "{wrong}");
        }
    }
}
