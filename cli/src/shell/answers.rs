//! Where the answers of a shell go.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::compressed::ResultFile;
use crate::context::Context;
use crate::errors::{Failure, IoResult as _};
use crate::output::Output;
use crate::page;
use crate::pager::{self, Pager};
use crate::printers::{Format, Place};
use crate::terminal::{self, Look};
use crate::units::show_counted;

/// Where answers go, and how they look there.
pub(super) struct Answers {
    /// The format that was chosen for the screen.
    on_screen: Format,
    /// The file of `.output`.
    file: Option<AnswerFile>,
    /// Whether answers that do not fit on the screen go to a pager.
    pub(super) is_paged: bool,
}

/// A file that answers go to.
struct AnswerFile {
    output: Output,
    format: Format,
    /// Answers in it.
    answers: u64,
}

impl Answers {
    pub(super) fn new(on_screen: Format) -> Answers {
        Answers { on_screen, file: None, is_paged: pager::is_wanted() }
    }

    /// The format of the next answer.
    pub(super) fn format(&self) -> Format {
        self.file.as_ref().map_or(self.on_screen, |file| file.format)
    }

    /// Chooses the format of the next answers.
    pub(super) fn set_format(&mut self, chosen: Format) -> Result<(), Failure> {
        let Some(file) = &mut self.file else {
            self.on_screen = chosen;
            return Ok(());
        };
        let is_alone = |format: Format| !format.holds_many() || format == Format::Html;
        let is_mixed = is_alone(file.format) || is_alone(chosen);
        if file.answers > 0 && file.format != chosen && is_mixed {
            let what = "the file of .output has an answer in another format, which holds no other";
            return Err(Failure::usage(what).hint(".output FILE begins another file"));
        }
        file.format = chosen;
        Ok(())
    }

    /// How the next answer looks.
    pub(super) fn look(&self, context: &Context) -> Look {
        Look::new(context.color, self.file.is_none() && is_terminal())
    }

    /// Whether answers go to the screen, or wherever stdout goes.
    pub(super) fn are_on_screen(&self) -> bool {
        self.file.is_none()
    }

    /// Whether they go to a file that has none yet.
    pub(super) fn begin_file(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.answers == 0)
    }

    /// Where the next answer is in a page.
    pub(super) fn place(&self) -> Place {
        match &self.file {
            Some(file) if file.answers > 0 => Place::Later,
            Some(_) => Place::First("Answers".to_owned()),
            None => Place::Alone,
        }
    }

    /// The output for the next answer, and what the file of `.output` holds before it.
    pub(super) fn open(&mut self) -> Result<(Output, u64), Failure> {
        match self.file.as_mut().map(|file| &mut file.output) {
            Some(Output::File { temporary, target, .. }) => {
                let file = temporary.as_file_mut();
                let before = file.stream_position().with_path(&*target)?;
                let same = file.try_clone().with_path(&*target)?;
                let file = ResultFile::new(same, target).with_path(&*target)?;
                Ok((Output::Part { file, target: target.clone() }, before))
            }
            Some(Output::Stream(device)) => {
                Ok((Output::Stream(device.try_clone().with_path("the output")?), 0))
            }
            _ => Ok((self.screen()?, 0)),
        }
    }

    /// Notes that an answer is complete.
    pub(super) fn note_answer(&mut self) {
        self.file.iter_mut().for_each(|file| file.answers += 1);
    }

    /// The screen, or wherever stdout goes.
    pub(super) fn screen(&self) -> Result<Output, Failure> {
        match terminal::screen().filter(|_| self.is_paged && is_terminal()) {
            Some(screen) => Ok(Output::Screen(Pager::new(screen))),
            None => Output::stdout(),
        }
    }

    /// Takes back what a statement that failed has written to a file.
    pub(super) fn take_back(&mut self, before: u64) {
        if let Some(AnswerFile { output: Output::File { temporary, .. }, .. }) = &mut self.file {
            let file = temporary.as_file_mut();
            // If that fails, the file ends with the rows of a failed statement.
            let _ = file.set_len(before).and_then(|()| file.seek(SeekFrom::Start(before)));
        }
    }

    /// From now on, answers go to a file, or to the screen. A file that was open is complete.
    /// Returns what happened.
    pub(super) fn redirect(&mut self, path: Option<&Path>) -> Result<Option<String>, Failure> {
        let same = self.file.as_ref().zip(path).filter(|(file, path)| file.output.name() == *path);
        if let Some((_, path)) = same {
            return Err(Failure::usage(format!("answers go to {} already", path.display())));
        }
        // What cannot be opened leaves answers where they go.
        let next = path.map(|path| -> Result<AnswerFile, Failure> {
            let output = Output::open(Some(path), false).map_err(|failure| match failure.hint {
                Some(_) => failure.hint("name another file; the shell replaces none"),
                None => failure,
            })?;
            let format = Format::choose(None, Some(path), &output);
            Ok(AnswerFile { output, format, answers: 0 })
        });
        let next = next.transpose()?;
        let last = std::mem::replace(&mut self.file, next);
        last.map(AnswerFile::close).transpose()
    }
}

impl AnswerFile {
    /// Completes the file. Without an answer, there is none: most formats have no empty file.
    fn close(mut self) -> Result<String, Failure> {
        let name = self.output.name().display().to_string();
        if self.answers == 0 && self.output.is_file() {
            return Ok(format!("no answer went to {name}, which was not made"));
        }
        if self.answers > 0 && self.format == Format::Html {
            let written = self.output.write_all(page::END.as_bytes());
            written.map_err(|error| self.output.failure(&error))?;
        }
        self.output.commit()?;
        Ok(format!("wrote {name}: {}", show_counted(self.answers, "answer")))
    }
}

fn is_terminal() -> bool {
    Output::stdout().is_ok_and(|stdout| stdout.is_terminal())
}
