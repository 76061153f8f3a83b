package io.tailrace.hbase;

import org.apache.hbase.thirdparty.com.google.gson.Gson;
import org.apache.hbase.thirdparty.com.google.gson.GsonBuilder;

/** Maps, lists, numbers and texts as JSON on one line. */
final class Json {
  private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().serializeNulls().create();

  private Json() {
  }

  static String text(Object value) {
    return GSON.toJson(value);
  }
}
