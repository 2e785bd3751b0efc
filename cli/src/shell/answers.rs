//! Where the answers of a shell go.

use std::io::{Seek as _, SeekFrom};
use std::path::Path;

use crate::context::Context;
use crate::errors::{Failure, IoResult as _};
use crate::output::Output;
use crate::pager::{self, Pager};
use crate::printers::Format;
use crate::terminal::{self, Look};

/// Where answers go, and how they look there.
pub(super) struct Answers {
    /// The format that was chosen for the screen.
    on_screen: Format,
    /// The file of `.output`, and its format.
    file: Option<(Output, Format)>,
    /// Whether answers that do not fit on the screen go to a pager.
    pub(super) is_paged: bool,
}

impl Answers {
    pub(super) fn new(on_screen: Format) -> Answers {
        Answers { on_screen, file: None, is_paged: pager::is_wanted() }
    }

    /// The format of the next answer.
    pub(super) fn format(&self) -> Format {
        self.file.as_ref().map_or(self.on_screen, |(_, format)| *format)
    }

    /// Chooses the format of the next answers.
    pub(super) fn set_format(&mut self, chosen: Format) {
        match &mut self.file {
            Some((_, format)) => *format = chosen,
            None => self.on_screen = chosen,
        }
    }

    /// How the next answer looks.
    pub(super) fn look(&self, context: &Context) -> Look {
        Look::new(context.color, self.file.is_none() && is_terminal())
    }

    /// Whether answers go to the screen, or wherever stdout goes.
    pub(super) fn are_on_screen(&self) -> bool {
        self.file.is_none()
    }

    /// The output for the next answer, and what the file of `.output` holds before it.
    pub(super) fn open(&mut self) -> Result<(Output, u64), Failure> {
        match &mut self.file {
            Some((Output::File { temporary, target, .. }, _)) => {
                let file = temporary.as_file_mut();
                let before = file.stream_position().with_path(&*target)?;
                let same = file.try_clone().with_path(&*target)?;
                Ok((Output::Stream(same), before))
            }
            Some((Output::Stream(device), _)) => {
                Ok((Output::Stream(device.try_clone().with_path("the output")?), 0))
            }
            _ => Ok((self.screen()?, 0)),
        }
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
        if let Some((Output::File { temporary, .. }, _)) = &mut self.file {
            let file = temporary.as_file_mut();
            // If that fails, the file ends with the rows of a failed statement.
            let _ = file.set_len(before).and_then(|()| file.seek(SeekFrom::Start(before)));
        }
    }

    /// From now on, answers go to a file, or to the screen. A file that was open is complete.
    pub(super) fn redirect(&mut self, path: Option<&Path>) -> Result<Option<String>, Failure> {
        let closed = match self.file.take() {
            Some((output, _)) => {
                let name = output.name().display().to_string();
                output.commit()?;
                Some(name)
            }
            None => None,
        };
        if let Some(path) = path {
            let output = Output::open(Some(path), false)?;
            let format = Format::choose(None, Some(path), &output);
            self.file = Some((output, format));
        }
        Ok(closed)
    }
}

fn is_terminal() -> bool {
    Output::stdout().is_ok_and(|stdout| stdout.is_terminal())
}
