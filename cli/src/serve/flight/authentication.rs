//! Who calls: by the headers of a call, or by what a handshake says.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use super::call::Shared;
use crate::serve::users::User;

/// Where clients of the older kind say the token of a handshake.
const OLD_HEADER: &str = "auth-token-bin";

/// Who calls; `None` if the headers do not say.
pub(super) async fn caller(
    shared: &Arc<Shared>,
    headers: &HeaderMap,
) -> Result<Option<Arc<User>>, Status> {
    let header = |name: &str| headers.get(name).map(|value| value.as_bytes());
    let said = match (header("authorization"), header(OLD_HEADER)) {
        (Some(said), _) => said,
        (None, Some(token)) => {
            return by_token(shared, &decoded(token).unwrap_or_default()).map(Some);
        }
        (None, None) if shared.server.users.are_any() => {
            return Ok(shared.server.users.at_once("", ""));
        }
        (None, None) => return Ok(None),
    };
    let said = std::str::from_utf8(said).map_err(|_| wrong())?;
    let (kind, secret) = said.split_once(' ').ok_or_else(wrong)?;
    let user = match kind.to_ascii_lowercase().as_str() {
        "bearer" => by_token(shared, secret.trim())?,
        "basic" => {
            let both = decoded(secret.trim().as_bytes()).ok_or_else(wrong)?;
            let (name, password) = both.split_once(':').ok_or_else(wrong)?;
            by_password(shared, name.to_owned(), password.to_owned()).await?
        }
        _ => return Err(wrong()),
    };
    Ok(Some(user))
}

/// A text in base 64, whose padding some clients leave out.
fn decoded(text: &[u8]) -> Option<String> {
    let bytes = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text));
    String::from_utf8(bytes.ok()?).ok()
}

fn by_token(shared: &Shared, token: &str) -> Result<Arc<User>, Status> {
    let known = shared.tokens.user(token).or_else(|| shared.server.users.by_token(token));
    known.ok_or_else(|| {
        Status::unauthenticated("the token is not right, or has not been used for long")
    })
}

/// The user of this name and password, compared on another thread than those of connections.
pub(super) async fn by_password(
    shared: &Arc<Shared>,
    name: String,
    password: String,
) -> Result<Arc<User>, Status> {
    let server = &shared.server;
    if let Some(user) = server.users.at_once(&name, &password) {
        return Ok(user);
    }
    let turn = server.passwords.acquire().await;
    let _turn = turn.map_err(|_| Status::unavailable("the server ends"))?;
    let (server, known) = (Arc::clone(server), name.clone());
    let compared =
        tokio::task::spawn_blocking(move || server.users.by_password(&known, &password)).await;
    compared.ok().flatten().ok_or_else(|| {
        let name: String = name.chars().take(100).collect();
        let what = format!("{name}: there is no such user, or the password is not right");
        Status::unauthenticated(what)
    })
}

fn wrong() -> Status {
    Status::unauthenticated("the header authorization is neither Basic nor Bearer")
}

/// What is said to those who do not say who they are.
pub(super) fn who_are_you() -> Status {
    Status::unauthenticated("a name and a password are needed, or a token")
}
