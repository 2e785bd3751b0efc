//! How often each word occurs in each group.
//!
//! They are first in one hash table of groups and words. Where most words of groups are different,
//! it would be slower and larger than the words themselves, so that each group gets a list of them;
//! if words of a list turn out to be equal, it becomes a list of different words and their counts.

use std::hash::BuildHasher;

use arrow_buffer::BooleanBuffer;
use datafusion::common::exec_err;
use datafusion::error::Result as DataFusionResult;
use hashbrown::{DefaultHashBuilder, HashTable};

/// A word, and how often it occurs.
pub(super) type Run = (u64, u64);

/// A table has at least so many entries, and so many for each group, before groups get lists.
const LEAST_ENTRIES: usize = if cfg!(test) { 8 } else { 1 << 14 };
const LEAST_ENTRIES_OF_GROUP: usize = if cfg!(test) { 2 } else { 16 };
/// How often each word of a table occurs at least, or groups get lists.
const LEAST_TIMES: u64 = 3;
/// How many words a list has at least before equal ones are looked for.
const LEAST_WORDS: usize = if cfg!(test) { 8 } else { 64 };

#[derive(Debug)]
pub(super) struct Counts {
    form: Form,
    groups: usize,
}

#[derive(Debug)]
enum Form {
    Table(Table),
    Lists {
        lists: Vec<List>,
        /// The bytes of the words of all lists.
        bytes: usize,
    },
}

#[derive(Debug, Default)]
struct Table {
    entries: HashTable<Entry>,
    hasher: DefaultHashBuilder,
    /// Counts that an entry had no room for, of groups and words.
    large: Vec<(u32, Run)>,
    /// The sum of all counts.
    rows: u64,
}

#[derive(Debug)]
struct Entry {
    word: u64,
    group: u32,
    count: u32,
}

/// The words of a group, in any order.
#[derive(Debug)]
struct List {
    words: Vec<u64>,
    /// Words with their counts. One may be here several times, and among `words`.
    runs: Vec<Run>,
    /// How many words there are before equal ones are looked for.
    limit: usize,
}

/// What a group has: words, in any order, and words with counts.
pub(super) struct Words<'a> {
    pub(super) words: &'a mut [u64],
    pub(super) runs: &'a [Run],
}

impl Counts {
    pub(super) fn new() -> Counts {
        Counts { form: Form::Table(Table::default()), groups: 0 }
    }

    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// From now on, there are so many groups.
    pub(super) fn grow(&mut self, groups: usize) -> DataFusionResult<()> {
        if u32::try_from(groups).is_err() {
            return exec_err!("an aggregate of more than 2³² groups");
        }
        self.groups = self.groups.max(groups);
        if let Form::Lists { lists, .. } = &mut self.form {
            lists.resize_with(self.groups, List::default);
        }
        Ok(())
    }

    /// Counts the words of the rows that pass, each in the group of its row.
    pub(super) fn add(
        &mut self,
        words: &[u64],
        groups: &[usize],
        passing: Option<&BooleanBuffer>,
    ) -> DataFusionResult<()> {
        let rows = words.iter().zip(groups);
        match passing {
            None => {
                rows.for_each(|(word, group)| self.add_one(*group, *word));
            }
            Some(passing) => {
                let passing = rows.zip(passing).filter(|(_, passes)| *passes);
                passing.for_each(|((word, group), _)| self.add_one(*group, *word));
            }
        }
        self.settle()
    }

    fn add_one(&mut self, group: usize, word: u64) {
        match &mut self.form {
            Form::Table(table) => table.add(group as u32, word, 1),
            Form::Lists { lists, bytes } => {
                if let Some(list) = lists.get_mut(group) {
                    list.push(word, bytes);
                }
            }
        }
    }

    /// Counts words in a group, each so many times, or once. `settle` is called after that.
    pub(super) fn add_to(&mut self, group: usize, words: &[u64], times: Option<&[i64]>) {
        let Some(times) = times else {
            words.iter().for_each(|word| self.add_one(group, *word));
            return;
        };
        for (word, times) in words.iter().zip(times) {
            match (&mut self.form, times.unsigned_abs()) {
                (_, 1) => self.add_one(group, *word),
                (Form::Table(table), times) => table.add(group as u32, *word, times),
                (Form::Lists { lists, bytes }, times) => {
                    if let Some(list) = lists.get_mut(group) {
                        let before = list.bytes();
                        list.push_run((*word, times));
                        *bytes = *bytes + list.bytes() - before;
                    }
                }
            }
        }
    }

    /// Gives groups lists if most words of the table are different.
    pub(super) fn settle(&mut self) -> DataFusionResult<()> {
        let Form::Table(table) = &self.form else { return Ok(()) };
        let entries = table.entries.len();
        if entries < LEAST_ENTRIES
            || entries / LEAST_ENTRIES_OF_GROUP < self.groups
            || table.rows / LEAST_TIMES >= entries as u64
        {
            return Ok(());
        }
        self.give_lists()
    }

    /// Gives each group a list.
    pub(super) fn give_lists(&mut self) -> DataFusionResult<()> {
        if let Form::Lists { .. } = &self.form {
            return Ok(());
        }
        let (mut lists, mut bytes) = (Vec::new(), 0);
        lists.resize_with(self.groups, List::default);
        let mut at = 0;
        self.each(self.groups, &mut |words| {
            if let Some(list) = lists.get_mut(at) {
                for (word, count) in words.runs {
                    match count {
                        1 => list.push(*word, &mut 0),
                        _ => list.push_run((*word, *count)),
                    }
                }
                bytes += list.bytes();
            }
            at += 1;
            Ok(())
        })?;
        self.form = Form::Lists { lists, bytes };
        Ok(())
    }

    /// Hands over the words of each of the first groups.
    pub(super) fn each(
        &mut self,
        groups: usize,
        take: &mut dyn FnMut(Words<'_>) -> DataFusionResult<()>,
    ) -> DataFusionResult<()> {
        match &mut self.form {
            Form::Lists { lists, .. } => {
                let mut lists = lists.iter_mut().take(groups);
                lists.try_for_each(|list| take(Words { words: &mut list.words, runs: &list.runs }))
            }
            Form::Table(table) => {
                let (runs, starts) = table.by_group(groups);
                starts.windows(2).try_for_each(|bounds| {
                    let of_group = match bounds {
                        [start, end] => runs.get(*start..*end),
                        _ => None,
                    };
                    take(Words { words: &mut [], runs: of_group.unwrap_or_default() })
                })
            }
        }
    }

    /// Forgets the first groups; the next one becomes the first. `word` says what words are from
    /// now on.
    pub(super) fn forget(
        &mut self,
        groups: usize,
        mut word: Option<&mut dyn FnMut(u64) -> DataFusionResult<u64>>,
    ) -> DataFusionResult<()> {
        if groups >= self.groups {
            *self = Counts::new();
            return Ok(());
        }
        self.groups -= groups;
        let mut changed = |old: u64| word.as_mut().map_or(Ok(old), |word| word(old));
        match &mut self.form {
            Form::Lists { lists, bytes } => {
                *bytes -=
                    lists.drain(..groups.min(lists.len())).map(|list| list.bytes()).sum::<usize>();
                for list in lists {
                    for word in &mut list.words {
                        *word = changed(*word)?;
                    }
                    for (word, _) in &mut list.runs {
                        *word = changed(*word)?;
                    }
                }
            }
            Form::Table(table) => {
                let mut kept = Table::default();
                let entries =
                    table.entries.drain().map(|it| (it.group, (it.word, it.count.into())));
                for (group, (word, count)) in entries.chain(table.large.drain(..)) {
                    if let Some(group) = group.checked_sub(groups as u32) {
                        kept.add(group, changed(word)?, count);
                    }
                }
                *table = kept;
            }
        }
        Ok(())
    }

    /// The size, by looking at all that there is.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        match &self.form {
            Form::Table(_) => self.size(),
            Form::Lists { lists, .. } => {
                let bytes: usize = lists.iter().map(List::bytes).sum();
                lists.capacity() * size_of::<List>() + bytes
            }
        }
    }

    pub(super) fn size(&self) -> usize {
        match &self.form {
            Form::Table(table) => {
                table.entries.allocation_size() + table.large.capacity() * size_of::<(u32, Run)>()
            }
            Form::Lists { lists, bytes } => lists.capacity() * size_of::<List>() + bytes,
        }
    }
}

impl Table {
    fn add(&mut self, group: u32, word: u64, times: u64) {
        self.rows += times;
        let Table { entries, hasher, large, .. } = self;
        let hash = hasher.hash_one((word, group));
        let is_it = |entry: &Entry| entry.word == word && entry.group == group;
        let hash_of = |entry: &Entry| hasher.hash_one((entry.word, entry.group));
        let entry = entries.entry(hash, is_it, hash_of);
        let mut entry = entry.or_insert(Entry { word, group, count: 0 });
        let entry = entry.get_mut();
        match u32::try_from(u64::from(entry.count).saturating_add(times)) {
            Ok(count) => entry.count = count,
            Err(_) => large.push((group, (word, times))),
        }
    }

    /// The words of the first groups with their counts, one group after the other, and where each
    /// begins and ends. A word may be there several times.
    fn by_group(&self, groups: usize) -> (Vec<Run>, Vec<usize>) {
        let entries = || {
            let entries = self.entries.iter();
            let entries = entries.map(|it| (it.group as usize, (it.word, u64::from(it.count))));
            let large = self.large.iter().map(|(group, run)| (*group as usize, *run));
            entries.chain(large).filter(|(group, _)| *group < groups)
        };
        let mut starts = vec![0; groups + 1];
        entries().for_each(|(group, _)| {
            if let Some(next) = starts.get_mut(group + 1) {
                *next += 1;
            }
        });
        let mut total = 0;
        for start in &mut starts {
            total += *start;
            *start = total;
        }
        let mut runs = vec![(0, 0); total];
        let mut next = starts.clone();
        for (group, run) in entries() {
            let Some(next) = next.get_mut(group) else { continue };
            if let Some(place) = runs.get_mut(*next) {
                *place = run;
            }
            *next += 1;
        }
        (runs, starts)
    }
}

impl Default for List {
    fn default() -> List {
        List { words: Vec::new(), runs: Vec::new(), limit: LEAST_WORDS }
    }
}

impl List {
    fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>() + self.runs.capacity() * size_of::<Run>()
    }

    /// Adds a word, and what it takes to the bytes of all lists.
    fn push(&mut self, word: u64, bytes: &mut usize) {
        if self.words.len() == self.words.capacity() {
            let before = self.bytes();
            if self.words.len() >= self.limit {
                self.count_equal();
            }
            self.words.reserve(1);
            *bytes = (*bytes + self.bytes()).saturating_sub(before);
        }
        self.words.push(word);
    }

    /// Adds a word that occurs several times.
    fn push_run(&mut self, run: Run) {
        if self.runs.len() == self.runs.capacity() {
            add_up(&mut self.runs);
            if self.runs.len() > self.runs.capacity() / 2 {
                self.runs.reserve(self.runs.capacity());
            }
        }
        self.runs.push(run);
    }

    /// Counts the words if at least every second one occurs before.
    fn count_equal(&mut self) {
        let mut words = std::mem::take(&mut self.words);
        words.sort_unstable();
        let runs = words.chunk_by(|a, b| a == b);
        if runs.clone().count() > words.len() / 2 {
            self.limit = words.len() * 4;
            self.words = words;
            return;
        }
        for run in runs {
            if let Some(word) = run.first() {
                self.push_run((*word, run.len() as u64));
            }
        }
        self.limit = self.runs.len().max(LEAST_WORDS);
        words.clear();
        self.words = words;
    }
}

/// Sorts words with counts, and makes one of equal words.
pub(super) fn add_up(runs: &mut Vec<Run>) {
    runs.sort_unstable_by_key(|(word, _)| *word);
    runs.dedup_by(|(word, count), (kept, sum)| {
        let is_same = word == kept;
        if is_same {
            *sum += *count;
        }
        is_same
    });
}
