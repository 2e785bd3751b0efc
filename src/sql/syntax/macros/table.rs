//! The macros: functions of other systems, written in functions that are known here.
//!
//! A macro has its parameters in parentheses, and its text names them. Where a text names an
//! aggregate, the FILTER, OVER and DISTINCT of a call are those of the aggregate. `docs/sql.md`
//! lists what is here.

/// A call, and the expression that it stands for.
pub(super) type Macro = (&'static str, &'static str);

/// Scalar functions of DuckDB.
pub(super) const DUCKDB: &[Macro] = &[
    ("age(t)", "sty__age(current_date(), t)"),
    ("age(a, b)", "sty__age(a, b)"),
    ("array_apply(l, f)", "list_transform(l, f)"),
    // DataFusion's count without a sign: differences would wrap around.
    ("array_indexof(l, x)", POSITION),
    ("array_indexof(l, x, after)", POSITION_AFTER),
    ("array_length(l)", "CAST(\"array_length\"(l) AS BIGINT)"),
    ("array_length(l, level)", "CAST(\"array_length\"(l, level) AS BIGINT)"),
    ("array_ndims(l)", "CAST(\"array_ndims\"(l) AS BIGINT)"),
    ("array_position(l, x)", POSITION),
    ("array_position(l, x, after)", POSITION_AFTER),
    ("cardinality(l)", "CAST(\"cardinality\"(l) AS BIGINT)"),
    // The year 0 is the first before Christ; intervals have whole centuries.
    (
        "century(t)",
        "CAST(CASE WHEN left(arrow_typeof(t), 8) IN ('Interval', 'Duration') \
         THEN trunc(date_part('year', t) / 100.0) \
         WHEN date_part('year', t) > 0 THEN ceil(date_part('year', t) / 100.0) \
         ELSE trunc(date_part('year', t) / 100.0) - 1 END AS INT)",
    ),
    ("date_add(d, i)", "(d + i)"),
    ("datediff(part, a, b)", "date_diff(part, a, b)"),
    ("datesub(part, a, b)", "date_sub(part, a, b)"),
    ("dayname(t)", "to_char(t, '%A')"),
    ("dayofmonth(t)", "date_part('day', t)"),
    ("decade(t)", "(date_part('year', t) / 10)"),
    ("epoch(t)", "date_part('epoch', t)"),
    ("era(t)", "CAST(date_part('year', t) > 0 AS INT)"),
    ("from_base64(s)", "decode(s, 'base64')"),
    ("from_hex(s)", "decode(s, 'hex')"),
    ("get_current_timestamp()", "now()"),
    ("ifnull(x, y)", "coalesce(x, y)"),
    ("isfinite(x)", "(abs(x) < CAST('Infinity' AS DOUBLE))"),
    ("isinf(x)", "(abs(x) = CAST('Infinity' AS DOUBLE))"),
    ("isodow(t)", "date_part('isodow', t)"),
    ("isoyear(t)", "date_part('isoyear', t)"),
    // Days as integers: months are added date by date.
    (
        "last_day(t)",
        "CAST(CAST(CAST(date_trunc('month', CAST(CAST(CAST(date_trunc('month', t) AS DATE) AS INT) \
         + 31 AS DATE)) AS DATE) AS INT) - 1 AS DATE)",
    ),
    ("json_array_length(x)", "CAST(json_length(x) AS BIGINT)"),
    ("json_keys(x)", "json_object_keys(x)"),
    ("julian(t)", "(date_part('epoch', t) / 86400e0 + 2440588e0)"),
    ("lcase(s)", "lower(s)"),
    ("length(x)", "len(x)"),
    ("list_apply(l, f)", "list_transform(l, f)"),
    ("list_distinct(l)", "array_compact(array_distinct(l))"),
    ("list_indexof(l, x)", POSITION),
    ("list_indexof(l, x, after)", POSITION_AFTER),
    ("list_length(l)", "CAST(\"array_length\"(l) AS BIGINT)"),
    ("list_length(l, level)", "CAST(\"array_length\"(l, level) AS BIGINT)"),
    ("list_ndims(l)", "CAST(\"array_ndims\"(l) AS BIGINT)"),
    ("list_position(l, x)", POSITION),
    ("list_position(l, x, after)", POSITION_AFTER),
    ("list_reverse_sort(l)", "array_sort(l, 'DESC', 'NULLS LAST')"),
    ("list_sort(l)", "array_sort(l, 'ASC', 'NULLS LAST')"),
    ("list_sort(l, way)", "array_sort(l, way, 'NULLS LAST')"),
    ("list_sort(l, way, nulls)", "array_sort(l, way, nulls)"),
    ("list_unique(l)", "list_count(array_distinct(l))"),
    (
        "make_timestamp(y, mo, d, h, mi, s)",
        "to_timestamp_micros(CAST(date_part('epoch', make_date(y, mo, d)) AS BIGINT) * 1000000 \
         + CAST(date_part('epoch', make_time(h, mi, 0)) AS BIGINT) * 1000000 \
         + CAST(round(s * 1e6) AS BIGINT))",
    ),
    (
        "millennium(t)",
        "CAST(CASE WHEN left(arrow_typeof(t), 8) IN ('Interval', 'Duration') \
         THEN trunc(date_part('year', t) / 1000.0) \
         WHEN date_part('year', t) > 0 THEN ceil(date_part('year', t) / 1000.0) \
         ELSE trunc(date_part('year', t) / 1000.0) - 1 END AS INT)",
    ),
    ("monthname(t)", "to_char(t, '%B')"),
    ("nvl(x, y)", "coalesce(x, y)"),
    ("ord(s)", UNICODE),
    ("prefix(s, p)", "starts_with(s, p)"),
    ("regexp_full_match(s, p)", "regexp_like(s, '^(?:' || p || ')$')"),
    ("regexp_matches(s, p)", "regexp_like(s, p)"),
    ("regexp_matches(s, p, options)", "regexp_like(s, p, options)"),
    ("split(s, separator)", SPLIT),
    ("str_split(s, separator)", SPLIT),
    ("string_split(s, separator)", SPLIT),
    ("suffix(s, p)", "ends_with(s, p)"),
    ("to_base64(x)", "encode(x, 'base64')"),
    ("to_centuries(n)", "(n * INTERVAL '100 years')"),
    ("to_days(n)", "(n * INTERVAL '1 day')"),
    ("to_decades(n)", "(n * INTERVAL '10 years')"),
    ("to_hours(n)", "(n * INTERVAL '1 hour')"),
    ("to_microseconds(n)", "(n * INTERVAL '1 microsecond')"),
    ("to_milliseconds(n)", "(n * INTERVAL '1 millisecond')"),
    ("to_minutes(n)", "(n * INTERVAL '1 minute')"),
    ("to_months(n)", "(n * INTERVAL '1 month')"),
    ("to_quarters(n)", "(n * INTERVAL '3 months')"),
    ("to_seconds(n)", "(n * INTERVAL '1 second')"),
    ("to_weeks(n)", "(n * INTERVAL '7 days')"),
    ("to_years(n)", "(n * INTERVAL '1 year')"),
    ("ucase(s)", "upper(s)"),
    ("unhex(s)", "decode(s, 'hex')"),
    ("unicode(s)", UNICODE),
    ("weekday(t)", "date_part('dow', t)"),
    ("weekofyear(t)", "date_part('week', t)"),
    ("xor(a, b)", "((a | b) - (a & b))"),
    (
        "yearweek(t)",
        "(date_part('isoyear', t) * 100 + CASE WHEN date_part('isoyear', t) < 0 \
         THEN -date_part('week', t) ELSE date_part('week', t) END)",
    ),
];

const POSITION: &str = "CAST(\"array_position\"(l, x) AS BIGINT)";
const POSITION_AFTER: &str = "CAST(\"array_position\"(l, x, after) AS BIGINT)";

const UNICODE: &str = "CASE WHEN s = '' THEN -1 ELSE ascii(s) END";

/// The empty text is one part; an empty separator splits into characters, as null does in
/// DataFusion.
const SPLIT: &str = "CASE WHEN s = '' THEN [''] ELSE string_to_array(s, nullif(separator, '')) END";

/// Aggregates of DuckDB.
pub(super) const DUCKDB_AGGREGATES: &[Macro] = &[
    ("approx_count_distinct(x)", "approx_distinct(x)"),
    ("approx_quantile(x, p)", "approx_percentile_cont(x, p)"),
    ("arbitrary(x)", "first_value(x)"),
    ("arg_max(x, y)", ARG_MAX),
    ("arg_min(x, y)", ARG_MIN),
    ("count_if(c)", "count(*) FILTER (WHERE c)"),
    ("favg(x)", "avg(x)"),
    ("first(x)", "first_value(x)"),
    ("fsum(x)", "sum(x)"),
    ("group_concat(s)", "string_agg(s, ',')"),
    ("group_concat(s, separator)", "string_agg(s, separator)"),
    ("last(x)", "last_value(x)"),
    ("list(x)", "array_agg(x)"),
    ("listagg(s)", "string_agg(s, ',')"),
    ("listagg(s, separator)", "string_agg(s, separator)"),
    ("max_by(x, y)", ARG_MAX),
    ("min_by(x, y)", ARG_MIN),
    ("quantile(x, p)", "quantile_disc(x, p)"),
    ("string_agg(s)", "string_agg(s, ',')"),
    ("variance(x)", "var_samp(x)"),
];

const ARG_MAX: &str =
    "first_value(x ORDER BY y DESC) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL)";
const ARG_MIN: &str = "first_value(x ORDER BY y) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL)";

/// Scalar functions of ClickHouse.
pub(super) const CLICKHOUSE: &[Macro] = &[
    ("arrayJoin(l)", "unnest(l)"),
    ("assumeNotNull(x)", "x"),
    ("dateTrunc(part, t)", "date_trunc(part, t)"),
    ("empty(x)", "(len(x) = 0)"),
    ("endsWith(s, p)", "ends_with(s, p)"),
    ("fromUnixTimestamp64Micro(x)", "to_timestamp_micros(x)"),
    ("fromUnixTimestamp64Milli(x)", "to_timestamp_millis(x)"),
    ("fromUnixTimestamp64Nano(x)", "to_timestamp_nanos(x)"),
    ("fromUnixTimestamp64Second(x)", "to_timestamp_seconds(x)"),
    ("has(l, x)", "array_has(l, x)"),
    ("if(c, a, b)", "CASE WHEN c THEN a ELSE b END"),
    ("intDivOrZero(a, b)", "CASE WHEN b = 0 THEN 0 ELSE intdiv(a, b) END"),
    ("isNotNull(x)", "(x IS NOT NULL)"),
    ("isNull(x)", "(x IS NULL)"),
    ("lengthUTF8(s)", "character_length(s)"),
    ("lowerUTF8(s)", "lower(s)"),
    ("match(s, p)", "regexp_like(s, p)"),
    ("modulo(a, b)", "((a) % (b))"),
    ("notEmpty(x)", "(len(x) > 0)"),
    ("positionCaseInsensitive(s, p)", "strpos(lower(s), lower(p))"),
    ("positionUTF8(s, p)", "strpos(s, p)"),
    ("replaceAll(s, a, b)", "replace(s, a, b)"),
    ("replaceRegexpAll(s, p, r)", "regexp_replace(s, p, r, 'g')"),
    ("replaceRegexpOne(s, p, r)", "regexp_replace(s, p, r)"),
    ("reverseUTF8(s)", "reverse(s)"),
    ("splitByChar(separator, s)", "string_to_array(s, separator)"),
    ("splitByString(separator, s)", "string_to_array(s, separator)"),
    ("startsWith(s, p)", "starts_with(s, p)"),
    ("substringUTF8(s, start)", "substr(s, start)"),
    ("substringUTF8(s, start, length)", "substr(s, start, length)"),
    ("timestamp(x)", "to_timestamp(x)"),
    ("toDate(x)", "CAST(x AS DATE)"),
    ("toDateTime(x)", "to_timestamp(x)"),
    (
        "toDateTime64(x, digits)",
        "CASE digits WHEN 0 THEN date_trunc('second', to_timestamp(x)) \
         WHEN 3 THEN date_trunc('millisecond', to_timestamp(x)) \
         WHEN 6 THEN date_trunc('microsecond', to_timestamp(x)) ELSE to_timestamp(x) END",
    ),
    ("toDayOfMonth(t)", "date_part('day', t)"),
    ("toDayOfWeek(t)", "date_part('isodow', t)"),
    ("toDayOfYear(t)", "date_part('doy', t)"),
    ("toFloat32(x)", "CAST(x AS REAL)"),
    ("toFloat64(x)", "CAST(x AS DOUBLE)"),
    ("toFloat64OrNull(x)", "TRY_CAST(x AS DOUBLE)"),
    ("toHour(t)", "date_part('hour', t)"),
    ("toISOWeek(t)", "date_part('week', t)"),
    ("toISOYear(t)", "date_part('isoyear', t)"),
    ("toInt16(x)", "CAST(x AS SMALLINT)"),
    ("toInt32(x)", "CAST(x AS INT)"),
    ("toInt32OrNull(x)", "TRY_CAST(x AS INT)"),
    ("toInt64(x)", "CAST(x AS BIGINT)"),
    ("toInt64OrNull(x)", "TRY_CAST(x AS BIGINT)"),
    ("toInt8(x)", "CAST(x AS TINYINT)"),
    (
        "toLastDayOfMonth(t)",
        "CAST(date_trunc('month', t) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)",
    ),
    ("toMinute(t)", "date_part('minute', t)"),
    ("toMonday(t)", "CAST(date_trunc('week', t) AS DATE)"),
    ("toMonth(t)", "date_part('month', t)"),
    ("toQuarter(t)", "date_part('quarter', t)"),
    ("toSecond(t)", "CAST(floor(date_part('second', t)) AS INT)"),
    ("toStartOfDay(t)", "date_trunc('day', t)"),
    ("toStartOfFifteenMinutes(t)", "date_bin(INTERVAL '15 minutes', t)"),
    ("toStartOfFiveMinute(t)", "date_bin(INTERVAL '5 minutes', t)"),
    ("toStartOfFiveMinutes(t)", "date_bin(INTERVAL '5 minutes', t)"),
    ("toStartOfHour(t)", "date_trunc('hour', t)"),
    ("toStartOfMinute(t)", "date_trunc('minute', t)"),
    ("toStartOfMonth(t)", "CAST(date_trunc('month', t) AS DATE)"),
    ("toStartOfQuarter(t)", "CAST(date_trunc('quarter', t) AS DATE)"),
    ("toStartOfSecond(t)", "date_trunc('second', t)"),
    ("toStartOfTenMinutes(t)", "date_bin(INTERVAL '10 minutes', t)"),
    ("toStartOfWeek(t)", SUNDAY),
    ("toStartOfWeek(t, mode)", "CASE WHEN mode % 2 = 1 THEN toMonday(t) ELSE toStartOfWeek(t) END"),
    ("toStartOfYear(t)", "CAST(date_trunc('year', t) AS DATE)"),
    ("toString(x)", "CAST(x AS TEXT)"),
    ("toUInt16(x)", "CAST(x AS USMALLINT)"),
    ("toUInt32(x)", "CAST(x AS INT UNSIGNED)"),
    ("toUInt64(x)", "CAST(x AS UBIGINT)"),
    ("toUInt8(x)", "CAST(x AS UTINYINT)"),
    ("toUnixTimestamp(t)", "CAST(floor(date_part('epoch', t)) AS BIGINT)"),
    ("toYYYYMM(t)", "(date_part('year', t) * 100 + date_part('month', t))"),
    (
        "toYYYYMMDD(t)",
        "(date_part('year', t) * 10000 + date_part('month', t) * 100 + date_part('day', t))",
    ),
    ("toYear(t)", "date_part('year', t)"),
    ("trimBoth(s)", "trim(s)"),
    ("upperUTF8(s)", "upper(s)"),
    ("yesterday()", "CAST(current_date - INTERVAL '1 day' AS DATE)"),
];

const SUNDAY: &str = "CAST(date_trunc('week', t + INTERVAL '1 day') - INTERVAL '1 day' AS DATE)";

/// Aggregates of ClickHouse.
pub(super) const CLICKHOUSE_AGGREGATES: &[Macro] = &[
    ("any(x)", "any_value(x)"),
    ("anyIf(x, c)", "any_value(x) FILTER (WHERE c)"),
    ("anyLast(x)", "last_value(x) FILTER (WHERE x IS NOT NULL)"),
    ("argMax(x, y)", ARG_MAX),
    ("argMin(x, y)", ARG_MIN),
    ("avgIf(x, c)", "avg(x) FILTER (WHERE c)"),
    ("avgWeighted(x, w)", "(CAST(sum(x * w) AS DOUBLE) / sum(CASE WHEN x IS NOT NULL THEN w END))"),
    ("countIf(c)", "count(*) FILTER (WHERE c)"),
    ("covarPop(x, y)", "covar_pop(x, y)"),
    ("covarSamp(x, y)", "covar_samp(x, y)"),
    ("groupArray(x)", "array_agg(x) FILTER (WHERE x IS NOT NULL)"),
    ("groupUniqArray(x)", "array_agg(DISTINCT x) FILTER (WHERE x IS NOT NULL)"),
    ("maxIf(x, c)", "max(x) FILTER (WHERE c)"),
    ("medianIf(x, c)", "median(x) FILTER (WHERE c)"),
    ("minIf(x, c)", "min(x) FILTER (WHERE c)"),
    ("stddevPop(x)", "stddev_pop(x)"),
    ("stddevSamp(x)", "stddev_samp(x)"),
    ("sumIf(x, c)", "sum(x) FILTER (WHERE c)"),
    ("uniq(x)", "count(DISTINCT x)"),
    ("uniqCombined(x)", "count(DISTINCT x)"),
    ("uniqExact(x)", "count(DISTINCT x)"),
    ("uniqExactIf(x, c)", "count(DISTINCT x) FILTER (WHERE c)"),
    ("uniqHLL12(x)", "count(DISTINCT x)"),
    ("uniqIf(x, c)", "count(DISTINCT x) FILTER (WHERE c)"),
    ("varPop(x)", "var_pop(x)"),
    ("varSamp(x)", "var_samp(x)"),
];

/// Functions of LocustDB and kdb+.
pub(super) const OTHERS: &[Macro] = &[
    ("to_year(t)", "date_part('year', t)"),
    ("wavg(w, x)", "(CAST(sum(w * x) AS DOUBLE) / sum(CASE WHEN x IS NOT NULL THEN w END))"),
    ("wsum(w, x)", "sum(w * x)"),
];

/// Functions of PostgreSQL. The words are those that it would not read as names of columns.
pub(super) const POSTGRESQL: &[Macro] = &[
    // DataFusion's remove and replace the first one only.
    ("array_remove(l, x)", "array_remove_all(l, x)"),
    ("array_replace(l, x, y)", "array_replace_all(l, x, y)"),
    ("list_remove(l, x)", "array_remove_all(l, x)"),
    ("list_replace(l, x, y)", "array_replace_all(l, x, y)"),
    ("ceiling(x)", "ceil(x)"),
    (
        "json_typeof(x)",
        "CASE left(ltrim(x, ' \t\r\n'), 1) WHEN '{' THEN 'object' WHEN '[' THEN 'array' \
         WHEN '\"' THEN 'string' ELSE CASE \
         WHEN btrim(x, ' \t\r\n') IN ('true', 'false') THEN 'boolean' \
         WHEN btrim(x, ' \t\r\n') = 'null' THEN 'null' \
         WHEN x ~ '^[ \t\r\n]*-?[0-9]' THEN 'number' END END",
    ),
    ("regexp_split_to_table(s, p)", "unnest(regexp_split_to_array(s, p))"),
    (
        "width_bucket(x, low, high, n)",
        // The zero makes numbers with a point decimals. Equal bounds, and no buckets, are a
        // division by zero.
        "CAST(CASE WHEN n <= 0 THEN 1 / CAST(n > 0 AS INT) WHEN low < high THEN \
         CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1 \
         ELSE intdiv((x + CAST(0 AS DECIMAL(1,0)) - (low + CAST(0 AS DECIMAL(1,0)))) * n, \
         high + CAST(0 AS DECIMAL(1,0)) - (low + CAST(0 AS DECIMAL(1,0)))) + 1 END \
         WHEN low > high THEN CASE WHEN x > low THEN 0 WHEN x <= high THEN n + 1 \
         ELSE intdiv((low + CAST(0 AS DECIMAL(1,0)) - (x + CAST(0 AS DECIMAL(1,0)))) * n, \
         low + CAST(0 AS DECIMAL(1,0)) - (high + CAST(0 AS DECIMAL(1,0)))) + 1 END \
         ELSE 1 / CAST(low <> high AS INT) END AS INT)",
    ),
    (
        "pg_size_pretty(n)",
        "CASE WHEN n IS NULL THEN NULL \
         WHEN abs(n) < 10240 THEN concat(n, ' bytes') \
         WHEN abs(n) < 10485248 THEN concat(CAST(round(n / 1024e0) AS BIGINT), ' kB') \
         WHEN abs(n) < 10736893952 THEN concat(CAST(round(n / 1048576e0) AS BIGINT), ' MB') \
         WHEN abs(n) < 10994579406848 THEN concat(CAST(round(n / 1073741824e0) AS BIGINT), ' GB') \
         ELSE concat(CAST(round(n / 1099511627776e0) AS BIGINT), ' TB') END",
    ),
    (
        "quote_ident(x)",
        "CASE WHEN x IS NULL THEN NULL WHEN x ~ '^[a-z_][a-z0-9_$]*$' AND x NOT IN ( \
         'all', 'analyse', 'analyze', 'and', 'any', 'array', 'as', 'asc', 'asymmetric', \
         'authorization', 'between', 'bigint', 'binary', 'bit', 'boolean', 'both', 'case', \
         'cast', 'char', 'character', 'check', 'coalesce', 'collate', 'collation', 'column', \
         'concurrently', 'constraint', 'create', 'cross', 'current_catalog', 'current_date', \
         'current_role', 'current_schema', 'current_time', 'current_timestamp', \
         'current_user', 'dec', 'decimal', 'default', 'deferrable', 'desc', 'distinct', 'do', \
         'else', 'end', 'except', 'exists', 'extract', 'false', 'fetch', 'float', 'for', \
         'foreign', 'freeze', 'from', 'full', 'grant', 'greatest', 'group', 'grouping', \
         'having', 'ilike', 'in', 'initially', 'inner', 'inout', 'int', 'integer', \
         'intersect', 'interval', 'into', 'is', 'isnull', 'join', 'json_array', \
         'json_arrayagg', 'json_object', 'json_objectagg', 'lateral', 'leading', 'least', \
         'left', 'like', 'limit', 'localtime', 'localtimestamp', 'national', 'natural', \
         'nchar', 'none', 'normalize', 'not', 'notnull', 'null', 'nullif', 'numeric', \
         'offset', 'on', 'only', 'or', 'order', 'out', 'outer', 'overlaps', 'overlay', \
         'placing', 'position', 'precision', 'primary', 'real', 'references', 'returning', \
         'right', 'row', 'select', 'session_user', 'setof', 'similar', 'smallint', 'some', \
         'substring', 'symmetric', 'system_user', 'table', 'tablesample', 'then', 'time', \
         'timestamp', 'to', 'trailing', 'treat', 'trim', 'true', 'union', 'unique', 'user', \
         'using', 'values', 'varchar', 'variadic', 'verbose', 'when', 'where', 'window', \
         'with', 'xmlattributes', 'xmlconcat', 'xmlelement', 'xmlexists', 'xmlforest', \
         'xmlnamespaces', 'xmlparse', 'xmlpi', 'xmlroot', 'xmlserialize', 'xmltable' \
         ) THEN x ELSE concat('\"', replace(x, '\"', '\"\"'), '\"') END",
    ),
    (
        "quote_literal(x)",
        "CASE WHEN strpos(CAST(x AS VARCHAR), '\\') = 0 \
         THEN '''' || replace(CAST(x AS VARCHAR), '''', '''''') || '''' \
         ELSE 'E''' || replace(replace(CAST(x AS VARCHAR), '\\', '\\\\'), '''', '''''') \
         || '''' END",
    ),
    ("quote_nullable(x)", "coalesce(quote_literal(x), 'NULL')"),
];

/// The aggregates that texts name.
pub(super) const AGGREGATES: &[&str] = &[
    "any_value",
    "approx_distinct",
    "approx_percentile_cont",
    "array_agg",
    "avg",
    "count",
    "covar_pop",
    "covar_samp",
    "first_value",
    "last_value",
    "max",
    "median",
    "min",
    "quantile_cont",
    "quantile_disc",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "top_k",
    "var_pop",
    "var_samp",
];
