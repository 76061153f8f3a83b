package io.tailrace.hbase;

import java.io.IOException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.replication.ReplicationPeerConfig;
import org.apache.hadoop.hbase.replication.ReplicationPeerDescription;

/** The replication peer of one namespace. It replicates all tables whose families have replication scope 1. */
final class Peer {
  private final Admin admin;
  private final String namespace;
  private final String id;

  Peer(Admin admin, String namespace) {
    this.admin = admin;
    this.namespace = namespace;
    this.id = "tailrace_" + namespace;
  }

  String id() {
    return id;
  }

  /**
   * Creates the peer. If it exists with the same endpoint and order, it stays as it is, with its bandwidth. Without
   * the tables of the store a peer would only keep WALs.
   *
   * @param serial whether HBase ships the changes of a region in their order; if not, the endpoint refuses them
   * @param anyOrder whether the endpoint ships them all the same, for tests
   * @param bandwidth bytes that each region server ships in a second, 0 for as many as it can
   */
  Map<String, Object> add(boolean serial, boolean anyOrder, long bandwidth) throws IOException {
    for (String table : LogEndpoint.TABLES) {
      if (!admin.tableExists(TableName.valueOf(namespace, table))) {
        throw new IOException("There is no table " + namespace + ":" + table + "; create the store first");
      }
    }
    ReplicationPeerDescription found = find();
    if (found == null) {
      admin.addReplicationPeer(id, configuration(serial, anyOrder, bandwidth), true);
    } else if (!isOurs(found.getPeerConfig()) || found.getPeerConfig().isSerial() != serial) {
      throw new IOException("Peer " + id + " exists with another configuration: " + Json.text(described(found)));
    }
    return show();
  }

  /** Does nothing if there is no peer. */
  Map<String, Object> remove() throws IOException {
    if (find() != null) {
      admin.removeReplicationPeer(id);
    }
    return show();
  }

  Map<String, Object> enable() throws IOException {
    if (!admin.isReplicationPeerEnabled(id)) {
      admin.enableReplicationPeer(id);
    }
    return show();
  }

  Map<String, Object> disable() throws IOException {
    if (admin.isReplicationPeerEnabled(id)) {
      admin.disableReplicationPeer(id);
    }
    return show();
  }

  Map<String, Object> show() throws IOException {
    ReplicationPeerDescription found = find();
    return Collections.singletonMap("peer", found == null ? null : described(found));
  }

  private ReplicationPeerConfig configuration(boolean serial, boolean anyOrder, long bandwidth) {
    return ReplicationPeerConfig.newBuilder().setReplicationEndpointImpl(LogEndpoint.class.getName()).setSerial(serial)
      .setBandwidth(bandwidth).setReplicateAllUserTables(true).setExcludeNamespaces(Collections.singleton(namespace))
      .putConfiguration(LogEndpoint.NAMESPACE_KEY, namespace)
      .putConfiguration(LogEndpoint.ANY_ORDER_KEY, Boolean.toString(anyOrder)).build();
  }

  private boolean isOurs(ReplicationPeerConfig found) {
    return LogEndpoint.class.getName().equals(found.getReplicationEndpointImpl())
      && namespace.equals(found.getConfiguration().get(LogEndpoint.NAMESPACE_KEY));
  }

  private ReplicationPeerDescription find() throws IOException {
    for (ReplicationPeerDescription peer : admin.listReplicationPeers()) {
      if (peer.getPeerId().equals(id)) {
        return peer;
      }
    }
    return null;
  }

  private static Map<String, Object> described(ReplicationPeerDescription peer) {
    ReplicationPeerConfig configuration = peer.getPeerConfig();
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("id", peer.getPeerId());
    answer.put("enabled", peer.isEnabled());
    answer.put("serial", configuration.isSerial());
    answer.put("bandwidth", configuration.getBandwidth());
    answer.put("endpoint", configuration.getReplicationEndpointImpl());
    answer.put("namespace", configuration.getConfiguration().get(LogEndpoint.NAMESPACE_KEY));
    answer.put("all_tables", configuration.replicateAllUserTables());
    return answer;
  }
}
