package io.tarry;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/**
 * Takes jobs, runs a handler for each, extends their leases, and reports the results; docs/clients.md has the rules by number.
 *
 * <pre>{@code
 * try (Client client = new Client()) {
 *     Worker.builder(client, "orders", job -> close(job.jsonObject())).concurrency(8).build().run();
 * }
 * }</pre>
 *
 * <p>Three threads in addition to the handlers': one takes, the heartbeat extends, the answerer acks and nacks. Their shared state is under one lock;
 * hooks are called outside of it.
 */
public final class Worker implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("io.tarry");
    /** Between lines about the same kind of call that fails. */
    private static final long LOG_PAUSE_NS = TimeUnit.SECONDS.toNanos(10);
    private static final Duration WAIT = Duration.ofSeconds(30);
    /** Time for an unfinished take when the worker stops: jobs on their way with a proxy would wait for the end of their lease. */
    private static final long MOMENT_MS = 500;
    /** For answers that come together. */
    private static final long LINGER_NS = TimeUnit.MILLISECONDS.toNanos(5);
    /** For slots that get free together, where a take has filled all. */
    private static final long SLOTS_LINGER_NS = TimeUnit.MILLISECONDS.toNanos(1);
    /** In the time of a lease: nine tenths are left whenever the server goes. */
    private static final int BEATS = 10;
    /** That leases have once a server is back. */
    private static final long GRACE_NS = TimeUnit.SECONDS.toNanos(2);
    /** At most, before an extend or an answer that failed is made again: soon enough for that grace. */
    private static final Duration PAUSE = Duration.ofMillis(250);
    /** Jobs without an answer beyond those in handlers, where acks fail and takes do not. */
    private static final int UNANSWERED_MAX = 2 * Client.BATCH;

    /** The work of a job. A return means done, with the result of {@link Job#setResult}. {@link Retry}, {@link Reject} or any other exception means not done. */
    @FunctionalInterface
    public interface Handler {
        void handle(Job job) throws Exception;
    }

    /** Result of a job in this worker. */
    public enum Outcome { ACK, RETRY, NACK, REJECT, LOST, GIVEN_BACK }

    /** Called for each job that ended, with the time for which it was held. */
    @FunctionalInterface
    public interface DoneHook {
        void done(Job job, Outcome outcome, Duration held);
    }

    /** Called for a failure in a {@code take}, {@code extend}, {@code ack}, {@code nack}, {@code return}, {@code result} or {@code hook}; the worker continues. */
    @FunctionalInterface
    public interface ErrorHook {
        void error(Exception error, String what);
    }

    /** A job from take to answer. All under the lock but {@code livesUntil}. */
    private static final class Held {
        final Job job;
        final long takenAt = System.nanoTime();
        volatile long livesUntil;
        long nextBeat;
        boolean beats = true;
        boolean isAnswered;
        Thread thread; // while the handler runs
        String verb; // of its answer, once that is to be sent
        Outcome outcome;
        Map<String, Object> answer;

        Held(Job job, long leaseNs) {
            this.job = job;
            livesUntil = takenAt + leaseNs;
            nextBeat = takenAt + leaseNs / BEATS;
        }
    }

    private final Client client;
    private final List<String> topics;
    private final Map<String, Handler> handlers;
    private final boolean logs;
    private final Map<String, Long> loggedAt = new HashMap<>();
    private final int concurrency;
    private final Duration lease;
    private final long leaseNs;
    private final String consumer;
    private final Duration graceDefault;
    private final Executor executorGiven;
    private final Consumer<Job> onTaken;
    private final DoneHook onDone;
    private final ErrorHook onError;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition slots = lock.newCondition(); // a slot is free, a job has ended, the worker stops
    private final Condition answered = lock.newCondition(); // an answer is to be sent, no handler runs, the worker has ended
    private final Condition ended = lock.newCondition(); // the worker has ended: for the heartbeat, which else wakes by time
    private final Set<Held> held = new LinkedHashSet<>();
    private final Set<Held> waiting = new LinkedHashSet<>(); // taken, not begun
    private final ArrayDeque<Held> answers = new ArrayDeque<>();
    private final CompletableFuture<Void> done = new CompletableFuture<>();
    private int running;
    private boolean isStarted;
    private boolean isStopping;
    private boolean isOver;
    private Duration grace;
    private CompletableFuture<List<Job>> taking;
    private RuntimeException failure;

    private Worker(Builder builder) {
        client = builder.client;
        handlers = Map.copyOf(builder.handlers);
        topics = List.copyOf(builder.handlers.keySet());
        logs = builder.logs;
        concurrency = builder.concurrency;
        lease = builder.lease;
        leaseNs = lease.toNanos();
        consumer = builder.consumer == null ? Api.consumer() : builder.consumer;
        grace = graceDefault = builder.grace;
        executorGiven = builder.executor;
        onTaken = builder.onTaken;
        onDone = builder.onDone;
        onError = builder.onError;
    }

    public static Builder builder(Client client, String topic, Handler handler) {
        return new Builder(client).handler(topic, handler);
    }

    /** Builds a worker with a handler for each topic: see {@link Builder#handler}. */
    public static Builder builder(Client client) {
        return new Builder(client);
    }

    /** Builds a worker for several topics, of which the one named first is served first. */
    public static Builder builder(Client client, Collection<String> topics, Handler handler) {
        Builder builder = new Builder(client);
        topics.forEach(topic -> builder.handler(topic, handler));
        return builder;
    }

    /** Settings of a worker. */
    public static final class Builder {
        private final Client client;
        private final Map<String, Handler> handlers = new LinkedHashMap<>();
        private boolean logs = true;
        private int concurrency = 10;
        private Duration lease = Duration.ofSeconds(60);
        private Duration grace = Duration.ofSeconds(30);
        private String consumer;
        private Executor executor;
        private Consumer<Job> onTaken = job -> { };
        private DoneHook onDone = (job, outcome, took) -> { };
        private ErrorHook onError = (error, what) -> { };

        private Builder(Client client) {
            this.client = client;
        }

        /** Adds a topic and its handler. The topic named first is served first. */
        public Builder handler(String topic, Handler handler) {
            handlers.put(topic, handler);
            return this;
        }

        /** Sets whether failures go to the {@link System.Logger} {@code io.tarry}; true. */
        public Builder log(boolean logs) {
            this.logs = logs;
            return this;
        }

        /** Sets the most parallel handlers; 10. */
        public Builder concurrency(int concurrency) {
            if (concurrency < 1) {
                throw new IllegalArgumentException("concurrency must be 1 at least");
            }
            this.concurrency = concurrency;
            return this;
        }

        /** Sets the lease; 60 s. It is extended for as long as the handler works: the lease limits how soon another worker gets the job if this
         * one dies. */
        public Builder lease(Duration lease) {
            if (lease.isNegative() || lease.isZero()) {
                throw new IllegalArgumentException("lease must be longer than nothing");
            }
            this.lease = lease;
            return this;
        }

        /** Sets the time that running handlers have after {@link Worker#close} and at the end of the program, unless close has its own; 30 s. */
        public Builder grace(Duration grace) {
            this.grace = grace;
            return this;
        }

        /** Sets the name of the consumer, at most 64 printable ASCII characters: shown as the holder of the jobs. HOST:PID. */
        public Builder consumer(String consumer) {
            this.consumer = consumer;
            return this;
        }

        /** Sets the threads that the handlers run on; else the worker's own. Its owner shuts it down. */
        public Builder executor(Executor executor) {
            this.executor = executor;
            return this;
        }

        public Builder onTaken(Consumer<Job> onTaken) {
            this.onTaken = onTaken;
            return this;
        }

        public Builder onDone(DoneHook onDone) {
            this.onDone = onDone;
            return this;
        }

        public Builder onError(ErrorHook onError) {
            this.onError = onError;
            return this;
        }

        public Worker build() {
            return new Worker(this);
        }

        /** A worker that works, on threads of its own. */
        public Worker start() {
            return build().start();
        }
    }

    // ---- life ----

    /** Works until {@link #stop}, or until the program is to end (SIGTERM, SIGINT): then it stops first. Throws what ended it otherwise. */
    public void run() {
        Thread hook = new Thread(() -> stop(graceDefault), "tarry-stop");
        Runtime.getRuntime().addShutdownHook(hook);
        try {
            begin();
            takeUntilStopped();
        } finally {
            removeHook(hook);
        }
        if (failure != null) {
            throw failure;
        }
    }

    /** Works on threads of its own, all daemons, until {@link #stop} or {@link #close}. */
    public Worker start() {
        begin();
        thread("take", this::takeUntilStopped);
        return this;
    }

    /** Completes when the worker has ended: with the error if an error ended it. */
    public CompletableFuture<Void> done() {
        return done.copy();
    }

    /**
     * Takes no further job, gives back those that were not begun, and waits for handlers under way, {@code grace} at most: then they are
     * interrupted, and their jobs given back. Returns once that is done. Not for a handler to call: that would wait for itself.
     */
    public void stop(Duration grace) {
        try {
            stopAsync(grace).get();
        } catch (InterruptedException fault) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException fault) {
            return; // run() or done() reports it
        }
    }

    /** The same, without waiting. */
    public CompletableFuture<Void> stopAsync(Duration grace) {
        lock.lock();
        try {
            if (!isStarted) {
                isStarted = isOver = true;
                done.complete(null);
            }
            if (!isStopping) {
                isStopping = true;
                this.grace = grace;
                slots.signalAll();
                CompletableFuture.delayedExecutor(MOMENT_MS, TimeUnit.MILLISECONDS).execute(this::cut);
            }
        } finally {
            lock.unlock();
        }
        return done();
    }

    /** {@link #stop} with the grace that the worker was made with. */
    @Override
    public void close() {
        stop(graceDefault);
    }

    private static void removeHook(Thread hook) {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException fault) {
            return; // the program ends, and the hook waited for the worker
        }
    }

    private void begin() {
        lock.lock();
        try {
            if (isStarted) {
                throw new IllegalStateException("a worker runs once");
            }
            isStarted = true;
        } finally {
            lock.unlock();
        }
    }

    private void cut() {
        CompletableFuture<List<Job>> take;
        lock.lock();
        try {
            take = taking;
        } finally {
            lock.unlock();
        }
        if (take != null) {
            take.cancel(true);
        }
    }

    private static Thread thread(String name, Runnable what) {
        Thread thread = new Thread(what, "tarry-" + name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    // ---- taking ----

    private void takeUntilStopped() {
        ThreadPoolExecutor own = executorGiven == null ? Transport.pool("handler", concurrency) : null;
        Executor executor = own == null ? executorGiven : own;
        thread("heartbeat", this::beat);
        Thread answerer = thread("answers", this::answer);
        Duration pause = Transport.FIRST_PAUSE;
        try {
            for (int free = freeSlots(); free > 0; free = freeSlots()) {
                try {
                    handOut(take(free), executor);
                    pause = Transport.FIRST_PAUSE;
                } catch (TarryException.Denied | TarryException.NotFound | TarryException.Refused fault) {
                    throw fault;
                } catch (TarryException | RejectedExecutionException fault) {
                    reportError(fault, "take");
                    Optional<Duration> after = fault instanceof TarryException ? ((TarryException) fault).retryAfter() : Optional.empty();
                    pauseFor(after.orElse(Transport.jitter(pause)));
                    pause = fault instanceof TarryException ? Transport.longer(pause) : pause; // an executor that is full has room again soon
                }
            }
        } catch (CancellationException fault) {
            // cut, since the worker stops
        } catch (RuntimeException fault) {
            failure = fault;
        }
        windUp();
        if (own != null) {
            own.shutdown();
        }
        joinQuietly(answerer);
        if (failure == null) {
            done.complete(null);
        } else {
            done.completeExceptionally(failure);
        }
    }

    /** Waits for one; 0 once the worker stops. An interrupt of this thread is a way to stop it. */
    private int freeSlots() {
        lock.lock();
        try {
            boolean wasFull = false;
            while (!isStopping && free() <= 0) {
                slots.await();
                wasFull = true;
            }
            for (long left = SLOTS_LINGER_NS; wasFull && left > 0 && !isStopping && 2 * free() < concurrency; ) {
                left = slots.awaitNanos(left); // else a take would go out for only the first slot
            }
            return isStopping ? 0 : Math.min(Client.BATCH, free());
        } catch (InterruptedException fault) {
            Thread.currentThread().interrupt();
            return 0;
        } finally {
            lock.unlock();
        }
    }

    /** Returns the free slots. The caller holds the lock. */
    private int free() {
        return Math.min(concurrency - running - waiting.size(), concurrency + UNANSWERED_MAX - held.size());
    }

    private List<Job> take(int free) {
        Take take = new Take(topics).max(free).waitFor(WAIT).lease(lease).consumer(consumer);
        CompletableFuture<List<Job>> under;
        lock.lock();
        try {
            if (isStopping) {
                throw new CancellationException();
            }
            under = taking = client.takeAsync(take);
        } finally {
            lock.unlock();
        }
        try {
            return under.get();
        } catch (InterruptedException fault) {
            under.cancel(true);
            Thread.currentThread().interrupt();
            throw new CancellationException();
        } catch (ExecutionException fault) {
            if (fault.getCause() instanceof RuntimeException) {
                throw (RuntimeException) fault.getCause();
            }
            throw new IllegalStateException(fault.getCause());
        } finally {
            lock.lock();
            taking = null;
            lock.unlock();
        }
    }

    private void pauseFor(Duration pause) {
        await(slots, () -> isStopping, pause.toNanos());
    }

    /** Gives each job to a thread. Jobs taken while the worker stops are given back when it winds up. */
    private void handOut(List<Job> jobs, Executor executor) {
        List<Held> taken = new ArrayList<>();
        jobs.forEach(job -> {
            taken.add(new Held(job, leaseNs));
            job.heldBy(progress -> client.extend(new Extend(job).lease(lease).progress(progress)).get(0).isEmpty());
        });
        boolean stops;
        lock.lock();
        try {
            held.addAll(taken);
            waiting.addAll(taken);
            stops = isStopping;
        } finally {
            lock.unlock();
        }
        for (Held one : taken) {
            quietly(() -> onTaken.accept(one.job));
            if (stops) {
                continue;
            }
            try {
                executor.execute(() -> handle(one));
            } catch (RejectedExecutionException fault) {
                lock.lock();
                try {
                    taken.stream().filter(waiting::contains).forEach(this::settleGivenBack);
                } finally {
                    lock.unlock();
                }
                throw fault;
            }
        }
    }

    /** No take any more: gives back what was not begun, waits for handlers and for answers. */
    private void windUp() {
        lock.lock();
        try {
            isStopping = true;
            new ArrayList<>(waiting).forEach(this::settleGivenBack);
            if (!await(slots, () -> running == 0, grace.toNanos())) {
                for (Held one : held) {
                    if (one.thread != null) {
                        lose(one);
                        settleGivenBack(one);
                    }
                }
            }
            await(slots, held::isEmpty, Long.MAX_VALUE);
            isOver = true;
            answered.signalAll();
            ended.signalAll();
        } finally {
            lock.unlock();
        }
    }

    // ---- handling ----

    private void handle(Held one) {
        lock.lock();
        try {
            if (!waiting.remove(one)) {
                return; // given back, or lost
            }
            one.thread = Thread.currentThread();
            running++;
            if (one.job.isCancelRequested()) {
                one.thread.interrupt(); // it was interrupted before it had a thread
            }
        } finally {
            lock.unlock();
        }
        Throwable fault = null;
        try {
            Optional<TarryException.CodecError> error = one.job.codecError();
            if (error.isPresent()) {
                throw error.get();
            }
            handlers.get(one.job.topic()).handle(one.job);
        } catch (Throwable thrown) { // whatever it is, it is the job's, and its text goes with the nack
            fault = thrown;
        }
        Map<String, Object> result = fault == null || fault instanceof Reject ? resultOf(one.job) : Map.of();
        if (fault != null && !one.job.isLost() && !one.job.isCancelRequested()) {
            String text = fault.getMessage() == null || fault.getMessage().isEmpty() ? fault.getClass().getSimpleName() : fault.getMessage();
            log("job " + one.job + " failed in attempt " + one.job.attempt() + ": " + text, fault instanceof Retry || fault instanceof Reject ? null : fault);
        }
        lock.lock();
        try {
            one.thread = null;
            Thread.interrupted(); // meant for this job, not for the thread's next one
            running--;
            settleHandled(one, fault, result);
            slots.signalAll();
            if (running == 0) {
                answered.signal();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Settles a job whose handler has ended. The caller holds the lock. */
    private void settleHandled(Held one, Throwable fault, Map<String, Object> result) {
        if (fault == null) {
            settle(one, "ack", Outcome.ACK, result);
        } else if (fault instanceof Retry) {
            settle(one, "nack", Outcome.RETRY, Client.nackOptions(((Retry) fault).after(), fault.getMessage(), false));
        } else if (fault instanceof Reject) {
            Map<String, Object> options = Client.nackOptions(null, fault.getMessage(), true);
            options.putAll(result);
            settle(one, "nack", Outcome.REJECT, options);
        } else {
            String text = fault.getMessage() == null || fault.getMessage().isEmpty() ? fault.getClass().getSimpleName() : fault.getMessage();
            settle(one, "nack", Outcome.NACK, Client.nackOptions(null, text, false));
        }
    }

    /** Returns the result that the handler has set. If it is not JSON, the work is done nevertheless: the job is answered without it. */
    private Map<String, Object> resultOf(Job job) {
        try {
            return Api.result(job.resultToSend(), null, client.codec);
        } catch (RuntimeException fault) {
            reportError(fault, "result");
            return Map.of();
        }
    }

    /** Notifies the handler that its result no longer counts. The caller holds the lock. */
    private static void lose(Held one) {
        one.job.lose();
        if (one.thread != null) {
            one.thread.interrupt();
        }
    }

    // ---- heartbeat ----

    private void beat() {
        while (true) {
            List<Held> due = new ArrayList<>();
            lock.lock();
            try {
                if (isOver) {
                    return;
                }
                long now = System.nanoTime();
                long soonest = leaseNs / BEATS; // what is taken meanwhile is not due before
                for (Held one : held) {
                    if (one.beats && one.nextBeat - now <= leaseNs / 100) { // those of about the same time go together
                        due.add(one);
                    } else if (one.beats) {
                        soonest = Math.min(soonest, one.nextBeat - now);
                    }
                }
                if (due.isEmpty()) {
                    await(ended, () -> isOver, Math.max(soonest, TimeUnit.MILLISECONDS.toNanos(1)));
                    continue;
                }
            } finally {
                lock.unlock();
            }
            for (int at = 0; at < due.size(); at += Client.BATCH) {
                extend(due.subList(at, Math.min(due.size(), at + Client.BATCH)));
            }
        }
    }

    private void extend(List<Held> due) {
        long sent = System.nanoTime();
        List<Map<String, Object>> items = new ArrayList<>();
        due.forEach(one -> items.add(Client.item(one.job.lease(), Map.of("lease_for", Api.milliseconds(lease)))));
        List<Optional<TarryException>> results = null;
        try {
            results = Transport.await(client.answers("extend", items, request -> {
                request.onResults = found -> requestCancels(due, found);
                request.isMadeAgain = false;
                request.isUrgent = true;
                request.timeout = within(lease.dividedBy(4), Duration.ofMillis(1500));
            }));
        } catch (RuntimeException fault) {
            reportError(fault, "extend");
        }
        List<Held> lost = new ArrayList<>();
        lock.lock();
        try {
            long now = System.nanoTime();
            for (int at = 0; at < due.size(); at++) {
                Held one = due.get(at);
                TarryException fault = results == null ? null : results.get(at).orElse(null);
                if (results != null && fault == null) {
                    one.livesUntil = sent + leaseNs;
                    one.nextBeat = sent + leaseNs / BEATS;
                } else {
                    one.nextBeat = now + Math.min(leaseNs / (2 * BEATS), PAUSE.toNanos());
                    one.beats = !(fault instanceof TarryException.LeaseEnded);
                    if (one.verb == null && !one.isAnswered && (!one.beats || now - one.livesUntil > GRACE_NS)) {
                        lose(one);
                        finish(one, Outcome.LOST);
                        lost.add(one);
                    }
                }
            }
        } finally {
            lock.unlock();
        }
        lost.forEach(one -> log("the lease of job " + one.job + " is lost; another worker may process it", null));
        lost.forEach(this::reportDone);
    }

    /** Notifies the handlers of jobs with a requested cancel, once. The leases continue, and the handlers' results count. */
    private void requestCancels(List<Held> due, List<Map<String, Object>> results) {
        lock.lock();
        try {
            for (int at = 0; at < due.size() && at < results.size(); at++) {
                Held one = due.get(at);
                if (Boolean.TRUE.equals(results.get(at).get("cancel_requested")) && one.verb == null && !one.job.isCancelRequested()) {
                    one.job.requestCancel();
                    if (one.thread != null) {
                        one.thread.interrupt();
                    }
                }
            }
        } finally {
            lock.unlock();
        }
    }

    private static Duration within(Duration found, Duration most) {
        return found.toMillis() < 500 ? Duration.ofMillis(500) : found.compareTo(most) > 0 ? most : found;
    }

    // ---- answers ----

    /** Marks its answer to be sent, once. The caller holds the lock. */
    private void settle(Held one, String verb, Outcome outcome, Map<String, Object> options) {
        if (one.verb != null || one.isAnswered) {
            return;
        }
        one.verb = verb;
        one.outcome = outcome;
        one.answer = Client.item(one.job.lease(), options);
        answers.add(one);
        answered.signal();
    }

    private void settleGivenBack(Held one) {
        waiting.remove(one);
        settle(one, "return", Outcome.GIVEN_BACK, Map.of());
    }

    /** Removes a job that needs nothing more. The caller holds the lock. */
    private void finish(Held one, Outcome outcome) {
        one.isAnswered = true;
        one.outcome = outcome;
        held.remove(one);
        waiting.remove(one);
        slots.signalAll();
    }

    private void answer() {
        while (true) {
            List<Held> batch = new ArrayList<>();
            lock.lock();
            try {
                await(answered, () -> !answers.isEmpty() || isOver, Long.MAX_VALUE);
                if (answers.isEmpty()) {
                    return;
                }
                await(answered, () -> running == 0 || answers.size() >= Client.BATCH, LINGER_NS);
                while (!answers.isEmpty() && batch.size() < Client.BATCH) {
                    batch.add(answers.poll());
                }
            } finally {
                lock.unlock();
            }
            for (String verb : List.of("ack", "nack", "return")) {
                List<Held> those = new ArrayList<>(batch);
                those.removeIf(one -> !one.verb.equals(verb));
                if (!those.isEmpty()) {
                    send(verb, those);
                }
            }
        }
    }

    /** Sends each part of the size of a request by itself: if one is rejected, the others count. */
    private void send(String verb, List<Held> those) {
        List<Map<String, Object>> items = new ArrayList<>();
        those.forEach(one -> items.add(one.answer));
        int start = 0;
        for (List<Map<String, Object>> part : Client.batches(items)) {
            sendPart(verb, those.subList(start, start + part.size()), part);
            start += part.size();
        }
    }

    /** One result is too big, so the server has rejected the request. Its job is done, so it is answered without the result. */
    private void sendApart(String verb, List<Held> those, TarryException fault) {
        int half = those.size() / 2;
        if (half > 0) {
            send(verb, those.subList(0, half));
            send(verb, those.subList(half, those.size()));
            return;
        }
        reportError(fault, "result");
        those.get(0).answer.keySet().removeAll(List.of("result_base64", "result_type"));
        send(verb, those);
    }

    private void sendPart(String verb, List<Held> those, List<Map<String, Object>> items) {
        List<Job> acked = new ArrayList<>(); // with a stored body
        List<Optional<TarryException>> results = null;
        try {
            results = Transport.await(client.answers(verb, items, request -> {
                request.onResults = found -> {
                    for (int at = 0; verb.equals("ack") && at < found.size() && at < those.size(); at++) {
                        if ("ok".equals(found.get(at).get("result")) && those.get(at).job.storedAs() != null) {
                            acked.add(those.get(at).job);
                        }
                    }
                };
                request.isUrgent = true;
                request.retryFor = Duration.ofSeconds(Long.MAX_VALUE);
                request.goesOn = () -> those.stream().anyMatch(one -> System.nanoTime() - one.livesUntil < GRACE_NS);
                request.timeout = within(lease.dividedBy(3), client.transport.timeout);
                request.longestPause = PAUSE;
            }));
        } catch (RuntimeException fault) {
            if (fault instanceof TarryException && List.of("result_too_big", "body_too_big").contains(((TarryException) fault).code())) {
                sendApart(verb, those, (TarryException) fault);
                return;
            }
            reportError(fault, verb);
        }
        List<Held> over = new ArrayList<>();
        lock.lock();
        try {
            for (int at = 0; at < those.size(); at++) {
                Held one = those.get(at);
                if (!one.isAnswered) {
                    finish(one, results != null && results.get(at).isEmpty() ? one.outcome : Outcome.LOST);
                    over.add(one);
                }
            }
        } finally {
            lock.unlock();
        }
        over.forEach(this::reportDone);
        if (!acked.isEmpty()) {
            CompletableFuture.runAsync(() -> acked.forEach(this::deleteStored));
        }
    }

    private void deleteStored(Job job) {
        try {
            client.codec.deleteStored(job);
        } catch (IOException fault) {
            reportError(new UncheckedIOException("a stored body cannot be deleted", fault), "delete");
        } catch (RuntimeException fault) {
            reportError(fault, "delete");
        }
    }

    // ---- hooks, and waiting ----

    private void reportDone(Held one) {
        quietly(() -> onDone.done(one.job, one.outcome, Duration.ofNanos(System.nanoTime() - one.takenAt)));
    }

    private void log(String text, Throwable fault) {
        if (logs) {
            LOG.log(Level.WARNING, text, fault);
        }
    }

    /** Returns whether the last line about this kind of call is old enough. */
    private boolean mayLog(String what) {
        lock.lock();
        try {
            Long before = loggedAt.get(what);
            boolean isDue = before == null || System.nanoTime() - before >= LOG_PAUSE_NS;
            if (isDue) {
                loggedAt.put(what, System.nanoTime());
            }
            return isDue;
        } finally {
            lock.unlock();
        }
    }

    private void reportError(RuntimeException fault, String what) {
        if (mayLog(what)) {
            log(what + " failed: " + fault.getMessage(), null);
        }
        try {
            onError.error(fault instanceof CompletionException && fault.getCause() instanceof Exception ? (Exception) fault.getCause() : fault, what);
        } catch (RuntimeException ignored) {
            return; // the last hook failed: no hook is left that could report it
        }
    }

    /** A hook's own error does the worker no harm. */
    private void quietly(Runnable hook) {
        try {
            hook.run();
        } catch (RuntimeException fault) {
            reportError(fault, "hook");
        }
    }

    /** Waits for a condition; returns true if it held in time. With or without the lock. */
    private boolean await(Condition condition, BooleanSupplier holds, long withinNs) {
        long until = System.nanoTime() + Math.min(withinNs, TimeUnit.DAYS.toNanos(36_500));
        boolean isInterrupted = false;
        lock.lock();
        try {
            while (!holds.getAsBoolean()) {
                long left = until - System.nanoTime();
                if (left <= 0) {
                    return false;
                }
                try {
                    condition.awaitNanos(left);
                } catch (InterruptedException fault) {
                    isInterrupted = true; // what has begun is brought to its end
                }
            }
            return true;
        } finally {
            lock.unlock();
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static void joinQuietly(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException fault) {
            Thread.currentThread().interrupt();
        }
    }
}
