package io.tarry;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import javax.net.ssl.SSLContext;

/**
 * A server, or several that share a store. Threads may use one client together.
 *
 * <pre>{@code
 * try (Client client = new Client()) {
 *     client.push(new Push("orders", Map.of("order", 1001)).id("1001").delay(Duration.ofMinutes(30)));
 * }
 * }</pre>
 *
 * <p>Calls fail with a {@link TarryException}. A call whose thread is interrupted is cut, and fails; the thread stays interrupted. So is one
 * whose future is cancelled. Only the first try of a single push, which others may share, is not cut; it is not made again. Futures fail with
 * the same exceptions; what is chained to them runs on threads of the client, and must not wait there.
 */
public final class Client implements AutoCloseable {
    static final int BATCH = 1000;
    /** Results in base64, of a request; the server takes 1 MiB. */
    private static final int RESULTS_BYTES = 1 << 19;

    final Transport transport;
    final Codec codec;
    private final Gatherer gatherer = new Gatherer(items -> pushItems(items, request -> request.isMadeAgain = false));

    /** Connects to {@code TARRY_URL}, by default {@code http://127.0.0.1:8279}. */
    public Client() {
        this(builder());
    }

    public Client(String url) {
        this(builder().url(url));
    }

    private Client(Builder builder) {
        transport = new Transport(builder.url, builder.token == null ? tokenOfEnvironment() : builder.token, builder.timeout, builder.retryFor, builder.tls);
        codec = builder.codec;
    }

    public static Builder builder() {
        return new Builder();
    }

    /** Settings of a client; everything has a default. */
    public static final class Builder {
        private String url = Optional.ofNullable(System.getenv("TARRY_URL")).filter(one -> !one.isEmpty()).orElse("http://127.0.0.1:8279");
        private String token;
        private Duration timeout = Duration.ofSeconds(10);
        private Duration retryFor = Duration.ofSeconds(30);
        private SSLContext tls;
        private Codec codec;

        private Builder() {
        }

        /** The URL of the server; several URLs, separated by commas, are tried in turn. */
        public Builder url(String url) {
            this.url = url;
            return this;
        }

        /** The token; by default that in the file {@code TARRY_TOKEN_FILE}, then {@code TARRY_TOKEN}. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /** Timeout of one request, 10 s; the wait of a take is added to it. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** Time for which a call is retried before its failure is reported, 30 s. */
        public Builder retryFor(Duration retryFor) {
            this.retryFor = retryFor;
            return this;
        }

        /** Trusted certificates and the client's own certificate for https. */
        public Builder tls(SSLContext tls) {
            this.tls = tls;
            return this;
        }

        /** The codec of bodies and results; by default they stay as they are. */
        public Builder codec(Codec codec) {
            this.codec = codec;
            return this;
        }

        public Client build() {
            return new Client(this);
        }
    }

    private static String tokenOfEnvironment() {
        String file = System.getenv("TARRY_TOKEN_FILE");
        if (file == null || file.isEmpty()) {
            return System.getenv("TARRY_TOKEN");
        }
        try {
            return Files.readString(Path.of(file)).strip();
        } catch (IOException fault) {
            throw new UncheckedIOException("cannot read the token's file '" + file + "'", fault);
        }
    }

    /** Lets calls in progress end, including pushes that wait for others; starts and retries no more calls. */
    @Override
    public void close() {
        transport.close();
    }

    // ---- push ----

    /** Pushes a job that is due now. */
    public Pushed push(String topic, Object body) {
        return push(new Push(topic, body));
    }

    public Pushed push(Push push) {
        return Transport.await(pushAsync(push));
    }

    /** Pushes a job; simultaneous pushes may share a request. */
    public CompletableFuture<Pushed> pushAsync(Push push) {
        transport.checkOpen();
        Gatherer.Item item = new Gatherer.Item(push, codec);
        long limitNs = System.nanoTime() + transport.retryFor.toNanos();
        CompletableFuture<Gatherer.First> firstTry = gatherer.push(item);
        CompletableFuture<Pushed> out = parent(parent -> firstTry.thenCompose(first -> {
            boolean isOpen = first.error instanceof TarryException.Unavailable;
            Duration wait = !isOpen ? Duration.ZERO : first.error.retryAfter().orElse(Transport.jitter(Transport.FIRST_PAUSE));
            if (first.error == null) {
                return CompletableFuture.completedFuture(first.pushed);
            }
            boolean isOver = isOpen ? transport.isClosed() : !first.isShared;
            if (isOver || System.nanoTime() + wait.toNanos() - limitNs > 0) {
                return CompletableFuture.failedFuture(first.error);
            }
            return after(wait, () -> transport.isClosed() ? CompletableFuture.failedFuture(first.error) : pushUntil(limitNs, Transport.longer(Transport.FIRST_PAUSE), List.of(item), parent)).thenApply(results -> results.get(0).orThrow());
        }));
        out.whenComplete((pushed, fault) -> firstTry.cancel(false));
        return out;
    }

    /**
     * Pushes a job and waits for its end, up to 4 minutes. Returns the job with its outcome and result, or as it is after the wait. If the answer is lost, the call
     * is repeated, and the wait begins again; a job that was acked in between runs twice, unless its topic has a dedup_window.
     */
    public Job pushAndWait(Push push, Duration wait) {
        return Transport.await(pushAndWaitAsync(push, wait));
    }

    public CompletableFuture<Job> pushAndWaitAsync(Push push, Duration wait) {
        Map<String, Object> item = push.item(codec);
        String topic = (String) item.get("topic");
        String id = (String) item.get("id");
        if (id == null) {
            throw new IllegalArgumentException("a push that waits needs an id if it has a once");
        }
        StringBuilder query = new StringBuilder("?wait=").append(Api.milliseconds(wait));
        item.forEach((name, value) -> query.append(IN_THE_QUERY.contains(name) ? "&" + name + "=" + Api.quote(value.toString()) : ""));
        Transport.Request request = longRequest("PUT", Api.path(topic, "jobs", id) + query, wait);
        request.body = Base64.getDecoder().decode((String) item.get("body_base64"));
        request.contentType = (String) item.get("content_type");
        if (item.get("meta") instanceof Map) {
            ((Map<?, ?>) item.get("meta")).forEach((name, value) -> request.header((TRACES.contains(name) ? "" : "Tarry-Meta-") + name, value.toString()));
        }
        request.mayConflict = true;
        request.mayBeMissing = true; // it existed, has ended, and is not kept
        long began = System.nanoTime();
        Wait again = new Wait().job(topic, id).timeout(wait);
        return parent(parent -> {
            request.parent = parent;
            return transport.call(request, answer -> answer).thenCompose(answer -> {
                boolean isHeld = answer.status == 409 && answer.isRepeated && "leased".equals(answer.json().get("code")); // an earlier try has pushed it
                if (answer.status >= 300 && answer.status != 404 && !isHeld) {
                    return CompletableFuture.failedFuture(TarryException.of(answer.status, answer.json(), answer.retryAfter));
                }
                boolean hasEnded = List.of("finished", "dead").contains(answer.json().getOrDefault("state", ""));
                Duration left = answer.json().containsKey("attempt") ? wait.minusNanos(System.nanoTime() - began) : wait;
                boolean isOver = hasEnded || left.isNegative() || left.isZero();
                // A push that is not the first with its once does not wait.
                return isOver ? CompletableFuture.completedFuture(new Job(answer.json(), codec)) : waitForAsync(again.timeout(left)).thenApply(jobs -> jobs.get(0));
            });
        });
    }

    /**
     * Waits until all of the jobs have ended, or any. Returns each as it is then, in the given order: its state is finished or dead if it has ended, and unknown if there
     * is no such job. A job that finished before the call is found only if its topic keeps finished jobs.
     */
    public List<Job> waitFor(Wait wait) {
        return Transport.await(waitForAsync(wait));
    }

    public CompletableFuture<List<Job>> waitForAsync(Wait wait) {
        Transport.Request request = longRequest("POST", "/v1/wait?body=base64", wait.timeout).json(wait.body());
        return transport.call(request, answer -> {
            Map<List<Object>, Job> found = new java.util.HashMap<>();
            answer.objects("jobs").forEach(one -> found.put(List.of(one.get("topic"), one.get("id")), new Job(one, codec)));
            return wait.names.stream().map(name -> found.getOrDefault(List.of(name.get("topic"), name.get("id")), unknown(name))).collect(Collectors.toList());
        });
    }

    private static Job unknown(Map<String, Object> name) {
        Map<String, Object> members = new LinkedHashMap<>(name);
        members.put("state", "unknown");
        return new Job(members, (Codec) null);
    }

    /** Begins a request that the server answers after the wait at the latest. */
    private Transport.Request longRequest(String method, String target, Duration wait) {
        Transport.Request request = request(method, target);
        request.isUrgent = true;
        request.timeout = wait.plus(transport.timeout);
        request.retryFor = wait.plus(transport.retryFor);
        return request;
    }

    private static final Collection<String> TRACES = List.of("traceparent", "tracestate");
    private static final Collection<String> IN_THE_QUERY =
        List.of("delay", "at", "priority", "ttl", "lease_for", "max_attempts", "backoff", "on_conflict", "once", "once_for", "keep_finished", "group", "batch_topic", "batch_id", "parent", "waits",
            "members", "wait_at_most", "close_within", "on_dead", "callback");

    /** Returns one result per push, in order. A refused push has its error in its place and does not affect the others. More than 1,000 are sent as several requests. */
    public List<Pushed> pushMany(List<Push> pushes) {
        return Transport.await(pushManyAsync(pushes));
    }

    public CompletableFuture<List<Pushed>> pushManyAsync(List<Push> pushes) {
        transport.checkOpen();
        List<Gatherer.Item> items = pushes.stream().map(push -> new Gatherer.Item(push, codec)).collect(Collectors.toList());
        return parent(parent -> {
            CompletableFuture<List<Pushed>> out = CompletableFuture.completedFuture(new ArrayList<>());
            for (int at = 0; at < items.size(); at += BATCH) {
                List<Gatherer.Item> batch = items.subList(at, Math.min(items.size(), at + BATCH));
                out = out.thenCompose(before -> pushUntil(System.nanoTime() + transport.retryFor.toNanos(), Transport.FIRST_PAUSE, batch, parent).thenApply(more -> concat(before, more)));
            }
            return out;
        });
    }

    /** The result of {@link #pushBatch}. */
    public static final class Batch {
        private final List<Pushed> results;
        private final boolean isClosed;

        private Batch(Transport.Answer answer) {
            results = answer.objects("results").stream().map(one -> Pushed.of(one.get("id"), one)).collect(Collectors.toList());
            isClosed = Boolean.TRUE.equals(answer.json().get("closed"));
        }

        /** One result per job, each waiting job before its members. */
        public List<Pushed> results() {
            return results;
        }

        /** Returns false if a job was rejected, so that a batch stays open. */
        public boolean isClosed() {
            return isClosed;
        }
    }

    /** Pushes a waiting job and up to 999 members in one call and closes the batch. Members may have {@link Push#memberJobs}, so a chain is one call. */
    public Batch pushBatch(Push job, List<Push> members) {
        Map<String, Object> body = Map.of("job", job.item(codec), "members", members.stream().map(push -> push.item(codec)).collect(Collectors.toList()));
        return Transport.await(transport.call(request("POST", "/v1/batches").json(body), Batch::new));
    }

    /** Closes the batch of a waiting job: it gets no more members. */
    public void closeBatch(String topic, String id) {
        Transport.Request request = request("POST", Api.path(topic, "jobs", id, "close"));
        request.mayBeMissing = true;
        Transport.Answer answer = Transport.await(transport.call(request, one -> one));
        if (answer.status == 404 && !answer.isRepeated) { // an earlier try may have closed it, and the job has ended since
            throw TarryException.of(answer.status, answer.json(), answer.retryAfter);
        }
    }

    /**
     * Cancels a waiting job and its members. Consumers that hold members are notified, as by {@link #requestCancel}. Returns false if the job does
     * not exist.
     */
    public boolean cancelBatch(String topic, String id) {
        return Transport.await(cancel(topic, id, "?members=true", (answer, what) -> what != Cancel.NOT_FOUND || answer.isRepeated)); // an earlier try may have done it
    }

    private CompletableFuture<List<Pushed>> pushItems(List<Gatherer.Item> items, Consumer<Transport.Request> how) {
        Transport.Request request = new Transport.Request("POST", "/v1/jobs", transport);
        request.body = Gatherer.Item.array(items);
        how.accept(request);
        return transport.call(request, answer -> {
            List<Map<String, Object>> results = answer.objects("results");
            List<Pushed> out = new ArrayList<>();
            for (int at = 0; at < items.size(); at++) {
                out.add(Pushed.of(items.get(at).id, at < results.size() ? results.get(at) : Map.of("detail", "the answer has no result for it")));
            }
            return out;
        });
    }

    /** Retries items that the server had no room for (429, 503), like a call. */
    private CompletableFuture<List<Pushed>> pushUntil(long limitNs, Duration pause, List<Gatherer.Item> items, CompletableFuture<?> parent) {
        return pushItems(items, request -> {
            request.retryFor = Duration.ofNanos(limitNs - System.nanoTime());
            request.pause = pause;
            request.parent = parent;
        }).thenCompose(results -> {
            List<Integer> left = IntStream.range(0, results.size()).filter(at -> isForLater(results.get(at))).boxed().collect(Collectors.toList());
            Duration wait = Transport.jitter(pause);
            if (left.isEmpty() || transport.isClosed() || System.nanoTime() + wait.toNanos() - limitNs > 0) {
                return CompletableFuture.completedFuture(results);
            }
            List<Gatherer.Item> again = left.stream().map(items::get).collect(Collectors.toList());
            List<Pushed> refused = left.stream().map(results::get).collect(Collectors.toList());
            return after(wait, () -> transport.isClosed() ? CompletableFuture.completedFuture(refused) : pushUntil(limitNs, Transport.longer(pause), again, parent)).thenApply(later -> {
                for (int nth = 0; nth < left.size(); nth++) {
                    results.set(left.get(nth), later.get(nth));
                }
                return results;
            });
        });
    }

    /** Returns the future of a call of several requests. Cancelling it aborts the request in progress, and no further one is sent. */
    private static <T> CompletableFuture<T> parent(Function<CompletableFuture<T>, CompletableFuture<T>> requests) {
        CompletableFuture<T> parent = new CompletableFuture<>();
        requests.apply(parent).whenComplete((value, fault) -> {
            if (fault == null) {
                parent.complete(value);
            } else {
                parent.completeExceptionally(fault);
            }
        });
        return parent;
    }

    private static <T> CompletableFuture<T> after(Duration wait, Supplier<CompletableFuture<T>> what) {
        return CompletableFuture.supplyAsync(what, CompletableFuture.delayedExecutor(wait.toNanos(), TimeUnit.NANOSECONDS)).thenCompose(one -> one);
    }

    private static boolean isForLater(Pushed one) {
        return one.error().filter(error -> error instanceof TarryException.Unavailable).isPresent();
    }

    // ---- one job ----

    /**
     * The result of {@link #requestCancel}. REQUESTED: a consumer holds the job and is notified; the job is cancelled unless the consumer acks
     * it. NOT_FOUND: the job does not exist, or has finished.
     */
    public enum Cancel { CANCELLED, REQUESTED, NOT_FOUND }

    /**
     * Returns false if the job does not exist, or has finished. A job that a consumer holds cannot be cancelled: {@link TarryException.Conflict}; see
     * {@link #requestCancel}.
     */
    public boolean cancel(String topic, String id) {
        return Transport.await(cancel(topic, id, "", (answer, what) -> what != Cancel.NOT_FOUND || answer.isRepeated)); // an earlier try may have done it
    }

    /** Cancels the job, or asks the consumer that holds it to give it up. */
    public Cancel requestCancel(String topic, String id) {
        return Transport.await(cancel(topic, id, "?request=true", (answer, what) -> what));
    }

    private <T> CompletableFuture<T> cancel(String topic, String id, String query, BiFunction<Transport.Answer, Cancel, T> result) {
        Transport.Request request = request("DELETE", Api.path(topic, "jobs", id) + query);
        request.mayBeMissing = true;
        return transport.call(request, answer -> {
            boolean isRequested = "requested".equals(answer.json().get("result"));
            return result.apply(answer, answer.status == 404 ? Cancel.NOT_FOUND : isRequested ? Cancel.REQUESTED : Cancel.CANCELLED);
        });
    }

    /** Returns the new due time. */
    public Instant reschedule(String topic, String id, Duration delay) {
        return reschedule(topic, id, "?delay=" + Api.milliseconds(delay), null);
    }

    /** Reschedules the job, and sets its priority unless that is null. */
    public Instant reschedule(String topic, String id, Duration delay, Integer priority) {
        return reschedule(topic, id, delay == null ? "?" : "?delay=" + Api.milliseconds(delay), priority);
    }

    public Instant reschedule(String topic, String id, Instant at) {
        return reschedule(topic, id, at, null);
    }

    public Instant reschedule(String topic, String id, Instant at, Integer priority) {
        return reschedule(topic, id, at == null ? "?" : "?at=" + Api.moment(at), priority);
    }

    private Instant reschedule(String topic, String id, String query, Integer priority) {
        String more = priority == null ? "" : (query.equals("?") ? "" : "&") + "priority=" + priority;
        return Transport.await(transport.call(request("PATCH", Api.path(topic, "jobs", id) + query + more), answer -> Api.instant(answer.json().get("due_at"))));
    }

    /** Makes the job due now. */
    public void run(String topic, String id) {
        Transport.await(transport.call(request("POST", Api.path(topic, "jobs", id, "run")), answer -> true));
    }

    public Optional<Job> get(String topic, String id) {
        Transport.Request request = request("GET", Api.path(topic, "jobs", id) + "?body=base64");
        request.mayBeMissing = true;
        return Transport.await(transport.call(request, answer -> answer.status == 404 ? Optional.empty() : Optional.of(new Job(answer.json(), codec))));
    }

    /** Returns all jobs by due time; pages are requested while you read the stream. */
    public Stream<Job> list(String topic, Listing listing) {
        return StreamSupport.stream(Spliterators.spliteratorUnknownSize(new Pages(Api.path(topic, "jobs"), "jobs", listing::query), Spliterator.ORDERED | Spliterator.NONNULL), false);
    }

    public Stream<Job> list(String topic) {
        return list(topic, new Listing());
    }

    /** Returns the members of a batch; pages are requested while you read the stream. Finished members are found if they are kept. */
    public Stream<Job> members(String topic, String id, Members members) {
        Pages pages = new Pages(Api.path(topic, "jobs", id, "members"), "members", members::query);
        return StreamSupport.stream(Spliterators.spliteratorUnknownSize(pages, Spliterator.ORDERED | Spliterator.NONNULL), false);
    }

    public Stream<Job> members(String topic, String id) {
        return members(topic, id, new Members());
    }

    private final class Pages implements Iterator<Job> {
        private final String path;
        private final String name;
        private final UnaryOperator<String> query;
        private Iterator<Map<String, Object>> page = List.<Map<String, Object>>of().iterator();
        private String cursor;
        private boolean isLast;

        Pages(String path, String name, UnaryOperator<String> query) {
            this.path = path;
            this.name = name;
            this.query = query;
        }

        @Override
        public boolean hasNext() {
            while (!page.hasNext() && !isLast) {
                Transport.Request request = request("GET", path + query.apply(cursor));
                request.mayBeMissing = true;
                Transport.Answer answer = Transport.await(transport.call(request, one -> one));
                page = (answer.status == 404 ? List.<Map<String, Object>>of() : answer.objects(name)).iterator();
                Object found = answer.status == 404 ? null : answer.json().get("cursor");
                cursor = found instanceof String ? (String) found : null;
                isLast = cursor == null;
            }
            return page.hasNext();
        }

        @Override
        public Job next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return new Job(page.next(), codec);
        }
    }

    // ---- schedules ----

    /** Creates or replaces a schedule that pushes a job each time it fires. The same specification again changes nothing. */
    public Scheduled schedule(String name, Schedule schedule) {
        String query = schedule.takesOver() ? "?take_over=true" : "";
        Transport.Request request = request("PUT", "/v1/schedules/" + Api.quote(name) + query).json(schedule.spec(codec));
        return Transport.await(transport.call(request, answer -> new Scheduled(answer.json())));
    }

    /** Deletes a schedule; its jobs that are due stay. Returns false if there is no such schedule. */
    public boolean unschedule(String name) {
        Transport.Request request = request("DELETE", "/v1/schedules/" + Api.quote(name));
        request.mayBeMissing = true;
        return Transport.await(transport.call(request, answer -> answer.status != 404 || answer.isRepeated)); // an earlier try may have done it
    }

    // ---- consuming ----

    /** Returns ready jobs. Never retried automatically: a call whose answer was lost may hold jobs until their lease ends. */
    public List<Job> take(Take take) {
        return Transport.await(takeAsync(take));
    }

    /** Takes jobs; cancelling the future aborts the request, and jobs that arrive anyway are given back. */
    public CompletableFuture<List<Job>> takeAsync(Take take) {
        Transport.Request request = request("POST", take.target());
        request.isMadeAgain = false;
        request.isUrgent = true;
        request.timeout = take.wait.plus(transport.timeout);
        request.late = answer -> {
            if (answer.status < 300) {
                giveBackAsync(jobs(answer).stream().map(Job::lease).collect(Collectors.toList()));
            }
        };
        return transport.call(request, this::jobs);
    }

    private List<Job> jobs(Transport.Answer answer) {
        return answer.objects("jobs").stream().map(one -> new Job(one, codec)).collect(Collectors.toList());
    }

    /** Acks a job, or several. Returns for each nothing, or its error. A job that an earlier try of this call may have acked is a success. */
    public List<Optional<TarryException>> ack(Job... jobs) {
        return ack(new Ack(jobs));
    }

    /** Acks a list of jobs, or of their leases. */
    public List<Optional<TarryException>> ack(Collection<?> jobs) {
        return ack(new Ack(jobs));
    }

    /** Acks with a result: one that is too big is Refused, and the job stays leased. */
    public List<Optional<TarryException>> ack(Ack ack) {
        return Transport.await(ackAsync(ack));
    }

    public CompletableFuture<List<Optional<TarryException>>> ackAsync(Collection<?> jobs) {
        return ackAsync(new Ack(jobs));
    }

    public CompletableFuture<List<Optional<TarryException>>> ackAsync(Ack ack) {
        return answers("ack", items(ack.leases, ack.options(codec)), request -> { });
    }

    /** Reports failed jobs, which are retried after their backoff. */
    public List<Optional<TarryException>> nack(Collection<?> jobs, String error) {
        return nack(jobs, null, error, false);
    }

    public List<Optional<TarryException>> nack(Nack nack) {
        return Transport.await(answers("nack", items(nack.leases, nack.options(codec)), request -> { }));
    }

    /** Reports failed jobs, which are retried after {@code delay}, or after their backoff if it is null; with {@code isFinal} they are dead. */
    public List<Optional<TarryException>> nack(Collection<?> jobs, Duration delay, String error, boolean isFinal) {
        return Transport.await(answers("nack", items(Api.leases(jobs), nackOptions(delay, error, isFinal)), request -> { }));
    }

    /** Makes the leases end after this time from now. Null means the lease time of the take. */
    public List<Optional<TarryException>> extend(Collection<?> jobs, Duration lease) {
        return extend(new Extend(jobs).lease(lease));
    }

    public List<Optional<TarryException>> extend(Extend extend) {
        return Transport.await(answers("extend", items(extend.leases, extend.options()), request -> { }));
    }

    /** Returns jobs that were not started; they are ready again immediately, and the attempt does not count. */
    public List<Optional<TarryException>> giveBack(Collection<?> jobs) {
        return Transport.await(giveBackAsync(Api.leases(jobs)));
    }

    public List<Optional<TarryException>> giveBack(Job... jobs) {
        return giveBack(List.of(jobs));
    }

    /**
     * Acks a job and pushes it again after the delay, in one step. A body of null is the old one; the rest stays the same. Returns false if the cancel of the job was
     * requested: it has ended.
     */
    public boolean again(String lease, Object body, Duration delay) {
        String query = "?lease=" + URLEncoder.encode(lease, StandardCharsets.UTF_8) + (delay == null ? "" : "&delay=" + Api.milliseconds(delay));
        Transport.Request request = request("POST", "/v1/again" + query);
        if (body != null) {
            Codec.Content content = new Push("", body).content(codec, Codec.BODY, false);
            request.body = content.data();
            request.contentType = content.type();
        }
        return Transport.await(transport.call(request, answer -> answer.objects("results").stream().noneMatch(one -> "cancelled".equals(one.get("result")))));
    }

    private CompletableFuture<List<Optional<TarryException>>> giveBackAsync(Collection<String> leases) {
        return answers("return", items(leases, Map.of()), request -> { });
    }

    static Map<String, Object> nackOptions(Duration delay, String error, boolean isFinal) {
        Map<String, Object> out = new LinkedHashMap<>();
        if (delay != null) {
            out.put("delay", Api.milliseconds(delay));
        }
        if (error != null && !error.isEmpty()) {
            out.put("error", Api.errorText(error));
        }
        if (isFinal) {
            out.put("final", true);
        }
        return out;
    }

    static Map<String, Object> item(String lease, Map<String, Object> options) {
        Map<String, Object> out = new LinkedHashMap<>(options);
        out.put("lease", lease);
        return out;
    }

    private static List<Map<String, Object>> items(Collection<String> leases, Map<String, Object> options) {
        return leases.stream().map(lease -> item(lease, options)).collect(Collectors.toList());
    }

    /** Returns a result for each item, which has a lease and its answer; {@code how} makes each request. A request has at most {@link #BATCH} items. */
    CompletableFuture<List<Optional<TarryException>>> answers(String verb, List<Map<String, Object>> items, Consumer<Transport.Request> how) {
        transport.checkOpen();
        return parent(parent -> {
            CompletableFuture<List<Optional<TarryException>>> out = CompletableFuture.completedFuture(new ArrayList<>());
            for (List<Map<String, Object>> batch : batches(items)) {
                out = out.thenCompose(before -> answerBatch(verb, batch, how.andThen(request -> request.parent = parent)).thenApply(more -> concat(before, more)));
            }
            return out;
        });
    }

    /** Divides answers into requests. */
    static List<List<Map<String, Object>>> batches(List<Map<String, Object>> items) {
        List<List<Map<String, Object>>> out = new ArrayList<>();
        int start = 0;
        int size = 0;
        for (int at = 0; at < items.size(); at++) {
            int more = items.get(at).getOrDefault("result_base64", "").toString().length();
            if (at - start == BATCH || at > start && size + more > RESULTS_BYTES) {
                out.add(items.subList(start, at));
                start = at;
                size = 0;
            }
            size += more;
        }
        if (start < items.size()) {
            out.add(items.subList(start, items.size()));
        }
        return out;
    }

    private CompletableFuture<List<Optional<TarryException>>> answerBatch(String verb, List<Map<String, Object>> items, Consumer<Transport.Request> how) {
        Transport.Request request = new Transport.Request("POST", "/v1/" + verb, transport).json(Map.of("leases", items));
        how.accept(request);
        return transport.call(request, answer -> {
            List<Map<String, Object>> results = answer.objects("results");
            List<Optional<TarryException>> out = new ArrayList<>();
            request.onResults.accept(results);
            for (int at = 0; at < items.size(); at++) {
                Map<String, Object> one = at < results.size() ? results.get(at) : Map.of("detail", "the answer has no result for it");
                boolean counts = "ok".equals(one.get("result")) || "cancelled".equals(one.get("result")) || answer.isRepeated && !verb.equals("extend") && "lease_ended".equals(one.get("result"));
                out.add(counts ? Optional.empty() : Optional.of(TarryException.of(0, one, null)));
            }
            return out;
        });
    }

    /** Begins a request of a new call. */
    private Transport.Request request(String method, String target) {
        transport.checkOpen();
        return new Transport.Request(method, target, transport);
    }

    private static <T> List<T> concat(List<T> before, List<T> more) {
        List<T> out = new ArrayList<>(before);
        out.addAll(more);
        return out;
    }
}
