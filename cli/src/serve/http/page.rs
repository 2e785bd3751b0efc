//! The page at `/play`, in which people type statements and look at answers: one file of HTML that
//! needs nothing else.
//!
//! It is the same for everyone. What it shows, its script asks for by statements, as any client
//! does. Its policy runs only that script, named by its hash, which may not make markup of texts
//! (Trusted Types), sends it to no other server, and lets no other page show it in a frame.

use std::io::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderName, IF_NONE_MATCH};
use ring::digest;

use super::encoding::Encoding;
use super::writing::Head;

const STYLE: &str = include_str!("../page/page.css");
const SCRIPT: &str = concat!(include_str!("../page/chart.js"), include_str!("../page/page.js"));
const PAGE: &str = concat!(
    include_str!("../page/head.html"),
    "<style>",
    include_str!("../page/page.css"),
    "</style>\n</head>\n",
    include_str!("../page/body.html"),
    "<script>",
    include_str!("../page/chart.js"),
    include_str!("../page/page.js"),
    "</script>\n</body>\n</html>\n"
);

/// What a browser shows that opens the address of the server itself.
const HINT: &str = "<!DOCTYPE html>\n<html lang=\"en\"><title>Ok.</title>\n<p>Ok. \
                    <a href=\"play\">A page for statements</a></p></html>\n";
const HINT_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// The policy of the page, and the name of this version of it.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let (script, style) = (hash(SCRIPT), hash(STYLE));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; \
         img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
});
static TAG: LazyLock<String> = LazyLock::new(|| format!("W/\"{}\"", hash(PAGE)));

/// The page compressed; empty if that has failed.
static GZIPPED: LazyLock<Bytes> = LazyLock::new(|| {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(PAGE.as_bytes());
    written.and_then(|()| encoder.finish()).unwrap_or_default().into()
});

fn hash(text: &str) -> String {
    STANDARD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

/// The page, unless the browser has this version of it.
pub(super) fn page(headers: &HeaderMap) -> (Head, Bytes) {
    let is_known = list(headers, &IF_NONE_MATCH).any(|tag| tag == "*" || tag == *TAG);
    let is_gzip = list(headers, &ACCEPT_ENCODING).any(|name| name == "gzip");
    let (status, encoding, body) = match (is_known, is_gzip && !GZIPPED.is_empty()) {
        (true, _) => (304, Encoding::None, Bytes::new()),
        (false, true) => (200, Encoding::Gzip, GZIPPED.clone()),
        (false, false) => (200, Encoding::None, Bytes::from_static(PAGE.as_bytes())),
    };
    let mut head = of_html(status, POLICY.clone());
    head.encoding = encoding;
    head.headers.push(("etag", TAG.clone()));
    head.headers.push(("vary", "accept-encoding".to_owned()));
    (head, body)
}

/// What a browser sees at `/`, where other clients see `Ok.`; `None` for those.
pub(super) fn hint(headers: &HeaderMap) -> Option<(Head, &'static str)> {
    let is_browser = list(headers, &ACCEPT).any(|kind| kind == "text/html");
    is_browser.then(|| (of_html(200, HINT_POLICY.to_owned()), HINT))
}

/// The parts of a header that is a list.
fn list<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let value = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(',').map(str::trim)
}

fn of_html(status: u16, policy: String) -> Head {
    let headers = vec![
        ("content-type", "text/html; charset=UTF-8".to_owned()),
        ("content-security-policy", policy),
        ("cache-control", "no-cache".to_owned()),
        ("x-content-type-options", "nosniff".to_owned()),
        ("referrer-policy", "no-referrer".to_owned()),
        ("cross-origin-opener-policy", "same-origin".to_owned()),
    ];
    Head { status, headers, encoding: Encoding::None }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn the_page_is_one_file_and_makes_no_markup_of_texts() {
        assert_eq!(PAGE.matches("<script>").count(), 1);
        assert_eq!(PAGE.matches("</script>").count(), 1);
        assert!(PAGE.len() < 50 << 10, "{}", PAGE.len());
        let parts = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("];
        for part in parts.into_iter().chain([" src=", "@import", "http://", "https://"]) {
            let found = PAGE.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(part), "{part}");
        }
        // The policy names what is there.
        let between = |open: &str, close: &str| {
            let rest = PAGE.split_once(open).unwrap().1;
            rest.split_once(close).unwrap().0
        };
        assert_eq!(between("<script>", "</script>"), SCRIPT);
        assert_eq!(between("<style>", "</style>"), STYLE);
    }

    #[test]
    fn a_page_that_is_known_is_not_sent_again() {
        let mut headers = HeaderMap::new();
        assert_eq!(page(&headers).1, PAGE);
        headers.insert(IF_NONE_MATCH, HeaderValue::from_str(&format!("\"x\", {}", *TAG)).unwrap());
        let (head, body) = page(&headers);
        assert_eq!((head.status, body.len()), (304, 0));
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("\"x\""));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("br, gzip"));
        let (head, body) = page(&headers);
        assert_eq!((head.status, head.encoding), (200, Encoding::Gzip));
        assert!(body.len() < 18 << 10, "{}", body.len());
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*body).read_to_string(&mut text).unwrap();
        assert_eq!(text, PAGE);
    }
}
