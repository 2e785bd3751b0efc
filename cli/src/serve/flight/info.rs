//! What the server and its SQL can do, in the words of GetSqlInfo. Drivers of JDBC and ODBC answer
//! their callers from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_flight::error::FlightError;
use arrow_flight::sql::SqlInfo as Info;
use arrow_flight::sql::metadata::{SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedSubqueries};
use arrow_flight::sql::{
    SqlOuterJoinsSupportLevel, SqlSupportedGroupBy, SqlSupportedResultSetType,
};
use arrow_flight::sql::{SqlSupportedResultSetConcurrency as Concurrency, SqlSupportedUnions};
use arrow_schema::SchemaRef;
use stylobate::Session;

use crate::serve::users::User;

/// The version of Arrow's format.
const ARROW: &str = "1.5";
/// How long a prepared statement lives that nobody uses, in milliseconds.
const STATEMENT_TIME: i32 = 3_600_000;
/// Words of our SQL beyond the standard's.
const KEYWORDS: [&str; 22] = [
    "ANTI",
    "ASOF",
    "ATTACH",
    "COPY",
    "DESCRIBE",
    "DETACH",
    "EXCLUDE",
    "EXPLAIN",
    "GLOB",
    "ILIKE",
    "LIMIT",
    "OFFSET",
    "PIVOT",
    "QUALIFY",
    "RENAME",
    "SEMI",
    "SHOW",
    "SUMMARIZE",
    "TABLESAMPLE",
    "TOTALS",
    "UNPIVOT",
    "USE",
];
/// How the names of functions begin that are about dates and times, and about texts and numbers.
const DATES: [&str; 8] =
    ["date", "time", "now", "current_", "to_timestamp", "to_date", "from_unix", "make_date"];
const TEXTS: [&str; 22] = [
    "ascii",
    "btrim",
    "char_length",
    "chr",
    "concat",
    "initcap",
    "left",
    "length",
    "lower",
    "lpad",
    "ltrim",
    "octet_length",
    "regexp_",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "substr",
    "upper",
];
const NUMBERS: [&str; 27] = [
    "abs",
    "acos",
    "asin",
    "atan",
    "cbrt",
    "ceil",
    "cos",
    "degrees",
    "exp",
    "factorial",
    "floor",
    "gcd",
    "lcm",
    "ln",
    "log",
    "mod",
    "pi",
    "power",
    "radians",
    "random",
    "round",
    "sign",
    "sin",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
];

const YES: [Info; 15] = [
    Info::FlightSqlServerSql,
    Info::FlightSqlServerCancel,
    Info::FlightSqlServerBulkIngestion,
    Info::SqlDdlTable,
    Info::SqlAllTablesAreSelectable,
    Info::SqlSupportsColumnAliasing,
    Info::SqlNullPlusNullIsNull,
    Info::SqlSupportsTableCorrelationNames,
    Info::SqlSupportsExpressionsInOrderBy,
    Info::SqlSupportsOrderByUnrelated,
    Info::SqlSupportsLikeEscapeClause,
    Info::SqlSupportsNonNullableColumns,
    Info::SqlCatalogAtStart,
    Info::SqlCorrelatedSubqueriesSupported,
    Info::SqlBatchUpdatesSupported,
];

const NO: [Info; 16] = [
    Info::FlightSqlServerSubstrait,
    Info::FlightSqlServerIngestTransactionsSupported,
    Info::SqlDdlCatalog,
    Info::SqlDdlSchema,
    Info::SqlSupportsDifferentTableCorrelationNames,
    Info::SqlSupportsIntegrityEnhancementFacility,
    Info::SqlSelectForUpdateSupported,
    Info::SqlStoredProceduresSupported,
    Info::SqlMaxRowSizeIncludesBlobs,
    Info::SqlTransactionsSupported,
    Info::SqlDataDefinitionCausesTransactionCommit,
    Info::SqlDataDefinitionsInTransactionsIgnored,
    Info::SqlSavepointsSupported,
    Info::SqlNamedParametersSupported,
    Info::SqlLocatorsUpdateCopy,
    Info::SqlStoredFunctionsUsingCallSyntaxSupported,
];

const WORDS: [(Info, &str); 7] = [
    (Info::FlightSqlServerName, "Stylobate"),
    (Info::FlightSqlServerVersion, env!("CARGO_PKG_VERSION")),
    (Info::FlightSqlServerArrowVersion, ARROW),
    (Info::SqlIdentifierQuoteChar, "\""),
    (Info::SqlSearchStringEscape, "\\"),
    (Info::SqlExtraNameCharacters, ""),
    (Info::SqlSchemaTerm, "schema"),
];

/// Limits of the server. 0 means that there is none, or that clients need not know it; names are as
/// long as those of tables may be.
const MAXIMA: [(Info, i64); 21] = [
    (Info::SqlMaxBinaryLiteralLength, 0),
    (Info::SqlMaxCharLiteralLength, 0),
    (Info::SqlMaxColumnNameLength, 0),
    (Info::SqlMaxColumnsInGroupBy, 0),
    (Info::SqlMaxColumnsInIndex, 0),
    (Info::SqlMaxColumnsInOrderBy, 0),
    (Info::SqlMaxColumnsInSelect, 0),
    (Info::SqlMaxColumnsInTable, 0),
    (Info::SqlMaxConnections, 0),
    (Info::SqlMaxCursorNameLength, 0),
    (Info::SqlMaxIndexLength, 0),
    (Info::SqlDbSchemaNameLength, 255),
    (Info::SqlMaxProcedureNameLength, 0),
    (Info::SqlMaxCatalogNameLength, 255),
    (Info::SqlMaxRowSize, 0),
    (Info::SqlMaxStatementLength, 1 << 20),
    (Info::SqlMaxStatements, 1000),
    (Info::SqlMaxTableNameLength, 255),
    (Info::SqlMaxTablesInSelect, 0),
    (Info::SqlMaxUsernameLength, 0),
    (Info::SqlDefaultTransactionIsolation, 0),
];

/// One bit for each of these.
const fn bits(places: &[i32]) -> i32 {
    let (mut bits, mut rest) = (0, places);
    while let [first, others @ ..] = rest {
        bits |= 1 << *first;
        rest = others;
    }
    bits
}

const KINDS: [(Info, i32); 20] = [
    (Info::FlightSqlServerTransaction, 0),
    (Info::FlightSqlServerStatementTimeout, STATEMENT_TIME),
    (Info::FlightSqlServerTransactionTimeout, 0),
    (
        Info::SqlIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32,
    ),
    (
        Info::SqlQuotedIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32,
    ),
    (Info::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32),
    (
        Info::SqlSupportedGroupBy,
        bits(&[
            SqlSupportedGroupBy::SqlGroupByUnrelated as i32,
            SqlSupportedGroupBy::SqlGroupByBeyondSelect as i32,
        ]),
    ),
    // Minimum, core and extended; of ANSI 92, entry, intermediate and full.
    (Info::SqlSupportedGrammar, bits(&[0, 1])),
    (Info::SqlAnsi92SupportedLevel, bits(&[0])),
    (Info::SqlOuterJoinsSupportLevel, SqlOuterJoinsSupportLevel::SqlFullOuterJoins as i32),
    (Info::SqlSchemasSupportedActions, 0),
    (Info::SqlCatalogsSupportedActions, 0),
    (Info::SqlSupportedPositionedCommands, 0),
    (
        Info::SqlSupportedSubqueries,
        bits(&[
            SqlSupportedSubqueries::SqlSubqueriesInComparisons as i32,
            SqlSupportedSubqueries::SqlSubqueriesInExists as i32,
            SqlSupportedSubqueries::SqlSubqueriesInIns as i32,
            SqlSupportedSubqueries::SqlSubqueriesInQuantifieds as i32,
        ]),
    ),
    (
        Info::SqlSupportedUnions,
        bits(&[SqlSupportedUnions::SqlUnion as i32, SqlSupportedUnions::SqlUnionAll as i32]),
    ),
    // There are none, which is an isolation level of its own.
    (Info::SqlSupportedTransactionsIsolationLevels, bits(&[0])),
    (
        Info::SqlSupportedResultSetTypes,
        bits(&[SqlSupportedResultSetType::SqlResultSetTypeForwardOnly as i32]),
    ),
    (
        Info::SqlSupportedConcurrenciesForResultSetForwardOnly,
        bits(&[Concurrency::SqlResultSetConcurrencyReadOnly as i32]),
    ),
    (Info::SqlSupportedConcurrenciesForResultSetScrollSensitive, 0),
    (Info::SqlSupportedConcurrenciesForResultSetScrollInsensitive, 0),
];

/// The columns of the answer.
pub(super) fn columns() -> SchemaRef {
    Arc::new(SqlInfoDataBuilder::schema().clone())
}

/// All that is known.
pub(super) fn all(session: &Session, user: &User) -> Result<SqlInfoData, FlightError> {
    let mut infos = SqlInfoDataBuilder::new();
    YES.iter().for_each(|info| infos.append(*info, true));
    NO.iter().for_each(|info| infos.append(*info, false));
    WORDS.iter().for_each(|(info, word)| infos.append(*info, *word));
    MAXIMA.iter().for_each(|(info, most)| infos.append(*info, *most));
    KINDS.iter().for_each(|(info, kind)| infos.append(*info, *kind));
    infos.append(Info::FlightSqlServerReadOnly, user.read_only);
    infos.append(Info::SqlProcedureTerm, "");
    infos.append(Info::SqlCatalogTerm, "catalog");
    infos.append(Info::SqlSupportedConcurrenciesForResultSetUnspecified, 0_i32);
    infos.append(Info::SqlSupportsConvert, BTreeMap::<i32, Vec<i32>>::new());
    infos.append(Info::SqlKeywords, &KEYWORDS[..]);
    let names: Vec<String> = session.functions().into_iter().map(|it| it.name).collect();
    let of = |kinds: &[&str]| -> Vec<String> {
        let fits = |name: &&String| kinds.iter().any(|kind| name.starts_with(kind));
        names.iter().filter(fits).cloned().collect()
    };
    infos.append(Info::SqlDatetimeFunctions, of(&DATES));
    infos.append(Info::SqlStringFunctions, of(&TEXTS));
    infos.append(Info::SqlNumericFunctions, of(&NUMBERS));
    infos.append(Info::SqlSystemFunctions, Vec::<String>::new());
    infos.build()
}
