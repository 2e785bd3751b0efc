// What the driver of Arrow Flight SQL for JDBC does with `sty serve --flight`. See README.md.

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

public class Flight {
    static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    interface Work {
        void run() throws SQLException;
    }

    static void fails(String words, Work work) {
        try {
            work.run();
        } catch (SQLException error) {
            check(error.getMessage().contains(words), error);
            return;
        }
        throw new AssertionError(words + ": did not fail");
    }

    static List<String> names(ResultSet rows, String column) throws SQLException {
        List<String> names = new ArrayList<>();
        try (rows) {
            while (rows.next()) {
                names.add(rows.getString(column));
            }
        }
        return names;
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:arrow-flight-sql://" + System.getenv("STY_HOST") + ":"
            + System.getenv("STY_FLIGHT_PORT") + "/?useEncryption=false";
        // With a user, the driver begins with a handshake.
        try (Connection connection = DriverManager.getConnection(url, "anna", "secret")) {
            queries(connection);
            prepared(connection);
            metadata(connection);
        }
        System.out.println("ok");
    }

    static void queries(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            ResultSet rows = statement.executeQuery("SELECT * FROM trips ORDER BY id");
            check(rows.next() && rows.getLong(1) == 1 && rows.getString(2).equals("Oslo"), rows);
            check(rows.getDouble("fare") == 12.5, rows.getDouble("fare"));
            check(rows.getDate("day").toString().equals("2024-01-02"), rows.getDate("day"));
            check(rows.next() && rows.getString("city").equals("it's \"Bergen\""), "row 2");
            rows.getDouble("fare");
            check(rows.wasNull(), "a null");
            check(rows.next() && !rows.next(), "three rows");
            rows = statement.executeQuery("SELECT value FROM generate_series(1, 1000000)");
            long sum = 0;
            while (rows.next()) {
                sum += rows.getLong(1);
            }
            check(sum == 500_000_500_000L, sum);
            fails("no table nope", () -> statement.executeQuery("SELECT * FROM nope"));
            statement.executeUpdate("CREATE TABLE j (a BIGINT, b VARCHAR)");
            check(statement.executeUpdate("INSERT INTO j VALUES (1, 'x'), (2, 'y')") == 2, "insert");
            check(statement.executeUpdate("DELETE FROM j WHERE a = 2") == 1, "delete");
        }
    }

    static void prepared(Connection connection) throws SQLException {
        String insert = "INSERT INTO j (a, b) VALUES (?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (int at = 10; at < 20; at++) {
                statement.setLong(1, at);
                statement.setString(2, "n" + at);
                statement.addBatch();
            }
            statement.executeBatch();
        }
        String select = "SELECT b FROM j WHERE a = ?";
        try (PreparedStatement statement = connection.prepareStatement(select)) {
            for (int at = 10; at < 13; at++) {
                statement.setLong(1, at);
                ResultSet rows = statement.executeQuery();
                check(rows.next() && rows.getString(1).equals("n" + at), at);
            }
        }
    }

    static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData about = connection.getMetaData();
        check(about.getDatabaseProductName().equals("Stylobate"), about.getDatabaseProductName());
        check(about.getIdentifierQuoteString().equals("\""), about.getIdentifierQuoteString());
        check(!about.supportsTransactions() && !about.isReadOnly(), "what it can do");
        check(names(about.getCatalogs(), "TABLE_CAT").equals(List.of("stylobate")), "catalogs");
        check(names(about.getSchemas(), "TABLE_SCHEM").contains("public"), "schemas");
        ResultSet tables = about.getTables(null, "public", "tr%", new String[] {"TABLE"});
        check(names(tables, "TABLE_NAME").equals(List.of("trips")), "tables");
        ResultSet columns = about.getColumns(null, null, "trips", "%");
        List<String> names = names(columns, "COLUMN_NAME");
        check(names.equals(List.of("id", "city", "fare", "day", "at")), names);
        check(names(about.getPrimaryKeys(null, null, "trips"), "COLUMN_NAME").isEmpty(), "keys");
        check(about.getNumericFunctions().contains("sqrt"), about.getNumericFunctions());
    }
}
