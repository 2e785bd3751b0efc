//! Pages of HTML that need nothing else: no files beside them, and no network, which their policy
//! refuses to them. All texts of data are escaped.

use std::time::SystemTime;

use chrono::DateTime;

pub(crate) use crate::charts::escaped;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The end of a page.
pub(crate) const END: &str = "</main>\n</body>\n</html>\n";

/// The beginning of a page, up to its contents.
pub(crate) fn head(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <script>\n//<![CDATA[\n{SCRIPT}//]]>\n</script>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n<p class=\"dim\">sty {}, {}</p>\n",
        env!("CARGO_PKG_VERSION"),
        now()
    )
}

/// The date and time of now.
fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = DateTime::from_timestamp(since.as_secs().cast_signed(), 0).unwrap_or_default();
    now.format("%Y-%m-%d %H:%M UTC").to_string()
}
