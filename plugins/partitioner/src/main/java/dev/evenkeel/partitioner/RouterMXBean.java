package dev.evenkeel.partitioner;

import java.util.Map;

/** What a partitioner tells about itself, by JMX: `dev.evenkeel:type=router,id=...`. */
public interface RouterMXBean {
    /** By topic: Table, Mixed (past its time or budget) or Default (none in force). */
    Map<String, String> getModes();

    /** By topic: epoch of the table in force, 0 without one. */
    Map<String, Long> getEpochs();

    /** By topic: bytes of values without key and partition so far. */
    Map<String, Long> getBytes();

    /** By topic: runs so far. */
    Map<String, Long> getRuns();

    /** Tables taken. */
    long getTablesAccepted();

    /** Tables refused as invalid. */
    long getTablesInvalid();

    /** Tables passed over, because they were not newer than the one in force. */
    long getTablesLower();

    /** Failures to read tables or leaders. */
    long getReadErrors();

    /** Heartbeats that Kafka acknowledged. */
    long getHeartbeatsSent();

    /** Heartbeats that were lost; routing works without them. */
    long getHeartbeatsFailed();

    /** The newest of them all in words; empty: none. */
    String getLastProblem();
}
