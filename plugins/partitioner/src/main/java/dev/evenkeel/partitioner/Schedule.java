package dev.evenkeel.partitioner;

import java.util.PriorityQueue;

/**
 * In which order partitions take their turns: stride scheduling by bytes, as evenkeel.router.schedule.
 *
 * <p>Every partition has the virtual time of its next turn; a turn of n quanta moves it by n / weight.
 * First turns are spread by the phase and a golden-ratio step. Not thread safe.
 */
final class Schedule {
    private static final double GOLDEN = 0.6180339887498949;
    /** Quanta that a partition may be ahead or behind when a new table comes. */
    private static final double CREDIT_LIMIT = 8.0;

    private final double phase;
    private final double[] weights;
    private final double[] due;
    private final double[] credits;
    private final PriorityQueue<Turn> turns;
    private final int size;
    private double virtual;

    /** Turns by weight (any scale, one above 0 at least); phase in [0, 1). */
    Schedule(double[] weights, double phase) {
        this(weights, phase, 0.0, new double[0]);
    }

    /** `credits`: by partition, quanta until its first turn; NaN or missing: by phase. */
    private Schedule(double[] wanted, double phase, double virtual, double[] credits) {
        this.phase = phase;
        this.virtual = virtual;
        this.weights = new double[wanted.length];
        this.due = new double[wanted.length];
        this.credits = new double[Math.max(wanted.length, credits.length)];
        this.turns = new PriorityQueue<>(Math.max(1, wanted.length));
        double whole = 0;
        for (double weight : wanted) {
            whole += weight;
        }
        int used = 0;
        for (int p = 0; p < this.credits.length; p++) {
            this.credits[p] = p < credits.length ? credits[p] : Double.NaN;
            if (p < wanted.length && wanted[p] > 0) {
                used++;
                begin(p, wanted[p] / whole);
            }
        }
        this.size = used;
    }

    private void begin(int p, double weight) {
        weights[p] = weight;
        double first = Double.isNaN(credits[p]) ? (phase + p * GOLDEN) % 1.0 : credits[p];
        due[p] = virtual + first / weight;
        turns.add(new Turn(due[p], p));
    }

    /** A schedule by new weights in which what each partition is ahead or behind survives. */
    Schedule successor(double[] wanted) {
        double[] kept = credits.clone();
        for (int p = 0; p < weights.length; p++) {
            if (weights[p] > 0) {
                double ahead = (due[p] - virtual) * weights[p];
                kept[p] = Math.min(CREDIT_LIMIT, Math.max(-CREDIT_LIMIT, ahead));
            }
        }
        return new Schedule(wanted, phase, virtual, kept);
    }

    boolean contains(int partition) {
        return partition >= 0 && partition < weights.length && weights[partition] > 0;
    }

    /** How many partitions take turns. */
    int size() {
        return size;
    }

    /** The partition whose turn is due. */
    int pick() {
        Turn turn = turns.peek();
        while (turn.due != due[turn.partition]) {
            turns.poll();
            turn = turns.peek();
        }
        return turn.partition;
    }

    /** A turn of this length was taken. */
    void account(int partition, double quanta) {
        virtual += quanta;
        if (contains(partition) && quanta > 0) {
            due[partition] += quanta / weights[partition];
            turns.add(new Turn(due[partition], partition));
        }
    }

    private static final class Turn implements Comparable<Turn> {
        private final double due;
        private final int partition;

        private Turn(double due, int partition) {
            this.due = due;
            this.partition = partition;
        }

        @Override
        public int compareTo(Turn other) {
            int order = Double.compare(due, other.due);
            return order != 0 ? order : Integer.compare(partition, other.partition);
        }
    }
}
