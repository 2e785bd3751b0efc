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

/// The page, and the parts of it that its policy names.
struct Page {
    style: String,
    script: String,
    html: String,
}

static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let style = stripped(include_str!("../page/page.css"));
    let script =
        stripped(include_str!("../page/chart.js")) + &stripped(include_str!("../page/page.js"));
    let head = stripped(include_str!("../page/head.html"));
    let body = stripped(include_str!("../page/body.html"));
    let html = format!(
        "{head}<style>{style}</style>\n</head>\n{body}<script>{script}</script>\n</body>\n</html>\n"
    );
    Page { style, script, html }
});

/// Without indents and without lines of comment. No text of the page spans lines.
fn stripped(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    lines.filter(|line| !line.starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// What a browser shows that opens the address of the server itself.
const HINT: &str = "<!DOCTYPE html>\n<html lang=\"en\"><title>Ok.</title>\n<p>Ok. \
                    <a href=\"play\">A page for statements</a></p></html>\n";
const HINT_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// The policy of the page, and the name of this version of it.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let (script, style) = (hash(&PAGE.script), hash(&PAGE.style));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; \
         img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
});
static TAG: LazyLock<String> = LazyLock::new(|| format!("W/\"{}\"", hash(&PAGE.html)));

/// The page compressed; empty if that has failed.
static GZIPPED: LazyLock<Bytes> = LazyLock::new(|| {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(PAGE.html.as_bytes());
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
        (false, false) => (200, Encoding::None, Bytes::from_static(PAGE.html.as_bytes())),
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
        let html = &PAGE.html;
        assert_eq!(html.matches("<script>").count(), 1);
        assert_eq!(html.matches("</script>").count(), 1);
        assert!(html.len() < 46 << 10, "{}", html.len());
        let parts = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("];
        for part in parts.into_iter().chain([" src=", "@import", "http://", "https://"]) {
            let found = html.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(part), "{part}");
        }
        // The policy names what is there.
        let between = |open: &str, close: &str| {
            let rest = html.split_once(open).unwrap().1;
            rest.split_once(close).unwrap().0
        };
        assert_eq!(between("<script>", "</script>"), PAGE.script);
        assert_eq!(between("<style>", "</style>"), PAGE.style);
        // What is stripped of indents has no text that spans lines.
        for line in PAGE.script.lines() {
            assert!(line.matches('`').count() % 2 == 0, "{line}");
        }
    }

    #[test]
    fn a_page_that_is_known_is_not_sent_again() {
        let mut headers = HeaderMap::new();
        assert_eq!(page(&headers).1, PAGE.html);
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
        assert_eq!(text, PAGE.html);
    }
}
