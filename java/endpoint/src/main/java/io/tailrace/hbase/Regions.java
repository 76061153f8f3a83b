package io.tailrace.hbase;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.regionserver.OnlineRegions;
import org.apache.hadoop.hbase.regionserver.Region;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * What a region's mark tells about it. The WAL names a region only by its encoded name. Its id and keys come from this
 * server if it has the region, else from hbase:meta, else from an earlier mark: a region that was split, and whose WAL
 * another server ships long after, may be in neither of the first two.
 */
final class Regions {
  private final Connection connection;
  private final OnlineRegions here;
  private final TableName marks;
  private final Map<String, Mark> known = new ConcurrentHashMap<>();

  /** @param here the regions of this server, null if they are not known */
  Regions(Connection connection, OnlineRegions here, TableName marks) {
    this.connection = connection;
    this.here = here;
    this.marks = marks;
  }

  Mark mark(TableName table, String encodedName) throws IOException {
    Mark mark = known.get(encodedName);
    if (mark == null) {
      mark = find(table, encodedName);
      known.put(encodedName, mark);
    }
    return mark;
  }

  private Mark find(TableName table, String encodedName) throws IOException {
    Region region = here == null ? null : here.getRegion(encodedName);
    if (region != null) {
      return Mark.of(region.getRegionInfo());
    }
    RegionInfo info = inMeta(table, encodedName);
    if (info != null) {
      return Mark.of(info);
    }
    Mark earlier = marked(encodedName);
    return earlier != null ? earlier : Mark.unknown(table, encodedName);
  }

  private RegionInfo inMeta(TableName table, String encodedName) throws IOException {
    // hbase:meta compares keys part by part, so both ends must have all three parts. No table name has a space.
    String name = table.getNameAsString();
    Scan scan = new Scan().withStartRow(Bytes.toBytes(name + ",,")).withStopRow(Bytes.toBytes(name + " ,,"))
      .addColumn(HConstants.CATALOG_FAMILY, HConstants.REGIONINFO_QUALIFIER);
    try (Table meta = connection.getTable(TableName.META_TABLE_NAME); ResultScanner rows = meta.getScanner(scan)) {
      for (Result row : rows) {
        RegionInfo info =
          RegionInfo.parseFromOrNull(row.getValue(HConstants.CATALOG_FAMILY, HConstants.REGIONINFO_QUALIFIER));
        if (info != null && info.getEncodedName().equals(encodedName)) {
          return info;
        }
      }
    }
    return null;
  }

  private Mark marked(String encodedName) throws IOException {
    Scan scan = new Scan().addColumn(Mark.FAMILY, Mark.QUALIFIER);
    try (Table table = connection.getTable(marks); ResultScanner rows = table.getScanner(scan)) {
      for (Result row : rows) {
        if (Mark.encodedName(row.getRow()).equals(encodedName)) {
          return Mark.parse(row.getValue(Mark.FAMILY, Mark.QUALIFIER));
        }
      }
    }
    return null;
  }
}
