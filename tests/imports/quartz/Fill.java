import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Properties;
import java.util.TimeZone;
import org.quartz.CronScheduleBuilder;
import org.quartz.DailyTimeIntervalScheduleBuilder;
import org.quartz.DisallowConcurrentExecution;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.TriggerKey;
import org.quartz.impl.StdSchedulerFactory;

/**
 * java Fill URL all|page FROM_MS...: stores triggers in the tables of Quartz and prints a line for each: its name, then its next 12 fires after each moment, in
 * milliseconds. `page`: those of docs/moving/quartz.md.
 */
public final class Fill {
    /** A job that does nothing. */
    public static class Report implements Job {
        @Override
        public void execute(JobExecutionContext context) {
        }
    }

    /** A job that does not run beside itself. */
    @DisallowConcurrentExecution
    public static final class Poll extends Report {
    }

    private static Trigger cron(String name, String expression, String zone) {
        return TriggerBuilder.newTrigger().withIdentity(name, "reports")
            .withSchedule(CronScheduleBuilder.cronSchedule(expression).inTimeZone(TimeZone.getTimeZone(zone))).build();
    }

    private static Trigger cron(String name, CronScheduleBuilder schedule) {
        return TriggerBuilder.newTrigger().withIdentity(name, "reports").withSchedule(schedule).build();
    }

    private static Trigger simple(String name, SimpleScheduleBuilder schedule) {
        return TriggerBuilder.newTrigger().withIdentity(name, "reports").startAt(new Date(2000000000000L)).withSchedule(schedule).build();
    }

    private static List<Trigger> triggers(boolean isPage) {
        List<Trigger> out = new ArrayList<>();
        out.add(cron("nightly", "0 30 2 ? * 2-6", "Europe/Berlin"));
        out.add(simple("poll", SimpleScheduleBuilder.simpleSchedule().withIntervalInMinutes(15).repeatForever()));
        out.add(simple("newyear", SimpleScheduleBuilder.simpleSchedule()));
        if (isPage) {
            return out;
        }
        String[] expressions = {"0 0 12 * * ?", "0 15 10 ? * 6L", "0 15 10 ? * 6#3", "0 15 10 L * ?", "0 15 10 15W * ?", "0 0/5 14,18 * * ?", "0 0 0 ? * L", "0 11 11 11 11 ?",
            "0 10,44 14 ? 3 WED", "10 30 2 * * ? 2027-2030", "0 30 2 * * ?", "0 0 3 ? * SUN", "0 0 0 LW * ?", "0 0 0 L-3 * ?", "0 0 0 ? JAN-MAR 1,7"};
        for (int at = 0; at < expressions.length; at++) {
            out.add(cron("cron-" + at, expressions[at], at % 2 == 0 ? "Europe/Berlin" : "America/New_York"));
        }
        out.add(cron("ignore", CronScheduleBuilder.cronSchedule("0 0 1 * * ?").withMisfireHandlingInstructionIgnoreMisfires()));
        out.add(cron("nothing", CronScheduleBuilder.cronSchedule("0 0 1 * * ?").withMisfireHandlingInstructionDoNothing()));
        out.add(cron("held", "0 0 5 * * ?", "UTC"));
        out.add(simple("ten", SimpleScheduleBuilder.simpleSchedule().withIntervalInSeconds(90).withRepeatCount(9).withMisfireHandlingInstructionNextWithExistingCount()));
        out.add(TriggerBuilder.newTrigger().withIdentity("daily", "reports").withSchedule(DailyTimeIntervalScheduleBuilder.dailyTimeIntervalSchedule().withIntervalInHours(1)).build());
        return out;
    }

    public static void main(String[] words) throws Exception {
        Properties properties = new Properties();
        properties.put("org.quartz.scheduler.instanceName", "imports");
        properties.put("org.quartz.threadPool.threadCount", "1");
        properties.put("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
        properties.put("org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate");
        properties.put("org.quartz.jobStore.dataSource", "imports");
        properties.put("org.quartz.dataSource.imports.provider", "hikaricp");
        properties.put("org.quartz.dataSource.imports.driver", "org.postgresql.Driver");
        properties.put("org.quartz.dataSource.imports.URL", words[0]);
        properties.put("org.quartz.dataSource.imports.user", "tarry");
        properties.put("org.quartz.dataSource.imports.maximumPoolSize", "3");
        Scheduler scheduler = new StdSchedulerFactory(properties).getScheduler();
        for (Trigger trigger : triggers(words[1].equals("page"))) {
            boolean isPoll = trigger.getKey().getName().equals("poll");
            JobDetail job = JobBuilder.newJob(isPoll ? Poll.class : Report.class).withIdentity(trigger.getKey().getName(), "jobs").usingJobData("kind", "daily").build();
            scheduler.scheduleJob(job, trigger);
            StringBuilder line = new StringBuilder("reports." + trigger.getKey().getName());
            for (int at = 2; at < words.length; at++) {
                Date fire = new Date(Long.parseLong(words[at]));
                for (int nth = 0; nth < 12 && fire != null; nth++) {
                    fire = trigger.getFireTimeAfter(fire);
                    if (fire != null) {
                        line.append(' ').append(fire.getTime());
                    }
                }
                line.append(" |");
            }
            System.out.println(line);
        }
        if (!words[1].equals("page")) {
            scheduler.pauseTrigger(TriggerKey.triggerKey("held", "reports"));
        }
        scheduler.shutdown();
    }
}
