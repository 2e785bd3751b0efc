//! What a request says beside its body: by its URL and by its headers.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, HeaderMap};
use hyper::{Method, Uri};
use percent_encoding::percent_decode_str;

use super::encoding::Encoding;
use super::errors::HttpError;

/// The most parameters of a URL.
const MOST_PARAMETERS: usize = 10_000;
/// How long a named session lives without a statement, unless the client says otherwise; and at
/// most.
const SESSION_TIME: Duration = Duration::from_secs(60);
const MOST_SESSION_TIME: Duration = Duration::from_secs(3600);

/// How a client says who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    Password { user: String, password: String },
    Token(String),
}

/// A request without its body.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The statement, or its beginning, from the URL.
    pub(crate) query: Option<String>,
    pub(crate) credentials: Credentials,
    /// Whether nothing may be changed: GET and HEAD, `readonly=1`.
    pub(crate) read_only: bool,
    /// The values of `{name:Type}`.
    pub(crate) values: HashMap<String, String>,
    /// The name of the statement, if the client gives it one.
    pub(crate) query_id: Option<String>,
    /// The session, by name, and how long it lives.
    pub(crate) session: Option<(String, Duration)>,
    /// Whether that session must exist already.
    pub(crate) session_exists: bool,
    pub(crate) format: Option<String>,
    /// `client_protocol_version`.
    pub(crate) revision: u32,
    /// Whether the reply is to be complete before it begins.
    pub(crate) wait_end: bool,
    /// Whether a reply is cut short that fails behind its beginning.
    pub(crate) cuts_short: bool,
    /// How long the statement may take, if the client says so.
    pub(crate) most_time: Option<Duration>,
    /// The most rows of the answer.
    pub(crate) most_rows: Option<u64>,
    /// How the body is encoded.
    pub(crate) body: Encoding,
    /// How the reply is to be encoded.
    pub(crate) reply: Encoding,
}

/// Reads a request.
pub(crate) fn read(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Asked, HttpError> {
    let mut values = HashMap::new();
    let mut named: HashMap<String, String> = HashMap::new();
    for (number, pair) in uri.query().unwrap_or_default().split('&').enumerate() {
        if number >= MOST_PARAMETERS {
            let what = format!("a URL has at most {MOST_PARAMETERS} parameters");
            return Err(HttpError::of(36, what));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        match name.strip_prefix("param_") {
            Some(name) => drop(values.insert(name.to_owned(), value)),
            None => drop(named.insert(name, value)),
        }
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_on = |name: &str| matches!(named.get(name).map(String::as_str), Some("1" | "true"));
    let number = |name: &str| named.get(name).and_then(|text| text.parse::<f64>().ok());
    let bound = |name: &str| match named.get(name).filter(|text| !text.is_empty()) {
        Some(text) => bound(name, text).map(Some),
        None => Ok(None),
    };
    let session_time = bound("session_timeout")?.and_then(seconds);
    let session_time = session_time.unwrap_or(SESSION_TIME).min(MOST_SESSION_TIME);
    let session = named.get("session_id").filter(|id| !id.is_empty());
    let session = session.map(|id| (id.clone(), session_time));
    let body = match (is_on("decompress"), headers.get(CONTENT_ENCODING)) {
        (true, _) => Encoding::Blocks,
        (false, None) => Encoding::None,
        (false, Some(name)) => {
            let name = name.to_str().unwrap_or_default();
            Encoding::named(name).ok_or_else(|| {
                HttpError::of(
                    48,
                    format!("Content-Encoding {name} is none of gzip, deflate, zstd, lz4"),
                )
            })?
        }
    };
    let reply = match (is_on("compress"), is_on("enable_http_compression")) {
        (true, _) => Encoding::Blocks,
        (false, true) => Encoding::accepted(header("accept-encoding").unwrap_or_default()),
        (false, false) => Encoding::None,
    };
    let database = named.get("database").map(String::as_str);
    let database = database.or(header("x-clickhouse-database")).unwrap_or_default();
    if !matches!(database, "" | "default" | "public" | "system") {
        let what = format!("there is no database {database}; the tables are in default");
        return Err(HttpError::of(81, what));
    }
    let format = named.get("default_format").map(String::as_str);
    let is_read_only = bound("readonly")?.is_some_and(|level| level > 0.0);
    Ok(Asked {
        query: named.get("query").filter(|query| !query.is_empty()).cloned(),
        credentials: credentials(&named, headers)?,
        read_only: method == Method::GET || method == Method::HEAD || is_read_only,
        values,
        query_id: named.get("query_id").filter(|id| !id.is_empty()).cloned(),
        session,
        session_exists: is_on("session_check"),
        format: format.or(header("x-clickhouse-format")).map(str::to_owned),
        revision: number("client_protocol_version").map_or(0, |number| number as u32),
        wait_end: is_on("wait_end_of_query"),
        cuts_short: named.get("cut_short").is_none_or(|value| value != "0"),
        most_time: bound("max_execution_time")?.and_then(seconds),
        most_rows: bound("max_result_rows")?.and_then(rows),
        body,
        reply,
    })
}

/// Reads the value of a setting that limits a statement. A value that is no number is an error: the
/// statement would run without the limit.
pub(super) fn bound(name: &str, text: &str) -> Result<f64, HttpError> {
    let number = match text {
        "true" => Some(1.0),
        "false" => Some(0.0),
        text => text.parse().ok(),
    };
    number.filter(|number: &f64| number.is_finite() && *number >= 0.0).ok_or_else(|| {
        HttpError::of(72, format!("{name} takes a number, 0 or more, and not '{text}'"))
    })
}

/// A time in seconds; 0 is none.
pub(super) fn seconds(seconds: f64) -> Option<Duration> {
    let most = Duration::from_secs(100 * 365 * 24 * 3600);
    let seconds = Some(seconds).filter(|seconds| *seconds > 0.0)?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(most).min(most))
}

/// A number of rows; 0 is no bound.
pub(super) fn rows(rows: f64) -> Option<u64> {
    Some(rows as u64).filter(|rows| *rows > 0)
}

/// Who the client says that it is; `default` without a password if it says nothing.
fn credentials(
    named: &HashMap<String, String>,
    headers: &HeaderMap,
) -> Result<Credentials, HttpError> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let wrong = || HttpError::of(516, "the Authorization header is neither Basic nor Bearer");
    if let Some(authorization) = headers.get(AUTHORIZATION) {
        let text = authorization.to_str().map_err(|_| wrong())?;
        let (kind, rest) = text.split_once(' ').ok_or_else(wrong)?;
        if kind.eq_ignore_ascii_case("bearer") {
            return Ok(Credentials::Token(rest.trim().to_owned()));
        }
        if !kind.eq_ignore_ascii_case("basic") {
            return Err(wrong());
        }
        let pair = STANDARD.decode(rest.trim()).ok().and_then(|it| String::from_utf8(it).ok());
        let pair = pair.ok_or_else(wrong)?;
        let (user, password) = pair.split_once(':').unwrap_or((&pair, ""));
        return Ok(of_password(user, password));
    }
    if let Some(user) = header("x-clickhouse-user") {
        return Ok(of_password(user, header("x-clickhouse-key").unwrap_or_default()));
    }
    let named = |name: &str| named.get(name).map_or("", String::as_str);
    Ok(of_password(named("user"), named("password")))
}

fn of_password(user: &str, password: &str) -> Credentials {
    let user = if user.is_empty() { "default" } else { user };
    Credentials::Password { user: user.to_owned(), password: password.to_owned() }
}

/// A part of a URL's query as it was before it was encoded.
fn decoded(text: &str) -> Result<String, HttpError> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    let decoded = decoded.map_err(|_| HttpError::of(36, "a parameter of the URL is no UTF-8"))?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn asked(uri: &str, headers: &[(&'static str, &str)]) -> Result<Asked, HttpError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        read(&Method::POST, &uri.parse().unwrap(), &map)
    }

    #[test]
    fn urls_say_what_is_asked() {
        let uri = "/?query=SELECT+%7Bx%3AUInt8%7D&param_x=1%202&query_id=q&default_format=Native\
                   &client_protocol_version=54405&wait_end_of_query=1&max_execution_time=1.5\
                   &session_id=s&session_timeout=99999&unknown=1";
        let asked = asked(uri, &[]).unwrap();
        assert_eq!(asked.query.as_deref(), Some("SELECT {x:UInt8}"));
        assert_eq!(asked.values.get("x").map(String::as_str), Some("1 2"));
        assert_eq!((asked.query_id.as_deref(), asked.revision), (Some("q"), 54405));
        assert!(asked.wait_end && !asked.read_only);
        assert_eq!(asked.most_time, Some(Duration::from_millis(1500)));
        assert_eq!(asked.session, Some(("s".to_owned(), MOST_SESSION_TIME)));
        assert_eq!(asked.credentials, of_password("default", ""));
    }

    #[test]
    fn what_bounds_nothing_is_refused() {
        for wrong in [
            "readonly=yes",
            "max_execution_time=abc",
            "max_result_rows=-1",
            "max_result_rows=NaN",
            "session_timeout=1s",
        ] {
            let refused = asked(&format!("/?session_id=s&{wrong}"), &[]).unwrap_err();
            assert_eq!(refused.code, 72, "{wrong}");
        }
        let asked = asked("/?readonly=2&max_execution_time=&max_result_rows=0", &[]).unwrap();
        assert!(asked.read_only && asked.most_time.is_none() && asked.most_rows.is_none());
    }

    #[test]
    fn clients_say_who_they_are_in_four_ways() {
        let of = |uri: &str, headers: &[(&'static str, &str)]| asked(uri, headers);
        let anna = of_password("anna", "se:cret");
        let basic = format!("Basic {}", STANDARD.encode("anna:se:cret"));
        assert_eq!(of("/", &[("authorization", &basic)]).unwrap().credentials, anna);
        let own = [("x-clickhouse-user", "anna"), ("x-clickhouse-key", "se:cret")];
        assert_eq!(of("/", &own).unwrap().credentials, anna);
        assert_eq!(of("/?user=anna&password=se%3Acret", &[]).unwrap().credentials, anna);
        let token = of("/", &[("authorization", "Bearer abc")]).unwrap().credentials;
        assert_eq!(token, Credentials::Token("abc".to_owned()));
        assert_eq!(of("/", &[("authorization", "Digest x")]).unwrap_err().code, 516);
    }

    #[test]
    fn encodings_are_chosen() {
        let gzip = [("accept-encoding", "gzip, deflate, br"), ("content-encoding", "lz4")];
        let with = asked("/?enable_http_compression=1", &gzip).unwrap();
        assert_eq!((with.body, with.reply), (Encoding::Lz4, Encoding::Gzip));
        let blocks = asked("/?compress=1&decompress=1", &[]).unwrap();
        assert_eq!((blocks.body, blocks.reply), (Encoding::Blocks, Encoding::Blocks));
        assert_eq!(asked("/", &[("accept-encoding", "gzip")]).unwrap().reply, Encoding::None);
        assert!(asked("/", &[("content-encoding", "br")]).is_err());
    }
}
