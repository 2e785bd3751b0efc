//! Finds the first byte of a kind.

/// The position of the first byte for which `is` returns true. Blocks without such a byte are
/// skipped with a few vector instructions.
pub(crate) fn first_that(bytes: &[u8], is: impl Fn(u8) -> bool) -> Option<usize> {
    const BLOCK: usize = 16;
    let mut passed = 0;
    for block in bytes.as_chunks::<BLOCK>().0 {
        if block.iter().fold(false, |any, byte| any | is(*byte)) {
            break;
        }
        passed += BLOCK;
    }
    let found = bytes[passed..].iter().position(|byte| is(*byte));
    found.map(|at| passed + at)
}

#[cfg(test)]
mod tests {
    use super::first_that;

    #[test]
    fn finds_the_first_of_several_at_every_place() {
        for length in 0..70 {
            for first in 0..length {
                let mut bytes = vec![b'a'; length];
                bytes[first] = b'x';
                bytes[length - 1] = b'x';
                assert_eq!(first_that(&bytes, |byte| byte == b'x'), Some(first));
            }
            assert_eq!(first_that(&vec![b'a'; length], |byte| byte == b'x'), None);
        }
    }
}
