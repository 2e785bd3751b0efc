//! The pages of `docs/` whose commands are run: each block `sh` in the order of the page, in one
//! directory. The block `text` after it is what it prints.

use crate::shell::Shell;

/// A block of a page: what is after ``` on its first line, and the lines up to the next ```.
fn blocks(page: &str) -> Vec<(&str, String)> {
    let (mut blocks, mut open): (Vec<(&str, String)>, bool) = (Vec::new(), false);
    for line in page.lines() {
        match (line.strip_prefix("```"), blocks.last_mut()) {
            (Some(_), _) if open => open = false,
            (Some(kind), _) => {
                blocks.push((kind, String::new()));
                open = true;
            }
            (None, Some((_, text))) if open => {
                text.push_str(line);
                text.push('\n');
            }
            _ => {}
        }
    }
    blocks
}

fn run(page: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/");
    let text = std::fs::read_to_string(format!("{path}{page}")).unwrap();
    let (shell, blocks) = (Shell::new(), blocks(&text));
    let mut ran = 0;
    for (at, (_, command)) in blocks.iter().enumerate().filter(|(_, (kind, _))| *kind == "sh") {
        let expected = match blocks.get(at + 1) {
            Some((kind, text)) if *kind == "text" => text.as_str(),
            _ => "",
        };
        let (code, stdout, stderr) = shell.sh(command);
        assert_eq!((code, &*stdout), (0, expected), "{page}: {command}\n{stderr}");
        ran += 1;
    }
    assert!(ran > 3, "{page}: {ran} blocks");
}

#[test]
fn the_tour() {
    run("tour.md");
}

#[test]
fn the_cookbook() {
    run("cookbook.md");
}

#[test]
fn coming_from_elsewhere() {
    run("coming-from.md");
}
