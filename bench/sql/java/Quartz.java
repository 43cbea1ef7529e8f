import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.temporal.ChronoUnit;
import java.util.Date;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TimeZone;
import java.util.concurrent.atomic.AtomicLong;
import org.quartz.CronScheduleBuilder;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

/**
 * Drives Quartz with its JDBC store, as a cluster of one, for bench/sql/peers, which documents the words and the lines.
 *
 * java Quartz URL SETTING push SECONDS CLIENTS
 * java Quartz URL SETTING drain JOBS
 * java Quartz URL SETTING cron TRIGGERS        for bench/schedules: cron triggers that all fire in one minute
 *
 * SETTING is `default` (10 threads, a trigger at a time) or `tuned` (20 threads, up to 50 triggers at a time). The tables are those of its jar.
 */
public final class Quartz {
    private static final int BULK = 100;
    private static final Measurement MEASUREMENT = new Measurement();
    private static final AtomicLong SERIAL = new AtomicLong(System.nanoTime());
    private final Scheduler scheduler;

    /** The work of a job. */
    public static final class Order implements Job {
        @Override
        public void execute(JobExecutionContext context) {
            MEASUREMENT.ran(context.getMergedJobDataMap().getLong("due"));
        }
    }

    private Quartz(String url, boolean tuned) throws Exception {
        int threads = tuned ? 20 : 10;
        Properties properties = new Properties();
        properties.put("org.quartz.scheduler.instanceName", "bench");
        properties.put("org.quartz.scheduler.instanceId", "AUTO");
        properties.put("org.quartz.threadPool.class", "org.quartz.simpl.SimpleThreadPool");
        properties.put("org.quartz.threadPool.threadCount", "" + threads);
        properties.put("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
        properties.put("org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate");
        properties.put("org.quartz.jobStore.dataSource", "bench");
        properties.put("org.quartz.jobStore.isClustered", "true");
        properties.put("org.quartz.jobStore.misfireThreshold", "600000"); // a job that is already due is not a misfire
        if (tuned) {
            properties.put("org.quartz.scheduler.batchTriggerAcquisitionMaxCount", "50");
            properties.put("org.quartz.jobStore.acquireTriggersWithinLock", "true");
        }
        properties.put("org.quartz.dataSource.bench.provider", "hikaricp");
        properties.put("org.quartz.dataSource.bench.driver", "org.postgresql.Driver");
        properties.put("org.quartz.dataSource.bench.URL", url);
        properties.put("org.quartz.dataSource.bench.maximumPoolSize", "" + (threads + 6));
        scheduler = new StdSchedulerFactory(properties).getScheduler();
    }

    private static JobDetail job(long dueMs) {
        return JobBuilder.newJob(Order.class).withIdentity("order-" + SERIAL.incrementAndGet()).usingJobData("due", dueMs)
            .usingJobData("body", Measurement.BODY).build();
    }

    private static Trigger trigger(long dueMs) {
        return TriggerBuilder.newTrigger().withIdentity("due-" + SERIAL.incrementAndGet()).startAt(new Date(dueMs)).build();
    }

    private void single() throws Exception {
        long dueMs = System.currentTimeMillis() + 3600_000;
        scheduler.scheduleJob(job(dueMs), trigger(dueMs));
    }

    private void insert(int count) throws Exception {
        for (int left = count; left > 0; left -= BULK) {
            Map<JobDetail, Set<? extends Trigger>> some = new HashMap<>();
            for (int i = 0; i < Math.min(left, BULK); i++) {
                long dueMs = System.currentTimeMillis() - 1000;
                some.put(job(dueMs), Set.of(trigger(dueMs)));
            }
            scheduler.scheduleJobs(some, false);
        }
    }

    /** Cron triggers of one minute, set while the scheduler stands; prints the seconds from that minute until the last job has run. */
    private void cron(int count) throws Exception {
        ZonedDateTime due = ZonedDateTime.now(ZoneOffset.UTC).plusSeconds(30 + count / 200).truncatedTo(ChronoUnit.MINUTES).plusMinutes(1);
        CronScheduleBuilder plan = CronScheduleBuilder
            .cronSchedule(String.format("0 %d %d %d %d ?", due.getMinute(), due.getHour(), due.getDayOfMonth(), due.getMonthValue()))
            .inTimeZone(TimeZone.getTimeZone("UTC"));
        for (int left = count; left > 0; left -= BULK) {
            Map<JobDetail, Set<? extends Trigger>> some = new HashMap<>();
            for (int i = 0; i < Math.min(left, BULK); i++) {
                some.put(job(due.toInstant().toEpochMilli()), Set.of(TriggerBuilder.newTrigger().withIdentity("plan-" + SERIAL.incrementAndGet()).withSchedule(plan).build()));
            }
            scheduler.scheduleJobs(some, false);
        }
        long dueMs = due.toInstant().toEpochMilli();
        if (System.currentTimeMillis() > dueMs - 5000) {
            throw new IllegalStateException("the triggers were set too late, give fewer");
        }
        Thread.sleep(dueMs - System.currentTimeMillis() - 4000);
        scheduler.start();
        while (MEASUREMENT.done.get() < count) {
            Thread.sleep(5);
        }
        System.out.println(String.format(Locale.ROOT, "{\"seconds\": %.3f}", (System.currentTimeMillis() - dueMs) / 1e3));
        System.exit(0);
    }

    public static void main(String[] words) throws Exception {
        Quartz drive = new Quartz(words[0], words[1].equals("tuned"));
        int first = Integer.parseInt(words[3]);
        if (words[2].equals("cron")) {
            drive.cron(first);
        }
        if (words[2].equals("push")) {
            int clients = Integer.parseInt(words[4]);
            Measurement.push(3, clients, drive::single);
            MEASUREMENT.ready();
            MEASUREMENT.report(Measurement.push(first, clients, drive::single), 0);
        } else {
            drive.insert(first);
            MEASUREMENT.drain(first, drive.scheduler::start);
        }
    }
}
