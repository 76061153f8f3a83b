package io.tailrace.hbase;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.MetaTableAccessor;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.replication.ReplicationException;
import org.apache.hadoop.hbase.replication.ReplicationQueueStorage;
import org.apache.hadoop.hbase.replication.ReplicationStorageFactory;
import org.apache.hadoop.hbase.zookeeper.ZKWatcher;

/**
 * The ranges of serial replication: what a region logged between two openings. HBase ships a range when the one before
 * is finished, that is, shipped up to its last sequence id. It asks for a number that it keeps in ZooKeeper.
 *
 * <p>After crashes without a write in between this number may stay too low for ever, although nothing is missing
 * (HBASE-29499). {@link #finish} raises it. No edit is left out by that: it only lets the next range go first.
 */
final class Ranges {
  private final Admin admin;
  private final String peer;

  Ranges(Admin admin, String peer) {
    this.admin = admin;
    this.peer = peer;
  }

  /** The regions whose range before the last opening is not finished. It is normal for some seconds after a move. */
  List<Object> unfinished() throws IOException {
    List<Object> answer = new ArrayList<>();
    Scan scan = new Scan().addFamily(HConstants.CATALOG_FAMILY).addFamily(HConstants.REPLICATION_BARRIER_FAMILY)
      .readAllVersions();
    try (ZKWatcher zooKeeper = zooKeeper(); Table meta = admin.getConnection().getTable(TableName.META_TABLE_NAME);
      ResultScanner rows = meta.getScanner(scan)) {
      ReplicationQueueStorage storage = storage(zooKeeper);
      for (Result row : rows) {
        RegionInfo region = MetaTableAccessor.getRegionInfo(row);
        long[] openings = MetaTableAccessor.getReplicationBarriers(row);
        if (region != null && openings.length > 1) {
          long opened = openings[openings.length - 1];
          long shipped = storage.getLastSequenceId(region.getEncodedName(), peer);
          if (shipped < opened - 1) {
            answer.add(described(region, shipped, opened));
          }
        }
      }
    } catch (ReplicationException e) {
      throw new IOException(e);
    }
    return answer;
  }

  /** Declares all ranges of a region before its last opening as shipped. */
  Map<String, Object> finish(String encodedName) throws IOException {
    for (Object one : unfinished()) {
      Map<?, ?> range = (Map<?, ?>) one;
      if (range.get("region").equals(encodedName)) {
        long last = (Long) range.get("opened") - 1;
        try (ZKWatcher zooKeeper = zooKeeper()) {
          storage(zooKeeper).setLastSequenceIds(peer, Collections.singletonMap(encodedName, last));
        } catch (ReplicationException e) {
          throw new IOException(e);
        }
        return Collections.singletonMap("finished", range);
      }
    }
    return Collections.singletonMap("finished", null);
  }

  private static Map<String, Object> described(RegionInfo region, long shipped, long opened) {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("table", region.getTable().getNameAsString());
    answer.put("region", region.getEncodedName());
    answer.put("shipped", shipped);
    answer.put("opened", opened);
    return answer;
  }

  private ZKWatcher zooKeeper() throws IOException {
    return new ZKWatcher(admin.getConfiguration(), "tailrace", null);
  }

  private ReplicationQueueStorage storage(ZKWatcher zooKeeper) {
    return ReplicationStorageFactory.getReplicationQueueStorage(zooKeeper, admin.getConfiguration());
  }
}
