//! SCRAM-SHA-256 (RFC 5802 and 7677): a client proves that it knows its password. The file of users
//! keeps verifiers, by which a proof is checked without the password.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hmac};

use super::errors::PgError;
use crate::serve::users::{Verifier, same};

/// The name of the mechanism.
pub(super) const MECHANISM: &str = "SCRAM-SHA-256";
const NONCE_BYTES: usize = 18;

/// A proof of which the client's first message has come.
#[derive(Debug)]
pub(super) struct Begun {
    verifier: Verifier,
    /// What stands before the client's first message, about the connection.
    header: String,
    client_first: String,
    /// The server's first message, which is sent.
    pub(super) server_first: String,
    nonce: String,
}

/// Reads the client's first message, as it stands in its message.
pub(super) fn begin(message: &[u8], verifier: Verifier) -> Result<Begun, PgError> {
    let end = message.iter().position(|byte| *byte == 0).ok_or_else(not_scram)?;
    if message.get(..end) != Some(MECHANISM.as_bytes()) {
        let what = format!("only {MECHANISM} is known as a proof of a password");
        return Err(PgError::of("28000", what));
    }
    // The length follows, which is that of the rest.
    let first = message.get(end + 5..).ok_or_else(not_scram)?;
    let first = std::str::from_utf8(first).map_err(|_| not_scram())?;
    let mut nonce = [0; NONCE_BYTES];
    let random = |_| PgError::of("58000", "the system gives no random numbers");
    SystemRandom::new().fill(&mut nonce).map_err(random)?;
    answer_first(first, &STANDARD.encode(nonce), verifier)
}

fn answer_first(first: &str, nonce: &str, verifier: Verifier) -> Result<Begun, PgError> {
    let mut parts = first.splitn(3, ',');
    let (Some(binding), Some(_), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(not_scram());
    };
    if !matches!(binding, "n" | "y") {
        return Err(PgError::of("28000", "channel binding is not offered"));
    }
    let header = first.strip_suffix(bare).unwrap_or_default().to_owned();
    let client_nonce = field(bare, 'r').filter(|nonce| !nonce.is_empty()).ok_or_else(not_scram)?;
    let nonce = format!("{client_nonce}{nonce}");
    let salt = STANDARD.encode(&verifier.salt);
    let server_first = format!("r={nonce},s={salt},i={}", verifier.rounds);
    Ok(Begun { verifier, header, client_first: bare.to_owned(), server_first, nonce })
}

impl Begun {
    /// Checks the client's last message. Returns the server's last one if the proof is right.
    pub(super) fn finish(&self, message: &[u8]) -> Result<Option<String>, PgError> {
        let last = std::str::from_utf8(message).map_err(|_| not_scram())?;
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or_else(not_scram)?;
        let proof = STANDARD.decode(proof).map_err(|_| not_scram())?;
        let header = STANDARD.encode(&self.header);
        let is_same_connection = field(without_proof, 'c') == Some(&header);
        if !is_same_connection || field(without_proof, 'r') != Some(&self.nonce) {
            return Err(not_scram());
        }
        let all = format!("{},{},{without_proof}", self.client_first, self.server_first);
        let sign = |key: &[u8]| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, key);
            hmac::sign(&key, all.as_bytes())
        };
        let signature = sign(&self.verifier.stored_key);
        if proof.len() != signature.as_ref().len() {
            return Ok(None);
        }
        let key: Vec<u8> = proof.iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let key = digest::digest(&digest::SHA256, &key);
        let is_right = same(key.as_ref(), &self.verifier.stored_key);
        let server = sign(&self.verifier.server_key);
        Ok(is_right.then(|| format!("v={}", STANDARD.encode(server.as_ref()))))
    }
}

/// The value of a field such as `r=…`.
fn field(text: &str, name: char) -> Option<&str> {
    text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn not_scram() -> PgError {
    PgError::of("08P01", "the proof of the password is not SCRAM-SHA-256")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3, with what its password becomes.
    fn example(rest: &str) -> Result<Option<String>, PgError> {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let rounds = std::num::NonZeroU32::new(4096).unwrap();
        let verifier = Verifier::of_password("pencil", salt, rounds);
        let first = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let begun = answer_first(first, nonce, verifier).unwrap();
        let expected = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(begun.server_first, expected);
        begun.finish(rest.as_bytes())
    }

    #[test]
    fn the_example_of_the_rfc_is_right() {
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let server = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(example(last).unwrap().as_deref(), Some(server));
        assert_eq!(example(&last.replace("p=dHz", "p=dHy")).unwrap(), None);
        for wrong in ["c=biws,r=x,p=dHzb", "c=biws", "", "c=eSws,r=r,p="] {
            assert!(example(wrong).is_err(), "{wrong}");
        }
    }
}
