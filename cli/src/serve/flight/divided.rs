//! Answers in several parts, one for each endpoint. Clients fetch the parts at the same time. The
//! server holds an answer, and with it the generation of its table, from GetFlightInfo until all
//! parts have been fetched, or until a minute has passed in which no part was read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stylobate::DividedAnswer;
use tonic::Status;

use super::tickets::{Number, random};
use crate::serve::users::User;

/// How long the server holds an answer while no client reads a part of it, and how long after all
/// parts have been fetched: a client may fetch one again.
const UNUSED: Duration = Duration::from_secs(60);
const FETCHED: Duration = Duration::from_secs(2);
/// How often the server checks whether to release an answer.
const LOOK: Duration = Duration::from_millis(500);
/// The most answers that the server holds for one user, and for all users.
const MOST_OF_USER: usize = 32;
const MOST: usize = 256;

/// The answers that a server holds, by their numbers.
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
    /// Whether its time is over. The time starts anew as long as a client reads a part.
    fn is_over(&mut self) -> bool {
        if Arc::strong_count(&self.answer) > 1 {
            self.used = Instant::now();
        }
        let most = if self.is_fetched.contains(&false) { UNUSED } else { FETCHED };
        self.used.elapsed() >= most
    }
}

impl DividedAnswers {
    fn lock(&self) -> MutexGuard<'_, HashMap<Number, Held>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds an answer for a user and releases it when its time is over. Returns its number, which
    /// the tickets of its parts have; `None` if the server holds too many answers.
    pub(super) fn hold(
        self: &Arc<DividedAnswers>,
        user: &User,
        answer: DividedAnswer,
    ) -> Result<Option<Number>, Status> {
        let Some(number) = self.add(user, answer)? else { return Ok(None) };
        let all = Arc::clone(self);
        drop(tokio::spawn(async move {
            while all.is_held(&number) {
                tokio::time::sleep(LOOK).await;
            }
        }));
        Ok(Some(number))
    }

    fn add(&self, user: &User, answer: DividedAnswer) -> Result<Option<Number>, Status> {
        let number = random()?;
        let mut all = self.lock();
        let own = all.values().filter(|held| held.user == user.name).count();
        if own >= MOST_OF_USER || all.len() >= MOST {
            return Ok(None);
        }
        let is_fetched = vec![false; answer.parts()];
        let (user, answer, used) = (user.name.clone(), Arc::new(answer), Instant::now());
        all.insert(number, Held { user, answer, is_fetched, used });
        Ok(Some(number))
    }

    /// Returns the answer that holds the part which a client fetches.
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

    /// Starts the time of an answer anew.
    pub(super) fn renew(&self, user: &User, number: &Number) {
        let mut all = self.lock();
        let held = all.get_mut(number).filter(|held| held.user == user.name);
        held.into_iter().for_each(|held| held.used = Instant::now());
    }

    /// Whether the server still holds an answer. Releases it once its time is over.
    fn is_held(&self, number: &Number) -> bool {
        let mut all = self.lock();
        let over = all.get_mut(number).is_none_or(Held::is_over);
        let held = if over { all.remove(number) } else { None };
        drop(all);
        // Its files are unmapped while nobody waits for the lock.
        drop(held);
        !over
    }

    /// Releases an answer.
    pub(super) fn release(&self, user: &User, number: &Number) {
        let mut all = self.lock();
        let is_own = all.get(number).is_some_and(|held| held.user == user.name);
        let held = if is_own { all.remove(number) } else { None };
        drop(all);
        drop(held);
    }
}
