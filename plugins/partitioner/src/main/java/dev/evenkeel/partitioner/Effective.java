package dev.evenkeel.partitioner;

import java.util.Arrays;

/**
 * The weights in force: past its time or budget a table is mixed towards uniform, never dropped at once.
 *
 * <p>The same arithmetic in the same order as evenkeel.router.fallback, so that both agree to the digit.
 */
final class Effective {
    /** At this multiple of its limit nothing of a table's weights is left. */
    static final double END = 10.0;

    /** Shares by partition, sum 1; null: any partition that has a leader. */
    final double[] weights;
    /** 0: the table's weights as they are; 1: nothing of them is left. */
    final double mix;

    private Effective(double[] weights, double mix) {
        this.weights = weights;
        this.mix = mix;
    }

    /**
     * What to do just now.
     *
     * @param table the newest valid one
     * @param nowMs wall clock
     * @param writtenBytes what this router wrote to the topic since it took the table
     * @param ownRate what this router writes, bytes per second; negative: not known, the whole budget is its own
     * @param led by partition, whether it has a leader; null: not known, all are taken to have one
     */
    static Effective of(RouteTable table, long nowMs, long writtenBytes, double ownRate, boolean[] led) {
        double mix = mixture(table, nowMs, writtenBytes, ownRate);
        // Longer than the table where the topic has grown: what is mixed in is uniform over the new ones too.
        int[] known = Arrays.copyOf(table.weights, Math.max(table.weights.length, led == null ? 0 : led.length));
        boolean[] open = openPartitions(known.length, table.stop, led);
        int opened = 0;
        long whole = 0;
        for (int p = 0; p < known.length; p++) {
            if (open[p]) {
                opened++;
                whole += known[p];
            }
        }
        // stop holds only as long as an unstopped partition has a leader
        if (opened == 0 || (mix >= 1.0 && table.stop.length == 0)) {
            return new Effective(null, 1.0);
        }
        if (whole <= 0) {
            mix = 1.0;
            whole = 1;
        }
        double[] weights = new double[known.length];
        for (int p = 0; p < known.length; p++) {
            if (open[p]) {
                weights[p] = (1 - mix) * known[p] / whole + mix / opened;
            }
        }
        return new Effective(weights, mix);
    }

    /** How far the weights are mixed towards uniform: 0 up to the limits, 1 at ten times. */
    static double mixture(RouteTable table, long nowMs, long writtenBytes, double ownRate) {
        return Math.min(1.0, Math.max(0.0, (overrun(table, nowMs, writtenBytes, ownRate) - 1) / (END - 1)));
    }

    /** Age and written bytes as a multiple of the table's limits, whichever is larger. */
    static double overrun(RouteTable table, long nowMs, long writtenBytes, double ownRate) {
        double age = (double) Math.max(0, nowMs - table.takenAtMs) / Math.max(1, table.validMs);
        if (table.budgetBytes < 0) {
            return age;
        }
        double share = 1.0;
        if (table.bytesPerSecond > 0 && ownRate >= 0) {
            share = Math.min(1.0, ownRate / table.bytesPerSecond);
        }
        return Math.max(age, writtenBytes / Math.max(1.0, table.budgetBytes * share));
    }

    private static boolean[] openPartitions(int count, int[] stop, boolean[] led) {
        boolean[] open = new boolean[count];
        for (int p = 0; p < open.length; p++) {
            open[p] = led == null || (p < led.length && led[p]);
        }
        for (int p : stop) {
            open[p] = false;
        }
        return open;
    }
}
