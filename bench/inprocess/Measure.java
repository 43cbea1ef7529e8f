import java.lang.management.ManagementFactory;
import java.util.Arrays;

/** Measurements of both peers: the process's CPU time (including collector and compiler), memory in use, percentiles. */
final class Measure {
    private static final com.sun.management.OperatingSystemMXBean SYSTEM =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    static final long ROUND_CPU_NS = 700_000_000L; // however long that takes

    private Measure() {}

    static long cpuNs() {
        return SYSTEM.getProcessCpuTime();
    }

    static long usedBytes() {
        for (int i = 0; i < 4; i++)
            System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    /** Prints a rate, unless the run was too short for the process's clock, which counts in steps of 10 ms. */
    static void rate(String what, long pending, long count, long sinceCpuNs) {
        long cpuNs = cpuNs() - sinceCpuNs;
        if (cpuNs >= 200_000_000)
            System.out.printf("{\"what\":\"%s\",\"pending\":%d,\"per_cpu_s\":%.0f}%n", what, pending, count * 1e9 / cpuNs);
    }

    static void late(long pending, long rate, long[] latesNs) {
        Arrays.sort(latesNs);
        System.out.printf("{\"what\":\"late\",\"pending\":%d,\"rate\":%d,\"p50_us\":%.0f,\"p99_us\":%.0f,\"first_us\":%.0f,\"last_us\":%.0f}%n",
                pending, rate, latesNs[latesNs.length / 2] / 1e3, latesNs[latesNs.length * 99 / 100] / 1e3, latesNs[0] / 1e3,
                latesNs[latesNs.length - 1] / 1e3);
    }
}
