package io.tailrace.hbase;

import java.io.IOException;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * The tables whose changes go to the log: the qualifiers of the row {@code tracked} in the table {@code meta}. The row
 * is read again for every batch that has another table, so that no change after the start of tracking is left out.
 */
final class Tracked {
  static final byte[] ROW = Bytes.toBytes("tracked");
  static final byte[] FAMILY = Bytes.toBytes("d");

  /** The row is also read again after this time, to notice that a table is not tracked any more. */
  private static final long FRESH_NANOS = TimeUnit.SECONDS.toNanos(60);

  private final Connection connection;
  private final TableName meta;
  private Set<String> names = Collections.emptySet();
  private long readAt;
  private boolean read;

  Tracked(Connection connection, TableName meta) {
    this.connection = connection;
    this.meta = meta;
  }

  /** Returns those of the tables that are tracked. */
  synchronized Set<String> among(Set<String> tables) throws IOException {
    if (!read || !names.containsAll(tables) || System.nanoTime() - readAt > FRESH_NANOS) {
      long now = System.nanoTime();
      names = readRow();
      readAt = now;
      read = true;
    }
    Set<String> found = new HashSet<>(tables);
    found.retainAll(names);
    return found;
  }

  private Set<String> readRow() throws IOException {
    Set<String> found = new HashSet<>();
    try (Table table = connection.getTable(meta)) {
      Result row = table.get(new Get(ROW).addFamily(FAMILY));
      if (!row.isEmpty()) {
        for (byte[] qualifier : row.getFamilyMap(FAMILY).keySet()) {
          found.add(Bytes.toString(qualifier));
        }
      }
    }
    return found;
  }
}
