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
/// How often it is looked whether the time of an answer is over.
const LOOK: Duration = Duration::from_millis(500);
/// The most that are held of a user, and of all.
const MOST_OF_USER: usize = 32;
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
    /// Whether it is not held any more. As long as a part is read, the time does not begin.
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

    /// Whether an answer is still held. Once its time is over, it is let go.
    fn is_held(&self, number: &Number) -> bool {
        let mut all = self.lock();
        let over = all.get_mut(number).is_none_or(Held::is_over);
        let held = if over { all.remove(number) } else { None };
        drop(all);
        // Its files are unmapped while nobody waits for the lock.
        drop(held);
        !over
    }

    /// Lets an answer go.
    pub(super) fn release(&self, user: &User, number: &Number) {
        let mut all = self.lock();
        let is_own = all.get(number).is_some_and(|held| held.user == user.name);
        let held = if is_own { all.remove(number) } else { None };
        drop(all);
        drop(held);
    }
}
