//! Prepared statements, which are no more than a text and, once they are bound, values: they are
//! planned when they run. They are their user's alone, few, and forgotten when nobody uses them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use tonic::Status;

use super::description::Description;
use super::tickets::random;
use crate::serve::users::User;

/// How long a statement lives that nobody uses.
const UNUSED: Duration = Duration::from_secs(3600);
/// Statements of a user, and the bytes of their texts and values; and those of all users.
const MOST_OF_USER: usize = 1000;
const MOST_BYTES_OF_USER: usize = 64 << 20;
const MOST: usize = 10_000;
const MOST_BYTES: usize = 512 << 20;
const HANDLE_BYTES: usize = 16;

/// The prepared statements of a server, by their handles.
#[derive(Debug, Default)]
pub(super) struct PreparedStatements {
    all: Mutex<HashMap<Vec<u8>, Kept>>,
}

#[derive(Debug)]
struct Kept {
    user: String,
    used: Instant,
    statement: Prepared,
}

/// A prepared statement.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) sql: Arc<str>,
    /// What it took and gave when it was prepared.
    pub(super) description: Arc<Description>,
    /// The values that are bound: a row for each time that it is to run.
    pub(super) values: Option<RecordBatch>,
}

impl Prepared {
    fn bytes(&self) -> usize {
        let values = self.values.as_ref().map_or(0, RecordBatch::get_array_memory_size);
        self.sql.len().saturating_add(values)
    }
}

impl PreparedStatements {
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Kept>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a statement; returns its handle.
    pub(super) fn add(
        &self,
        user: &User,
        sql: &str,
        description: Description,
    ) -> Result<Vec<u8>, Status> {
        let handle = random::<HANDLE_BYTES>()?.to_vec();
        let statement =
            Prepared { sql: sql.into(), description: Arc::new(description), values: None };
        let mut all = self.lock();
        check_room(&mut all, user, 1, statement.bytes())?;
        let (user, used) = (user.name.clone(), Instant::now());
        all.insert(handle.clone(), Kept { user, used, statement });
        Ok(handle)
    }

    /// The statement of a handle.
    pub(super) fn get(&self, user: &User, handle: &[u8]) -> Result<Prepared, Status> {
        let mut all = self.lock();
        let kept = all.get_mut(handle).filter(|kept| kept.user == user.name);
        let kept = kept.ok_or_else(unknown)?;
        kept.used = Instant::now();
        Ok(kept.statement.clone())
    }

    /// Binds values to a statement.
    pub(super) fn bind(
        &self,
        user: &User,
        handle: &[u8],
        values: Option<RecordBatch>,
    ) -> Result<(), Status> {
        let mut all = self.lock();
        let bytes = values.as_ref().map_or(0, RecordBatch::get_array_memory_size);
        let kept = all.get_mut(handle).filter(|kept| kept.user == user.name);
        let kept = kept.ok_or_else(unknown)?;
        // Those that these replace do not count, nor is the statement forgotten meanwhile.
        let before = kept.statement.values.take();
        kept.used = Instant::now();
        let fits = check_room(&mut all, user, 0, bytes);
        if let Some(kept) = all.get_mut(handle) {
            kept.statement.values = if fits.is_ok() { values } else { before };
        }
        fits
    }

    /// Forgets a statement, if there is one.
    pub(super) fn remove(&self, user: &User, handle: &[u8]) {
        let mut all = self.lock();
        if all.get(handle).is_some_and(|kept| kept.user == user.name) {
            all.remove(handle);
        }
    }
}

/// Checks that a user may have so many more statements and bytes. Before one is refused, those go
/// that nobody uses.
fn check_room(
    all: &mut HashMap<Vec<u8>, Kept>,
    user: &User,
    more: usize,
    bytes: usize,
) -> Result<(), Status> {
    let fits = |all: &HashMap<Vec<u8>, Kept>| {
        let (mut own, mut own_bytes, mut all_bytes) = (more, bytes, bytes);
        for kept in all.values() {
            let bytes = kept.statement.bytes();
            all_bytes = all_bytes.saturating_add(bytes);
            if kept.user == user.name {
                (own, own_bytes) = (own + 1, own_bytes.saturating_add(bytes));
            }
        }
        own <= MOST_OF_USER
            && own_bytes <= MOST_BYTES_OF_USER
            && all.len() + more <= MOST
            && all_bytes <= MOST_BYTES
    };
    if fits(all) {
        return Ok(());
    }
    all.retain(|_, kept| kept.used.elapsed() < UNUSED);
    match fits(all) {
        true => Ok(()),
        false => Err(Status::resource_exhausted(
            "there are too many prepared statements, or values bound to them; close some",
        )),
    }
}

fn unknown() -> Status {
    Status::not_found("there is no prepared statement of this handle; it may have been closed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, StringArray};
    use tonic::Code;

    /// A text so long that a user may bind one of it, and not two.
    fn wide_text() -> ArrayRef {
        Arc::new(StringArray::from(vec!["x".repeat(MOST_BYTES_OF_USER / 2 + 1)]))
    }

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    #[test]
    fn statements_are_their_users_and_few() {
        let (all, anna, ben) = (PreparedStatements::default(), user("anna"), user("ben"));
        let add = |user: &User, sql: &str| all.add(user, sql, Description::default());
        let handle = add(&anna, "SELECT 1").unwrap();
        assert_eq!(&*all.get(&anna, &handle).unwrap().sql, "SELECT 1");
        assert_eq!(all.get(&ben, &handle).unwrap_err().code(), Code::NotFound);
        all.remove(&ben, &handle);
        for _ in 1..MOST_OF_USER {
            add(&anna, "SELECT 2").unwrap();
        }
        assert_eq!(add(&anna, "SELECT 3").unwrap_err().code(), Code::ResourceExhausted);
        add(&ben, "SELECT 3").unwrap();
        all.remove(&anna, &handle);
        assert!(all.get(&anna, &handle).is_err());
        add(&anna, "SELECT 3").unwrap();
        let wide = RecordBatch::try_from_iter([("a", wide_text())]).unwrap();
        let handle = add(&ben, "SELECT $1").unwrap();
        for _ in 0..2 {
            all.bind(&ben, &handle, Some(wide.clone())).unwrap();
        }
        let other = add(&ben, "SELECT $1, 2").unwrap();
        let refused = all.bind(&ben, &other, Some(wide.clone())).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(all.get(&ben, &handle).unwrap().values.is_some());
        let long = "x".repeat(MOST_BYTES_OF_USER);
        assert_eq!(add(&ben, &long).unwrap_err().code(), Code::ResourceExhausted);
    }
}
