// Asks the selector engine of Artemis: one selector and its properties per line, fields separated
// by U+001F, properties as type:name=value. Answers TRUE, FALSE or ERROR per line.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.selector.filter.Filterable;
import org.apache.activemq.artemis.selector.impl.SelectorParser;

public class SelectorTable {
    static class Properties implements Filterable {
        final Map<String, Object> values = new HashMap<>();

        void put(String field) {
            char type = field.charAt(0);
            int at = field.indexOf('=');
            String name = field.substring(2, at);
            String text = field.substring(at + 1);
            Object value = switch (type) {
                case 'l' -> Long.valueOf(text);
                case 'd' -> Double.valueOf(text);
                case 'b' -> Boolean.valueOf(text);
                default -> text;
            };
            values.put(name, value);
        }

        public <T> T getBodyAs(Class<T> type) {
            return null;
        }

        public Object getProperty(SimpleString name) {
            return values.get(name.toString());
        }

        public Object getLocalConnectionId() {
            return null;
        }
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\u001f", -1);
            Properties properties = new Properties();
            for (int i = 1; i < fields.length; i++) {
                properties.put(fields[i]);
            }
            String answer;
            try {
                answer = SelectorParser.parse(fields[0]).matches(properties) ? "TRUE" : "FALSE";
            } catch (Throwable error) {
                answer = "ERROR";
            }
            out.println(answer);
        }
        out.flush();
    }
}
