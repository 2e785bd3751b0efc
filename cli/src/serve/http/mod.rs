//! ClickHouse's HTTP interface.
//!
//! | module | what it has |
//! | --- | --- |
//! | `errors` | failures with ClickHouse's numbers and names |
//! | `encoding` | bodies and replies that are compressed |
//! | `request` | what URL and headers say |
//! | `system` | what clients ask about the server |
//! | `words` | the words of their statements |
//! | `tail` | FORMAT and SETTINGS of their statements |
//! | `statement` | their statements in our words |
//! | `dialect` | what ClickHouse's statements have and ours have not |
//! | `json_rows` | rows of a body that are arrays of JSON |
//! | `json_envelope` | the rows of an answer that comes back as a body |
//! | `insert` | rows of a body into a table |
//! | `writing` | the reply while it is written |
//! | `work` | a statement on a thread of its own |
//! | `page` | the page at `/play` |
//! | `answer` | from a request to a reply |

mod errors;
mod encoding;
mod request;
mod system;
mod words;
mod tail;
mod statement;
mod dialect;
mod json_rows;
mod json_envelope;
mod insert;
mod writing;
mod work;
mod page;
mod answer;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;

pub(super) use answer::answer;
