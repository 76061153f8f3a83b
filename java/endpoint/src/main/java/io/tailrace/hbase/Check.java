package io.tailrace.hbase;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hbase.ServerMetrics;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.replication.ReplicationLoadSource;
import org.apache.hadoop.hbase.util.VersionInfo;

/**
 * Facts that decide whether changes reach the log: the peer, the scopes of tables, replication in every server, regions
 * that wait for an earlier part of their log.
 */
final class Check {
  private final Admin admin;
  private final Peer peer;

  Check(Admin admin, String namespace) {
    this.admin = admin;
    this.peer = new Peer(admin, namespace);
  }

  Map<String, Object> report() throws IOException {
    Map<String, Object> answer = new LinkedHashMap<>(peer.show());
    Map<String, Object> tables = new LinkedHashMap<>();
    for (TableDescriptor table : admin.listTableDescriptors()) {
      tables.put(table.getTableName().getNameAsString(), Placement.scopes(table));
    }
    answer.put("scopes", tables);
    answer.put("master", admin.getMaster().getAddress().toString());
    // The version of the master. HBase does not tell the versions of region servers.
    String version = admin.getClusterMetrics().getHBaseVersion();
    answer.put("version", version);
    answer.put("warnings", warnings(version));
    answer.put("unfinished", new Ranges(admin, peer.id()).unfinished());
    // As configured where this program runs. It has to be the same in all servers, else they do not log bulk loads.
    answer.put("bulk_loads_logged", admin.getConfiguration().getBoolean("hbase.replication.bulkload.enabled", false));
    List<Object> servers = new ArrayList<>();
    for (Map.Entry<ServerName, ServerMetrics> server : admin.getClusterMetrics().getLiveServerMetrics().entrySet()) {
      servers.add(described(server.getKey(), server.getValue()));
    }
    answer.put("servers", servers);
    return answer;
  }

  /** Known bugs of this version of HBase that concern the log. */
  static List<String> warnings(String version) {
    List<String> answer = new ArrayList<>();
    if (VersionInfo.compareVersion(version.split("-")[0], "2.6.5") < 0) {
      answer.add("HBase " + version + " may ship a region's later changes before its earlier ones after an error of"
        + " hbase:meta or ZooKeeper (HBASE-29501): a cut may then have a change of a row without an earlier one, until"
        + " the earlier one is shipped; update to 2.6.5");
    }
    answer.add("After two crashes of a server without a write in between, the replication of a region may wait for ever"
      + " (HBASE-29499, open): if a region stays in the list of unfinished ones, run finish");
    return answer;
  }

  /**
   * A server's replication source runs only after the endpoint's class was loaded there. HBase reports it about once a
   * second or less often, and a server that has not written anything yet has no source.
   */
  private Map<String, Object> described(ServerName name, ServerMetrics metrics) {
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("server", name.getAddress().toString());
    entry.put("name", name.toString());
    entry.put("regions", metrics.getRegionMetrics().size());
    List<Object> sources = new ArrayList<>();
    boolean running = false;
    for (ReplicationLoadSource source : metrics.getReplicationLoadSourceList()) {
      if (source.getPeerID().equals(peer.id())) {
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("recovered", source.isRecovered());
        described.put("running", source.isRunning());
        described.put("files", source.getSizeOfLogQueue());
        described.put("lag_ms", source.getReplicationLag());
        sources.add(described);
        running |= source.isRunning();
      }
    }
    entry.put("endpoint_runs", running);
    entry.put("sources", sources);
    return entry;
  }
}
