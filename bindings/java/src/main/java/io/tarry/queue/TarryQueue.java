package io.tarry.queue;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiConsumer;
import java.util.function.Function;

/**
 * The delay queue inside a process: jobs with ids, topics, leases and retries, as the server has them. Any method on any thread.
 *
 * <pre>{@code
 * try (TarryQueue queue = TarryQueue.open()) {
 *     queue.push(new Push("orders", "1001").id("1001").delay(Duration.ofMinutes(30)));
 *     Job job = queue.take("orders");
 *     job.ack();
 * }
 * }</pre>
 */
public final class TarryQueue implements AutoCloseable {
    /** Items of a call, jobs of a take. */
    public static final int BATCH_MAX = 1000;

    private static final Cleaner CLEANER = Cleaner.create();
    private static final AtomicLong TAGS = new AtomicLong();

    private final long handle;

    // ---- open and close ----

    /** The moment at which a change in a directory is answered. */
    public enum Sync {
        /** Once it is on the disk. The default. */
        ALWAYS,
        /** Once it is written; the disk follows after an interval. */
        INTERVAL,
        /** Once it is written; the disk follows as the system likes. */
        NEVER
    }

    /** Options of a queue. */
    public static final class Options {
        private Path dir;
        private Sync sync;
        private long syncIntervalMs;
        private int shards;
        private long memoryMax;
        private long bodyMax;
        private int topicsMax;
        private int flags;
        private long testClockMs;

        /** Sets the directory of the jobs, which then outlive the process; without it they are only in its memory. */
        public Options dir(Path value) {
            dir = value;
            return this;
        }

        /** Sets when a push into a directory is answered. */
        public Options sync(Sync value) {
            sync = value;
            return this;
        }

        /** Sets the interval of {@link Sync#INTERVAL}. */
        public Options syncInterval(Duration value) {
            syncIntervalMs = Times.milliseconds(value);
            return this;
        }

        /** Threads that share the jobs of a directory. */
        public Options shards(int value) {
            shards = value;
            return this;
        }

        /** Bytes of all jobs, about. */
        public Options memoryMax(long value) {
            memoryMax = value;
            return this;
        }

        /** Bytes of a body; the default is 1 MiB. */
        public Options bodyMax(long value) {
            bodyMax = value;
            return this;
        }

        /** The default is 10,000. */
        public Options topicsMax(int value) {
            topicsMax = value;
            return this;
        }

        /** The clock stands until {@link TarryQueue#advance}; it begins there, or now where it is null. */
        public Options testClock(Instant start) {
            flags |= Native.TEST_CLOCK;
            testClockMs = Times.milliseconds(start);
            return this;
        }

        public TarryQueue open() {
            return new TarryQueue(this);
        }
    }

    /** A queue in the memory of this process. */
    public static TarryQueue open() {
        return new Options().open();
    }

    private TarryQueue(Options options) {
        Pack pack = new Pack(64).number(options.flags).number(options.memoryMax).number(options.bodyMax).number(options.topicsMax);
        pack.number(options.testClockMs).text(options.dir == null ? null : options.dir.toString(), "dir");
        pack.number(options.sync == null ? 0 : options.sync.ordinal() + 1).number(options.syncIntervalMs).number(options.shards);
        Pack.Reader answer = new Pack.Reader(Native.open(pack.bytes, pack.length));
        int code = answer.number();
        long opened = answer.bigNumber();
        if (code != Code.OK) {
            throw TarryException.of(code, null, answer.textOrNull(), 0);
        }
        handle = opened;
        CLEANER.register(this, () -> Native.free(opened));
    }

    /** Ends all waits, by {@link TarryException.Closed}, and returns once every other call has. In memory the jobs are gone. */
    @Override
    public void close() {
        try {
            check(Native.close(handle));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    // ---- in ----

    /** Hands over a job. */
    public Outcome push(Push push) {
        Pack pack = new Pack(push.sizeHint());
        push.pack(pack);
        return callOne(Native.PUSH, pack);
    }

    /** Pushes many jobs; returns one outcome for each. A refused job does not affect the others. */
    public List<Outcome> pushAll(Collection<Push> pushes) {
        return callAll(Native.PUSH, pushes, (push, pack) -> push.pack(pack));
    }

    // ---- one job ----

    /** False: there is no such job. One that a consumer holds cannot be cancelled; see {@link #requestCancel}. */
    public boolean cancel(String topic, String id) {
        return outcomeOfChange(Native.CANCEL, change(0, topic, id, 0, 0, 0)).number() != Code.NOT_FOUND;
    }

    /**
     * Cancels a job and returns {@code cancelled}; or {@code requested} if a consumer holds it: the next extend reports this to the consumer,
     * and every end of the lease except an ack cancels the job. Null if there is no such job.
     */
    public String requestCancel(String topic, String id) {
        Outcome outcome = outcomeOfChange(Native.CANCEL, change(Native.REQUEST, topic, id, 0, 0, 0));
        return outcome.number() == Code.NOT_FOUND ? null : outcome.code();
    }

    /** Another due, from now; id, body and attempts stay. */
    public Outcome reschedule(String topic, String id, Duration delay) {
        return callOne(Native.RESCHEDULE, change(Native.HAS_DELAY, topic, id, Times.milliseconds(delay), 0, 0));
    }

    /** Another due, by the wall clock. */
    public Outcome reschedule(String topic, String id, Instant at) {
        return callOne(Native.RESCHEDULE, change(Native.HAS_AT, topic, id, 0, Times.milliseconds(at), 0));
    }

    /** Another priority. */
    public Outcome reprioritize(String topic, String id, int priority) {
        return callOne(Native.RESCHEDULE, change(Native.HAS_PRIORITY, topic, id, 0, 0, priority));
    }

    /** Makes the job due now. */
    public void run(String topic, String id) {
        callOne(Native.RUN, change(0, topic, id, 0, 0, 0));
    }

    /** Closes the batch of a waiting job: it gets no more members. */
    public void closeBatch(String topic, String id) {
        callOne(Native.CLOSE_BATCH, change(0, topic, id, 0, 0, 0));
    }

    /** Cancels a waiting job and its members; consumers that hold members get a request. False: there is no such job. */
    public boolean cancelBatch(String topic, String id) {
        return outcomeOfChange(Native.CANCEL, change(Native.WITH_MEMBERS, topic, id, 0, 0, 0)).number() != Code.NOT_FOUND;
    }

    private Outcome outcomeOfChange(int kind, Pack pack) {
        Outcome outcome = call(kind, pack, 1).get(0);
        return outcome.number() == Code.NOT_FOUND ? outcome : outcome.orThrow();
    }

    private static Pack change(int flags, String topic, String id, long delayMs, long atMs, int priority) {
        Objects.requireNonNull(topic, "topic");
        Objects.requireNonNull(id, "id");
        Pack pack = new Pack(64 + topic.length() + id.length());
        return pack.number(flags).text(topic, "topic").text(id, "id").number(delayMs).number(atMs).number(priority);
    }

    /** The current state of the job, or the kept one that has finished; null if neither exists. */
    public Job get(String topic, String id) {
        Pack pack = new Pack(32 + topic.length() + id.length()).text(topic, "topic").text(id, "id");
        Pack.Reader answer = look(Native.GET, pack);
        int code = answer.number();
        if (code == Code.NOT_FOUND) {
            return null;
        }
        check(code);
        return jobs(answer).get(0);
    }

    /** Lists the jobs of a topic by due time, of a state or (null) of all, without their bodies; read page by page during the iteration. */
    public Iterable<Job> list(String topic, State state) {
        return list(topic, state, false);
    }

    /** Lists the jobs as above, with their bodies. */
    public Iterable<Job> list(String topic, State state, boolean bodies) {
        Objects.requireNonNull(topic, "topic");
        int number = state == null ? 0 : state.number();
        return () -> new Listing(cursor -> look(Native.LIST, new Pack(128).text(topic, "topic").number(number).number(100).number(bodies ? Native.WITH_BODY : 0).text(cursor, "cursor")), true);
    }

    /**
     * Lists the members of a batch, with an outcome or (null) all, without their bodies; read page by page during the iteration. Members that have ended are
     * found if they are kept.
     */
    public Iterable<Job> members(String topic, String id, MemberOutcome outcome) {
        Objects.requireNonNull(topic, "topic");
        Objects.requireNonNull(id, "id");
        int number = outcome == null ? 0 : outcome.ordinal() + 1;
        return () -> new Listing(cursor -> look(Native.MEMBERS, new Pack(256).text(topic, "topic").text(id, "id").number(number).number(100).number(0).text(cursor, "cursor")), false);
    }

    private final class Listing implements Iterator<Job> {
        private final Function<String, Pack.Reader> next;
        private final boolean mayBeMissing;
        private String cursor = "";
        private boolean isLast;
        private Iterator<Job> page = List.<Job>of().iterator();

        Listing(Function<String, Pack.Reader> next, boolean mayBeMissing) {
            this.next = next;
            this.mayBeMissing = mayBeMissing;
        }

        @Override
        public boolean hasNext() {
            while (!page.hasNext() && !isLast) {
                Pack.Reader answer = next.apply(cursor);
                int code = answer.number();
                if (code == Code.NOT_FOUND && mayBeMissing) {
                    return false;
                }
                check(code);
                page = jobs(answer).iterator();
                cursor = answer.text();
                isLast = cursor.isEmpty();
            }
            return page.hasNext();
        }

        @Override
        public Job next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return page.next();
        }
    }

    // ---- waiting for an end ----

    /**
     * Waits until the job has ended, and returns it: finished, or dead. After the wait (null: without end) it returns the job as it is.
     * Null if the job does not exist, or ended before and is not kept.
     */
    public Job await(String topic, String id, Duration wait) throws InterruptedException {
        return await(new Pack(32 + topic.length() + id.length()).text(topic, "topic").text(id, "id"), false, wait);
    }

    /** Pushes and waits for the end of the job, which it finds also if the topic keeps no finished jobs. */
    public Job pushAndAwait(Push push, Duration wait) throws InterruptedException {
        Pack pack = new Pack(push.sizeHint());
        push.pack(pack);
        return await(pack, true, wait);
    }

    private Job await(Pack pack, boolean pushes, Duration wait) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        try {
            Pack.Reader answer = new Pack.Reader(new Interruption(handle, TAGS.incrementAndGet()).await(pack, pushes, wait == null ? -1 : Times.milliseconds(wait)));
            int code = answer.number();
            if (code == Code.INTERRUPTED) {
                Thread.interrupted();
                throw new InterruptedException();
            }
            if (code == Code.NOT_FOUND) {
                return null;
            }
            check(code);
            Job job = jobs(answer).get(0);
            if (job.state() != State.FINISHED && job.state() != State.DEAD && Thread.interrupted()) {
                throw new InterruptedException(); // it came before the wait began
            }
            return job;
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    // ---- out ----

    /** Takes the next job under a lease, as soon as one is ready. It must be answered. */
    public Job take(String... topics) throws InterruptedException {
        return take(new Take(topics)).get(0);
    }

    /** Takes the next job under a lease; null if no job was ready within the wait. */
    public Job poll(Duration wait, String... topics) throws InterruptedException {
        return first(take(new Take(topics).wait(wait)));
    }

    /** Takes jobs under a lease. Empty if the wait has ended. An interrupted thread takes no job; if some came first, they are returned, and
     * the thread stays interrupted. */
    public List<Job> take(Take take) throws InterruptedException {
        return take(take, false);
    }

    /** Takes and acks in one step: the job leaves the queue and needs no answer. At most once. */
    public Job pop(String... topics) throws InterruptedException {
        return pop(new Take(topics)).get(0);
    }

    /** Take and ack in one, of several. */
    public List<Job> pop(Take take) throws InterruptedException {
        return take(take, true);
    }

    private static Job first(List<Job> jobs) {
        return jobs.isEmpty() ? null : jobs.get(0);
    }

    private List<Job> take(Take take, boolean pops) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        Pack pack = take.pack();
        long waitMs = take.waitMs();
        long start = System.nanoTime();
        try {
            byte[] packed = Native.take(handle, pack.bytes, pack.length, pops, 0, 0);
            while (waitMs != 0 && isNothing(packed)) {
                packed = new Interruption(handle, TAGS.incrementAndGet()).take(pack, pops, waitMs);
                if (waitMs > 0 && isNothing(packed)) {
                    waitMs = Math.max(0, take.waitMs() - (System.nanoTime() - start) / 1_000_000);
                }
                if (isNothing(packed) && Thread.interrupted()) {
                    throw new InterruptedException();
                }
            }
            Pack.Reader answer = new Pack.Reader(packed);
            int code = answer.number();
            if (code != Code.INTERRUPTED) {
                check(code);
            }
            return jobs(answer);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** No job, and no error: it may be waited on. */
    private static boolean isNothing(byte[] packed) {
        Pack.Reader answer = new Pack.Reader(packed);
        int code = answer.number();
        return (code == Code.OK || code == Code.INTERRUPTED) && answer.number() == 0;
    }

    // ---- answers ----

    /** Done. */
    public void ack(Job job) {
        answerOne(Native.ACK, job, 0, 0, 0, null);
    }

    /** Done, with a result of up to 1 MiB; its content type may be null. */
    public void ack(Job job, byte[] result, String contentType) {
        Pack pack = new Pack(160 + result.length);
        packAnswer(pack, job, 0, 0, 0, null, result, contentType, null);
        callOne(Native.ACK, pack);
        job.release();
    }

    /** Done, all of them. One outcome for each. */
    public List<Outcome> ackAll(Collection<Job> jobs) {
        List<Outcome> outcomes = callAll(Native.ACK, jobs, (job, pack) -> packAnswer(pack, job, 0, 0, 0, null));
        jobs.forEach(Job::release);
        return outcomes;
    }

    /** Reports a failure: the job comes again after the delay or, if that is null, after its backoff. */
    public void nack(Job job, String error, Duration delay) {
        answerOne(Native.NACK, job, delay == null ? 0 : Native.HAS_DELAY, Times.milliseconds(delay), 0, error);
    }

    /** Reports a permanent failure: the job is dead. */
    public void reject(Job job, String error) {
        answerOne(Native.NACK, job, Native.FINAL, 0, 0, error);
    }

    /** Extends the lease from now; null means the duration with which it was taken. Returns true if a cancel of the job was requested. */
    public boolean extend(Job job, Duration lease) {
        return extend(job, lease, null);
    }

    /** Extends the lease as above and reports progress, a text of up to 256 bytes. */
    public boolean extend(Job job, Duration lease, String progress) {
        Pack pack = new Pack(128);
        packAnswer(pack, job, 0, 0, Times.milliseconds(lease), null, null, null, progress);
        return callOne(Native.EXTEND, pack).isCancelRequested();
    }

    /** Gives the job back unbegun: it is ready again immediately, and the attempt does not count. */
    public void giveBack(Job job) {
        answerOne(Native.RETURN, job, 0, 0, 0, null);
    }

    /** Finishes the job and makes it due again with the same id, in one step; body null keeps its body. */
    public void again(Job job, byte[] body, Duration delay) {
        Outcome outcome = job.use(pointer -> {
            if (pointer == 0) {
                throw TarryException.of(Code.LEASE_ENDED, null, null, 0);
            }
            Pack pack = new Pack(64 + (body == null ? 0 : body.length)).number(0).number(pointer).bytes(body).number(Times.milliseconds(delay)).number(0L);
            return call(Native.AGAIN, pack, 1).get(0);
        });
        outcome.orThrow();
        job.release();
    }

    private void answerOne(int kind, Job job, int flags, long delayMs, long leaseMs, String error) {
        Pack pack = new Pack(128);
        packAnswer(pack, job, flags, delayMs, leaseMs, error);
        callOne(kind, pack);
        job.release();
    }

    private static void packAnswer(Pack pack, Job job, int flags, long delayMs, long leaseMs, String error) {
        packAnswer(pack, job, flags, delayMs, leaseMs, error, null, null, null);
    }

    private static void packAnswer(
            Pack pack, Job job, int flags, long delayMs, long leaseMs, String error, byte[] result, String resultType, String progress) {
        byte[] text = error == null || error.isEmpty() ? null : error.getBytes(StandardCharsets.UTF_8);
        pack.number(flags).text(job.lease(), "lease").number(delayMs).number(leaseMs).bytes(text == null || text.length <= 256 ? text : Arrays.copyOf(text, 256));
        pack.bytes(result).text(resultType, "content type").text(progress, "progress");
    }

    // ---- topics ----

    /** Replaces its settings as a whole; the topic is made where it is new. */
    public void putTopic(String topic, Settings settings) {
        Pack pack = new Pack(128).text(topic, "topic");
        settings.pack(pack);
        topicCall(Native.TOPIC_PUT, pack);
    }

    /** The topic's own settings. */
    public Settings settings(String topic) {
        Pack.Reader answer = topicCall(Native.TOPIC_SETTINGS, new Pack(64).text(topic, "topic"));
        answer.bigNumber();
        return new Settings(answer);
    }

    /** Its figures. */
    public Topic topic(String topic) {
        return topicsOf(topicCall(Native.TOPIC_GET, new Pack(64).text(topic, "topic"))).get(0);
    }

    /** Lists all topics by name. */
    public List<Topic> topics() {
        List<Topic> all = new ArrayList<>();
        for (String after = null;; after = all.get(all.size() - 1).name) {
            List<Topic> page = topicsOf(topicCall(Native.TOPICS, new Pack(64).text(after, "topic")));
            if (page.isEmpty()) {
                return all;
            }
            all.addAll(page);
        }
    }

    private static List<Topic> topicsOf(Pack.Reader answer) {
        answer.bigNumber();
        new Settings(answer); // lies before them
        List<Topic> topics = new ArrayList<>();
        for (int count = answer.number(); count > 0; count--) {
            topics.add(new Topic(answer));
        }
        return topics;
    }

    /** Deletes a topic with all its jobs, also leased ones; returns their number. */
    public long deleteTopic(String topic) {
        return topicCall(Native.TOPIC_DELETE, new Pack(64).text(topic, "topic")).bigNumber();
    }

    /** Stops handing out its jobs for this time; null: until it is resumed. */
    public void pause(String topic, Duration duration) {
        topicCall(Native.TOPIC_PAUSE, new Pack(64).text(topic, "topic").number(Times.milliseconds(duration)));
    }

    public void resume(String topic) {
        topicCall(Native.TOPIC_RESUME, new Pack(64).text(topic, "topic"));
    }

    /** Drops its jobs of this state, else (null) all but leased ones; how many those were. */
    public long purge(String topic, State state) {
        return topicCall(Native.TOPIC_PURGE, new Pack(64).text(topic, "topic").number(state == null ? 0 : state.number())).bigNumber();
    }

    /** Dead jobs go round again: this one, or, where id is null, at most so many, 0: all. How many those were. */
    public long redrive(String topic, String id, long max) {
        return topicCall(Native.TOPIC_REDRIVE, new Pack(96).text(topic, "topic").text(id, "id").number(max)).bigNumber();
    }

    private Pack.Reader topicCall(int look, Pack pack) {
        Pack.Reader answer = look(look, pack);
        check(answer.number());
        return answer;
    }

    // ---- time ----

    /** The time of the queue's clock. */
    public Instant now() {
        try {
            long ms = Native.nowMs(handle);
            check(ms < 0 ? Code.STOPPING : Code.OK);
            return Instant.ofEpochMilli(ms);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Moves the test clock, from event to event. A delay of D ms has ended when D + 1 ms have passed, as on every clock. */
    public void advance(Duration duration) {
        try {
            check(Native.advance(handle, Times.milliseconds(duration)));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    // ---- calls ----

    private static void check(int code) {
        if (Code.isRefusal(code)) {
            throw TarryException.of(code, null, null, 0);
        }
    }

    private List<Outcome> call(int kind, Pack pack, int count) {
        try {
            Pack.Reader answer = new Pack.Reader(Native.call(handle, kind, pack.bytes, pack.length, count));
            int code = answer.number();
            int found = answer.number();
            if (found < count) {
                check(code); // no item was looked at
            }
            if (found == 1) {
                return List.of(new Outcome(answer));
            }
            List<Outcome> outcomes = new ArrayList<>(found);
            for (int i = 0; i < found; i++) {
                outcomes.add(new Outcome(answer));
            }
            return outcomes;
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private Outcome callOne(int kind, Pack pack) {
        return call(kind, pack, 1).get(0).orThrow();
    }

    private <T> List<Outcome> callAll(int kind, Collection<T> items, BiConsumer<T, Pack> write) {
        List<Outcome> outcomes = new ArrayList<>(items.size());
        Iterator<T> from = items.iterator();
        while (from.hasNext()) {
            Pack pack = new Pack(4096);
            int count = 0;
            for (; count < BATCH_MAX && from.hasNext(); count++) {
                write.accept(from.next(), pack);
            }
            outcomes.addAll(call(kind, pack, count));
        }
        return outcomes;
    }

    private Pack.Reader look(int look, Pack pack) {
        try {
            return new Pack.Reader(Native.look(handle, look, pack.bytes, pack.length));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private List<Job> jobs(Pack.Reader answer) {
        int count = answer.number();
        if (count == 1) {
            return List.of(new Job(this, answer));
        }
        List<Job> jobs = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            jobs.add(new Job(this, answer));
        }
        return jobs;
    }
}
