import java.sql.*;
import java.util.Properties;

/** Asks through pgjdbc in one query mode and prints what it gets, one line each. */
public class Ask {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("user", "ann");
        properties.setProperty("password", "pencil");
        properties.setProperty("preferQueryMode", arguments[1]);
        properties.setProperty("prepareThreshold", "1");
        properties.setProperty("binaryTransfer", "true");
        try (Connection connection = DriverManager.getConnection(arguments[0], properties)) {
            metadata(connection);
            plain(connection);
            prepared(connection);
            portions(connection);
            refused(connection);
        }
    }

    static void metadata(Connection connection) throws SQLException {
        try (ResultSet columns = connection.getMetaData().getColumns(null, "public", "people", "%")) {
            StringBuilder names = new StringBuilder("columns");
            while (columns.next()) {
                names.append(' ').append(columns.getString("COLUMN_NAME"));
                names.append(':').append(columns.getString("TYPE_NAME"));
            }
            System.out.println(names);
        }
    }

    static void plain(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            show("plain", statement.executeQuery(
                "SELECT country, count(*) AS n FROM people GROUP BY country ORDER BY n DESC"));
        }
    }

    static void prepared(Connection connection) throws SQLException {
        String text = "SELECT country, count(*) AS n FROM people WHERE age > ? GROUP BY country ORDER BY n DESC";
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            for (int age = 1; age <= 3; age++) {
                statement.setInt(1, age);
                show("prepared", statement.executeQuery());
            }
        }
    }

    static void portions(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(300);
            int rows = 0;
            try (ResultSet result = statement.executeQuery(
                    "SELECT age, count(*) AS n FROM people GROUP BY age ORDER BY age")) {
                while (result.next()) {
                    if (result.getInt(1) != rows++ || result.getLong(2) != 7) {
                        throw new SQLException("wrong row " + rows);
                    }
                }
            }
            System.out.println("portions " + rows);
        }
        connection.commit();
        connection.setAutoCommit(true);
    }

    static void refused(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT * FROM people");
        } catch (SQLException error) {
            System.out.println("refused " + error.getSQLState());
        }
        try (Statement statement = connection.createStatement()) {
            show("afterwards", statement.executeQuery("SELECT count(*) FROM articles"));
        }
    }

    static void show(String name, ResultSet result) throws SQLException {
        StringBuilder line = new StringBuilder(name);
        while (result.next()) {
            for (int i = 1; i <= result.getMetaData().getColumnCount(); i++) {
                line.append(' ').append(result.getObject(i));
            }
        }
        System.out.println(line);
    }
}
