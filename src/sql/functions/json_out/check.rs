//! Whether a text is JSON.

/// Whether a text is one JSON value, perhaps with blanks around it. Values within each other take
/// no stack.
pub(super) fn is_json_text(text: &str) -> bool {
    let mut rest = text.as_bytes();
    // What closes the values around the place.
    let mut open: Vec<u8> = Vec::new();
    loop {
        blanks(&mut rest);
        let closing = match rest {
            [b'{', after @ ..] => {
                rest = after;
                Some(b'}')
            }
            [b'[', after @ ..] => {
                rest = after;
                Some(b']')
            }
            _ => None,
        };
        match closing {
            None => {
                if !plain(&mut rest) {
                    return false;
                }
            }
            Some(closing) => {
                blanks(&mut rest);
                match rest.strip_prefix(&[closing]) {
                    Some(after) => rest = after,
                    None => {
                        if closing == b'}' && !key(&mut rest) {
                            return false;
                        }
                        open.push(closing);
                        continue;
                    }
                }
            }
        }
        // A value has ended.
        loop {
            blanks(&mut rest);
            match (open.last(), rest) {
                (None, []) => return true,
                (Some(b'}'), [b',', after @ ..]) => {
                    rest = after;
                    if !key(&mut rest) {
                        return false;
                    }
                    break;
                }
                (Some(_), [b',', after @ ..]) => {
                    rest = after;
                    break;
                }
                (Some(close), [end, after @ ..]) if close == end => {
                    rest = after;
                    open.pop();
                }
                _ => return false,
            }
        }
    }
}

fn blanks(rest: &mut &[u8]) {
    while let [b' ' | b'\t' | b'\n' | b'\r', after @ ..] = rest {
        *rest = after;
    }
}

/// Steps over a key and its colon.
fn key(rest: &mut &[u8]) -> bool {
    blanks(rest);
    if !quoted(rest) {
        return false;
    }
    blanks(rest);
    match rest {
        [b':', after @ ..] => {
            *rest = after;
            true
        }
        _ => false,
    }
}

/// Steps over a text, a number or a word.
fn plain(rest: &mut &[u8]) -> bool {
    for word in ["true", "false", "null"] {
        if let Some(after) = rest.strip_prefix(word.as_bytes()) {
            *rest = after;
            return true;
        }
    }
    quoted(rest) || number(rest)
}

fn quoted(rest: &mut &[u8]) -> bool {
    let [b'"', after @ ..] = rest else { return false };
    *rest = after;
    loop {
        match rest {
            [b'"', after @ ..] => {
                *rest = after;
                return true;
            }
            [b'\\', b'u', a, b, c, d, after @ ..]
                if [a, b, c, d].into_iter().all(u8::is_ascii_hexdigit) =>
            {
                *rest = after;
            }
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..] => {
                *rest = after;
            }
            [b'\\' | 0..=0x1f, ..] | [] => return false,
            [_, after @ ..] => *rest = after,
        }
    }
}

fn number(rest: &mut &[u8]) -> bool {
    if let [b'-', after @ ..] = rest {
        *rest = after;
    }
    if let [b'0', after @ ..] = rest {
        *rest = after;
    } else if !digits(rest) {
        return false;
    }
    if let [b'.', after @ ..] = rest {
        *rest = after;
        if !digits(rest) {
            return false;
        }
    }
    if let [b'e' | b'E', after @ ..] = rest {
        *rest = after;
        if let [b'+' | b'-', after @ ..] = rest {
            *rest = after;
        }
        return digits(rest);
    }
    true
}

/// Steps over digits; whether there is one.
fn digits(rest: &mut &[u8]) -> bool {
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    *rest = rest.get(count..).unwrap_or_default();
    count > 0
}

#[cfg(test)]
mod tests {
    use super::is_json_text;

    #[test]
    fn texts_of_json_are_told_from_others() {
        for text in [
            "{}",
            " [ ] ",
            r#"{"a": [1, -2.50e+3, 0, {"b": null}], "c\u00e4\"": "x\n"}"#,
            "true",
            "\"\"",
            "[[],{},[{}]]",
            "1E5",
        ] {
            assert!(is_json_text(text), "{text}");
        }
        for text in [
            "",
            "x",
            "{",
            "[1,]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":1,}",
            "{a:1}",
            "01",
            "1.",
            "'a'",
            "[1]]",
            "nul",
            "\"\n\"",
            "\"\\x\"",
            "[}",
            "{\"a\":1]",
            "1 2",
        ] {
            assert!(!is_json_text(text), "{text}");
        }
        assert!(is_json_text(&("[".repeat(100_000) + &"]".repeat(100_000))));
    }
}
