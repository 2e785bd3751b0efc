//! Tokens that a handshake gives: a client that has said its name and password once says such a
//! token from then on. A token ends when nobody uses it, and each user has few.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use tonic::Status;

use super::tickets::random;
use crate::serve::users::User;

/// How long a token lives that nobody uses.
const UNUSED: Duration = Duration::from_secs(3600);
/// Tokens of a user, and of all users, at most; the one that was not used for longest goes.
const MOST_OF_USER: usize = 1000;
const MOST: usize = 10_000;
const TOKEN_BYTES: usize = 24;

/// The tokens of a server, by their hashes.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    all: Mutex<HashMap<Vec<u8>, Token>>,
}

#[derive(Debug)]
struct Token {
    user: Arc<User>,
    used: Instant,
}

impl Tokens {
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Token>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new token of a user.
    pub(super) fn give(&self, user: &Arc<User>) -> Result<String, Status> {
        let token = URL_SAFE_NO_PAD.encode(random::<TOKEN_BYTES>()?);
        let mut all = self.lock();
        let own = all.values().filter(|token| token.user.name == user.name).count();
        if own >= MOST_OF_USER || all.len() >= MOST {
            all.retain(|_, token| token.used.elapsed() < UNUSED);
            let of_all = own < MOST_OF_USER;
            let candidates = all.iter().filter(|(_, it)| of_all || it.user.name == user.name);
            let oldest = candidates.min_by_key(|(_, token)| token.used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                all.remove(&key);
            }
        }
        all.insert(hash(&token), Token { user: Arc::clone(user), used: Instant::now() });
        Ok(token)
    }

    /// Whose token this is, if it is one.
    pub(super) fn user(&self, token: &str) -> Option<Arc<User>> {
        let (mut all, key) = (self.lock(), hash(token));
        let known = all.get_mut(&key)?;
        if known.used.elapsed() >= UNUSED {
            all.remove(&key);
            return None;
        }
        known.used = Instant::now();
        Some(Arc::clone(&known.user))
    }
}

fn hash(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_bounded() {
        let tokens = Tokens::default();
        let user = |name: &str| Arc::new(User { name: name.to_owned(), ..User::default() });
        let (anna, ben) = (user("anna"), user("ben"));
        let of_ben = tokens.give(&ben).unwrap();
        let first = tokens.give(&anna).unwrap();
        assert_eq!(tokens.user(&first).unwrap().name, "anna");
        assert!(tokens.user("nobody's").is_none());
        for _ in 0..MOST_OF_USER {
            tokens.give(&anna).unwrap();
        }
        assert!(tokens.user(&first).is_none());
        assert_eq!(tokens.user(&of_ben).unwrap().name, "ben");
        assert_eq!(tokens.lock().len(), MOST_OF_USER + 1);
    }
}
