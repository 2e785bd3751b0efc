//! The words of SQL as PostgreSQL's clients write it: where a statement ends, and what it begins
//! with. What a statement means is left to the library.

use std::ops::Range;

use stylobate::internal::sql::text_of_literal;

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword, a name, a number, a parameter.
    Word,
    /// In single quotes, or between dollars.
    Text,
    /// In double quotes.
    Name,
    /// A blank or a comment.
    Blank,
    Sign,
}

/// The words of a text; together they are all of it.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::<Token>::new(), 0);
    let mut unclosed = 0;
    while let Some(first) = bytes.get(at) {
        let rest = &bytes[at..];
        let (kind, length) = match first {
            b'\'' => (Kind::Text, quoted(rest, false)),
            b'e' | b'E' if rest.get(1) == Some(&b'\'') => {
                (Kind::Text, 1 + quoted(&rest[1..], true))
            }
            b'"' => (Kind::Name, quoted(rest, false)),
            b'$' => match dollars(rest, &mut unclosed) {
                Some(length) => (Kind::Text, length),
                None => (Kind::Word, 1 + run(&rest[1..], is_word)),
            },
            b'-' if rest.starts_with(b"--") => (Kind::Blank, run(rest, |byte| *byte != b'\n')),
            b'/' if rest.starts_with(b"/*") => (Kind::Blank, comment(rest)),
            byte if byte.is_ascii_whitespace() => (Kind::Blank, run(rest, u8::is_ascii_whitespace)),
            byte if is_word(byte) => (Kind::Word, run(rest, is_word)),
            _ => (Kind::Sign, 1),
        };
        match found.last_mut() {
            // Blanks and comments behind each other are one.
            Some(last) if kind == Kind::Blank && last.kind == kind => last.range.end += length,
            _ => found.push(Token { kind, range: at..at + length }),
        }
        at += length;
    }
    found
}

/// The statements of a text, without the semicolons and without those that are empty.
pub(super) fn statements(text: &str) -> Vec<&str> {
    let tokens = tokens(text);
    let is_end = |token: &Token| token.kind == Kind::Sign && &text[token.range.clone()] == ";";
    let parts = tokens.split(is_end).filter_map(|part| {
        let mut words = part.iter().filter(|token| token.kind != Kind::Blank);
        let begin = words.next()?.range.start;
        let end = part.iter().rfind(|token| token.kind != Kind::Blank)?.range.end;
        text.get(begin..end)
    });
    parts.collect()
}

/// The words of a statement without blanks: keywords and names as they are written.
#[derive(Clone, Debug)]
pub(super) struct Words<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
}

impl<'t> Words<'t> {
    pub(super) fn of(text: &'t str) -> Words<'t> {
        let tokens = tokens(text).into_iter().filter(|token| token.kind != Kind::Blank).collect();
        Words { text, tokens, at: 0 }
    }

    /// The next word, as it is written.
    pub(super) fn peek(&self) -> Option<&'t str> {
        self.text.get(self.tokens.get(self.at)?.range.clone())
    }

    pub(super) fn next(&mut self) -> Option<&'t str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Where the next word begins.
    pub(super) fn begin(&self) -> Option<usize> {
        Some(self.tokens.get(self.at)?.range.start)
    }

    /// Takes a keyword if it comes next.
    pub(super) fn take(&mut self, keyword: &str) -> bool {
        let is_next = self.peek().is_some_and(|word| word.eq_ignore_ascii_case(keyword));
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes keywords if they come next, all of them.
    pub(super) fn take_all(&mut self, keywords: &str) -> bool {
        let before = self.at;
        let are_next = keywords.split(' ').all(|keyword| self.take(keyword));
        if !are_next {
            self.at = before;
        }
        are_next
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Takes a name, which means the same in lower case unless it is quoted.
    pub(super) fn name(&mut self) -> Option<String> {
        let kind = self.tokens.get(self.at)?.kind;
        let word = match kind {
            Kind::Word | Kind::Name => self.next()?,
            _ => return None,
        };
        Some(match kind {
            Kind::Name => unquoted(word, '"'),
            _ => word.to_ascii_lowercase(),
        })
    }

    /// Takes a name, before which a keyword may stand.
    pub(super) fn name_behind(&mut self, keyword: &str) -> Option<String> {
        self.take(keyword);
        self.name()
    }

    /// The text that is all of the words.
    pub(super) fn text(&self) -> Option<String> {
        match self.tokens.as_slice() {
            [only] if only.kind == Kind::Text => self.text.get(only.range.clone()).map(text_of),
            _ => None,
        }
    }

    /// Takes a text, a name or a number as what it stands for.
    pub(super) fn value(&mut self) -> Option<String> {
        let kind = self.tokens.get(self.at)?.kind;
        let word = self.next()?;
        Some(match kind {
            Kind::Text => text_of(word),
            Kind::Name => unquoted(word, '"'),
            Kind::Sign if word == "-" => format!("-{}", self.next()?),
            _ => word.to_owned(),
        })
    }

    /// Takes all between the next parenthesis and the one that ends it.
    pub(super) fn parentheses(&mut self) -> Option<&'t str> {
        let begin = self.tokens.get(self.at).filter(|_| self.peek() == Some("("))?.range.end;
        let mut depth = 0;
        while let Some(token) = self.tokens.get(self.at) {
            match &self.text[token.range.clone()] {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return self.text.get(begin..token.range.start);
            }
        }
        None
    }
}

/// What a text in quotes, or between dollars, stands for.
pub(super) fn text_of(word: &str) -> String {
    if let Some(inner) = word.strip_prefix(['e', 'E']) {
        // Escapes that stand for nothing are left, for the parser to refuse.
        return text_of_literal(word).unwrap_or_else(|| unquoted(inner, '\''));
    }
    if word.starts_with('$') {
        let tag = word.get(1..).and_then(|rest| rest.find('$')).map_or(0, |end| end + 2);
        return word.get(tag..word.len().saturating_sub(tag)).unwrap_or_default().to_owned();
    }
    unquoted(word, '\'')
}

fn unquoted(word: &str, quote: char) -> String {
    let inner = word.strip_prefix(quote).unwrap_or(word);
    let inner = inner.strip_suffix(quote).unwrap_or(inner);
    let doubled: String = [quote, quote].iter().collect();
    inner.replace(&doubled, &quote.to_string())
}

/// Letters, digits, underscores, and all that is not ASCII. A point may be within a number only.
fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80
}

fn run(bytes: &[u8], holds: impl Fn(&u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| holds(byte)).count()
}

/// The length of what stands in quotes, which ends at the latest with the text.
fn quoted(bytes: &[u8], has_escapes: bool) -> usize {
    let quote = bytes[0];
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if has_escapes => at += 2,
            byte if *byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Texts between dollars without an end are looked for in a statement this often: each time, in all
/// of the rest.
const MOST_UNCLOSED: u32 = 16;

/// The length of a text between dollars, with a tag or without; `None` if it is none.
fn dollars(bytes: &[u8], unclosed: &mut u32) -> Option<usize> {
    let tag = 1 + run(&bytes[1..], is_word);
    let is_tag = bytes.get(tag) == Some(&b'$') && !bytes[1].is_ascii_digit();
    let mark = bytes.get(..=tag).filter(|_| is_tag && *unclosed < MOST_UNCLOSED)?;
    let inner = &bytes[mark.len()..];
    let Some(end) = inner.windows(mark.len()).position(|window| window == mark) else {
        *unclosed += 1;
        return None;
    };
    Some(mark.len() + end + mark.len())
}

/// The length of a comment, in which there may be others.
fn comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_outside_of_texts() {
        let all =
            "SELECT ';' ; ;\n-- a; b\nSELECT \";\", E'\\';', $$;$$, $a$;$$;$a$ /* ; /* ; */ ; */;";
        let expected = ["SELECT ';'", "SELECT \";\", E'\\';', $$;$$, $a$;$$;$a$"];
        assert_eq!(statements(all), expected);
        assert!(statements(" ; -- nothing\n").is_empty());
        assert_eq!(statements("SELECT $1, 'open"), ["SELECT $1, 'open"]);
        assert_eq!(tokens("a /* */ /* */--\n b").len(), 3);
        for cut in all.char_indices().map(|(at, _)| at) {
            let cut = &all[..cut];
            assert_eq!(tokens(cut).last().map_or(0, |token| token.range.end), cut.len());
        }
    }

    #[test]
    fn words_are_taken() {
        let mut words = Words::of("SET Session \"My\"\"x\" = 'it''s', -5 (a (b)) E'\\n' $x$q$x$");
        assert!(words.take_all("set session") && !words.take_all("x y"));
        assert_eq!(words.name().as_deref(), Some("My\"x"));
        assert!(words.take("="));
        assert_eq!(words.value().as_deref(), Some("it's"));
        assert!(words.take(","));
        assert_eq!(words.value().as_deref(), Some("-5"));
        assert_eq!(words.parentheses(), Some("a (b)"));
        assert_eq!(words.value().as_deref(), Some("\n"));
        assert_eq!(words.value().as_deref(), Some("q"));
        assert!(words.is_at_end());
    }
}
