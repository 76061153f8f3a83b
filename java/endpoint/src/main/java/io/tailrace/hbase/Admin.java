package io.tailrace.hbase;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;

/**
 * What Thrift2 has no call for: the replication peer, and the placement of regions. Prints one line of JSON.
 *
 * <p>Run it with HBase's own classpath: {@code HBASE_CLASSPATH=tailrace-hbase.jar hbase io.tailrace.hbase.Admin}.
 */
public final class Admin {
  private static final String USAGE = String.join(System.lineSeparator(),
    "usage: Admin <command>; the answer is one line of JSON",
    "  peer add <namespace> [--bandwidth=<bytes>] [--not-serial] [--any-order]",
    "                                         create the replication peer. --bandwidth: bytes that a server ships in",
    "                                         a second, at most. For tests: --not-serial is refused by the endpoint,",
    "                                         with --any-order it is not",
    "  peer remove|show|enable|disable <namespace>",
    "  check <namespace>                      peer, scopes of tables, version, replication in each server",
    "  finish <namespace> <region>            let replication go on that waits for ever for an earlier part of the",
    "                                         region's log (HBASE-29499); check lists such regions as unfinished",
    "  tables                                 tables, their families and regions",
    "  move <region> [<server>]               region by encoded name; server as host:port; without it: any other",
    "  split <table> [<key>]                  at the key (\\xHH for bytes), or every region in its middle",
    "  merge <region> <region>                two neighbours; compacts the halves of a split before",
    "  flush [<table>]                        without a table: all",
    "  compact <table> [--major]              and wait for the end",
    "  rollwal [<server>]                     begin a new WAL file; without a server: on all",
    "  drain <server>                         move all of its regions to others, before it is stopped",
    "  balancer on|off",
    "  shutdown                               stop the master and all region servers, in good order",
    "  -                                      run commands of standard input: one per line, words divided by tabs");

  private Admin() {
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length == 0) {
      System.err.println(USAGE);
      System.exit(2);
    }
    boolean succeeded;
    try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
      org.apache.hadoop.hbase.client.Admin admin = connection.getAdmin()) {
      succeeded = arguments[0].equals("-") ? answerLines(admin) : answer(admin, arguments);
    } catch (UsageException e) {
      System.err.println(e.getMessage() + System.lineSeparator() + USAGE);
      System.exit(2);
      return;
    }
    System.exit(succeeded ? 0 : 1);
  }

  /** Runs the commands of standard input until it ends. A line has the words of one command, with tabs in between. */
  private static boolean answerLines(org.apache.hadoop.hbase.client.Admin admin) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    String line;
    while ((line = lines.readLine()) != null) {
      try {
        answer(admin, line.split("\t"));
      } catch (UsageException e) {
        print(Collections.singletonMap("error", e.getMessage()));
      }
    }
    return true;
  }

  /** Runs one command and prints its answer. Returns whether it succeeded. */
  private static boolean answer(org.apache.hadoop.hbase.client.Admin admin, String[] arguments) throws Exception {
    try {
      print(run(admin, arguments));
      return true;
    } catch (IOException e) {
      print(Collections.singletonMap("error", e.getClass().getSimpleName() + ": " + e.getMessage()));
      return false;
    }
  }

  private static void print(Map<String, Object> answer) {
    System.out.println(Json.text(answer));
    System.out.flush();
  }

  private static Map<String, Object> run(org.apache.hadoop.hbase.client.Admin admin, String[] arguments)
    throws Exception {
    String[] rest = Arrays.copyOfRange(arguments, 1, arguments.length);
    Placement placement = new Placement(admin);
    switch (arguments[0]) {
      case "peer":
        return peer(new Peer(admin, at(rest, 1)), rest);
      case "check":
        return new Check(admin, at(rest, 0)).report();
      case "finish":
        return new Ranges(admin, new Peer(admin, at(rest, 0)).id()).finish(at(rest, 1));
      case "tables":
        return Collections.singletonMap("tables", placement.tables());
      case "move":
        return placement.move(at(rest, 0), rest.length > 1 ? rest[1] : null);
      case "split":
        return placement.split(at(rest, 0), rest.length > 1 ? rest[1] : null);
      case "merge":
        return placement.merge(at(rest, 0), at(rest, 1));
      case "flush":
        return placement.flush(rest.length > 0 ? rest[0] : null);
      case "compact":
        return placement.compact(at(rest, 0), Arrays.asList(rest).contains("--major"));
      case "rollwal":
        return placement.rollWal(rest.length > 0 ? rest[0] : null);
      case "drain":
        return placement.drain(at(rest, 0));
      case "balancer":
        return placement.balancer(at(rest, 0).equals("on"));
      case "shutdown":
        return placement.shutdown();
      default:
        throw new UsageException("There is no command " + arguments[0]);
    }
  }

  private static Map<String, Object> peer(Peer peer, String[] rest) throws IOException {
    switch (rest[0]) {
      case "add":
        List<String> options = Arrays.asList(rest);
        return peer.add(!options.contains("--not-serial"), options.contains("--any-order"), bandwidth(rest));
      case "remove":
        return peer.remove();
      case "show":
        return peer.show();
      case "enable":
        return peer.enable();
      case "disable":
        return peer.disable();
      default:
        throw new UsageException("There is no command peer " + rest[0]);
    }
  }

  private static long bandwidth(String[] arguments) {
    for (String argument : arguments) {
      if (argument.startsWith("--bandwidth=")) {
        try {
          return Long.parseLong(argument.substring("--bandwidth=".length()));
        } catch (NumberFormatException e) {
          throw new UsageException(argument + " is no number of bytes");
        }
      }
    }
    return 0;
  }

  private static String at(String[] arguments, int place) {
    if (arguments.length <= place) {
      throw new UsageException("An argument is missing");
    }
    return arguments[place];
  }

  private static final class UsageException extends RuntimeException {
    UsageException(String message) {
      super(message);
    }
  }
}
