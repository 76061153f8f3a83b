package io.tailrace.hbase;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.CompactionState;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.exceptions.MergeRegionException;
import org.apache.hadoop.hbase.util.Bytes;

/** Regions and their servers: lists, moves, splits, merges, flushes. A change is complete when its method returns. */
final class Placement {
  private static final long WAIT_SECONDS = 120;

  private final Admin admin;

  Placement(Admin admin) {
    this.admin = admin;
  }

  List<Object> tables() throws IOException {
    List<Object> answer = new ArrayList<>();
    for (TableDescriptor table : admin.listTableDescriptors()) {
      Map<String, Object> entry = new LinkedHashMap<>();
      entry.put("table", table.getTableName().getNameAsString());
      entry.put("enabled", admin.isTableEnabled(table.getTableName()));
      entry.put("scopes", scopes(table));
      entry.put("regions", regions(table.getTableName()));
      answer.add(entry);
    }
    return answer;
  }

  static Map<String, Object> scopes(TableDescriptor table) {
    Map<String, Object> scopes = new LinkedHashMap<>();
    for (ColumnFamilyDescriptor family : table.getColumnFamilies()) {
      scopes.put(family.getNameAsString(), family.getScope());
    }
    return scopes;
  }

  private List<Object> regions(TableName table) throws IOException {
    List<Object> answer = new ArrayList<>();
    try (RegionLocator locator = admin.getConnection().getRegionLocator(table)) {
      locator.clearRegionLocationCache();
      for (HRegionLocation location : locator.getAllRegionLocations()) {
        Map<String, Object> entry = new LinkedHashMap<>();
        entry.put("region", location.getRegion().getEncodedName());
        entry.put("id", location.getRegion().getRegionId());
        entry.put("start", Bytes.toHex(location.getRegion().getStartKey()));
        entry.put("end", Bytes.toHex(location.getRegion().getEndKey()));
        entry.put("server", location.getServerName() == null ? null : location.getServerName().getAddress().toString());
        answer.add(entry);
      }
    }
    return answer;
  }

  /**
   * A server that has just been started may refuse a region. HBase then opens it on any other one, and this tries again.
   *
   * @param server null for any server but the present one
   */
  Map<String, Object> move(String region, String server) throws IOException, InterruptedException {
    if (server == null) {
      admin.move(Bytes.toBytes(region));
    } else {
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
      ServerName wanted = server(server);
      admin.move(Bytes.toBytes(region), wanted);
      while (!has(wanted, region)) {
        if (System.nanoTime() > end) {
          throw new IOException(server + " did not open region " + region + " within " + WAIT_SECONDS + " s");
        }
        Thread.sleep(500);
        admin.move(Bytes.toBytes(region), wanted);
      }
    }
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("moved", region);
    answer.put("server", server);
    return answer;
  }

  private boolean has(ServerName server, String region) throws IOException {
    return admin.getRegions(server).stream().anyMatch(found -> found.getEncodedName().equals(region));
  }

  /** @param key null to split every region in its middle */
  Map<String, Object> split(String table, String key) throws IOException {
    TableName name = TableName.valueOf(table);
    byte[] point = key == null ? null : Bytes.toBytesBinary(key);
    List<Object> split = new ArrayList<>();
    for (RegionInfo region : admin.getRegions(name)) {
      if (point == null) {
        await(admin.splitRegionAsync(region.getRegionName()));
        split.add(region.getEncodedName());
      } else if (region.containsRow(point)) {
        await(admin.splitRegionAsync(region.getRegionName(), point));
        split.add(region.getEncodedName());
      }
    }
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("split", split);
    answer.put("regions", regions(name));
    return answer;
  }

  /** The halves of a split share files until they are compacted. HBase does not merge them before. */
  Map<String, Object> merge(String first, String second) throws IOException, InterruptedException {
    byte[][] regions = { Bytes.toBytes(first), Bytes.toBytes(second) };
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
    while (true) {
      try {
        await(admin.mergeRegionsAsync(regions, false));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("merged", new String[] { first, second });
        return answer;
      } catch (MergeRegionException e) {
        if (!e.getMessage().contains("not mergeable") || System.nanoTime() > end) {
          throw e;
        }
      }
      for (byte[] region : regions) {
        admin.majorCompactRegion(region);
      }
      Thread.sleep(500);
    }
  }

  /** @param table null for all tables */
  Map<String, Object> flush(String table) throws IOException {
    List<Object> flushed = new ArrayList<>();
    for (TableDescriptor descriptor : admin.listTableDescriptors((Pattern) null, true)) {
      TableName name = descriptor.getTableName();
      boolean wanted = table == null ? admin.isTableEnabled(name) : name.equals(TableName.valueOf(table));
      if (wanted && !name.equals(TableName.META_TABLE_NAME)) {
        admin.flush(name);
        flushed.add(name.getNameAsString());
      }
    }
    if (table != null && flushed.isEmpty()) {
      throw new IOException("There is no table " + table);
    }
    return Collections.singletonMap("flushed", flushed);
  }

  Map<String, Object> compact(String table, boolean major) throws IOException, InterruptedException {
    TableName name = TableName.valueOf(table);
    if (major) {
      admin.majorCompact(name);
    } else {
      admin.compact(name);
    }
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
    // The request is queued first: one that is not seen to run within two seconds had nothing to do, or is done.
    long begun = System.nanoTime() + TimeUnit.SECONDS.toNanos(2);
    boolean seen = false;
    while (System.nanoTime() < end) {
      boolean running = admin.getCompactionState(name) != CompactionState.NONE;
      seen |= running;
      if (!running && (seen || System.nanoTime() > begun)) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("compacted", table);
        answer.put("major", major);
        return answer;
      }
      Thread.sleep(50);
    }
    throw new IOException("The compaction of " + table + " did not end within " + WAIT_SECONDS + " s");
  }

  /** @param address null for all servers */
  Map<String, Object> rollWal(String address) throws IOException {
    List<Object> rolled = new ArrayList<>();
    for (ServerName server : address == null ? admin.getRegionServers() : Collections.singleton(server(address))) {
      admin.rollWALWriter(server);
      rolled.add(server.getAddress().toString());
    }
    return Collections.singletonMap("rolled", rolled);
  }

  /** Moves all regions of a server to others. The master gives it no more until it has been started again. */
  Map<String, Object> drain(String address) throws IOException, InterruptedException {
    ServerName server = server(address);
    int regions = admin.getRegions(server).size();
    admin.decommissionRegionServers(Collections.singletonList(server), true);
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
    while (!admin.getRegions(server).isEmpty()) {
      if (System.nanoTime() > end) {
        throw new IOException(address + " still had regions after " + WAIT_SECONDS + " s");
      }
      Thread.sleep(50);
    }
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("drained", address);
    answer.put("regions", regions);
    return answer;
  }

  Map<String, Object> balancer(boolean on) throws IOException {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("before", admin.balancerSwitch(on, true));
    answer.put("now", on);
    return answer;
  }

  /** Returns when the master has the request: the servers end by themselves. */
  Map<String, Object> shutdown() throws IOException {
    admin.shutdown();
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("shutdown", true);
    return answer;
  }

  private ServerName server(String address) throws IOException {
    Collection<ServerName> servers = admin.getRegionServers();
    for (ServerName server : servers) {
      if (server.getAddress().toString().equals(address)) {
        return server;
      }
    }
    throw new IOException("There is no region server " + address + "; region servers: " + servers);
  }

  private static void await(Future<Void> change) throws IOException {
    try {
      change.get(WAIT_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException e) {
      throw e.getCause() instanceof IOException ? (IOException) e.getCause() : new IOException(e.getCause());
    } catch (TimeoutException | InterruptedException e) {
      throw new IOException("The change did not end within " + WAIT_SECONDS + " s", e);
    }
  }
}
