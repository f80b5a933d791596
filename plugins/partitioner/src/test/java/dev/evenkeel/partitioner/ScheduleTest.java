package dev.evenkeel.partitioner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.Test;

class ScheduleTest {
    private static double[] turns(Schedule schedule, int partitions, int runs) {
        double[] counted = new double[partitions];
        for (int i = 0; i < runs; i++) {
            int p = schedule.pick();
            counted[p]++;
            schedule.account(p, 1);
        }
        return counted;
    }

    @Test
    void staysWithinOneTurnOfEveryShare() {
        double[] weights = {0.5, 0.25, 0.15, 0.1};
        Schedule schedule = new Schedule(weights, 0.3);
        double[] counted = new double[4];
        for (int i = 1; i <= 1000; i++) {
            int p = schedule.pick();
            schedule.account(p, 1);
            counted[p]++;
            for (int q = 0; q < 4; q++) {
                assertTrue(Math.abs(counted[q] - weights[q] * i) <= 1.0 + 1e-9, "after " + i + " turns");
            }
        }
    }

    @Test
    void countsBytesNotTurns() {
        Schedule schedule = new Schedule(new double[] {1, 1}, 0);
        Random random = new Random(1);
        double[] written = new double[2];
        for (int i = 0; i < 2000; i++) {
            int p = schedule.pick();
            double length = random.nextDouble() * (p == 0 ? 1 : 0.1);
            written[p] += length;
            schedule.account(p, length);
        }
        assertEquals(0, written[0] - written[1], 1.5);
    }

    @Test
    void leavesPartitionsWithoutWeightOut() {
        Schedule schedule = new Schedule(new double[] {0, 1, 0, 3}, 0.9);
        double[] counted = turns(schedule, 4, 400);
        assertEquals(2, schedule.size());
        assertFalse(schedule.contains(0) || schedule.contains(4) || schedule.contains(-1));
        assertEquals(0, counted[0] + counted[2]);
        assertEquals(100, counted[1], 1);
    }

    @Test
    void paysBackWhatAPartitionIsBehindWhenATableComes() {
        Schedule schedule = new Schedule(new double[] {1, 1}, 0);
        double[] whole = new double[2];
        for (int table = 0; table < 300; table++) { // a table every three turns: without credit one side starves
            double[] counted = turns(schedule, 2, 3);
            whole[0] += counted[0];
            whole[1] += counted[1];
            schedule = schedule.successor(new double[] {1, 1});
        }
        assertEquals(whole[0], whole[1], 2);
    }

    @Test
    void remembersAPartitionThatIsLeftOutForAWhile() {
        Schedule schedule = new Schedule(new double[] {1, 1, 1}, 0);
        schedule.account(schedule.pick(), 5);
        Schedule without = schedule.successor(new double[] {0, 1, 1});
        turns(without, 3, 10);
        Schedule again = without.successor(new double[] {1, 1, 1});
        assertTrue(again.contains(0));
        double[] counted = turns(again, 3, 300);
        assertEquals(100, counted[0], 8);
    }

    @Test
    void manyRoutersTogetherAreAsEvenAsOne() {
        int routers = 20;
        double[] weights = new double[40];
        java.util.Arrays.fill(weights, 1.0);
        double[] whole = new double[40];
        for (int i = 0; i < routers; i++) {
            double[] counted = turns(new Schedule(weights, (i + 0.5) / routers), 40, 100);
            for (int p = 0; p < 40; p++) {
                whole[p] += counted[p];
            }
        }
        for (double count : whole) {
            assertEquals(50, count, 2);
        }
    }
}
