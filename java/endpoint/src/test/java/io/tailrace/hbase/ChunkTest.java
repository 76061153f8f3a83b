package io.tailrace.hbase;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.zip.CRC32;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.KeyValue;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.RegionInfoBuilder;
import org.apache.hadoop.hbase.shaded.protobuf.generated.HBaseProtos;
import org.apache.hadoop.hbase.shaded.protobuf.generated.WALProtos.BulkLoadDescriptor;
import org.apache.hadoop.hbase.shaded.protobuf.generated.WALProtos.StoreDescriptor;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.wal.WALEdit;
import org.apache.hbase.thirdparty.com.google.protobuf.ByteString;
import org.junit.Test;

public class ChunkTest {
  private static final RegionInfo REGION = RegionInfoBuilder.newBuilder(TableName.valueOf("t")).build();

  /** Reads a chunk cell by cell, into one text per cell. */
  private static List<String> decode(byte[] chunk) {
    ByteBuffer bytes = ByteBuffer.wrap(chunk).order(ByteOrder.LITTLE_ENDIAN);
    assertEquals("TRW1", text(bytes, 4));
    int cells = bytes.getInt();
    String table = text(bytes, bytes.getShort());
    long[] sequenceIds = new long[cells];
    long[] timestamps = new long[cells];
    int[] types = new int[cells];
    int[][] lengths = new int[4][cells];
    for (int i = 0; i < cells; i++) {
      sequenceIds[i] = bytes.getLong();
    }
    for (int i = 0; i < cells; i++) {
      timestamps[i] = bytes.getLong();
    }
    for (int i = 0; i < cells; i++) {
      types[i] = bytes.get() & 255;
    }
    for (int[] field : lengths) {
      for (int i = 0; i < cells; i++) {
        field[i] = bytes.getInt();
      }
    }
    String[] decoded = new String[cells];
    for (int i = 0; i < cells; i++) {
      decoded[i] = table + " " + sequenceIds[i] + " " + timestamps[i] + " " + types[i];
    }
    for (int[] field : lengths) {
      for (int i = 0; i < cells; i++) {
        decoded[i] += " " + text(bytes, field[i]);
      }
    }
    CRC32 crc = new CRC32();
    crc.update(chunk, 0, bytes.position());
    assertEquals((int) crc.getValue(), bytes.getInt());
    assertEquals(0, bytes.remaining());
    return Arrays.asList(decoded);
  }

  private static String text(ByteBuffer bytes, int length) {
    byte[] text = new byte[length];
    bytes.get(text);
    return Bytes.toString(text);
  }

  private static Cell cell(String row, String qualifier, long timestamp, KeyValue.Type type, String value) {
    return new KeyValue(Bytes.toBytes(row), Bytes.toBytes("f"), Bytes.toBytes(qualifier), timestamp, type,
      Bytes.toBytes(value));
  }

  private static Edit edit(long sequenceId, int valueLength) throws IOException {
    byte[] value = new byte[valueLength];
    Cell cell = new KeyValue(Bytes.toBytes("r"), Bytes.toBytes("f"), Bytes.toBytes("q"), 1, value);
    return Edit.of(sequenceId, Collections.singletonList(cell));
  }

  private static List<String> ranges(List<Chunk> chunks) {
    List<String> ranges = new ArrayList<>();
    for (Chunk chunk : chunks) {
      ranges.add(chunk.firstSequenceId() + "-" + chunk.lastSequenceId());
    }
    return ranges;
  }

  @Test
  public void encodesEveryKindOfCell() throws IOException {
    Edit first = Edit.of(7, Arrays.asList(cell("a", "q", 5, KeyValue.Type.Put, "xyz"),
      cell("bb", "", Long.MAX_VALUE - 1, KeyValue.Type.DeleteFamily, "")));
    Edit second = Edit.of(1L << 40, Arrays.asList(cell("a", "q", 5, KeyValue.Type.Delete, ""),
      cell("a", "q", 6, KeyValue.Type.DeleteColumn, ""), cell("a", "", 6, KeyValue.Type.DeleteFamilyVersion, "")));
    List<Chunk> chunks = Chunk.cut(Arrays.asList(first, second));
    assertEquals(1, chunks.size());
    assertEquals(
      Arrays.asList("n:tä 7 5 4 a f q xyz", "n:tä 7 9223372036854775806 14 bb f  ", "n:tä 1099511627776 5 8 a f q ",
        "n:tä 1099511627776 6 12 a f q ", "n:tä 1099511627776 6 10 a f  "),
      decode(chunks.get(0).encode("n:tä")));
  }

  @Test
  public void bulkLoadIsATextWithoutARow() throws IOException {
    StoreDescriptor store = StoreDescriptor.newBuilder().setFamilyName(ByteString.copyFromUtf8("f"))
      .setStoreHomeDir("f").addStoreFile("one").addStoreFile("two").build();
    BulkLoadDescriptor loaded = BulkLoadDescriptor.newBuilder()
      .setTableName(HBaseProtos.TableName.newBuilder().setNamespace(ByteString.copyFromUtf8("default"))
        .setQualifier(ByteString.copyFromUtf8("t")))
      .setEncodedRegionName(ByteString.copyFromUtf8("e")).addStores(store).setBulkloadSeqNum(3).build();
    Edit edit = Edit.of(3, WALEdit.createBulkLoadEvent(REGION, loaded).getCells());
    String decoded = decode(Chunk.cut(Collections.singletonList(edit)).get(0).encode("t")).get(0);
    assertTrue(decoded, decoded.matches("t 3 \\d+ 255   bulk load of f/one, f/two "));
  }

  @Test
  public void otherMarksOfHBaseAreNotLogged() throws IOException {
    byte[] family = WALEdit.METAFAMILY;
    Cell flush = new KeyValue(Bytes.toBytes("r"), family, Bytes.toBytes("HBASE::FLUSH"), 1, Bytes.toBytes("v"));
    assertNull(Edit.of(3, Collections.singletonList(flush)));
  }

  @Test
  public void manySmallEditsShareAChunk() throws IOException {
    List<Edit> edits = new ArrayList<>();
    for (int i = 1; i <= 3000; i++) {
      edits.add(edit(i, 100));
    }
    List<Chunk> chunks = Chunk.cut(edits);
    long next = 1;
    for (Chunk chunk : chunks) {
      assertEquals(next, chunk.firstSequenceId());
      next = chunk.lastSequenceId() + 1;
      assertTrue(chunk.encode("t").length < Chunk.TARGET_BYTES + 1000);
    }
    assertEquals(3001, next);
    assertEquals((3000 * edits.get(0).size() + Chunk.TARGET_BYTES - 1) / Chunk.TARGET_BYTES, chunks.size());
  }

  @Test
  public void anEditIsNeverDivided() throws IOException {
    List<Edit> edits = Arrays.asList(edit(1, 300 << 10), edit(2, 300 << 10), edit(3, 10));
    assertEquals(Arrays.asList("1-1", "2-2", "3-3"), ranges(Chunk.cut(edits)));
    List<Edit> same = Arrays.asList(edit(1, 300 << 10), edit(1, 300 << 10), edit(2, 10));
    assertEquals(Arrays.asList("1-1", "2-2"), ranges(Chunk.cut(same)));
  }

  @Test
  public void aLargeEditIsAlone() throws IOException {
    List<Edit> edits = Arrays.asList(edit(1, 10), edit(2, Chunk.LARGE_BYTES), edit(3, 10), edit(4, 10));
    assertEquals(Arrays.asList("1-1", "2-2", "3-4"), ranges(Chunk.cut(edits)));
  }

  @Test
  public void newerRegionsHaveSmallerMarks() {
    RegionInfo parent = RegionInfoBuilder.newBuilder(TableName.valueOf("t")).setRegionId(1000).build();
    RegionInfo daughter = RegionInfoBuilder.newBuilder(TableName.valueOf("t")).setRegionId(2000).build();
    assertTrue(Bytes.compareTo(Mark.of(daughter).row(), Mark.of(parent).row()) < 0);
    assertTrue(Bytes.compareTo(Mark.of(parent).row(), Mark.unknown(TableName.valueOf("t"), "e").row()) < 0);
  }

  @Test
  public void aMarkIsReadAsItWasWritten() {
    RegionInfo region = RegionInfoBuilder.newBuilder(TableName.valueOf("n", "t")).setRegionId(1000)
      .setStartKey(new byte[] { 0, -1 }).setEndKey(new byte[] { 1 }).build();
    Cell written = Mark.of(region).put(42, "server", 99).get(Mark.FAMILY, Mark.QUALIFIER).get(0);
    Mark read = Mark.parse(CellUtil.cloneValue(written));
    assertEquals(42, written.getTimestamp());
    assertArrayEquals(Mark.of(region).row(), read.row());
    assertEquals("00ff", read.start);
    assertEquals("01", read.end);
    assertEquals(region.getEncodedName(), Mark.encodedName(read.row()));
  }
}
