// The JDBC driver of PostgreSQL (pgjdbc), at its defaults and with other settings.
// run.sh says how it is run.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PGInterval;

public class Postgres {
    static final String URL =
            "jdbc:postgresql://" + System.getenv("STY_HOST") + ":" + System.getenv("STY_PG_PORT")
                    + "/db";
    static final LocalDateTime AT = LocalDateTime.of(2024, 2, 29, 12, 34, 56, 789_000_000);
    static final OffsetDateTime ZONED =
            OffsetDateTime.of(2024, 2, 29, 12, 34, 56, 0, ZoneOffset.UTC);
    static final byte[] BYTES = {0, -1, 39, 92};
    static final String ENDLESS =
            "SELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 100000) b";

    interface Work {
        void run() throws Exception;
    }

    interface Check {
        void run(Connection connection) throws Exception;
    }

    static void same(Object found, Object expected) {
        if (!Objects.deepEquals(found, expected)) {
            throw new AssertionError("expected " + expected + ", got " + found);
        }
    }

    static void fails(String state, Work work) throws Exception {
        try {
            work.run();
        } catch (SQLException failed) {
            same(failed.getSQLState(), state);
            return;
        }
        throw new AssertionError(state + ": did not fail");
    }

    /** Rows as lists of values; arrays are lists. */
    static List<List<Object>> all(ResultSet rows) throws SQLException {
        List<List<Object>> found = new ArrayList<>();
        int count = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            List<Object> row = new ArrayList<>();
            for (int at = 1; at <= count; at++) {
                Object value = rows.getObject(at);
                boolean isArray = value instanceof Array;
                row.add(isArray ? Arrays.asList((Object[]) ((Array) value).getArray()) : value);
            }
            found.add(row);
        }
        return found;
    }

    static List<List<Object>> ask(Connection connection, String sql, Object... values)
            throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int at = 0; at < values.length; at++) {
                statement.setObject(at + 1, values[at]);
            }
            return all(statement.executeQuery());
        }
    }

    static void run(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    /** The values of these columns of all rows, with | between. */
    static List<String> names(ResultSet rows, String... columns) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) {
            List<String> row = new ArrayList<>();
            for (String column : columns) {
                row.add(rows.getString(column));
            }
            found.add(String.join("|", row));
        }
        return found;
    }

    static int failed = 0;

    static void check(String settings, String name, Check check) throws Exception {
        try (Connection connection = DriverManager.getConnection(URL + settings, "anna", "")) {
            check.run(connection);
        } catch (Exception | AssertionError wrong) {
            failed = 1;
            System.out.println(name + settings + ": " + wrong);
        }
    }

    public static void main(String[] args) throws Exception {
        // Binary from the sixth time on, at once, never; other ways to send statements.
        for (String settings : new String[] {
            "?", "?prepareThreshold=1&binaryTransfer=true", "?prepareThreshold=-1",
            "?preferQueryMode=simple", "?reWriteBatchedInserts=true",
            "?preferQueryMode=extendedForPrepared",
        }) {
            check(settings, "made", Postgres::made);
            check(settings, "values", Postgres::values);
            // There, the driver writes a zone behind a date, in a text without a type.
            if (!settings.contains("simple")) {
                check(settings, "moments", Postgres::moments);
            }
            check(settings, "arrays", Postgres::arrays);
            check(settings, "intervals", Postgres::intervals);
            check(settings, "any", Postgres::any);
            check(settings, "batches", Postgres::batches);
        }
        check("?", "cursors", Postgres::cursors);
        check("?prepareThreshold=1", "cursors", Postgres::cursors);
        check("?", "copies", Postgres::copies);
        check("?", "transactions", Postgres::transactions);
        check("?", "isolation", Postgres::isolation);
        check("?", "failures", Postgres::failures);
        check("?", "catalogs", Postgres::catalogs);
        check("?", "columns", Postgres::columns);
        check("?", "keys", Postgres::keys);
        check("?", "indexes", Postgres::indexes);
        check("?", "primaryKeys", Postgres::primaryKeys);
        check("?", "privileges", Postgres::privileges);
        check("?", "tables", Postgres::tables);
        check("?", "types", Postgres::types);
        check("?", "functions", Postgres::functions);
        check("?", "ofAnswers", Postgres::ofAnswers);
        check("?", "dropped", connection -> run(connection, "DROP TABLE jd"));
        System.out.println(failed == 0 ? "ok" : "failed");
        System.exit(failed);
    }

    static void made(Connection connection) throws SQLException {
        run(connection, "DROP TABLE IF EXISTS jd");
        run(connection, "CREATE TABLE jd (id BIGINT NOT NULL, n INTEGER, s SMALLINT, b BOOLEAN, "
                + "r REAL, d DOUBLE PRECISION, p NUMERIC(12, 2), t TEXT, y BYTEA, day DATE, "
                + "clock TIME, at TIMESTAMP, zoned TIMESTAMPTZ)");
    }

    static void values(Connection connection) throws SQLException {
        String insert = "INSERT INTO jd VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (int id = 1; id <= 8; id++) {
                statement.setLong(1, id);
                statement.setInt(2, -2);
                statement.setShort(3, (short) 3);
                statement.setBoolean(4, true);
                statement.setFloat(5, 1.5f);
                statement.setDouble(6, 0.1);
                statement.setBigDecimal(7, new BigDecimal("-1234567.05"));
                statement.setString(8, "it's\t\\ \"ü\"\n");
                statement.setBytes(9, BYTES);
                statement.setObject(10, LocalDate.of(1969, 12, 31));
                statement.setObject(11, LocalTime.of(1, 2, 3, 500_000_000));
                statement.setObject(12, AT);
                statement.setObject(13, ZONED);
                same(statement.executeUpdate(), 1);
            }
            statement.setLong(1, 9);
            for (int at = 2; at <= 13; at++) {
                statement.setNull(at, Types.NULL);
            }
            same(statement.executeUpdate(), 1);
        }
        String select = "SELECT * FROM jd WHERE id >= ? AND id <= ? ORDER BY id";
        try (PreparedStatement statement = connection.prepareStatement(select)) {
            for (int id = 1; id <= 8; id++) {
                statement.setLong(1, id);
                statement.setLong(2, id);
                ResultSet row = statement.executeQuery();
                same(row.next(), true);
                same(row.getLong("id"), (long) id);
                same(row.getInt(2), -2);
                same(row.getShort(3), (short) 3);
                same(row.getBoolean(4), true);
                same(row.getFloat(5), 1.5f);
                same(row.getDouble(6), 0.1);
                same(row.getBigDecimal(7), new BigDecimal("-1234567.05"));
                same(row.getString(8), "it's\t\\ \"ü\"\n");
                same(row.getBytes(9), BYTES);
                same(row.getObject(10, LocalDate.class), LocalDate.of(1969, 12, 31));
                same(row.getDate(10), Date.valueOf("1969-12-31"));
                same(row.getObject(11, LocalTime.class), LocalTime.of(1, 2, 3, 500_000_000));
                same(row.getObject(12, LocalDateTime.class), AT);
                same(row.getTimestamp(12), Timestamp.valueOf(AT));
                same(row.getObject(13, OffsetDateTime.class), ZONED);
                same(row.getString(10), "1969-12-31");
                same(row.getString(12), "2024-02-29 12:34:56.789");
                same(row.next(), false);
            }
        }
        List<List<Object>> nothing = ask(connection, "SELECT * FROM jd WHERE id = ?", 9L);
        List<Object> nulls = new ArrayList<>(List.of(9L));
        nulls.addAll(Arrays.asList(new Object[12]));
        same(nothing, List.of(nulls));
    }

    /** Days and times, whose types this driver does not tell. */
    static void moments(Connection connection) throws SQLException {
        for (int at = 0; at < 8; at++) {
            String found = "SELECT count(*) FROM jd WHERE at = ? AND day = ? AND p = ? AND id < 5";
            Date day = Date.valueOf("1969-12-31");
            BigDecimal price = new BigDecimal("-1234567.05");
            Timestamp moment = Timestamp.valueOf(AT);
            same(ask(connection, found, moment, day, price), List.of(List.of(4L)));
        }
    }

    static void arrays(Connection connection) throws SQLException {
        Array numbers = connection.createArrayOf("int4", new Object[] {1, null, -2});
        Array texts = connection.createArrayOf("text", new Object[] {"a", null, "b\"{},\\", ""});
        for (int at = 0; at < 8; at++) {
            Object found = ask(connection, "SELECT ?::INT[]", numbers).get(0).get(0);
            same(found, Arrays.asList(1, null, -2));
            found = ask(connection, "SELECT ?::TEXT[]", texts).get(0).get(0);
            same(found, Arrays.asList("a", null, "b\"{},\\", ""));
            found = ask(connection, "SELECT ARRAY[DATE '1969-12-31', NULL]").get(0).get(0);
            same(found, Arrays.asList(Date.valueOf("1969-12-31"), null));
            String decimals = "SELECT ARRAY[1.5::NUMERIC(5, 2), 0::NUMERIC(5, 2)]";
            found = ask(connection, decimals).get(0).get(0);
            same(found, List.of(new BigDecimal("1.50"), new BigDecimal("0.00")));
        }
    }

    static void any(Connection connection) throws SQLException {
        Array numbers = connection.createArrayOf("int8", new Object[] {1L, 3L, 1000L});
        String sql = "SELECT id FROM trips WHERE id = ANY(?) ORDER BY id";
        same(ask(connection, sql, numbers), List.of(List.of(1L), List.of(3L)));
    }

    static void intervals(Connection connection) throws SQLException {
        PGInterval given = new PGInterval(1, 2, 3, 4, 5, 6.5);
        for (int at = 0; at < 8; at++) {
            same(ask(connection, "SELECT ?::INTERVAL", given).get(0).get(0), given);
            Object found = ask(connection, "SELECT INTERVAL '1 year -3 days'").get(0).get(0);
            same(found, new PGInterval(1, 0, -3, 0, 0, 0));
        }
    }

    static void batches(Connection connection) throws SQLException {
        String insert = "INSERT INTO jd (id, t, p) VALUES (?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (int at = 1000; at < 1100; at++) {
                statement.setLong(1, at);
                statement.setString(2, "n" + at);
                statement.setBigDecimal(3, BigDecimal.valueOf(at, 2));
                statement.addBatch();
            }
            same(statement.executeBatch().length, 100);
        }
        String sums = "SELECT count(*), sum(p) FROM jd WHERE id >= 1000";
        same(ask(connection, sums), List.of(List.of(100L, new BigDecimal("1049.50"))));
        try (Statement statement = connection.createStatement()) {
            statement.addBatch("UPDATE jd SET t = 'x' WHERE id >= 1090");
            statement.addBatch("DELETE FROM jd WHERE id >= 1095");
            same(statement.executeBatch(), new int[] {10, 5});
            statement.execute("DELETE FROM jd WHERE id >= 1000");
            same(statement.getUpdateCount(), 95);
        }
    }

    static void cursors(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        String sql =
                "SELECT g, 'r' || g FROM generate_series(1, 100000) AS t(g) "
                        + "WHERE g >= ? ORDER BY g";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setFetchSize(777);
            for (int at = 1; at < 8; at++) {
                statement.setLong(1, at);
                ResultSet rows = statement.executeQuery();
                long expected = at;
                while (rows.next()) {
                    same(rows.getLong(1), expected);
                    same(rows.getString(2), "r" + expected++);
                }
                same(expected, 100_001L);
            }
            // Two at a time, and one that is left before its end.
            ResultSet half = statement.executeQuery();
            same(half.next(), true);
            same(ask(connection, "SELECT city FROM trips WHERE id = 1"), List.of(List.of("Oslo")));
            for (int at = 0; at < 2000; at++) {
                same(half.next(), true);
            }
            half.close();
        }
        connection.commit();
    }

    static void copies(Connection connection) throws Exception {
        CopyManager copy = connection.unwrap(PGConnection.class).getCopyAPI();
        String rows = "70\ta\\tb\n71\t\\N\n";
        byte[] given = rows.getBytes(StandardCharsets.UTF_8);
        same(copy.copyIn("COPY jd (id, t) FROM STDIN", new ByteArrayInputStream(given)), 2L);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        String query = "COPY (SELECT id, t FROM jd WHERE id IN (70, 71) ORDER BY id) TO STDOUT";
        same(copy.copyOut(query, out), 2L);
        same(out.toString(StandardCharsets.UTF_8), rows);
        out.reset();
        copy.copyOut(query + " WITH (FORMAT csv, HEADER)", out);
        same(out.toString(StandardCharsets.UTF_8), "id,t\n70,a\tb\n71,\n");
        byte[] wrong = "72\tx\ny\tz\n".getBytes(StandardCharsets.UTF_8);
        ByteArrayInputStream wrongRows = new ByteArrayInputStream(wrong);
        fails("22P02", () -> copy.copyIn("COPY jd (id, t) FROM STDIN", wrongRows));
        same(ask(connection, "SELECT count(*) FROM jd WHERE id = 72"), List.of(List.of(0L)));
    }

    static void transactions(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        same(connection.getTransactionIsolation(), Connection.TRANSACTION_READ_COMMITTED);
        run(connection, "INSERT INTO jd (id) VALUES (80)");
        Savepoint point = connection.setSavepoint("here");
        fails("42P01", () -> ask(connection, "SELECT * FROM nope"));
        fails("25P02", () -> ask(connection, "SELECT 1"));
        connection.rollback(point);
        same(ask(connection, "SELECT count(*) FROM jd WHERE id = 80"), List.of(List.of(1L)));
        connection.commit();
        connection.setReadOnly(true);
        fails("25006", () -> run(connection, "INSERT INTO jd (id) VALUES (81)"));
        connection.rollback();
        connection.setReadOnly(false);
        same(connection.getSchema(), "public");
        same(connection.isValid(5), true);
    }

    static void isolation(Connection connection) throws Exception {
        connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        same(connection.getTransactionIsolation(), Connection.TRANSACTION_SERIALIZABLE);
    }

    static void failures(Connection connection) throws Exception {
        fails("42703", () -> ask(connection, "SELECT nope FROM jd"));
        fails("42601", () -> ask(connection, "SELEC 1"));
        fails("22012", () -> ask(connection, "SELECT 1 / ?::INT", 0));
        fails("42883", () -> ask(connection, "SELECT nope(1)"));
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            fails("57014", () -> statement.executeQuery(ENDLESS));
        }
        same(ask(connection, "SELECT 5::INT"), List.of(List.of(5)));
    }

    static void catalogs(Connection connection) throws SQLException {
        DatabaseMetaData about = connection.getMetaData();
        same(about.getDatabaseProductName(), "PostgreSQL");
        same(about.getDatabaseMajorVersion(), 16);
        same(names(about.getCatalogs(), "TABLE_CAT").contains("db"), true);
        List<String> schemas = names(about.getSchemas(), "TABLE_SCHEM");
        same(schemas.containsAll(List.of("public", "information_schema")), true);
        same(names(about.getSchemas(null, "pub%"), "TABLE_SCHEM"), List.of("public"));
    }

    static void tables(Connection connection) throws SQLException {
        DatabaseMetaData about = connection.getMetaData();
        String[] kinds = {"TABLE", "VIEW"};
        run(connection, "DROP VIEW IF EXISTS jd_view");
        run(connection, "CREATE VIEW jd_view AS SELECT id, p FROM jd");
        ResultSet tables = about.getTables(null, "public", "jd%", kinds);
        same(names(tables, "TABLE_NAME", "TABLE_TYPE"), List.of("jd|TABLE", "jd_view|VIEW"));
        same(names(about.getTables(null, null, "trips", null), "TABLE_NAME"), List.of("trips"));
        same(names(about.getTables(null, null, "nope", null), "TABLE_NAME"), List.of());
        tables = about.getTables("db", "public", "jd\\_v%", kinds);
        same(names(tables, "TABLE_NAME"), List.of("jd_view"));
        same(names(about.getTableTypes(), "TABLE_TYPE").containsAll(List.of(kinds)), true);
        run(connection, "DROP VIEW jd_view");
    }

    static void columns(Connection connection) throws SQLException {
        DatabaseMetaData about = connection.getMetaData();
        ResultSet columns = about.getColumns(null, null, "jd", "%");
        same(names(columns, "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "NULLABLE"), List.of(
                "id|int8|-5|0", "n|int4|4|1", "s|int2|5|1", "b|bool|-7|1", "r|float4|7|1",
                "d|float8|8|1", "p|numeric|2|1", "t|text|12|1", "y|bytea|-2|1", "day|date|91|1",
                "clock|time|92|1", "at|timestamp|93|1", "zoned|timestamptz|93|1"));
        columns = about.getColumns("db", "public", "jd", "p");
        same(names(columns, "COLUMN_SIZE", "DECIMAL_DIGITS", "IS_NULLABLE"), List.of("12|2|YES"));
    }

    static void keys(Connection connection) throws SQLException {
        DatabaseMetaData about = connection.getMetaData();
        same(names(about.getImportedKeys(null, null, "jd"), "FKCOLUMN_NAME"), List.of());
        same(names(about.getExportedKeys(null, null, "jd"), "FKCOLUMN_NAME"), List.of());
    }

    static void indexes(Connection connection) throws SQLException {
        DatabaseMetaData about = connection.getMetaData();
        same(names(about.getIndexInfo(null, null, "jd", false, true), "INDEX_NAME"), List.of());
    }

    static void primaryKeys(Connection connection) throws SQLException {
        DatabaseMetaData about = connection.getMetaData();
        same(names(about.getPrimaryKeys(null, null, "jd"), "COLUMN_NAME"), List.of());
    }

    static void privileges(Connection connection) throws SQLException {
        DatabaseMetaData about = connection.getMetaData();
        ResultSet rows = about.getBestRowIdentifier(null, null, "jd", 0, true);
        same(names(rows, "COLUMN_NAME"), List.of());
        same(names(about.getTablePrivileges(null, null, "nope"), "GRANTEE"), List.of());
    }

    static void types(Connection connection) throws SQLException {
        ResultSet rows = connection.getMetaData().getTypeInfo();
        List<String> types = names(rows, "TYPE_NAME", "DATA_TYPE");
        List<String> expected = List.of("int8|-5", "int4|4", "bool|-7", "text|12", "numeric|2",
                "bytea|-2", "timestamptz|93", "date|91", "float8|8", "_int4|2003");
        for (String type : expected) {
            same(types.contains(type) ? type : types, type);
        }
    }

    static void functions(Connection connection) throws SQLException {
        DatabaseMetaData about = connection.getMetaData();
        same(names(about.getProcedures(null, null, "nope"), "PROCEDURE_NAME"), List.of());
        same(names(about.getFunctions(null, null, "nope"), "FUNCTION_NAME"), List.of());
        same(names(about.getUDTs(null, null, "nope", null), "TYPE_NAME"), List.of());
        same(about.getSQLKeywords().length() > 0, true);
        same(about.getMaxColumnNameLength(), 63);
    }

    static void ofAnswers(Connection connection) throws SQLException {
        String select = "SELECT * FROM jd WHERE id = ?";
        try (PreparedStatement statement = connection.prepareStatement(select)) {
            ResultSetMetaData about = statement.getMetaData();
            same(about.getColumnCount(), 13);
            same(about.getColumnTypeName(7), "numeric");
            same(List.of(about.getPrecision(7), about.getScale(7)), List.of(12, 2));
            same(about.getColumnClassName(12), "java.sql.Timestamp");
            same(statement.getParameterMetaData().getParameterTypeName(1), "int8");
        }
        try (Statement statement = connection.createStatement()) {
            ResultSet rows = statement.executeQuery("SELECT id AS x FROM jd");
            ResultSetMetaData about = rows.getMetaData();
            same(about.getColumnLabel(1) + " " + about.isAutoIncrement(1), "x false");
        }
    }
}
