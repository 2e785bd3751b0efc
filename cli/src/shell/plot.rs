//! What `.plot` is asked to draw.

use clap::Parser;

use crate::charts::ChartOptions;
use crate::errors::Failure;

#[derive(Debug, Parser)]
#[command(name = ".plot", no_binary_name = true, disable_help_flag = true)]
struct Plot {
    #[command(flatten)]
    options: ChartOptions,
}

/// Words that may follow `.plot`.
pub(super) const WORDS: [&str; 15] = [
    "bar", "heat", "hist", "line", "scatter", "spark", "--ascii", "--bins", "--height", "--hue",
    "--log", "--title", "--width", "--x", "--y",
];

/// The chart that the words after `.plot` ask for; a first word without dashes is its kind.
pub(super) fn options(words: &[String]) -> Result<ChartOptions, Failure> {
    let kind = words.first().filter(|word| !word.starts_with('-')).map(|_| "--chart".to_owned());
    let parsed = Plot::try_parse_from(kind.into_iter().chain(words.iter().cloned()));
    parsed.map(|plot| plot.options).map_err(|error| {
        let text = error.to_string();
        let message = text.lines().next().unwrap_or_default();
        let failure = Failure::usage(message.strip_prefix("error: ").unwrap_or(message));
        let is_query = words.first().is_some_and(|word| {
            ["select", "from", "with"].contains(&word.to_ascii_lowercase().as_str())
        });
        failure.hint(match is_query {
            true => ".plot draws the last answer: run the statement, then type .plot".to_owned(),
            false => format!("what .plot takes: {}", WORDS.join(" ")),
        })
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn words_are_options_of_charts() {
        let ask = |line: &str| options(&super::super::dot::words(line));
        let options = ask("bar --x city --y 'fare, sum' --log").unwrap();
        assert_eq!(options.x.as_deref(), Some("city"));
        assert!(options.kind.is_some() && options.log);
        assert!(ask("").unwrap().kind.is_none());
        let query = ask("SELECT a, b FROM t").unwrap_err();
        assert!(query.hint.is_some_and(|hint| hint.contains("draws the last answer")));
        assert!(ask("pie").is_err() && ask("--what").is_err());
        let definition = Plot::command();
        for word in WORDS.iter().filter_map(|word| word.strip_prefix("--")) {
            assert!(definition.get_arguments().any(|arg| arg.get_long() == Some(word)), "{word}");
        }
    }
}
