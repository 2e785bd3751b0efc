//! A format in pieces: texts, and places of values.

use datafusion::common::exec_err;
use datafusion::error::Result as DataFusionResult;

/// The most characters that a place may be wide, and digits that it may ask for.
const MOST: usize = 1_000;

/// How formats are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Style {
    /// `%5.2f`
    Percent,
    /// `{:5.2f}`
    Braces,
}

/// A part of a format.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    /// A value, by its number, and how it is written.
    Value(usize, Spec),
}

/// How a value is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spec {
    /// `<`, `>` or `^`; by the type if there is none.
    pub(super) align: Option<char>,
    pub(super) fill: Option<char>,
    /// `+` or a blank before what is not negative.
    pub(super) sign: Option<char>,
    /// Whether hexadecimal digits get `0x`, octal ones `0`, and binary ones `0b`.
    pub(super) alternate: bool,
    pub(super) zeros: bool,
    pub(super) width: usize,
    /// What stands between groups of three digits.
    pub(super) separator: Option<char>,
    pub(super) precision: Option<usize>,
    /// The letter of the type.
    pub(super) kind: Option<char>,
}

/// The pieces of a format for so many values.
pub(super) fn read(format: &str, style: Style, values: usize) -> DataFusionResult<Vec<Piece>> {
    let mut reader = Reader { rest: format, next: 0 };
    let mut pieces = Vec::new();
    let mut text = String::new();
    while let Some(character) = reader.take() {
        let doubled = reader.rest.starts_with(character);
        match (style, character) {
            (Style::Percent, '%') | (Style::Braces, '{' | '}') if doubled => {
                reader.take();
                text.push(character);
                continue;
            }
            (Style::Percent, '%') | (Style::Braces, '{') => {}
            (Style::Braces, '}') => return exec_err!("a }} without {{ in the format '{format}'"),
            _ => {
                text.push(character);
                continue;
            }
        }
        let place = match style {
            Style::Percent => reader.percent(),
            Style::Braces => reader.braces(),
        };
        let Some((at, spec)) = place else {
            return exec_err!("cannot read what follows {character} in the format '{format}'");
        };
        if at >= values {
            return exec_err!("the format '{format}' needs value {}; there are {values}", at + 1);
        }
        if spec.width.max(spec.precision.unwrap_or(0)) > MOST {
            return exec_err!("places of a format are at most {MOST} wide, not as in '{format}'");
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(Piece::Value(at, spec));
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

struct Reader<'f> {
    rest: &'f str,
    /// The value of the next place without a number.
    next: usize,
}

impl Reader<'_> {
    fn take(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let taken = characters.next();
        self.rest = characters.as_str();
        taken
    }

    fn take_if(&mut self, test: impl Fn(char) -> bool) -> Option<char> {
        self.rest.chars().next().filter(|one| test(*one)).inspect(|_| {
            self.take();
        })
    }

    fn number(&mut self) -> Option<usize> {
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at_checked(length)?;
        // One that does not fit is too wide in any case.
        let number = (!digits.is_empty()).then(|| digits.parse().unwrap_or(usize::MAX))?;
        self.rest = rest;
        Some(number)
    }

    fn precision(&mut self) -> Option<Option<usize>> {
        match self.take_if(|one| one == '.') {
            Some(_) => self.number().map(Some),
            None => Some(None),
        }
    }

    fn next_value(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// What follows a `%`: `[n$][flags][width][.digits][l]type`.
    fn percent(&mut self) -> Option<(usize, Spec)> {
        let (before, mut at) = (self.rest, None);
        match self.number() {
            Some(number) if self.take_if(|one| one == '$').is_some() => {
                at = Some(number.checked_sub(1)?);
            }
            _ => self.rest = before,
        }
        let mut spec = Spec::default();
        while let Some(flag) = self.take_if(|one| "-+ 0#,'".contains(one)) {
            match flag {
                '-' => spec.align = Some('<'),
                '0' => spec.zeros = true,
                '#' => spec.alternate = true,
                ',' | '\'' => spec.separator = Some(','),
                sign => spec.sign = Some(sign),
            }
        }
        spec.align = spec.align.or(Some('>'));
        spec.width = self.number().unwrap_or(0);
        spec.precision = self.precision()?;
        while self.take_if(|one| "hlLqjzt".contains(one)).is_some() {}
        spec.kind = match self.take_if(|one| "diuxXocsfFeEgG".contains(one))? {
            'i' | 'u' => Some('d'),
            kind => Some(kind),
        };
        let at = at.unwrap_or_else(|| self.next_value());
        Some((at, spec))
    }

    /// What follows a `{`: `[n][:[[fill]align][sign][#][0][width][,][.digits][type]]}`.
    fn braces(&mut self) -> Option<(usize, Spec)> {
        let at = match self.number() {
            Some(number) => number,
            None => self.next_value(),
        };
        let mut spec = Spec::default();
        if self.take_if(|one| one == ':').is_some() {
            let mut ahead = self.rest.chars();
            let first = ahead.next();
            if ahead.next().is_some_and(|second| "<>^".contains(second)) {
                spec.fill = first;
                self.take();
            }
            spec.align = self.take_if(|one| "<>^".contains(one));
            spec.sign = self.take_if(|one| "+- ".contains(one)).filter(|sign| *sign != '-');
            spec.alternate = self.take_if(|one| one == '#').is_some();
            spec.zeros = self.take_if(|one| one == '0').is_some();
            spec.width = self.number().unwrap_or(0);
            spec.separator = self.take_if(|one| ",_'".contains(one));
            spec.precision = self.precision()?;
            spec.kind = self.take_if(|one| "dxXobcsfFeEgG".contains(one));
        }
        self.take_if(|one| one == '}')?;
        Some((at, spec))
    }
}
