package dev.evenkeel.partitioner;

import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import javax.management.JMException;
import javax.management.ObjectName;

/** A router's counters as a JMX bean. */
final class RouterStats implements RouterMXBean {
    private final Router router;

    RouterStats(Router router) {
        this.router = router;
    }

    /** Shows the bean; a process that forbids beans routes all the same. */
    void register() {
        try {
            ManagementFactory.getPlatformMBeanServer().registerMBean(this, name());
        } catch (JMException | SecurityException error) {
            router.note("no JMX bean: " + error);
        }
    }

    void unregister() {
        try {
            ManagementFactory.getPlatformMBeanServer().unregisterMBean(name());
        } catch (JMException | SecurityException error) {
            router.note("no JMX bean: " + error);
        }
    }

    private ObjectName name() throws JMException {
        return new ObjectName("dev.evenkeel:type=router,id=" + ObjectName.quote(router.name));
    }

    private <T> Map<String, T> byTopic(Function<String, T> value) {
        Map<String, T> found = new TreeMap<>();
        for (String topic : router.topics()) {
            found.put(topic, value.apply(topic));
        }
        return found;
    }

    @Override
    public Map<String, String> getModes() {
        return byTopic(router::mode);
    }

    @Override
    public Map<String, Long> getEpochs() {
        return byTopic(topic -> {
            RouteTable table = router.table(topic);
            return table == null ? 0 : table.epoch;
        });
    }

    @Override
    public Map<String, Long> getBytes() {
        return byTopic(topic -> router.run(topic).bytes());
    }

    @Override
    public Map<String, Long> getRuns() {
        return byTopic(topic -> router.run(topic).runs());
    }

    @Override
    public long getTablesAccepted() {
        return router.counts().accepted;
    }

    @Override
    public long getTablesInvalid() {
        return router.counts().invalid;
    }

    @Override
    public long getTablesLower() {
        return router.counts().lower;
    }

    @Override
    public long getReadErrors() {
        return router.counts().readErrors;
    }

    @Override
    public long getHeartbeatsSent() {
        return router.heartbeatsSent.get();
    }

    @Override
    public long getHeartbeatsFailed() {
        return router.heartbeatsFailed.get();
    }

    @Override
    public String getLastProblem() {
        return router.lastProblem();
    }
}
