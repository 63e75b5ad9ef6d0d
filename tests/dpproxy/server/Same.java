import java.sql.*;

/** Asks one prepared question twice through pgjdbc and prints the rows: Same URL MODE LEAST. */
public class Same {
    public static void main(String[] arguments) throws Exception {
        String url = arguments[0] + "&prepareThreshold=1&preferQueryMode=" + arguments[1];
        String text = "SELECT town, COUNT(*) AS n FROM people WHERE person_id >= ? GROUP BY town ORDER BY town";
        try (Connection connection = DriverManager.getConnection(url);
             PreparedStatement statement = connection.prepareStatement(text)) {
            for (int time = 0; time < 2; time++) {
                statement.setInt(1, Integer.parseInt(arguments[2]));
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) {
                        System.out.println(rows.getString("town") + " " + rows.getLong("n"));
                    }
                }
            }
        }
    }
}
