//! The editor of lines: `reedline` with our completion, colours, history and validation.

use std::borrow::Cow;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use reedline::{
    Color, Completer, CompletionResult, DefaultHinter, EditCommand, Emacs, Highlighter, IdeMenu,
    InputMode, KeyCode, KeyModifiers, MenuBuilder as _, Prompt, PromptEditMode,
    PromptHistorySearch, PromptHistorySearchStatus, Reedline, ReedlineEvent, ReedlineMenu, Signal,
    Span, StyledText, Suggestion, ValidationResult, Validator, default_emacs_keybindings,
};

use super::completion::complete;
use super::highlight::{Class, classes};
use super::history::{Statements, path};
use super::known::Known;
use super::pieces::is_whole;
use super::plain::Input;
use crate::signals;

const MENU: &str = "completion";

/// What stands for Ctrl-Z.
const SUSPEND: &str = "suspend";

/// An editor of lines on a terminal.
pub(super) struct Editor {
    lines: Reedline,
    prompt: Name,
}

impl Editor {
    /// An editor, and what is wrong with the file of its history.
    pub(super) fn new(
        name: &str,
        known: Arc<Mutex<Known>>,
        has_colors: bool,
    ) -> (Editor, Option<String>) {
        let menu = IdeMenu::default()
            .with_name(MENU)
            .with_input_mode(InputMode::FullBuffer)
            .with_max_completion_height(12)
            .with_marker("> ");
        let mut keys = default_emacs_keybindings();
        let complete = vec![
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
            ReedlineEvent::Edit(vec![EditCommand::Complete]),
        ];
        let newline = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
        keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
        keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline);
        let suspend = ReedlineEvent::ExecuteHostCommand(SUSPEND.to_owned());
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('z'), suspend);
        // Ctrl-_, which terminals send as this.
        let undo = ReedlineEvent::Edit(vec![EditCommand::Undo]);
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('7'), undo);
        // What ends a name ends its completion: the menu would stay, and Enter would take a word of
        // it in place of running the statement.
        for end in [' ', ',', ';', '(', ')'] {
            let insert = ReedlineEvent::Edit(vec![EditCommand::InsertChar(end)]);
            let close = ReedlineEvent::Multiple(vec![ReedlineEvent::Esc, insert.clone()]);
            // The second where the history is searched, which knows no menus.
            let keyed = ReedlineEvent::UntilFound(vec![close, insert]);
            for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT] {
                keys.add_binding(modifiers, KeyCode::Char(end), keyed.clone());
            }
        }
        let hint = Color::DarkGray.normal();
        let (history, wrong) = Statements::open(path(|name| std::env::var(name).ok()));
        let lines = Reedline::create()
            .use_bracketed_paste(true)
            .with_ansi_colors(has_colors)
            .with_history(Box::new(history))
            .with_validator(Box::new(Whole))
            .with_highlighter(Box::new(Colors))
            .with_hinter(Box::new(DefaultHinter::default().with_style(hint)))
            .with_completer(Box::new(Completion(known)))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
            .with_edit_mode(Box::new(Emacs::new(keys)));
        (Editor { lines, prompt: Name(name.to_owned()) }, wrong)
    }

    /// Reads a text, over several lines if need be.
    pub(super) fn read(&mut self) -> io::Result<Input> {
        loop {
            return Ok(match self.lines.read_line(&self.prompt)? {
                Signal::Success(text) => Input::Text(text),
                Signal::CtrlD => Input::End,
                Signal::HostCommand(command) if command == SUSPEND => {
                    // The line that was begun is there again afterwards.
                    signals::suspend();
                    continue;
                }
                _ => Input::Cleared,
            });
        }
    }
}

/// The name of the store before each line.
struct Name(String);

impl Prompt for Name {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        let width = unicode_width::UnicodeWidthStr::width(self.0.as_str());
        Cow::Owned(format!("{:width$}> ", ""))
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let failing = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => "nothing has ",
        };
        Cow::Owned(format!(" ({failing}'{}') ", search.term))
    }
}

struct Whole;

impl Validator for Whole {
    fn validate(&self, text: &str) -> ValidationResult {
        if is_whole(text) { ValidationResult::Complete } else { ValidationResult::Incomplete }
    }
}

struct Colors;

impl Highlighter for Colors {
    fn highlight(&self, text: &str, _: usize) -> StyledText {
        let mut styled = StyledText::new();
        for (class, range) in classes(text) {
            let style = match class {
                Class::Plain => Color::Default.normal(),
                Class::Keyword => Color::Cyan.bold(),
                Class::Function => Color::Blue.bold(),
                Class::Number => Color::Yellow.normal(),
                Class::Text => Color::Green.normal(),
                Class::Comment => Color::DarkGray.normal(),
                Class::Parameter => Color::Purple.normal(),
                Class::Command => Color::Default.bold(),
                Class::Wrong => Color::Red.normal(),
            };
            styled.push((style, text.get(range).unwrap_or_default().to_owned()));
        }
        styled
    }
}

/// Completion with the names of the session.
struct Completion(Arc<Mutex<Known>>);

impl Completer for Completion {
    fn complete(&mut self, text: &str, at: usize) -> CompletionResult {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (range, found) = complete(text, at, &mut *known);
        let suggestions = found.into_iter().map(|candidate| Suggestion {
            value: candidate.text,
            display_override: candidate.shown,
            description: Some(candidate.about).filter(|about| !about.is_empty()),
            span: Span::new(range.start, range.end),
            append_whitespace: candidate.then_blank,
            ..Suggestion::default()
        });
        let mut suggestions: Vec<Suggestion> = suggestions.collect();
        if suggestions.is_empty() {
            // What is there, so that nothing happens; of none, the menu says so in capitals.
            let value = text.get(range.clone()).unwrap_or_default().to_owned();
            let span = Span::new(range.start, range.end);
            suggestions.push(Suggestion { value, span, ..Suggestion::default() });
        }
        CompletionResult::fresh(suggestions)
    }
}
