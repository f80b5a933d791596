package dev.evenkeel.partitioner;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * Whether tables are past their time when they come; as evenkeel.router.arrivals.
 *
 * <p>A table's age is this host's clock less the keeper's. Where the clocks differ by more than the limit every
 * table is too old at once: the weights are mixed away, and nothing else shows it.
 */
final class Arrivals {
    private final Map<String, RouteTable> came = new HashMap<>();
    private final Set<String> late = new HashSet<>();

    /** A table came that was written since the router reads along; of several of a topic the last one counts. */
    void add(RouteTable table) {
        came.put(table.topic, table);
    }

    /** The topic has no table any more: whether its last one was late says nothing of the next. */
    void forget(String topic) {
        came.remove(topic);
        late.remove(topic);
    }

    /**
     * Tells the router of a table that was past its time when it came; logs the first after all were in time.
     *
     * @return whether one was logged
     */
    boolean judge(Router router, long nowMs) {
        boolean logged = false;
        boolean first = late.isEmpty();
        for (RouteTable table : came.values()) {
            long age = nowMs - table.takenAtMs;
            if (age <= table.validMs) {
                late.remove(table.topic);
                continue;
            }
            late.add(table.topic);
            router.tell("the table of " + table.topic + " was " + age / 1000 + " s old when it came, its limit is "
                    + table.validMs / 1000 + " s: the clocks of this host and of the keeper may differ", first);
            logged |= first;
            first = false;
        }
        came.clear();
        return logged;
    }
}
