package io.tailrace.hbase;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.security.CodeSource;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.util.VersionInfo;

/**
 * Notes in the row {@code endpoints} of the table {@code meta} that the endpoint has started in a server, from which
 * jar, in which version of HBase, and with which settings. So a check finds it through Thrift: one column per address.
 */
final class Presence {
  static final byte[] ROW = Bytes.toBytes("endpoints");
  static final byte[] FAMILY = Bytes.toBytes("d");

  /** Settings of HBase that decide how soon changes are shipped, or whether. */
  static final String[] SETTINGS = { "replication.source.sleepforretries", "hbase.serial.replication.waiting.ms",
    "replication.sleep.before.failover", "hbase.replication.bulkload.enabled" };

  private final Connection connection;
  private final TableName meta;
  private final ServerName server;
  private volatile boolean stopped;

  Presence(Connection connection, TableName meta, ServerName server) {
    this.connection = connection;
    this.meta = meta;
    this.server = server;
  }

  /** Notes it when the table can be written: while a cluster starts, that may take a while. */
  void noteSoon() {
    Thread thread = new Thread(this::repeat, "tailrace-presence");
    thread.setDaemon(true);
    thread.start();
  }

  void stop() {
    stopped = true;
  }

  private void repeat() {
    while (!stopped) {
      try {
        note();
        return;
      } catch (IOException e) {
        try {
          TimeUnit.SECONDS.sleep(1);
        } catch (InterruptedException interrupted) {
          return;
        }
      }
    }
  }

  private void note() throws IOException {
    Configuration configuration = connection.getConfiguration();
    Map<String, Object> settings = new LinkedHashMap<>();
    for (String name : SETTINGS) {
      settings.put(name, configuration.get(name));
    }
    Map<String, Object> note = new LinkedHashMap<>();
    note.put("server", server.toString());
    note.put("jar", jar());
    note.put("hbase", VersionInfo.getVersion());
    note.put("java", System.getProperty("java.version"));
    note.put("started", System.currentTimeMillis());
    note.put("settings", settings);
    byte[] address = Bytes.toBytes(server.getAddress().toString());
    Put put = new Put(ROW).addColumn(FAMILY, address, Bytes.toBytes(Json.text(note)));
    try (Table table = connection.getTable(meta)) {
      table.put(put);
    }
  }

  /** The SHA-256 of the jar that this class is from; null if it is not from a jar. */
  private static String jar() throws IOException {
    CodeSource source = Presence.class.getProtectionDomain().getCodeSource();
    URL place = source == null ? null : source.getLocation();
    if (place == null || !place.getPath().endsWith(".jar")) {
      return null;
    }
    try (InputStream content = place.openStream()) {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      byte[] part = new byte[1 << 16];
      for (int size = content.read(part); size >= 0; size = content.read(part)) {
        digest.update(part, 0, size);
      }
      return Bytes.toHex(digest.digest());
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}
