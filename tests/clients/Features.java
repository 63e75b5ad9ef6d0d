import java.io.StringWriter;
import java.sql.*;
import java.util.ArrayList;
import java.util.List;
import org.postgresql.PGConnection;

/** Does one feature through pgjdbc and prints rows: Features URL USER PASSWORD FEATURE ARGUMENTS... */
public class Features {
    public static void main(String[] arguments) throws Exception {
        String[] rest = java.util.Arrays.copyOfRange(arguments, 4, arguments.length);
        try (Connection connection = DriverManager.getConnection(arguments[0], arguments[1], arguments[2])) {
            switch (arguments[3]) {
                case "rows" -> rows(connection, rest);
                case "parameters" -> parameters(connection, rest);
                case "arrays" -> arrays(connection, rest);
                case "portions" -> portions(connection, rest[0]);
                case "refused" -> { refuse(connection, rest[0]); rows(connection, rest[1]); }
                case "transaction" -> transaction(connection, rest);
                case "browse" -> browse(connection.getMetaData());
                case "describe" -> describe(connection, rest[0]);
                case "copy" -> copy(connection, rest[0]);
                default -> throw new IllegalArgumentException(arguments[3]);
            }
        }
    }

    static void print(Object... values) {
        List<String> texts = new ArrayList<>();
        for (Object value : values) {
            texts.add(String.valueOf(value));
        }
        System.out.print(String.join("\u001f", texts) + "\u001e\n");
    }

    static void print(ResultSet rows) throws SQLException {
        int columns = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            Object[] values = new Object[columns];
            for (int i = 0; i < columns; i++) {
                values[i] = text(rows, i + 1);
            }
            print(values);
        }
    }

    static String text(ResultSet rows, int column) throws SQLException {
        return switch (rows.getMetaData().getColumnTypeName(column)) {
            case "bytea" -> "\\x" + java.util.HexFormat.of().formatHex(rows.getBytes(column));
            case "time" -> rows.getObject(column, java.time.LocalTime.class).toString();
            default -> rows.getString(column);
        };
    }

    static void rows(Connection connection, String... questions) throws SQLException {
        for (String question : questions) {
            try (Statement statement = connection.createStatement()) {
                print(statement.executeQuery(question));
            }
        }
    }

    static void parameters(Connection connection, String[] rest) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(rest[0])) {
            for (int i = 1; i < rest.length; i++) {
                statement.setLong(1, Long.parseLong(rest[i]));
                print(statement.executeQuery());
            }
        }
    }

    static void arrays(Connection connection, String[] rest) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(rest[0])) {
            Object[] values = java.util.Arrays.copyOfRange(rest, 1, rest.length);
            statement.setArray(1, connection.createArrayOf("text", values));
            print(statement.executeQuery());
        }
    }

    static void portions(Connection connection, String question) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(7);
            print(statement.executeQuery(question));
        }
        connection.commit();
    }

    static void refuse(Connection connection, String question) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery(question);
        } catch (SQLException error) {
            print(error.getSQLState());
        }
    }

    static void transaction(Connection connection, String[] rest) throws SQLException {
        connection.setAutoCommit(false);
        rows(connection, rest[0]);
        Savepoint here = connection.setSavepoint();
        refuse(connection, rest[1]);
        connection.rollback(here);
        rows(connection, rest[2]);
        connection.commit();
    }

    static void browse(DatabaseMetaData data) throws SQLException {
        String catalog = data.getConnection().getCatalog();
        try (ResultSet tables = data.getTables(catalog, "app", "%", new String[] {"TABLE"})) {
            while (tables.next()) {
                print("table", tables.getString("TABLE_NAME"));
            }
        }
        try (ResultSet columns = data.getColumns(catalog, "app", "users", "%")) {
            while (columns.next()) {
                print("column", columns.getString("COLUMN_NAME"), columns.getString("TYPE_NAME"),
                    columns.getString("REMARKS"));
            }
        }
        try (ResultSet keys = data.getPrimaryKeys(catalog, "app", "users")) {
            while (keys.next()) {
                print("key", keys.getString("COLUMN_NAME"));
            }
        }
        try (ResultSet keys = data.getImportedKeys(catalog, "app", "events")) {
            while (keys.next()) {
                print("from", keys.getString("FKCOLUMN_NAME"), keys.getString("PKTABLE_NAME"));
            }
        }
    }

    static void describe(Connection connection, String question) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(question)) {
            ResultSetMetaData columns = statement.getMetaData();
            for (int i = 1; i <= columns.getColumnCount(); i++) {
                print(columns.getColumnLabel(i), columns.getColumnTypeName(i));
            }
            print(statement.getParameterMetaData().getParameterTypeName(1));
        }
    }

    static void copy(Connection connection, String question) throws Exception {
        StringWriter out = new StringWriter();
        connection.unwrap(PGConnection.class).getCopyAPI().copyOut(question, out);
        print(out);
    }
}
