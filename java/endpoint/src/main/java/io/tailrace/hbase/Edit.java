package io.tailrace.hbase;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.shaded.protobuf.generated.WALProtos.BulkLoadDescriptor;
import org.apache.hadoop.hbase.shaded.protobuf.generated.WALProtos.StoreDescriptor;
import org.apache.hadoop.hbase.wal.WALEdit;

/**
 * A WAL edit: everything that a region did under one sequence id. It is either cells that a client wrote, or a bulk
 * load, whose rows are in files and not in the WAL.
 */
final class Edit {
  final long sequenceId;
  final List<Cell> cells;
  /** What was loaded, in words; null if this is no bulk load. */
  final byte[] bulkLoad;

  private Edit(long sequenceId, List<Cell> cells, byte[] bulkLoad) {
    this.sequenceId = sequenceId;
    this.cells = cells;
    this.bulkLoad = bulkLoad;
  }

  /** Returns null if there is nothing for the log in it: other marks of HBase itself, such as flushes. */
  static Edit of(long sequenceId, List<Cell> logged) throws IOException {
    List<Cell> cells = new ArrayList<>(logged.size());
    for (Cell cell : logged) {
      if (!WALEdit.isMetaEditFamily(cell)) {
        cells.add(cell);
      } else if (CellUtil.matchingQualifier(cell, WALEdit.BULK_LOAD)) {
        return bulkLoad(sequenceId, cell);
      }
    }
    return cells.isEmpty() ? null : new Edit(sequenceId, cells, null);
  }

  /** The bytes of this edit in a chunk. */
  long size() {
    if (bulkLoad != null) {
      return Chunk.CELL_BYTES + bulkLoad.length;
    }
    long size = 0;
    for (Cell cell : cells) {
      size += Chunk.CELL_BYTES + cell.getRowLength() + cell.getFamilyLength() + cell.getQualifierLength()
        + cell.getValueLength();
    }
    return size;
  }

  private static Edit bulkLoad(long sequenceId, Cell marker) throws IOException {
    BulkLoadDescriptor loaded = WALEdit.getBulkLoadDescriptor(marker);
    List<String> files = new ArrayList<>();
    for (StoreDescriptor store : loaded.getStoresList()) {
      for (String file : store.getStoreFileList()) {
        files.add(store.getFamilyName().toStringUtf8() + "/" + file);
      }
    }
    byte[] text = ("bulk load of " + String.join(", ", files)).getBytes(StandardCharsets.UTF_8);
    List<Cell> cells = new ArrayList<>(1);
    cells.add(marker);
    return new Edit(sequenceId, cells, text);
  }
}
