package io.tailrace.hbase;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.HConstants;

/**
 * A piece of the raw log: whole edits of one region, in order. The value of one row of the table {@code wal}.
 *
 * <p>The bytes, all numbers little-endian, n cells, column by column so that a reader decodes them with NumPy:
 *
 * <pre>
 * "TRW1" | u32 n | u16 length of table name | table name, UTF-8
 * i64[n] sequence ids | i64[n] timestamps | u8[n] types
 * u32[n] row lengths | u32[n] family lengths | u32[n] qualifier lengths | u32[n] value lengths
 * rows | families | qualifiers | values | u32 CRC-32 of all bytes before
 * </pre>
 *
 * <p>Types are the codes of HBase (Put 4, Delete 8, DeleteFamilyVersion 10, DeleteColumn 12, DeleteFamily 14), and 255
 * for a bulk load, which has only a qualifier: a text.
 */
final class Chunk {
  /** A chunk ends with the edit that makes it this large. */
  static final int TARGET_BYTES = 256 << 10;

  /**
   * An edit larger than this is a chunk of its own. So its chunk is the same however often it is cut, and its cells can
   * be written over an earlier attempt.
   */
  static final int LARGE_BYTES = 4 << 20;

  /** HBase refuses cells of more than 10 MiB (hbase.server.keyvalue.maxsize), so a larger value has several cells. */
  static final int PIECE_BYTES = 8 << 20;

  /** The bytes of a cell without its contents: sequence id, timestamp, type, four lengths. */
  static final int CELL_BYTES = 8 + 8 + 1 + 4 * 4;

  static final byte[] MAGIC = "TRW1".getBytes(StandardCharsets.US_ASCII);
  static final byte BULK_LOAD = (byte) 255;

  final List<Edit> edits;
  private final long size;

  private Chunk(List<Edit> edits, long size) {
    this.edits = edits;
    this.size = size;
  }

  /** Cuts the edits of one region into chunks, never between edits of the same sequence id. */
  static List<Chunk> cut(List<Edit> edits) {
    List<Chunk> chunks = new ArrayList<>();
    List<Edit> open = new ArrayList<>();
    long size = 0;
    boolean full = false;
    for (Edit edit : edits) {
      boolean large = edit.size() > LARGE_BYTES;
      boolean another = !open.isEmpty() && open.get(open.size() - 1).sequenceId != edit.sequenceId;
      if (another && (full || large)) {
        chunks.add(new Chunk(open, size));
        open = new ArrayList<>();
        size = 0;
      }
      open.add(edit);
      size += edit.size();
      full = size >= TARGET_BYTES;
    }
    if (!open.isEmpty()) {
      chunks.add(new Chunk(open, size));
    }
    return chunks;
  }

  long firstSequenceId() {
    return edits.get(0).sequenceId;
  }

  long lastSequenceId() {
    return edits.get(edits.size() - 1).sequenceId;
  }

  byte[] encode(String table) {
    byte[] name = table.getBytes(StandardCharsets.UTF_8);
    int cells = 0;
    for (Edit edit : edits) {
      cells += edit.cells.size();
    }
    long total = MAGIC.length + 4 + 2 + name.length + size + 4;
    if (total > Integer.MAX_VALUE - 64) {
      throw new IllegalStateException("A WAL edit of table " + table + " has " + total + " bytes; the log takes 2 GiB");
    }
    ByteBuffer bytes = ByteBuffer.allocate((int) total).order(ByteOrder.LITTLE_ENDIAN);
    bytes.put(MAGIC).putInt(cells).putShort((short) name.length).put(name);
    for (Edit edit : edits) {
      for (int i = 0; i < edit.cells.size(); i++) {
        bytes.putLong(edit.sequenceId);
      }
    }
    for (Edit edit : edits) {
      for (Cell cell : edit.cells) {
        bytes.putLong(cell.getTimestamp());
      }
    }
    for (Edit edit : edits) {
      for (Cell cell : edit.cells) {
        bytes.put(edit.bulkLoad == null ? cell.getTypeByte() : BULK_LOAD);
      }
    }
    for (Field field : Field.values()) {
      for (Edit edit : edits) {
        for (Cell cell : edit.cells) {
          bytes.putInt(field.length(edit, cell));
        }
      }
    }
    int position = bytes.position();
    for (Field field : Field.values()) {
      for (Edit edit : edits) {
        for (Cell cell : edit.cells) {
          position = field.copy(edit, cell, bytes.array(), position);
        }
      }
    }
    CRC32 crc = new CRC32();
    crc.update(bytes.array(), 0, position);
    bytes.putInt(position, (int) crc.getValue());
    return bytes.array();
  }

  /** The parts of a cell that have a length of their own, in the order of the chunk. */
  private enum Field {
    ROW {
      @Override
      int length(Cell cell) {
        return cell.getRowLength();
      }

      @Override
      int copy(Cell cell, byte[] to, int position) {
        return CellUtil.copyRowTo(cell, to, position);
      }
    },
    FAMILY {
      @Override
      int length(Cell cell) {
        return cell.getFamilyLength();
      }

      @Override
      int copy(Cell cell, byte[] to, int position) {
        return CellUtil.copyFamilyTo(cell, to, position);
      }
    },
    QUALIFIER {
      @Override
      int length(Cell cell) {
        return cell.getQualifierLength();
      }

      @Override
      int copy(Cell cell, byte[] to, int position) {
        return CellUtil.copyQualifierTo(cell, to, position);
      }
    },
    VALUE {
      @Override
      int length(Cell cell) {
        return cell.getValueLength();
      }

      @Override
      int copy(Cell cell, byte[] to, int position) {
        return CellUtil.copyValueTo(cell, to, position);
      }
    };

    abstract int length(Cell cell);

    /** Returns the position after the copy. */
    abstract int copy(Cell cell, byte[] to, int position);

    int length(Edit edit, Cell cell) {
      return edit.bulkLoad == null ? length(cell) : text(edit).length;
    }

    int copy(Edit edit, Cell cell, byte[] to, int position) {
      if (edit.bulkLoad == null) {
        return copy(cell, to, position);
      }
      byte[] text = text(edit);
      System.arraycopy(text, 0, to, position, text.length);
      return position + text.length;
    }

    private byte[] text(Edit edit) {
      return this == QUALIFIER ? edit.bulkLoad : HConstants.EMPTY_BYTE_ARRAY;
    }
  }
}
