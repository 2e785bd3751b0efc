//! What is known of a connection when its statements ask about the server.

use super::settings::Settings;

pub(super) struct Known<'a> {
    pub(super) user: &'a str,
    pub(super) database: &'a str,
    pub(super) number: i32,
    pub(super) settings: &'a Settings,
}
