package io.tailrace.hbase;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hbase.thirdparty.com.google.gson.JsonElement;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;
import org.apache.hbase.thirdparty.com.google.gson.JsonParser;

/**
 * The high-water mark of a region, a row of the table {@code marks}: everything of the region up to a sequence id is in
 * the raw log. The cell's timestamp is the sequence id, so the highest wins, whoever writes last.
 *
 * <p>The row key begins with the inverted region id. A region is newer than its parents, so a scan reads a region
 * before its parents.
 */
final class Mark {
  static final byte[] FAMILY = Bytes.toBytes("m");
  static final byte[] QUALIFIER = Bytes.toBytes("s");

  final String table;
  final String encodedName;
  /** The time at which the region was created, in milliseconds; 0 if nobody knows the region any more. */
  final long regionId;
  /** Start and end key in hexadecimal; null if nobody knows the region any more. */
  final String start;
  final String end;

  private Mark(String table, String encodedName, long regionId, String start, String end) {
    this.table = table;
    this.encodedName = encodedName;
    this.regionId = regionId;
    this.start = start;
    this.end = end;
  }

  static Mark of(RegionInfo region) {
    return new Mark(region.getTable().getNameAsString(), region.getEncodedName(), region.getRegionId(),
      Bytes.toHex(region.getStartKey()), Bytes.toHex(region.getEndKey()));
  }

  /** A region id of 0 is older than all others, which is what a forgotten region is. */
  static Mark unknown(TableName table, String encodedName) {
    return new Mark(table.getNameAsString(), encodedName, 0, null, null);
  }

  static Mark parse(byte[] json) {
    JsonObject mark = JsonParser.parseString(new String(json, StandardCharsets.UTF_8)).getAsJsonObject();
    return new Mark(mark.get("table").getAsString(), mark.get("region").getAsString(), mark.get("id").getAsLong(),
      text(mark.get("start")), text(mark.get("end")));
  }

  static String encodedName(byte[] row) {
    return new String(row, Long.BYTES, row.length - Long.BYTES, StandardCharsets.US_ASCII);
  }

  byte[] row() {
    byte[] name = encodedName.getBytes(StandardCharsets.US_ASCII);
    return ByteBuffer.allocate(Long.BYTES + name.length).putLong(Long.MAX_VALUE - regionId).put(name).array();
  }

  Put put(long sequenceId, String server, long time) {
    Map<String, Object> value = new LinkedHashMap<>();
    value.put("table", table);
    value.put("region", encodedName);
    value.put("id", regionId);
    value.put("start", start);
    value.put("end", end);
    value.put("server", server);
    value.put("time", time);
    return new Put(row()).addColumn(FAMILY, QUALIFIER, sequenceId, Bytes.toBytes(Json.text(value)));
  }

  private static String text(JsonElement element) {
    return element == null || element.isJsonNull() ? null : element.getAsString();
  }
}
