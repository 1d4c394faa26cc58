// One JSON line per check: what it saw, or what went wrong.

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;

class Lines {
  static void report(String name, Callable<Object> check) {
    String line;
    try {
      line = "{\"check\": " + json(name) + ", \"got\": " + json(check.call()) + "}";
    } catch (Throwable error) {
      StringWriter trace = new StringWriter();
      error.printStackTrace(new PrintWriter(trace));
      String where = trace.toString();
      line =
          String.format(
              "{\"check\": %s, \"error\": %s, \"where\": %s}",
              json(name),
              json(error.toString()),
              json(where.substring(0, Math.min(1500, where.length()))));
    }
    System.out.println(line);
  }

  static String json(Object value) {
    if (value == null || value instanceof Boolean || value instanceof Number) {
      return String.valueOf(value);
    }
    if (value instanceof Map<?, ?> map) {
      return map.entrySet().stream()
          .map(pair -> json(pair.getKey()) + ": " + json(pair.getValue()))
          .collect(Collectors.joining(", ", "{", "}"));
    }
    if (value instanceof List<?> list) {
      return list.stream().map(Lines::json).collect(Collectors.joining(", ", "[", "]"));
    }
    StringBuilder text = new StringBuilder("\"");
    for (char one : value.toString().toCharArray()) {
      if (one == '"' || one == '\\') {
        text.append('\\').append(one);
      } else if (one < ' ') {
        text.append(String.format("\\u%04x", (int) one));
      } else {
        text.append(one);
      }
    }
    return text.append('"').toString();
  }
}
