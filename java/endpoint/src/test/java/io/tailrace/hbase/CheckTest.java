package io.tailrace.hbase;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import org.junit.Test;

public class CheckTest {
  @Test
  public void versionsThatMayShipOutOfOrderAreNamed() {
    for (String version : new String[] { "2.6.1", "2.6.4", "2.6.1-hadoop3" }) {
      assertTrue(version, Check.warnings(version).get(0).contains("HBASE-29501"));
    }
  }

  @Test
  public void laterVersionsHaveOnlyTheOpenBug() {
    for (String version : new String[] { "2.6.5", "2.6.5-hadoop3", "2.7.0" }) {
      assertEquals(version, 1, Check.warnings(version).size());
      assertTrue(Check.warnings(version).get(0).contains("HBASE-29499"));
    }
  }
}
