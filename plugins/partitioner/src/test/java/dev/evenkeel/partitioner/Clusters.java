package dev.evenkeel.partitioner;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/** Clusters with one topic `t`, as a producer would describe them. */
final class Clusters {
    static final Node NODE = new Node(1, "localhost", 9092);

    private Clusters() {}

    /** A partition per flag: whether it has a leader. */
    static Cluster cluster(boolean... led) {
        Node[] replicas = {NODE};
        List<PartitionInfo> partitions = new ArrayList<>();
        for (int p = 0; p < led.length; p++) {
            partitions.add(new PartitionInfo("t", p, led[p] ? NODE : null, replicas, replicas));
        }
        return new Cluster("c", List.of(NODE), partitions, Set.of(), Set.of());
    }
}
