//! LIKE patterns on bytes: `%` is any text, `_` any one character of UTF-8.

use memchr::memchr;
use memchr::memmem::Finder;

/// A pattern without escapes.
#[derive(Clone)]
pub struct Pattern {
    /// The parts between `%`: the first part must start the text, and the last one end it.
    parts: Vec<Part>,
    /// Finds what every match contains, where matches may start with any text.
    contained: Option<Box<Finder<'static>>>,
}

/// Text without `%`.
#[derive(Clone)]
struct Part {
    /// Literal texts, each with the number of `_` after it.
    pieces: Vec<(Box<[u8]>, usize)>,
    /// Finds the first literal.
    finder: Finder<'static>,
    /// The number of characters, unless the part is a single literal.
    chars: Option<usize>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.parts.iter().map(|part| &part.pieces).eq(other.parts.iter().map(|part| &part.pieces))
    }
}

/// Two patterns match the same texts if this shows them alike.
impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let literals = |part: &Part| {
            let pieces = part.pieces.iter();
            pieces.map(|(text, any)| (text.escape_ascii().to_string(), *any)).collect::<Vec<_>>()
        };
        f.debug_list().entries(self.parts.iter().map(literals)).finish()
    }
}

impl Pattern {
    /// The pattern of `LIKE`.
    pub fn like(text: &[u8]) -> Self {
        Pattern::new(text.split(|byte| *byte == b'%').map(Part::new).collect())
    }

    /// The pattern of texts that start with these bytes.
    pub fn starts_with(prefix: &[u8]) -> Self {
        Pattern::new(vec![Part::literal(prefix), Part::literal(b"")])
    }

    fn new(parts: Vec<Part>) -> Self {
        let literals = match parts.as_slice() {
            [first, middle @ .., _] if first.is_empty() => middle,
            _ => &[],
        };
        let literals = literals.iter().flat_map(|part| &part.pieces).map(|(literal, _)| literal);
        let longest = literals.max_by_key(|literal| literal.len()).filter(|l| !l.is_empty());
        let contained = longest.map(|literal| Box::new(Finder::new(literal).into_owned()));
        Pattern { parts, contained }
    }

    /// The prefix of every match, and whether every text with this prefix matches.
    pub fn prefix(&self) -> (&[u8], bool) {
        let first =
            self.parts.first().and_then(|part| Some((part.chars.is_none(), part.pieces.first()?)));
        let Some((whole, (literal, _))) = first else { return (&[], false) };
        (literal, whole && self.parts.len() > 1 && self.parts.iter().skip(1).all(Part::is_empty))
    }

    /// Whether a text matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        match self.parts.as_slice() {
            [] => false,
            [only] => only.match_at(text) == Some(text.len()),
            [first, middle @ .., last] => {
                let Some(mut rest) = first.match_at(text).and_then(|end| text.get(end..)) else {
                    return false;
                };
                for part in middle {
                    let Some(end) = part.find(rest) else { return false };
                    rest = rest.get(end..).unwrap_or_default();
                }
                last.ends(rest)
            }
        }
    }

    /// Sets the mask of texts to 0 where they do not match, or with `negated` where they do. Text
    /// `i` ends at `ends[i]` and starts where the one before it ends.
    ///
    /// A text that every match contains is looked for in all texts at once.
    pub(crate) fn mask(&self, data: &[u8], ends: &[u32], negated: bool, mask: &mut [u8]) {
        let start = |row: usize| row.checked_sub(1).and_then(|row| ends.get(row)).map_or(0, |e| *e);
        let text = |row: usize, end: u32| data.get(start(row) as usize..end as usize);
        let Some(contained) = &self.contained else {
            for ((row, end), byte) in ends.iter().enumerate().zip(mask) {
                let matches = text(row, *end).is_some_and(|text| self.matches(text));
                *byte &= u8::from(matches != negated);
            }
            return;
        };
        let is_whole = match self.parts.as_slice() {
            [_, middle, last] => middle.chars.is_none() && last.is_empty(),
            _ => false,
        };
        // The text that is looked at, the place that is searched on from, and the texts whose mask
        // is as it will be.
        let (mut row, mut at, mut done) = (0, 0, 0);
        while let Some(found) = data.get(at..).and_then(|rest| contained.find(rest)) {
            let found = at + found;
            row += ends
                .get(row..)
                .unwrap_or_default()
                .iter()
                .take_while(|e| **e as usize <= found)
                .count();
            let Some(end) = ends.get(row).copied() else { break };
            let matches = match is_whole {
                true => found + contained.needle().len() <= end as usize,
                false => text(row, end).is_some_and(|text| self.matches(text)),
            };
            at = if is_whole && !matches { found + 1 } else { end as usize };
            if matches && negated {
                mask.get_mut(row..=row).unwrap_or_default().fill(0);
            } else if matches {
                mask.get_mut(done..row).unwrap_or_default().fill(0);
                done = row + 1;
            }
        }
        if !negated {
            mask.get_mut(done..).unwrap_or_default().fill(0);
        }
    }
}

impl Part {
    fn new(text: &[u8]) -> Self {
        let mut pieces: Vec<(Box<[u8]>, usize)> = Vec::new();
        for literal in text.split(|byte| *byte == b'_') {
            match pieces.last_mut() {
                Some((_, any)) if literal.is_empty() => *any += 1,
                Some((_, any)) => {
                    *any += 1;
                    pieces.push((literal.into(), 0));
                }
                None => pieces.push((literal.into(), 0)),
            }
        }
        let finder = Finder::new(pieces.first().map_or(&[][..], |(first, _)| first)).into_owned();
        let literal = pieces.len() == 1 && pieces.iter().all(|(_, any)| *any == 0);
        // Continuation bytes of UTF-8 do not count.
        let chars = text.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        Part { pieces, finder, chars: (!literal).then_some(chars) }
    }

    fn literal(text: &[u8]) -> Self {
        Part { pieces: vec![(text.into(), 0)], finder: Finder::new(text).into_owned(), chars: None }
    }

    fn is_empty(&self) -> bool {
        self.chars.is_none() && self.pieces.iter().all(|(literal, _)| literal.is_empty())
    }

    /// The end of a match at the start of a text.
    fn match_at(&self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        for (literal, any) in &self.pieces {
            at += text.get(at..)?.starts_with(literal).then_some(literal.len())?;
            for _ in 0..*any {
                at = next_char(text, at)?;
            }
        }
        Some(at)
    }

    /// The end of the first match in a text.
    fn find(&self, text: &[u8]) -> Option<usize> {
        if self.chars.is_none() {
            // The finder of one byte takes several times as long to start.
            if let [byte] = self.finder.needle() {
                return Some(memchr(*byte, text)? + 1);
            }
            return Some(self.finder.find(text)? + self.finder.needle().len());
        }
        let mut from = 0;
        loop {
            let rest = text.get(from..)?;
            let at = from + self.finder.find(rest)?;
            if let Some(end) = self.match_at(text.get(at..)?) {
                return Some(at + end);
            }
            from = next_char(text, at)?;
        }
    }

    /// Whether a text ends with a match.
    fn ends(&self, text: &[u8]) -> bool {
        let Some(chars) = self.chars else { return text.ends_with(self.finder.needle()) };
        let mut starts = text.iter().enumerate().rev().filter(|(_, byte)| **byte & 0xc0 != 0x80);
        let start =
            if chars == 0 { Some(text.len()) } else { starts.nth(chars - 1).map(|(at, _)| at) };
        start
            .and_then(|start| text.get(start..))
            .is_some_and(|end| self.match_at(end) == Some(end.len()))
    }
}

/// The end of the character at an offset; `None` at the end of the text.
fn next_char(text: &[u8], at: usize) -> Option<usize> {
    text.get(at)?;
    let more = text.iter().skip(at + 1).take_while(|byte| **byte & 0xc0 == 0x80).count();
    Some(at + 1 + more)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition: character by character.
    fn matches(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('%', rest)), _) => (0..=text.len()).any(|skip| matches(rest, &text[skip..])),
            (Some(('_', rest)), Some((_, text))) => matches(rest, text),
            (Some((a, rest)), Some((b, text))) => a == b && matches(rest, text),
            _ => false,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn patterns_match_as_defined(pattern in "[abé%_]{0,7}", text in "[abé]{0,9}") {
            let chars = |s: &str| s.chars().collect::<Vec<_>>();
            let expected = matches(&chars(&pattern), &chars(&text));
            let compiled = Pattern::like(pattern.as_bytes());
            prop_assert_eq!(compiled.matches(text.as_bytes()), expected);
            let (prefix, all) = compiled.prefix();
            prop_assert!(!expected || text.as_bytes().starts_with(prefix));
            prop_assert!(!all || expected == text.as_bytes().starts_with(prefix));
            let starts = Pattern::starts_with(pattern.as_bytes());
            prop_assert_eq!(starts.matches(text.as_bytes()), text.starts_with(&pattern));
        }

        #[test]
        fn texts_are_masked_as_each_matches(
            pattern in "%?[ab_%]{0,5}",
            texts in prop::collection::vec("[abé]{0,7}", 0..9),
            before in 0u8..=255,
            negated: bool,
        ) {
            let compiled = Pattern::like(pattern.as_bytes());
            let data = texts.concat().into_bytes();
            let ends: Vec<u32> = texts.iter().scan(0, |end, text| {
                *end += text.len() as u32;
                Some(*end)
            }).collect();
            let before: Vec<u8> = (0..texts.len()).map(|i| before >> (i % 8) & 1).collect();
            let mut mask = before.clone();
            compiled.mask(&data, &ends, negated, &mut mask);
            for ((text, before), after) in texts.iter().zip(before).zip(mask) {
                let passes = compiled.matches(text.as_bytes()) != negated;
                prop_assert_eq!(after, before & u8::from(passes), "{:?} {:?}", text, &pattern);
            }
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(
            pattern in prop::collection::vec(any::<u8>(), 0..6),
            text in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            Pattern::like(&pattern).matches(&text);
        }
    }
}
