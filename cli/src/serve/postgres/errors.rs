//! Failures as PostgreSQL's clients know them: five letters that say the kind, and a text.

use crate::errors::Failure;
use crate::exit::Exit;
use crate::serve::admission::Refused;
use crate::serve::running::Ended;

/// A failure with the code (SQLSTATE) that PostgreSQL gives to its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PgError {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// What messages about wrong input say, and the kind of each; the first that fits counts.
const KINDS: [(&str, &str); 53] = [
    ("read-only", "25006"),
    ("nput syntax for type", "22007"),
    ("syntax", "42601"),
    ("Expected: ", "42601"),
    ("row 1 of VALUES", "42601"),
    ("ount doesn't match", "42601"),
    ("different number of columns", "42601"),
    (VIOLATES_NOT_NULL, "23502"),
    ("does not hold '", "22P02"),
    ("does not hold", "22003"),
    ("Unterminated", "42601"),
    ("no setting", "42704"),
    ("is not a variable", "42704"),
    ("onfig value", "42704"),
    ("no function", "42883"),
    ("is not a function", "42883"),
    ("a cast may help", "42883"),
    ("no table", "42P01"),
    ("already exists", "42P07"),
    ("there is a table or view", "42P07"),
    ("is named twice", "42701"),
    ("of the FROM are called", "42712"),
    ("no column", "42703"),
    ("No field named", "42703"),
    ("has no column", "42703"),
    ("olumn '", "42703"),
    ("mbiguous", "42702"),
    ("of several tables", "42702"),
    ("GROUP BY", "42803"),
    ("ggregate function", "42803"),
    ("For SELECT DISTINCT", "42P10"),
    ("a condition must be true or false", "42804"),
    ("more than one row", "21000"),
    ("LIMIT must be", "2201W"),
    ("ivide by zero", "22012"),
    ("division by zero", "22012"),
    ("verflow", "22003"),
    ("out of range", "22003"),
    ("does not fit", "22003"),
    ("is too large to store", "22003"),
    ("an't cast value", "22003"),
    ("value of date", "22007"),
    ("value of timestamp", "22007"),
    ("rror parsing timestamp", "22007"),
    ("Cannot cast", "22P02"),
    ("annot be cast", "22P02"),
    ("rror parsing", "22P02"),
    ("is no UUID", "22P02"),
    ("must not be null", "23502"),
    ("not null", "23502"),
    ("no value for $", "42P02"),
    ("placeholder", "42P02"),
    ("parameter", "42P02"),
];

/// What is said of statements that are too complex, however much memory there is.
const TOO_COMPLEX: [&str; 5] = [
    "nested",
    "terms are joined by",
    "queries by UNION",
    "an expression of more than",
    "too many within each other",
];

/// What is said of rows that lack a value where there must be one, be it of a statement or of a
/// file.
const VIOLATES_NOT_NULL: &str = "is NOT NULL";

impl PgError {
    pub(super) fn of(code: &'static str, message: impl Into<String>) -> PgError {
        PgError { code, message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> PgError {
        self.hint = Some(hint.into());
        self
    }

    /// The failure of a statement that was perhaps asked to end.
    pub(super) fn of_statement(failure: &Failure, ended: Option<Ended>) -> PgError {
        // What is stored is said, also to who has ended the statement.
        match ended.filter(|_| failure.code != "partly-stored") {
            Some(Ended::Late) => {
                return PgError::of("57014", "the time of the statement is over");
            }
            Some(Ended::Killed) => return PgError::of("57014", "the statement was cancelled"),
            Some(Ended::Gone) => return PgError::of("57014", "the client is gone"),
            Some(Ended::Ending) => return PgError::of("57P01", "the server ends"),
            None => {}
        }
        let message = &*failure.message;
        let code = match (failure.code, failure.exit) {
            // What was planned for has changed: drivers try these once more.
            ("busy", _) if message.ends_with("try again") => "40001",
            ("busy", _) => "55P03",
            ("unreachable", _) => "58000",
            // Whether the statement is done as a whole is not known: none tries it once more.
            ("partly-stored", _) => "40003",
            ("unsupported", _) if message.contains("SQL type") => "42704",
            ("unsupported", _) if message.contains("there is a table") => "42P07",
            ("unsupported", _) => "0A000",
            ("not-found", _) if message.contains("prepared") => "26000",
            ("not-found", _) if message.contains("column") => "42703",
            ("not-found", _) => "42P01",
            ("rejected", _) if message.contains(VIOLATES_NOT_NULL) => "23502",
            ("rejected", _) => "22P02",
            (_, Exit::Corrupt) => "XX001",
            (_, Exit::Limit) if TOO_COMPLEX.iter().any(|says| message.contains(says)) => "54001",
            (_, Exit::Limit) => "53200",
            (_, Exit::Interrupted) => "57014",
            ("io", _) => "58030",
            _ => {
                let kind = KINDS.iter().find(|(says, _)| message.contains(says));
                kind.map_or("42000", |(_, code)| code)
            }
        };
        PgError { code, message: message.to_owned(), hint: failure.hint.as_deref().map(Into::into) }
    }

    /// The failure of a statement that may not begin.
    pub(super) fn of_refusal(refused: Refused) -> PgError {
        match refused {
            Refused::Full => {
                let what = "too many statements run and wait; try again in a moment";
                PgError::of("53300", what)
            }
            Refused::TooLate => {
                let what = "the statement has waited too long for its turn; try again";
                PgError::of("53300", what)
            }
            Refused::Ending => PgError::of("57P01", "the server ends"),
        }
    }
}

impl From<stylobate::Error> for PgError {
    fn from(error: stylobate::Error) -> PgError {
        PgError::of_statement(&error.into(), None)
    }
}

/// What is said of a DECLARE for a statement that writes or sets something.
pub(super) fn not_a_query() -> PgError {
    PgError::of("42601", "a cursor is declared for a query")
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylobate::Error;

    #[test]
    fn failures_have_their_kind() {
        let of = |error: Error, ended| PgError::of_statement(&Failure::from(error), ended).code;
        assert_eq!(of(Error::NotFound("no table t".into()), None), "42P01");
        assert_eq!(of(Error::LimitExceeded("memory".into()), None), "53200");
        let nested = "an expression is nested more than 400 levels deep";
        assert_eq!(of(Error::LimitExceeded(nested.into()), None), "54001");
        assert_eq!(of(Error::Cancelled, Some(Ended::Late)), "57014");
        assert_eq!(of(Error::InvalidInput("this session is read-only".into()), None), "25006");
        assert_eq!(of(Error::Unsupported("x".into()), None), "0A000");
        assert_eq!(of(Error::Busy("t has changed; try again".into()), None), "40001");
        assert_eq!(of(Error::Busy("t is being written".into()), None), "55P03");
        assert_eq!(of(Error::Unreachable("node b is gone".into()), None), "58000");
        assert_eq!(of(Error::PartlyStored("nodes a have it".into()), None), "40003");
        for (what, code) in [
            ("column 'a' is NOT NULL, but a row has no value in it; nothing was stored", "23502"),
            ("column 'a' is int32, which does not hold 99999999999 as it is", "22003"),
            ("column 'a' is int32, which does not hold 'abc' as it is", "22P02"),
            ("column 'a' is named twice", "42701"),
            ("no column zz; there are: a, b", "42703"),
            ("Can't cast value 300 to type Int8", "22003"),
            ("Cannot cast string 'zz' to value of date type", "22007"),
            ("Cannot cast string 'x' to value of int32 type", "22P02"),
            ("Scalar subquery returned more than one row", "21000"),
            ("there is no utf8 + int64; a cast may help, as in `x::bigint`", "42883"),
            ("no value for $1; give it one with -p 1=VALUE", "42P02"),
        ] {
            assert_eq!(of(Error::InvalidInput(what.into()), None), code, "{what}");
        }
    }
}
