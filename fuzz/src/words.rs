//! Words of SQL, one for each byte, so that a mutant of a statement is often a statement.

/// A word a line.
const WORDS: &str = include_str!("words.txt");

/// A text: the words of the bytes after a first byte of 0, or else the bytes themselves.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    match bytes.split_first() {
        Some((0, words)) => {
            let known: Vec<&str> = WORDS.lines().collect();
            let word = |byte: &u8| known[usize::from(*byte) % known.len()];
            Some(words.iter().map(word).collect::<Vec<_>>().join(" "))
        }
        _ => std::str::from_utf8(bytes).ok().map(str::to_owned),
    }
}
