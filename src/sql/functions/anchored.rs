//! Regular expressions that begin with `^` and are matched in one pass over the text: literals,
//! runs of a class of characters, optional parts, groups.
//!
//! Where this stands on the road of a query: `regexp_replace` (`text.rs`) and `regexp_extract`
//! (`formats.rs`) ask here first, because the library of regexes looks for groups in two passes of
//! general machines, some 250 ns for a URL. What is more than this answers, it does as before.
//!
//! A run is taken as long as it gets, and never given back: it is refused unless nothing that can
//! follow it begins with a byte of its class, so that a shorter run could not lead to a match. Only
//! optional parts are tried both ways. The semantics are those of the library (leftmost, first
//! alternative), which the tests compare.

use memchr::memchr;
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

/// More optional parts could be tried in too many ways.
const MOST_OPTIONAL: usize = 4;
/// More steps are not worth a look.
const MOST_STEPS: usize = 64;

/// Where a group matched, in bytes.
pub(super) type Place = Option<(usize, usize)>;

/// An anchored regular expression, as steps.
#[derive(Debug)]
pub(super) struct Anchored {
    steps: Vec<Step>,
    /// With the whole match, which is group 0.
    groups: usize,
    /// Classes are those of ASCII only: other texts are not for this.
    only_ascii: bool,
}

#[derive(Debug)]
enum Step {
    Literal(Box<[u8]>),
    Run(Run),
    /// The steps up to `end`, which have these groups, or none of them.
    Optional {
        end: usize,
        groups: (usize, usize),
    },
    Open(usize),
    Close(usize),
    EndOfText,
}

/// Bytes of a class.
#[derive(Debug)]
struct Run {
    class: Box<[bool; 256]>,
    /// The only byte that is not of the class.
    stop: Option<u8>,
    min: usize,
    max: usize,
}

impl Anchored {
    /// `None` for a pattern that is not one, or not a simple one.
    pub(super) fn new(pattern: &str) -> Option<Anchored> {
        let hir = regex_syntax::parse(pattern).ok()?;
        let groups = hir.properties().explicit_captures_len() + 1;
        let HirKind::Concat(parts) = hir.kind() else { return None };
        let (first, rest) = parts.split_first()?;
        if !matches!(first.kind(), HirKind::Look(Look::Start)) {
            return None;
        }
        let mut made = Anchored { steps: Vec::new(), groups, only_ascii: false };
        rest.iter().try_for_each(|part| made.add(part))?;
        made.is_in_one_pass().then_some(made)
    }

    /// Appends the steps of a part; `None` if it has others.
    fn add(&mut self, part: &Hir) -> Option<()> {
        match part.kind() {
            HirKind::Empty => {}
            HirKind::Literal(literal) => self.steps.push(Step::Literal(literal.0.clone())),
            HirKind::Class(class) => self.run(class, 1, Some(1))?,
            HirKind::Look(Look::End) => self.steps.push(Step::EndOfText),
            HirKind::Capture(capture) => {
                // Groups that are never there, as in `(a){0}`, are not counted, and keep their
                // numbers.
                let group = Some(capture.index as usize).filter(|group| *group < self.groups)?;
                self.steps.push(Step::Open(group));
                self.add(&capture.sub)?;
                self.steps.push(Step::Close(group));
            }
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.add(part))?,
            HirKind::Repetition(repeated) => self.repeat(repeated)?,
            HirKind::Look(_) | HirKind::Alternation(_) => return None,
        }
        (self.steps.len() <= MOST_STEPS).then_some(())
    }

    fn repeat(&mut self, repeated: &Repetition) -> Option<()> {
        if !repeated.greedy {
            return None;
        }
        if (repeated.min, repeated.max) == (0, Some(1)) {
            let at = self.steps.len();
            self.steps.push(Step::EndOfText);
            self.add(&repeated.sub)?;
            let groups = self.steps.iter().skip(at).filter_map(|step| match step {
                Step::Open(group) => Some(*group),
                _ => None,
            });
            let first = groups.clone().min().unwrap_or(self.groups);
            let groups = (first, groups.max().map_or(first, |last| last + 1));
            let end = self.steps.len();
            *self.steps.get_mut(at)? = Step::Optional { end, groups };
            return Some(());
        }
        let HirKind::Class(class) = repeated.sub.kind() else {
            let HirKind::Literal(literal) = repeated.sub.kind() else { return None };
            let [byte] = *literal.0 else { return None };
            return self.run_of(&|other| other == byte, repeated.min, repeated.max);
        };
        self.run(class, repeated.min, repeated.max)
    }

    /// Adds a run of characters of a class. Each is one byte, or the class has all longer ones.
    fn run(&mut self, class: &Class, min: u32, max: Option<u32>) -> Option<()> {
        let ranges: Vec<(u32, u32)> = match class {
            Class::Unicode(class) => {
                class.iter().map(|range| (range.start().into(), range.end().into())).collect()
            }
            Class::Bytes(class) => {
                class.iter().map(|range| (range.start().into(), range.end().into())).collect()
            }
        };
        let beyond = ranges.iter().filter(|(_, end)| *end > 0x7f).count();
        let all_beyond = ranges
            .last()
            .is_some_and(|(start, end)| *start <= 0x80 && *end == u32::from(char::MAX));
        // Bytes are counted, not characters: where the number matters, all must be one byte.
        let any_number = min <= 1 && max.is_none();
        let all_beyond = all_beyond && any_number;
        self.only_ascii |= beyond > 0 && !all_beyond;
        let within =
            |byte: u8| ranges.iter().any(|(start, end)| (*start..=*end).contains(&u32::from(byte)));
        self.run_of(&|byte| if byte < 0x80 { within(byte) } else { all_beyond }, min, max)
    }

    fn run_of(&mut self, has: &dyn Fn(u8) -> bool, min: u32, max: Option<u32>) -> Option<()> {
        let mut class = Box::new([false; 256]);
        (0..=u8::MAX).zip(class.iter_mut()).for_each(|(byte, within)| *within = has(byte));
        let mut others = (0..=u8::MAX).filter(|byte| !has(*byte));
        let stop = others.next().filter(|_| others.next().is_none());
        let max = max.map_or(usize::MAX, |max| max as usize);
        self.steps.push(Step::Run(Run { class, stop, min: min as usize, max }));
        Some(())
    }

    /// Whether what follows each run begins with none of its bytes.
    fn is_in_one_pass(&self) -> bool {
        let optional = self.steps.iter().filter(|step| matches!(step, Step::Optional { .. }));
        let apart = |(at, step): (usize, &Step)| match step {
            // A run of a fixed length has no shorter form.
            Step::Run(run) if run.min == run.max => true,
            Step::Run(run) => {
                let mut first = [false; 256];
                self.add_first(at + 1, &mut first);
                !run.class.iter().zip(&first).any(|(own, next)| *own && *next)
            }
            _ => true,
        };
        optional.count() <= MOST_OPTIONAL && self.steps.iter().enumerate().all(apart)
    }

    /// Adds the bytes with which the steps from `at` can begin.
    fn add_first(&self, at: usize, first: &mut [bool; 256]) {
        match self.steps.get(at) {
            None | Some(Step::EndOfText) => {}
            Some(Step::Literal(literal)) => {
                let byte = literal.first().and_then(|byte| first.get_mut(usize::from(*byte)));
                byte.into_iter().for_each(|byte| *byte = true);
            }
            Some(Step::Run(run)) => {
                first.iter_mut().zip(&*run.class).for_each(|(all, own)| *all |= own);
                if run.min == 0 {
                    self.add_first(at + 1, first);
                }
            }
            Some(Step::Optional { end, .. }) => {
                self.add_first(at + 1, first);
                self.add_first(*end, first);
            }
            Some(Step::Open(_) | Step::Close(_)) => self.add_first(at + 1, first),
        }
    }

    /// Whether it can answer for a text.
    pub(super) fn takes(&self, text: &str) -> bool {
        !self.only_ascii || text.is_ascii()
    }

    /// Room for the places of all groups.
    pub(super) fn places(&self) -> Vec<Place> {
        vec![None; self.groups]
    }

    /// Whether a text matches, which [`Anchored::takes`]; then `places` has where each group did,
    /// the whole match first.
    pub(super) fn matches(&self, text: &str, places: &mut [Place]) -> bool {
        places.fill(None);
        let end = self.steps_from(0, text.as_bytes(), 0, places);
        if let (Some(end), Some(whole)) = (end, places.first_mut()) {
            *whole = Some((0, end));
        }
        end.is_some()
    }

    /// Where the steps from `step` end if they match at `at`.
    fn steps_from(
        &self,
        step: usize,
        text: &[u8],
        mut at: usize,
        places: &mut [Place],
    ) -> Option<usize> {
        for (next, step) in self.steps.iter().enumerate().skip(step) {
            let rest = text.get(at..)?;
            match step {
                Step::Literal(literal) => {
                    if !rest.starts_with(literal) {
                        return None;
                    }
                    at += literal.len();
                }
                Step::Run(run) => at += run.length(rest)?,
                Step::Optional { end, groups } => {
                    let taken = self.steps_from(next + 1, text, at, places);
                    if taken.is_some() {
                        return taken;
                    }
                    places.iter_mut().take(groups.1).skip(groups.0).for_each(|it| *it = None);
                    return self.steps_from(*end, text, at, places);
                }
                Step::Open(group) => *places.get_mut(*group)? = Some((at, at)),
                Step::Close(group) => places.get_mut(*group)?.as_mut()?.1 = at,
                Step::EndOfText => {
                    if !rest.is_empty() {
                        return None;
                    }
                }
            }
        }
        Some(at)
    }
}

impl Run {
    /// How many bytes it takes; `None` if they are too few.
    #[inline]
    fn length(&self, text: &[u8]) -> Option<usize> {
        let text = text.get(..self.max).unwrap_or(text);
        let is_out = |byte: &u8| !self.class[usize::from(*byte)];
        let end = match self.stop {
            Some(stop) => memchr(stop, text),
            None => text.iter().position(is_out),
        };
        Some(end.unwrap_or(text.len())).filter(|length| *length >= self.min)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    /// Patterns that are matched here.
    const PATTERNS: [&str; 19] = [
        r"^https?://(?:www\.)?([^/]+)/.*$",
        r"^https?://(www\.)?([^/]+)/",
        r"^([^/]*)(/)?",
        r"^(a)?(b)?$",
        r"^(a+)?(b+)?c{2}",
        r"^a{1,3}(b|c)",
        r"^(?:a(b)?)?(a)",
        r"^\w+://([^/:]+)(?::(\d+))?(/[^?#]*)?",
        r"^(\d+)-(\d{2})",
        r"^(?i)HTTP(s?):",
        r"^.*$",
        r"^a.$",
        r"^[^a]b",
        r"^(\S+) (\S+)",
        r"^(?:(a)(/)?)?(a)?(/)?$",
        r"^()a",
        r"^a*$",
        r"^(a?)/",
        r"^[^é]+é",
    ];

    fn assert_same(pattern: &str, text: &str) {
        let Some(anchored) = Anchored::new(pattern) else { panic!("{pattern} is not taken") };
        if !anchored.takes(text) {
            return;
        }
        let mut places = anchored.places();
        let found = anchored.matches(text, &mut places).then_some(places);
        let groups = |captures: regex::Captures<'_>| -> Vec<Place> {
            captures.iter().map(|group| group.map(|it| (it.start(), it.end()))).collect()
        };
        let expected = Regex::new(pattern).unwrap().captures(text).map(groups);
        assert_eq!(found, expected, "{pattern} on {text:?}");
    }

    #[test]
    fn urls_are_taken_apart() {
        let urls = [
            "http://www.example.com/a/b",
            "https://example.com/",
            "http://www.",
            "http://www./",
            "http:///",
            "ftp://example.com/",
            "http://пример.рф:80/путь?x#y",
            "http://a.b/\nc",
            "",
        ];
        for pattern in PATTERNS.iter().filter(|pattern| Anchored::new(pattern).is_some()) {
            urls.iter().for_each(|url| assert_same(pattern, url));
        }
    }

    #[test]
    fn what_needs_a_way_back_is_left_to_the_library() {
        let others = [
            "a",
            "^a|b",
            "^a*a",
            "^(ab)+",
            "^a*?b",
            r"^\bx",
            "^.*x",
            "^[^x]+(x|y)",
            "(?m)^a$",
            "^a?b?c?d?e?f",
            "^(a){0}(b)",
            "^(a*)?a",
            "^[a-c]{1,2}b",
        ];
        let taken: Vec<&&str> = others.iter().filter(|it| Anchored::new(it).is_some()).collect();
        assert!(taken.is_empty(), "{taken:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn groups_are_those_of_the_library(
            pattern in 0..PATTERNS.len(),
            text in "(https?://)?(www\\.)?[ab/cé1 :\n-]{0,12}",
        ) {
            assert_same(PATTERNS[pattern], &text);
        }

        #[test]
        fn any_pattern_that_is_taken_has_the_groups_of_the_library(
            parts in proptest::collection::vec(
                prop::sample::select(vec![
                    "a", "b", "/", "(a)", "(b)?", "a?", "a*", "(a+)", "[^/]+", "([^/]*)",
                    "(/[^b]+)?", "b{2}", "[ab]{1,2}", "é", "é?", "[^é]+", "(a(b)?)?",
                    "(?:/(a*))?", "(a){0}", "$", ".*", "\\w+",
                ]),
                0..6,
            ),
            text in "[ab/é\n]{0,10}",
        ) {
            let pattern = format!("^{}", parts.concat());
            if Anchored::new(&pattern).is_some() {
                assert_same(&pattern, &text);
            }
        }
    }
}
