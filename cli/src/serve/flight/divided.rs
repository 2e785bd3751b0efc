//! Answers in parts, which clients fetch at the same time. Each is held from when a client is told
//! of it until its parts have been fetched, or nobody has come for them: its table stays as it was.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stylobate::DividedAnswer;
use tonic::Status;

use super::tickets::{Number, random};
use crate::serve::users::User;

/// How long an answer is held of which nobody fetches a part; and where all have been fetched, in
/// case that one is fetched again.
const UNUSED: Duration = Duration::from_secs(60);
const FETCHED: Duration = Duration::from_secs(2);
/// The most that are held.
const MOST: usize = 256;
/// The answers in parts of a server, by their numbers.
#[derive(Debug, Default)]
pub(super) struct DividedAnswers {
    all: Mutex<HashMap<Number, Held>>,
}

#[derive(Debug)]
struct Held {
    user: String,
    answer: Arc<DividedAnswer>,
    is_fetched: Vec<bool>,
    used: Instant,
}

impl Held {
    /// How long it is held from now on; `None` if that is over.
    fn left(&self) -> Option<Duration> {
        let most = if self.is_fetched.contains(&false) { UNUSED } else { FETCHED };
        let left = most.checked_sub(self.used.elapsed()).filter(|left| !left.is_zero());
        let is_read = Arc::strong_count(&self.answer) > 1;
        if is_read { Some(left.unwrap_or(FETCHED)) } else { left }
    }
}

impl DividedAnswers {
    fn lock(&self) -> MutexGuard<'_, HashMap<Number, Held>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds an answer of a user, and lets it go in time; returns the number in the tickets of its
    /// parts, unless too many are held.
    pub(super) fn hold(
        self: &Arc<DividedAnswers>,
        user: &User,
        answer: DividedAnswer,
    ) -> Result<Option<Number>, Status> {
        let Some(number) = self.add(user, answer)? else { return Ok(None) };
        let all = Arc::clone(self);
        drop(tokio::spawn(async move {
            while let Some(left) = all.left(&number) {
                tokio::time::sleep(left).await;
            }
        }));
        Ok(Some(number))
    }

    fn add(&self, user: &User, answer: DividedAnswer) -> Result<Option<Number>, Status> {
        let number = random()?;
        let mut all = self.lock();
        if all.len() >= MOST {
            return Ok(None);
        }
        let is_fetched = vec![false; answer.parts()];
        let (user, answer, used) = (user.name.clone(), Arc::new(answer), Instant::now());
        all.insert(number, Held { user, answer, is_fetched, used });
        Ok(Some(number))
    }

    /// An answer of which a part is fetched.
    pub(super) fn get(
        &self,
        user: &User,
        number: &Number,
        part: usize,
    ) -> Result<Arc<DividedAnswer>, Status> {
        let mut all = self.lock();
        let held = all.get_mut(number).filter(|held| held.user == user.name);
        let held = held.ok_or_else(|| {
            Status::not_found(format!(
                "the answer of this ticket is no longer held, as nobody has fetched a part of it \
                 for {} seconds; ask anew",
                UNUSED.as_secs()
            ))
        })?;
        held.used = Instant::now();
        if let Some(is_fetched) = held.is_fetched.get_mut(part) {
            *is_fetched = true;
        }
        Ok(Arc::clone(&held.answer))
    }

    /// Holds an answer for longer.
    pub(super) fn renew(&self, user: &User, number: &Number) {
        let mut all = self.lock();
        let held = all.get_mut(number).filter(|held| held.user == user.name);
        held.into_iter().for_each(|held| held.used = Instant::now());
    }

    /// How long an answer is still held. Once that is over, it is let go.
    fn left(&self, number: &Number) -> Option<Duration> {
        let mut all = self.lock();
        let left = all.get(number)?.left();
        let over = if left.is_none() { all.remove(number) } else { None };
        drop(all);
        // Its files are unmapped while nobody waits for the lock.
        drop(over);
        left
    }
}
