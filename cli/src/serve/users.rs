//! Who may do what: the file of users, and whether a password is right.
//!
//! Passwords are kept as PostgreSQL keeps them, as verifiers of SCRAM-SHA-256 (RFC 5802 and 7677):
//! a client of PostgreSQL proves that it knows its password without sending it, and a password that
//! is sent over HTTP is checked by the same verifier. That costs thousands of hashes, so a password
//! that was right is remembered, as a keyed hash, as long as the server runs. Tokens are long and
//! random, so that one hash of them is enough.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use toml::Spanned;
use toml::de::{DeString, DeValue};

use crate::config::TomlFile;
use crate::errors::Failure;

/// Rounds of a new verifier; PostgreSQL's default.
const ROUNDS: u32 = 4096;
/// The most rounds of a verifier that is read, so that a wrong file does not keep a server busy.
const MOST_ROUNDS: u32 = 10_000_000;
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// Passwords that are remembered, at most.
const MOST_REMEMBERED: usize = 4096;
/// How a verifier begins.
const SCRAM: &str = "SCRAM-SHA-256$";
/// How the hash of a token begins.
const TOKEN: &str = "sha256:";

/// What a user may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    /// Whether statements that write are refused.
    pub(crate) read_only: bool,
    /// The tables that the user sees, with `*` and `?`; all if `None`.
    pub(crate) tables: Option<Vec<String>>,
}

/// A verifier of SCRAM-SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verifier {
    pub(crate) rounds: NonZeroU32,
    pub(crate) salt: Vec<u8>,
    pub(crate) stored_key: Vec<u8>,
    pub(crate) server_key: Vec<u8>,
}

/// The users of a server.
#[derive(Debug)]
pub(crate) struct Users {
    /// By name; without any, everyone may come in.
    known: BTreeMap<String, Known>,
    anyone: Arc<User>,
    /// What a password is compared with that nobody has.
    nobody: Verifier,
    /// Tells whether a password was right before, without keeping it.
    key: hmac::Key,
    remembered: Mutex<HashMap<String, Vec<u8>>>,
}

#[derive(Debug)]
struct Known {
    user: Arc<User>,
    verifier: Option<Verifier>,
    /// The hash of a token.
    token: Option<Vec<u8>>,
}

impl Users {
    /// Everyone may come in, under any name.
    pub(crate) fn anyone(read_only: bool) -> Result<Users, Failure> {
        let anyone = User { name: "default".to_owned(), read_only, tables: None };
        Users::of(BTreeMap::new(), anyone)
    }

    /// The users of a file.
    pub(crate) fn read(path: &Path, read_only: bool) -> Result<Users, Failure> {
        let file = TomlFile::read(path)?;
        let mut known = BTreeMap::new();
        let table = file.table()?;
        for (key, value) in table.get_ref() {
            let users = match (&**key.get_ref(), value.get_ref()) {
                ("users", DeValue::Table(users)) => users,
                (name, _) => {
                    let what = format!("'{name}' means nothing; there are [users.NAME]");
                    return Err(file.place(key.span()).failure(&what));
                }
            };
            for (name, value) in users {
                let wrong = |at: &Spanned<_>, what: String| file.place(at.span()).failure(&what);
                let user = parse_user(name, value.get_ref(), read_only, &wrong)?;
                known.insert(name.get_ref().to_string(), user);
            }
        }
        if known.is_empty() {
            let hint = "[users.anna] with password = \"…\", which sty serve --new-password prints";
            return Err(file.failure("it has no user").hint(hint));
        }
        Users::of(known, User { read_only, ..User::default() })
    }

    fn of(known: BTreeMap<String, Known>, anyone: User) -> Result<Users, Failure> {
        let random = |_| Failure::failed("the system gives no random numbers");
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(random)?;
        let rounds = known.values().filter_map(|known| known.verifier.as_ref());
        let rounds = rounds.map(|verifier| verifier.rounds).max();
        let (nobody, anyone) = (Verifier::of_nobody(rounds), Arc::new(anyone));
        Ok(Users { known, anyone, nobody, key, remembered: Mutex::default() })
    }

    /// Whether everyone may come in.
    pub(crate) fn are_any(&self) -> bool {
        self.known.is_empty()
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<String, Vec<u8>>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user of this name and password, if that takes no time to tell: everyone may come in, or
    /// the password was right before.
    pub(crate) fn at_once(&self, name: &str, password: &str) -> Option<Arc<User>> {
        if self.known.is_empty() {
            return Some(Arc::clone(&self.anyone));
        }
        let known = self.known.get(name)?;
        let mark = hmac::sign(&self.key, password.as_bytes());
        let remembered = self.remembered();
        let is_right = remembered.get(name).is_some_and(|before| same(before, mark.as_ref()));
        is_right.then(|| Arc::clone(&known.user))
    }

    /// The user of this name and password; `None` if either is wrong. Takes some milliseconds, and
    /// as long for a name that nobody has.
    pub(crate) fn by_password(&self, name: &str, password: &str) -> Option<Arc<User>> {
        if let Some(user) = self.at_once(name, password) {
            return Some(user);
        }
        let known = self.known.get(name);
        let mark = hmac::sign(&self.key, password.as_bytes());
        let verifier = known.and_then(|known| known.verifier.as_ref());
        let is_right = verifier.unwrap_or(&self.nobody).accepts(password);
        let known = known.filter(|known| is_right && known.verifier.is_some())?;
        let mut remembered = self.remembered();
        if remembered.len() >= MOST_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(name.to_owned(), mark.as_ref().to_vec());
        Some(Arc::clone(&known.user))
    }

    /// The user with this token.
    pub(crate) fn by_token(&self, token: &str) -> Option<Arc<User>> {
        if self.known.is_empty() {
            return Some(Arc::clone(&self.anyone));
        }
        let hash = digest::digest(&digest::SHA256, token.as_bytes());
        let has_it =
            |known: &&Known| known.token.as_ref().is_some_and(|token| same(token, hash.as_ref()));
        self.known.values().find(has_it).map(|known| Arc::clone(&known.user))
    }

    /// How a client of PostgreSQL proves that it is this user, and who that is. There is a verifier
    /// for a name that nobody has, too, which accepts nothing and is always the same: the beginning
    /// of the proof does not tell who is known.
    pub(crate) fn verifier(&self, name: &str) -> (Verifier, Option<Arc<User>>) {
        let known = self.known.get(name);
        match known.and_then(|known| Some((known.verifier.clone()?, Arc::clone(&known.user)))) {
            Some((verifier, user)) => (verifier, Some(user)),
            None => {
                let salt = hmac::sign(&self.key, name.as_bytes());
                let salt = salt.as_ref().iter().copied().take(SALT_BYTES).collect();
                (Verifier { salt, ..self.nobody.clone() }, None)
            }
        }
    }

    /// The user of a server to which everyone may come.
    pub(crate) fn anyone_named(&self, name: &str) -> Arc<User> {
        Arc::new(User { name: name.to_owned(), ..(*self.anyone).clone() })
    }
}

/// Reads the entry of a user; `wrong` makes an error with the place of a key.
fn parse_user<'t>(
    name: &Spanned<DeString<'t>>,
    value: &DeValue<'t>,
    read_only: bool,
    wrong: &impl Fn(&Spanned<DeString<'t>>, String) -> Failure,
) -> Result<Known, Failure> {
    let (heading, name) = (name, name.get_ref());
    let DeValue::Table(table) = value else {
        let what = format!("[users.{name}] is a table: password, token, read_only, tables");
        return Err(wrong(heading, what));
    };
    let mut user = User { name: name.to_string(), read_only, tables: None };
    let (mut verifier, mut token) = (None, None);
    for (key, value) in table {
        match (&**key.get_ref(), value.get_ref()) {
            ("password", DeValue::String(text)) => {
                verifier = Some(Verifier::parse(text).ok_or_else(|| {
                    let what = format!(
                        "the password of {name} is not kept as '{SCRAM}…'; sty serve \
                         --new-password prints what to write"
                    );
                    wrong(key, what)
                })?);
            }
            ("token", DeValue::String(text)) => {
                let hash = text.strip_prefix(TOKEN).and_then(from_hex);
                token = Some(hash.ok_or_else(|| {
                    let what = format!(
                        "the token of {name} is not kept as '{TOKEN}' and 64 hexadecimal digits; \
                         sty serve --new-token prints both"
                    );
                    wrong(key, what)
                })?);
            }
            ("read_only", DeValue::Boolean(yes)) => user.read_only |= *yes,
            ("tables", DeValue::Array(names)) => {
                let names = names.iter().map(|name| match name.get_ref() {
                    DeValue::String(name) => Some(name.to_string()),
                    _ => None,
                });
                let names: Option<Vec<String>> = names.collect();
                let what = || format!("tables of {name} are names, such as [\"trips\", \"log_*\"]");
                user.tables = Some(names.ok_or_else(|| wrong(key, what()))?);
            }
            (other, _) => {
                let what = format!(
                    "'{other}' of user {name} is none of password, token (texts), read_only (true \
                     or false) and tables (names)"
                );
                return Err(wrong(key, what));
            }
        }
    }
    match (&verifier, &token) {
        (None, None) => {
            Err(wrong(heading, format!("user {name} has neither a password nor a token")))
        }
        _ => Ok(Known { user: Arc::new(user), verifier, token }),
    }
}

impl Verifier {
    /// A verifier of a password, with a salt of its own.
    pub(crate) fn new(password: &str) -> Result<Verifier, Failure> {
        let mut salt = vec![0; SALT_BYTES];
        let random = |_| Failure::failed("the system gives no random numbers");
        SystemRandom::new().fill(&mut salt).map_err(random)?;
        let rounds = NonZeroU32::new(ROUNDS).unwrap_or(NonZeroU32::MIN);
        Ok(Verifier::of_password(password, salt, rounds))
    }

    /// The verifier of a password with this salt.
    pub(crate) fn of_password(password: &str, salt: Vec<u8>, rounds: NonZeroU32) -> Verifier {
        let (stored_key, server_key) = keys(password, &salt, rounds);
        Verifier { rounds, salt, stored_key, server_key }
    }

    /// One that accepts nothing, for names that nobody has.
    fn of_nobody(rounds: Option<NonZeroU32>) -> Verifier {
        let rounds = rounds.or(NonZeroU32::new(ROUNDS)).unwrap_or(NonZeroU32::MIN);
        let none = Vec::new;
        Verifier { rounds, salt: vec![0; SALT_BYTES], stored_key: none(), server_key: none() }
    }

    /// Reads what [`Verifier::show`] writes.
    fn parse(text: &str) -> Option<Verifier> {
        let (rounds_salt, keys) = text.strip_prefix(SCRAM)?.split_once('$')?;
        let (rounds, salt) = rounds_salt.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let bytes = |text: &str| STANDARD.decode(text).ok();
        let verifier = Verifier {
            rounds: rounds
                .parse()
                .ok()
                .filter(|rounds: &NonZeroU32| rounds.get() <= MOST_ROUNDS)?,
            salt: bytes(salt)?,
            stored_key: bytes(stored_key)?,
            server_key: bytes(server_key)?,
        };
        let keys = [&verifier.stored_key, &verifier.server_key];
        keys.iter().all(|key| key.len() == KEY_BYTES).then_some(verifier)
    }

    /// As PostgreSQL writes it.
    pub(crate) fn show(&self) -> String {
        let text = |bytes: &[u8]| STANDARD.encode(bytes);
        let Verifier { rounds, salt, stored_key, server_key } = self;
        format!("{SCRAM}{rounds}:{}${}:{}", text(salt), text(stored_key), text(server_key))
    }

    fn accepts(&self, password: &str) -> bool {
        let (stored_key, _) = keys(password, &self.salt, self.rounds);
        same(&self.stored_key, &stored_key)
    }
}

/// The stored key and the server key of a password (RFC 5802, section 3).
fn keys(password: &str, salt: &[u8], rounds: NonZeroU32) -> (Vec<u8>, Vec<u8>) {
    let mut salted = [0; KEY_BYTES];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, password.as_bytes(), &mut salted);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let client_key = hmac::sign(&key, b"Client Key");
    let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
    (stored_key.as_ref().to_vec(), hmac::sign(&key, b"Server Key").as_ref().to_vec())
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).fold(0, |differs, (left, right)| differs | (left ^ right)) == 0
}

/// A new token, and what the file of users keeps of it.
pub(crate) fn new_token() -> Result<(String, String), Failure> {
    let mut bytes = [0; 24];
    let random = |_| Failure::failed("the system gives no random numbers");
    SystemRandom::new().fill(&mut bytes).map_err(random)?;
    let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    let hash = digest::digest(&digest::SHA256, token.as_bytes());
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((token, format!("{TOKEN}{hex}")))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 2 * KEY_BYTES || !text.is_ascii() {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
    (0..KEY_BYTES).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// What PostgreSQL's own documentation of the protocol has as an example (RFC 7677): the
    /// password is "pencil".
    const PENCIL: (&str, u32, &str) = ("pencil", 4096, "W22ZaJ0SNY7soEsUEjb6gQ==");

    #[test]
    fn keys_are_those_of_the_rfc() {
        let (password, rounds, salt) = PENCIL;
        let salt = STANDARD.decode(salt).unwrap();
        let (stored_key, server_key) = keys(password, &salt, rounds.try_into().unwrap());
        assert_eq!(STANDARD.encode(stored_key), "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=");
        assert_eq!(STANDARD.encode(server_key), "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=");
    }

    #[test]
    fn passwords_are_right_or_wrong() {
        let verifier = Verifier::new("secret").unwrap();
        assert_eq!(Verifier::parse(&verifier.show()), Some(verifier.clone()));
        assert!(verifier.accepts("secret") && !verifier.accepts("Secret"));
        assert!(!Verifier::of_nobody(None).accepts(""));
        for wrong in ["", "secret", "SCRAM-SHA-256$0:AA==$AA==:AA==", "SCRAM-SHA-256$4096:$:"] {
            assert_eq!(Verifier::parse(wrong), None, "{wrong}");
        }
    }

    fn users(text: &str) -> Result<Users, Failure> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Users::read(file.path(), false)
    }

    #[test]
    fn files_say_who_may_do_what() {
        let (token, hash) = new_token().unwrap();
        let verifier = Verifier::new("secret").unwrap().show();
        let file = format!(
            "[users.anna]\npassword = '{verifier}'\n\n[users.bob]\ntoken = '{hash}'\n\
             read_only = true\ntables = ['log_*']\n"
        );
        let users = users(&file).unwrap();
        for _ in 0..2 {
            assert_eq!(users.by_password("anna", "secret").unwrap().name, "anna");
            assert_eq!(users.by_password("anna", "Secret"), None);
            assert_eq!(users.by_password("bob", ""), None);
            assert_eq!(users.by_password("carl", "secret"), None);
        }
        let bob = users.by_token(&token).unwrap();
        assert!(bob.read_only && bob.tables.as_deref() == Some(&["log_*".to_owned()][..]));
        assert_eq!(users.by_token("x"), None);
        assert!(users.verifier("anna").1.is_some() && users.verifier("bob").1.is_none());
    }

    #[test]
    fn wrong_files_are_explained() {
        for (text, part) in [
            ("", "it has no user"),
            ("users = 1", "'users' means nothing"),
            ("[user.anna]", "'user' means nothing"),
            ("[users.anna]", "neither a password nor a token"),
            ("[users.anna]\npassword = 'secret'", "sty serve --new-password"),
            ("[users.anna]\ntoken = 'secret'", "sty serve --new-token"),
            ("[users.anna]\nadmin = true", "'admin' of user anna"),
            ("[users.anna", ":1:"),
            ("[users.anna]\ntoken = 'secret'", ":2:1: the token of anna"),
        ] {
            let error = users(text).unwrap_err();
            assert!(error.message.contains(part), "{text}: {}", error.message);
        }
    }
}
