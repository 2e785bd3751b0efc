//! From a request to a reply.
//!
//! Where this stands on the road of a statement: a connection hands over its requests here. What
//! costs nothing (`/ping`, the page, metrics) is answered at once, whatever else runs. A statement
//! waits for its turn, and then has a thread of its own, which reads the body, runs it, and writes
//! the reply.

use std::sync::Arc;
use std::time::Instant;

use hyper::body::{Body as _, Incoming};
use hyper::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode};

use super::encoding::Encoding;
use super::errors::HttpError;
use super::page;
use super::request::{self, Asked, Credentials};
use super::work::{self, Work};
use super::writing::Head;
use crate::errors::Failure;
use crate::serve::admission::Refused;
use crate::serve::body::{Body, BodyError, ReplyBody, Room};
use crate::serve::metrics::add;
use crate::serve::reply::Reply;
use crate::serve::running::EndWithClient;
use crate::serve::server::Server;
use crate::serve::users::User;

/// Bytes of a body that are waited for before there is a thread for it.
const BODY_BEFORE_WORK: usize = 1 << 20;
/// Bytes of a reply that are held back, so that its head can tell of a failure; and where the
/// client asks for the end first.
const HELD_BACK: usize = 64 << 10;
const HELD_BACK_TO_END: usize = 64 << 20;

/// Answers a request.
pub(crate) async fn answer(server: Arc<Server>, request: Request<Incoming>) -> Response<ReplyBody> {
    let (parts, incoming) = request.into_parts();
    let has_query = parts.uri.query().is_some_and(|query| !query.is_empty());
    let method = &parts.method;
    match (method, parts.uri.path()) {
        (&Method::GET | &Method::HEAD, "/ping" | "/replicas_status") => text(200, "Ok.\n"),
        (&Method::GET | &Method::HEAD, "/") if !has_query => match page::hint(&parts.headers) {
            Some((head, page)) => with_head(head, ReplyBody::whole(page)),
            None => text(200, "Ok.\n"),
        },
        (&Method::GET | &Method::HEAD, "/play") => {
            let (head, page) = page::page(&parts.headers);
            with_head(head, ReplyBody::whole(page))
        }
        (&Method::GET, "/metrics") => {
            let mut reply = text(200, server.metrics_text());
            let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            reply.headers_mut().insert(CONTENT_TYPE, kind);
            reply
        }
        (&Method::GET | &Method::HEAD | &Method::POST, "/" | "/query") => {
            let page = match server.limits.own_pages_only {
                true => check_page(&parts.headers),
                false => Ok(()),
            };
            let asked = page.and_then(|()| request::read(method, &parts.uri, &parts.headers));
            let done = match asked {
                Ok(asked) => statement(&server, asked, incoming).await,
                Err(error) => Err(error),
            };
            done.unwrap_or_else(|error| {
                add(&server.metrics.failed, 1);
                failed(&error)
            })
        }
        (_, "/play") => text(405, "the page comes by GET\n"),
        (&Method::GET | &Method::HEAD | &Method::POST, path) => {
            text(404, format!("there is no {path}; statements go to /, /play is a page\n"))
        }
        _ => text(405, "statements come by GET or POST\n"),
    }
}

/// Answers a request with a statement.
async fn statement(
    server: &Arc<Server>,
    asked: Asked,
    incoming: Incoming,
) -> Result<Response<ReplyBody>, HttpError> {
    let user = user_of(server, &asked.credentials).await?;
    let (running, is_over) = work::shared_statement();
    let body = match incoming.size_hint().exact() {
        Some(0) => Body::none(),
        _ => {
            let patience = server.admission.limits().patience;
            let (room, stall) = (Room { all: &server.bodies, patience }, server.limits.stall);
            let body = Body::begin(incoming, BODY_BEFORE_WORK, stall, room, is_over.clone()).await;
            body.map_err(|error| broken(server, error))?
        }
    };
    let text = match &asked.query {
        Some(query) => query.as_str(),
        None if asked.body == Encoding::None => {
            std::str::from_utf8(body.beginning()).unwrap_or_default()
        }
        None => "",
    };
    let admission = match work::is_about_server(text) {
        true => &server.about_server,
        false => &server.admission,
    };
    let place = admission.enter().await.map_err(|refused| {
        add(&server.metrics.refused, 1);
        HttpError::of_refusal(refused)
    })?;
    let held_back = if asked.wait_end { HELD_BACK_TO_END } else { HELD_BACK };
    let (reply, begun) = Reply::new(held_back, server.limits.stall, is_over);
    let work = Work { server: Arc::clone(server), user, asked, running: running.clone() };
    // If the client is gone, this future is dropped, and with it what ends the statement.
    let guard = EndsStatement(running);
    let started = Instant::now();
    let thread = tokio::task::spawn_blocking(move || {
        let _place = place;
        let server = Arc::clone(&work.server);
        work.run(body, reply);
        server.metrics.statement(started.elapsed());
    });
    drop(thread);
    let begun = begun.await.map_err(|_| {
        HttpError::of_statement(&Failure::failed("the statement ended without an answer"), None)
    })?;
    let body = match begun.rest {
        None => ReplyBody::whole(begun.bytes),
        Some(rest) => ReplyBody::pieces(begun.bytes, rest, Arc::new(guard)),
    };
    Ok(with_head(begun.head, body))
}

/// Refuses what a page of another site has a browser send, where nobody has to say who he is: any
/// page could do to the store what its visitor may.
fn check_page(headers: &HeaderMap) -> Result<(), HttpError> {
    let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let host = header(HOST).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    let is_address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    // Another name may have been pointed at this machine by the page.
    let is_ours = is_address || name == "localhost" || !name.contains('.');
    let same = header(ORIGIN).is_none_or(|origin| {
        origin.split_once("://").is_some_and(|(_, authority)| authority == host)
    });
    match is_ours && same {
        true => Ok(()),
        false => Err(HttpError::of(
            516,
            "pages of other sites may not ask this server, to which anyone may come; --users says \
             who may, and --anyone lets pages in, too",
        )),
    }
}

/// Ends the statement of a request, once it has begun, when nobody waits for its answer.
struct EndsStatement(work::SharedStatement);

impl Drop for EndsStatement {
    fn drop(&mut self) {
        if let Some(statement) = self.0.get() {
            drop(EndWithClient(Arc::clone(statement)));
        } else {
            // It ends as soon as it begins.
            self.0.give_up();
        }
    }
}

/// Who the client is.
async fn user_of(server: &Arc<Server>, credentials: &Credentials) -> Result<Arc<User>, HttpError> {
    let known = match credentials {
        Credentials::Token(token) => server.users.by_token(token),
        Credentials::Password { user, password } => match server.users.at_once(user, password) {
            Some(user) => Some(user),
            None => compared(server, user.clone(), password.clone()).await,
        },
    };
    known.ok_or_else(|| {
        let name = match credentials {
            Credentials::Token(_) => "the token is not right".to_owned(),
            Credentials::Password { user, .. } => {
                format!("{user}: there is no such user, or the password is not right")
            }
        };
        HttpError::of(516, name)
    })
}

/// The user of this name and password, compared on another thread than those of connections.
async fn compared(server: &Arc<Server>, user: String, password: String) -> Option<Arc<User>> {
    let _turn = server.passwords.acquire().await.ok()?;
    let server = Arc::clone(server);
    let compared =
        tokio::task::spawn_blocking(move || server.users.by_password(&user, &password)).await;
    compared.ok().flatten()
}

fn broken(server: &Server, error: BodyError) -> HttpError {
    match error {
        BodyError::NoRoom => {
            add(&server.metrics.refused, 1);
            HttpError::of_refusal(Refused::TooLate)
        }
        BodyError::Stalled => HttpError::of(209, "the body of the request has stalled"),
        BodyError::Broken(what) => HttpError::of(117, format!("the body is broken: {what}")),
    }
}

fn with_head(head: Head, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    for (name, value) in head.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    if let Some(name) = head.encoding.name() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    if head.status == 503 {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A reply that is an error.
fn failed(error: &HttpError) -> Response<ReplyBody> {
    let head = Head::of_error(error);
    with_head(head, ReplyBody::whole(error.text()))
}

fn text(status: u16, text: impl Into<String>) -> Response<ReplyBody> {
    let headers = vec![("content-type", "text/plain; charset=UTF-8".to_owned())];
    let head = Head { status, headers, encoding: Encoding::None };
    with_head(head, ReplyBody::whole(text.into()))
}
