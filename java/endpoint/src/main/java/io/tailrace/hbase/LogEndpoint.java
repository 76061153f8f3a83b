package io.tailrace.hbase;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.Server;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.regionserver.OnlineRegions;
import org.apache.hadoop.hbase.replication.BaseReplicationEndpoint;
import org.apache.hadoop.hbase.replication.ReplicationPeerConfig;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.wal.WAL.Entry;

/**
 * Ships the WAL of a region server to the tables {@code wal} and {@code marks} of Tailrace's namespace.
 *
 * <p>HBase runs it in every region server, for a serial replication peer whose configuration has
 * {@link #NAMESPACE_KEY}. A batch is shipped completely or again: HBase repeats a batch after an exception, and after
 * the crash of a server another one repeats what was not acknowledged. Chunks may be cut differently then. Readers
 * ignore sequence ids that they have. So the order matters, and a peer that is not serial is refused.
 */
public class LogEndpoint extends BaseReplicationEndpoint {
  static final String NAMESPACE_KEY = "tailrace.namespace";
  /** With "true" a peer that is not serial is served, too. For tests, which show what comes of it. */
  static final String ANY_ORDER_KEY = "tailrace.any_order";
  static final String[] TABLES = { "wal", "marks", "meta" };
  static final byte[] FAMILY = Bytes.toBytes("w");
  static final byte[] QUALIFIER = Bytes.toBytes("c");

  /** Writes of about this size go out in one call, so that a large batch is not in memory a second time. */
  private static final long CALL_BYTES = 8 << 20;

  private String namespace;
  private String server;
  private Connection connection;
  private Tracked tracked;
  private Regions regions;
  private Presence presence;

  @Override
  public void init(Context context) throws IOException {
    super.init(context);
    namespace = context.getPeerConfig().getConfiguration().get(NAMESPACE_KEY);
    if (namespace == null) {
      throw new IOException("The configuration of peer " + context.getPeerId() + " has no " + NAMESPACE_KEY);
    }
  }

  @Override
  public boolean canReplicateToSameCluster() {
    return true;
  }

  /** The target is no other cluster, so the id only has to differ from those of clusters. */
  @Override
  public UUID getPeerUUID() {
    return UUID.nameUUIDFromBytes(("tailrace " + namespace).getBytes(StandardCharsets.UTF_8));
  }

  @Override
  public void start() {
    startAsync();
  }

  @Override
  public void stop() {
    stopAsync();
  }

  @Override
  protected void doStart() {
    try {
      Configuration configuration = HBaseConfiguration.create(ctx.getLocalConfiguration());
      // Few retries: the replication source repeats a failed batch, and ends between two attempts if it is to end.
      configuration.setInt(HConstants.HBASE_CLIENT_RETRIES_NUMBER, 5);
      configuration.setInt(HConstants.HBASE_CLIENT_OPERATION_TIMEOUT, 30_000);
      connection = ConnectionFactory.createConnection(configuration);
    } catch (IOException e) {
      notifyFailed(e);
      return;
    }
    Object host = ctx.getAbortable();
    ServerName name = host instanceof Server ? ((Server) host).getServerName() : null;
    server = name == null ? "" : name.toString();
    tracked = new Tracked(connection, table("meta"));
    regions = new Regions(connection, host instanceof OnlineRegions ? (OnlineRegions) host : null, table("marks"));
    if (name != null) {
      presence = new Presence(connection, table("meta"), name);
      presence.noteSoon();
    }
    notifyStarted();
  }

  @Override
  protected void doStop() {
    if (presence != null) {
      presence.stop();
    }
    try {
      connection.close();
      notifyStopped();
    } catch (IOException e) {
      notifyFailed(e);
    }
  }

  /** Never returns false: HBase would try again at once, without a pause. */
  @Override
  public boolean replicate(ReplicateContext context) {
    try {
      requireOrder(ctx.getPeerConfig());
      ship(byRegion(context.getEntries()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return true;
  }

  /** Edits that come out of order would make views show states of rows that never existed. */
  private void requireOrder(ReplicationPeerConfig peer) throws IOException {
    if (!peer.isSerial() && !"true".equals(peer.getConfiguration().get(ANY_ORDER_KEY))) {
      throw new IOException("Peer " + ctx.getPeerId() + " is not serial: changes would come in a wrong order. "
        + "Nothing is shipped. Remove the peer and add it again with io.tailrace.hbase.Admin (docs/hbase.md)");
    }
  }

  /** The edits of one region in a batch. */
  private static final class RegionEdits {
    final TableName table;
    final String encodedName;
    final List<Edit> edits = new ArrayList<>();

    RegionEdits(TableName table, String encodedName) {
      this.table = table;
      this.encodedName = encodedName;
    }
  }

  private List<RegionEdits> byRegion(List<Entry> entries) throws IOException {
    Set<String> tables = new HashSet<>();
    for (Entry entry : entries) {
      if (isForeign(entry.getKey().getTableName())) {
        tables.add(entry.getKey().getTableName().getNameAsString());
      }
    }
    Set<String> wanted = tables.isEmpty() ? tables : tracked.among(tables);
    Map<String, RegionEdits> found = new LinkedHashMap<>();
    for (Entry entry : entries) {
      TableName table = entry.getKey().getTableName();
      if (!wanted.contains(table.getNameAsString())) {
        continue;
      }
      Edit edit = Edit.of(entry.getKey().getSequenceId(), entry.getEdit().getCells());
      if (edit != null) {
        String name = Bytes.toString(entry.getKey().getEncodedRegionName());
        found.computeIfAbsent(name, n -> new RegionEdits(table, n)).edits.add(edit);
      }
    }
    return new ArrayList<>(found.values());
  }

  /** Tables of Tailrace's own namespace and of HBase are never shipped, whatever their replication scope. */
  private boolean isForeign(TableName table) {
    return !table.getNamespaceAsString().equals(namespace) && !table.isSystemTable();
  }

  /** First all chunks, then the marks: what a mark covers is durable. */
  private void ship(List<RegionEdits> found) throws IOException {
    if (found.isEmpty()) {
      return;
    }
    try (Table wal = connection.getTable(table("wal"))) {
      List<Put> puts = new ArrayList<>();
      long bytes = 0;
      for (RegionEdits region : found) {
        for (Chunk chunk : Chunk.cut(region.edits)) {
          Put put = put(region, chunk);
          puts.add(put);
          bytes += put.heapSize();
          if (bytes >= CALL_BYTES) {
            wal.put(puts);
            puts.clear();
            bytes = 0;
          }
        }
      }
      wal.put(puts);
    }
    try (Table marks = connection.getTable(table("marks"))) {
      List<Put> puts = new ArrayList<>();
      for (RegionEdits region : found) {
        long last = region.edits.get(region.edits.size() - 1).sequenceId;
        puts.add(regions.mark(region.table, region.encodedName).put(last, server, System.currentTimeMillis()));
      }
      marks.put(puts);
    }
  }

  /**
   * The cell's timestamp is the number of sequence ids that the chunk covers. Two attempts may cut chunks that end with
   * the same sequence id, and have the same row key. The longer one wins, so a reader never finds less than before.
   */
  private static Put put(RegionEdits region, Chunk chunk) {
    byte[] name = region.encodedName.getBytes(StandardCharsets.US_ASCII);
    byte[] row = ByteBuffer.allocate(name.length + Long.BYTES).put(name).putLong(chunk.lastSequenceId()).array();
    byte[] value = chunk.encode(region.table.getNameAsString());
    long covered = chunk.lastSequenceId() - chunk.firstSequenceId() + 1;
    Put put = new Put(row);
    for (int piece = 0; piece * (long) Chunk.PIECE_BYTES < value.length; piece++) {
      int from = piece * Chunk.PIECE_BYTES;
      int to = (int) Math.min(value.length, from + (long) Chunk.PIECE_BYTES);
      ByteBuffer qualifier = ByteBuffer.wrap(piece == 0 ? QUALIFIER : Bytes.toBytes(String.format("c%03d", piece)));
      put.addColumn(FAMILY, qualifier, covered, ByteBuffer.wrap(value, from, to - from));
    }
    return put;
  }

  private TableName table(String name) {
    return TableName.valueOf(namespace, name);
  }
}
