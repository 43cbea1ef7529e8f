import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerBuilder;
import com.github.kagkarlsson.scheduler.task.SchedulableInstance;
import com.github.kagkarlsson.scheduler.task.TaskInstance;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/**
 * Drives db-scheduler for bench/sql/peers, which documents the words and the lines.
 *
 * java DbScheduler URL SETTING push SECONDS CLIENTS
 * java DbScheduler URL SETTING drain JOBS
 * java DbScheduler URL SETTING fill JOBS
 * java DbScheduler URL SETTING late RATE SECONDS
 *
 * SETTING is `default` (fetch, 10 threads, 10 connections, a poll every 10 s) or `tuned` (lock-and-fetch, 50 threads, 32 connections, a poll
 * every 100 ms). The table is the one of its documentation.
 */
public final class DbScheduler {
    private static final int BULK = 1000, WARM_UP_SECONDS = 14;
    private static final String TABLE =
        "CREATE TABLE IF NOT EXISTS scheduled_tasks (task_name text, task_instance text, task_data bytea, execution_time timestamptz NOT NULL,"
        + " picked boolean NOT NULL, picked_by text, last_success timestamptz, last_failure timestamptz, consecutive_failures int,"
        + " last_heartbeat timestamptz, version bigint NOT NULL, priority smallint, state text, PRIMARY KEY (task_name, task_instance))";
    private final Measurement measurement = new Measurement();
    private final AtomicLong serial = new AtomicLong(System.nanoTime());
    private final OneTimeTask<String> task = Tasks.oneTime("order", String.class)
        .execute((instance, context) -> measurement.ran(Long.parseLong(instance.getData().substring(0, instance.getData().indexOf(' ')))));
    private final Scheduler scheduler;

    private DbScheduler(String url, boolean tuned) throws Exception {
        HikariConfig pooled = new HikariConfig();
        pooled.setJdbcUrl(url);
        pooled.setMaximumPoolSize(tuned ? 32 : 10);
        HikariDataSource source = new HikariDataSource(pooled);
        try (Connection connection = source.getConnection(); Statement statement = connection.createStatement()) {
            statement.execute(TABLE);
            statement.execute("CREATE INDEX IF NOT EXISTS execution_time_idx ON scheduled_tasks (execution_time)");
            statement.execute("CREATE INDEX IF NOT EXISTS last_heartbeat_idx ON scheduled_tasks (last_heartbeat)");
        }
        SchedulerBuilder builder = Scheduler.create(source, task);
        if (tuned) {
            builder.threads(50).pollUsingLockAndFetch(1.0, 4.0).pollingInterval(Duration.ofMillis(100));
        }
        scheduler = builder.build();
    }

    private TaskInstance<String> instance(long dueMs) {
        return task.instance("order-" + serial.incrementAndGet(), dueMs + " " + Measurement.BODY);
    }

    private void insert(int count, LongSupplier due) {
        for (int left = count; left > 0; left -= BULK) {
            List<SchedulableInstance<?>> some = new ArrayList<>();
            for (int i = 0; i < Math.min(left, BULK); i++) {
                long dueMs = due.getAsLong();
                some.add(SchedulableInstance.of(instance(dueMs), Instant.ofEpochMilli(dueMs)));
            }
            scheduler.scheduleBatch(some);
        }
    }

    private void single() {
        scheduler.schedule(instance(0), Instant.now().plusSeconds(3600));
    }

    /** Pushes at a rate, due after 2 to 6 s; jobs before the end of the warm-up do not count. */
    private void late(int rate, int seconds) throws Exception {
        scheduler.start();
        int pushed = 0, noted = -1;
        for (long begun = System.nanoTime();; Thread.sleep(20)) {
            double elapsed = (System.nanoTime() - begun) / 1e9;
            if (elapsed > seconds + WARM_UP_SECONDS) {
                break;
            }
            if (noted < 0 && elapsed > WARM_UP_SECONDS) {
                measurement.ready();
                noted = measurement.note();
            }
            int wanted = (int) (elapsed * rate) - pushed;
            insert(wanted, () -> System.currentTimeMillis() + 2000 + ThreadLocalRandom.current().nextInt(4000));
            pushed += wanted;
        }
        for (long deadline = System.nanoTime() + 30_000_000_000L; measurement.done.get() < pushed && System.nanoTime() < deadline;) {
            Thread.sleep(10);
        }
        measurement.report(pushed - noted, pushed - measurement.done.get());
    }

    public static void main(String[] words) throws Exception {
        DbScheduler drive = new DbScheduler(words[0], words[1].equals("tuned"));
        int first = Integer.parseInt(words[3]);
        switch (words[2]) {
            case "push":
                int clients = Integer.parseInt(words[4]);
                Measurement.push(3, clients, drive::single);
                drive.measurement.ready();
                drive.measurement.report(Measurement.push(first, clients, drive::single), 0);
                break;
            case "drain":
                drive.insert(first, () -> System.currentTimeMillis() - 1000);
                drive.measurement.drain(first, drive.scheduler::start);
                break;
            case "fill":
                drive.insert(first, () -> System.currentTimeMillis() + 5 * 3600_000L);
                System.exit(0);
                break;
            default:
                drive.late(first, Integer.parseInt(words[4]));
        }
    }
}
