// clickhouse-jdbc at its defaults. run.sh says how it is run.

import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLTimeoutException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

public class Http {
    private static Connection connection;

    interface Work {
        void run() throws Exception;
    }

    static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(found + " is not " + expected);
        }
    }

    /** A failure of the server must have this code. */
    static void fails(int code, Work work) throws Exception {
        try {
            work.run();
        } catch (SQLException error) {
            equal(error.getErrorCode(), code);
            return;
        }
        throw new AssertionError("no failure with code " + code);
    }

    /** The values of one column. */
    static List<Object> column(ResultSet rows, String name) throws SQLException {
        List<Object> values = new ArrayList<>();
        while (rows.next()) {
            values.add(rows.getObject(name));
        }
        return values;
    }

    static ResultSet ask(String sql) throws SQLException {
        return connection.createStatement().executeQuery(sql);
    }

    public static void main(String[] arguments) throws Exception {
        String address = System.getenv("STY_HOST") + ":" + System.getenv("STY_PORT");
        connection = DriverManager.getConnection("jdbc:clickhouse://" + address + "/default");
        equal(connection.isValid(5), true);
        equal(column(ask("SELECT city FROM trips ORDER BY id"), "city"),
            Arrays.asList("Oslo", "it's \"Bergen\"", null));
        rowsIn();
        parameters();
        metadata();
        failures();
        connection.createStatement().execute("DROP TABLE java");
        connection.close();
    }

    static void rowsIn() throws Exception {
        connection.createStatement().execute(
            "CREATE TABLE java (id Int64 NOT NULL, name Nullable(String), x Float64, d Date32,"
            + " at DateTime64(3), ok Bool, dec Decimal(18, 4), u UInt64, i Int32)"
            + " ENGINE = MergeTree ORDER BY id");
        String insert = "INSERT INTO java VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (int i = 0; i < 100; i++) {
                statement.setLong(1, i);
                statement.setString(2, "n'" + i + "\\");
                statement.setDouble(3, i / 4.0);
                statement.setDate(4, Date.valueOf("2024-01-02"));
                statement.setTimestamp(5, Timestamp.valueOf("2024-01-02 03:04:05.678"));
                statement.setBoolean(6, i % 2 == 0);
                statement.setBigDecimal(7, new BigDecimal("12.5"));
                statement.setLong(8, i);
                statement.setInt(9, i);
                statement.addBatch();
            }
            equal(statement.executeBatch().length, 100);
        }
        insert = "INSERT INTO java (id, name) VALUES (?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            statement.setLong(1, 1000);
            statement.setNull(2, Types.VARCHAR);
            statement.executeUpdate();
        }
        ResultSet row = ask("SELECT * FROM java WHERE id = 11");
        equal(row.next(), true);
        equal(row.getLong("id"), 11L);
        equal(row.getString("name"), "n'11\\");
        equal(row.getDouble("x"), 2.75);
        equal(row.getDate("d"), Date.valueOf("2024-01-02"));
        equal(row.getTimestamp("at"), Timestamp.valueOf("2024-01-02 03:04:05.678"));
        equal(row.getBoolean("ok"), false);
        equal(row.getBigDecimal("dec").stripTrailingZeros(), new BigDecimal("12.5"));
        equal(row.getObject("u"), BigInteger.valueOf(11));
        equal(row.getInt("i"), 11);
        equal(row.next(), false);
        row = ask("SELECT * FROM java WHERE id = 1000");
        equal(row.next(), true);
        equal(row.getString("name"), null);
        equal(row.wasNull(), true);
        row = ask("SELECT ['x', 'y'] AS l");
        equal(row.next(), true);
        equal(Arrays.asList((Object[]) row.getArray(1).getArray()), Arrays.asList("x", "y"));
    }

    static void parameters() throws Exception {
        String query = "SELECT id FROM java WHERE id > ? AND name LIKE ? AND at < ? AND x < ?"
            + " ORDER BY id";
        try (PreparedStatement statement = connection.prepareStatement(query)) {
            statement.setInt(1, 10);
            statement.setString(2, "n'1%\\\\");
            statement.setTimestamp(3, Timestamp.valueOf("2025-01-01 00:00:00"));
            statement.setDouble(4, 3);
            equal(column(statement.executeQuery(), "id"), Arrays.asList(11L));
        }
        Statement statement = connection.createStatement();
        statement.setMaxRows(3);
        equal(column(statement.executeQuery("SELECT id FROM java"), "id").size(), 3);
        equal(column(ask("SELECT {ts '2024-01-02 03:04:05'} AS t"), "t"),
            Arrays.asList(Timestamp.valueOf("2024-01-02 03:04:05")));
        ResultSet many = ask("SELECT value AS v FROM range(300000)");
        long sum = 0;
        while (many.next()) {
            sum += many.getLong(1);
        }
        equal(sum, 300000L * 299999 / 2);
    }

    static void metadata() throws Exception {
        var about = connection.getMetaData();
        equal(about.getDatabaseProductName(), "ClickHouse");
        equal(column(about.getSchemas(), "TABLE_SCHEM"), Arrays.asList("default", "system"));
        List<Object> tables = column(about.getTables(null, "default", "%", null), "TABLE_NAME");
        equal(tables.contains("trips"), true);
        equal(column(about.getTables(null, null, "jav_", new String[] {"TABLE"}), "TABLE_TYPE"),
            Arrays.asList("TABLE"));
        equal(column(about.getColumns(null, "default", "trips", "%"), "COLUMN_NAME"),
            Arrays.asList("id", "city", "fare", "day", "at"));
        equal(column(about.getColumns(null, "default", "trips", "%"), "IS_NULLABLE"),
            Arrays.asList("NO", "YES", "YES", "YES", "YES"));
        equal(about.getImportedKeys(null, "default", "trips").next(), false);
        equal(about.getIndexInfo(null, "default", "trips", false, false).next(), false);
        equal(column(about.getFunctions(null, null, "sqrt"), "FUNCTION_NAME"),
            Arrays.asList("sqrt"));
        var columns = ask("SELECT * FROM trips LIMIT 0").getMetaData();
        equal(columns.getColumnName(2), "city");
        equal(columns.getColumnTypeName(2), "Nullable(String)");
        equal(columns.isNullable(1), 0);
    }

    static void failures() throws Exception {
        fails(60, () -> ask("SELECT * FROM nothing"));
        fails(47, () -> ask("SELECT nothing FROM trips"));
        fails(62, () -> ask("SELEC 1"));
        fails(57, () -> connection.createStatement().execute("CREATE TABLE java (a INT)"));
        fails(53, () -> connection.createStatement().execute("INSERT INTO java (id) VALUES ('x')"));
        // The driver knows no failure behind rows, but it must not take them for all.
        boolean isCut = false;
        try {
            ResultSet rows =
                ask("SELECT 10 / (value - 200000) FROM (SELECT value FROM range(300000))");
            while (rows.next()) {
                rows.getObject(1);
            }
        } catch (SQLException error) {
            isCut = true;
        }
        equal(isCut, true);
        String endless = "SELECT count(*) FROM range(100000000000)";
        Statement late = connection.createStatement();
        late.setQueryTimeout(1);
        boolean isLate = false;
        try {
            late.executeQuery(endless);
        } catch (SQLTimeoutException error) {
            isLate = true;
        }
        equal(isLate, true);
        Statement cancelled = connection.createStatement();
        new Thread(() -> {
            try {
                Thread.sleep(700);
                cancelled.cancel();
            } catch (Exception error) {
                error.printStackTrace();
            }
        }).start();
        fails(394, () -> cancelled.executeQuery(endless));
    }
}
