package io.tarry;

import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.NoSuchAlgorithmException;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import javax.net.ssl.SSLContext;

/**
 * Requests and answers, and their repetition; docs/clients.md has the rules. Any number of threads may use it at the same time. Time limits
 * use {@link System#nanoTime}, never the wall clock.
 */
final class Transport {
    static final Duration FIRST_PAUSE = Duration.ofMillis(50);
    static final Duration LONGEST_PAUSE = Duration.ofSeconds(5);
    /** A connection that was idle for so long is not used again: a server or a proxy may be about to close it. */
    private static final long IDLE_NS = TimeUnit.SECONDS.toNanos(30);
    /** The most calls in flight except takes and those of a worker; others wait, and fail if they do not begin in time. */
    private static final int CALLS_MAX = 32;

    /** A call, and how it is made. */
    static final class Request {
        final String method;
        final String target;
        byte[] body = new byte[0];
        String contentType = "application/json";
        /** More headers, each with its line end. */
        String headers = "";
        boolean isMadeAgain = true;
        /** Gets a thread immediately, however many calls are in flight. */
        boolean isUrgent;
        /** 404 is an answer like any other. */
        boolean mayBeMissing;
        /** 409 is an answer like any other. */
        boolean mayConflict;
        Duration timeout;
        Duration retryFor;
        /** Before it is made again the first time. */
        Duration pause = FIRST_PAUSE;
        Duration longestPause = LONGEST_PAUSE;
        BooleanSupplier goesOn = () -> true;
        /** The caller's future if it is more than this request: once that is done, the request is cut. */
        CompletableFuture<?> parent;
        /** Gets the result of each lease. */
        Consumer<List<Map<String, Object>>> onResults = results -> { };
        /** Gets an answer that came after the call was cancelled. */
        Consumer<Answer> late = answer -> { };

        Request(String method, String target, Transport transport) {
            this.method = method;
            this.target = target;
            timeout = transport.timeout;
            retryFor = transport.retryFor;
        }

        void header(String name, String value) {
            if ((name + value).chars().anyMatch(one -> one < ' ' || one == 127) || !name.matches("[A-Za-z0-9-]+")) {
                throw new IllegalArgumentException("bad meta '" + name.replaceAll("[^ -~]", "?") + "': a name has a-z, 0-9 and -, and a value has no control characters");
            }
            headers += name + ": " + new String(value.getBytes(StandardCharsets.UTF_8), StandardCharsets.ISO_8859_1) + "\r\n";
        }

        Request json(Object value) {
            body = Json.encode(Json.write(value));
            return this;
        }
    }

    static final class Answer {
        final int status;
        final byte[] body;
        final Duration retryAfter;
        /** An earlier try of the same call may have been carried out. */
        boolean isRepeated;

        private Answer(Connection.Response response) {
            status = response.status;
            body = response.body;
            retryAfter = retryAfter(response.headers, Instant.now());
        }

        /** Empty if it is not a JSON object. */
        @SuppressWarnings("unchecked") // the names of an object that was read are texts
        Map<String, Object> json() {
            try {
                Object found = body.length == 0 ? null : Json.parse(body);
                return found instanceof Map ? (Map<String, Object>) found : Map.of();
            } catch (IllegalArgumentException fault) {
                return Map.of();
            }
        }

        /** The objects in the list of this name. */
        @SuppressWarnings("unchecked") // the same
        List<Map<String, Object>> objects(String name) {
            List<Map<String, Object>> out = new ArrayList<>();
            Object found = json().get(name);
            if (found instanceof List) {
                ((List<?>) found).forEach(one -> out.add(one instanceof Map ? (Map<String, Object>) one : Map.of()));
            }
            return out;
        }
    }

    /** A server: its address, and its free connections. */
    static final class Place {
        final String path;
        private final String host;
        private final int port;
        private final boolean isTls;
        private final ConcurrentLinkedDeque<Connection> idle = new ConcurrentLinkedDeque<>();

        Place(String url) {
            URI uri;
            try {
                uri = URI.create(url.contains("://") ? url : "http://" + url);
            } catch (IllegalArgumentException fault) {
                uri = URI.create("none:");
            }
            isTls = "https".equals(uri.getScheme());
            if (!isTls && !"http".equals(uri.getScheme()) || uri.getHost() == null) {
                throw new IllegalArgumentException("bad URL '" + url + "', give one like http://127.0.0.1:8279");
            }
            host = uri.getHost();
            port = uri.getPort() >= 0 ? uri.getPort() : isTls ? 443 : 8279;
            path = uri.getRawPath() == null ? "" : uri.getRawPath().replaceAll("/+$", "");
        }

        @Override
        public String toString() {
            return (isTls ? "https://" : "http://") + host + ":" + port + path;
        }

        private Connection connection(SSLContext tls) {
            for (Connection kept = idle.pollFirst(); kept != null; kept = idle.pollFirst()) {
                if (System.nanoTime() - kept.idleSince < IDLE_NS && kept.isAlive()) {
                    return kept;
                }
                kept.close();
            }
            return new Connection(host.startsWith("[") ? host.substring(1, host.length() - 1) : host, port, isTls ? tls : null);
        }

        /** The newest is used first; of those at the other end one goes where it was not needed for long. */
        private void keep(Connection connection) {
            connection.idleSince = System.nanoTime();
            idle.offerFirst(connection);
            Connection oldest = idle.peekLast();
            if (oldest != null && connection.idleSince - oldest.idleSince > IDLE_NS && idle.remove(oldest)) {
                oldest.close();
            }
        }

        private void close() {
            for (Connection kept = idle.poll(); kept != null; kept = idle.poll()) {
                kept.close();
            }
        }
    }

    final Duration timeout;
    final Duration retryFor;
    private final List<Place> places = new ArrayList<>();
    private final AtomicInteger place = new AtomicInteger();
    private final String authorization;
    private final SSLContext tls;
    private final Executor calls = pool("call", CALLS_MAX);
    private final Executor urgentCalls = pool("urgent-call", Integer.MAX_VALUE);
    private volatile boolean isClosed;

    Transport(String urls, String token, Duration timeout, Duration retryFor, SSLContext tls) {
        for (String url : urls.split(",")) {
            if (!url.isBlank()) {
                places.add(new Place(url.strip()));
            }
        }
        if (places.isEmpty()) {
            throw new IllegalArgumentException("no URL, give one like http://127.0.0.1:8279");
        }
        this.timeout = timeout;
        this.retryFor = retryFor;
        authorization = token == null || token.isEmpty() ? "" : "Authorization: Bearer " + token + "\r\n";
        if (token != null && token.chars().anyMatch(one -> one <= ' ' || one > '~')) {
            throw new IllegalArgumentException("bad token: it has a blank, or a character that is not printable ASCII");
        }
        try {
            this.tls = tls == null ? SSLContext.getDefault() : tls;
        } catch (NoSuchAlgorithmException fault) {
            throw new IllegalStateException("this Java has no TLS", fault);
        }
    }

    /** Daemon threads that are made as they are needed, and go again. So many at most; what comes beyond waits. */
    static ThreadPoolExecutor pool(String name, int threads) {
        AtomicInteger number = new AtomicInteger();
        boolean hasEnd = threads < Integer.MAX_VALUE;
        ThreadPoolExecutor pool = new ThreadPoolExecutor(hasEnd ? threads : 0, threads, 10, TimeUnit.SECONDS, hasEnd ? new LinkedBlockingQueue<>() : new SynchronousQueue<>(), task -> {
            Thread thread = new Thread(task, "tarry-" + name + "-" + number.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        });
        pool.allowCoreThreadTimeOut(hasEnd);
        return pool;
    }

    /** Lets calls in flight run to their end, also with further requests; new calls fail. */
    void close() {
        isClosed = true;
        places.forEach(Place::close);
    }

    /** Parses the header in either format; null without the header. A date is compared with the answer's own: the clock here may be wrong. */
    static Duration retryAfter(Map<String, String> headers, Instant now) {
        String text = headers.get("retry-after");
        if (text == null) {
            return null;
        }
        if (text.matches("[0-9]{1,9}")) {
            return Duration.ofSeconds(Long.parseLong(text));
        }
        Instant then = date(text, null);
        if (then == null) {
            return null;
        }
        Duration found = Duration.between(date(headers.getOrDefault("date", ""), now), then);
        return found.isNegative() ? Duration.ZERO : found;
    }

    private static Instant date(String text, Instant otherwise) {
        try {
            return ZonedDateTime.parse(text.strip(), DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
        } catch (DateTimeException fault) {
            return otherwise;
        }
    }

    /** Returns a random part, from half to the whole, so that a hundred clients do not return at the same moment. */
    static Duration jitter(Duration pause) {
        return Duration.ofNanos((long) (pause.toNanos() * ThreadLocalRandom.current().nextDouble(0.5, 1)));
    }

    static Duration longer(Duration pause) {
        return pause.multipliedBy(2).compareTo(LONGEST_PAUSE) < 0 ? pause.multipliedBy(2) : LONGEST_PAUSE;
    }

    boolean isClosed() {
        return isClosed;
    }

    /** Rejects new calls after close. */
    void checkOpen() {
        if (isClosed) {
            throw new IllegalStateException("the client is closed");
        }
    }

    // ---- a call ----

    /** The result of the call, made by {@code result} of its answer; else a TarryException. Cancelling it cuts the request in flight. */
    <T> CompletableFuture<T> call(Request request, Function<Answer, T> result) {
        Call<T> call = new Call<>(request, result);
        if (request.parent != null) {
            request.parent.whenComplete((value, fault) -> call.promise.cancel(true));
        }
        call.executor.execute(call);
        return call.promise;
    }

    /** The result of a call, waited for. An exception has the trace of who waits. */
    static <T> T await(CompletableFuture<T> promise) {
        try {
            return promise.get();
        } catch (InterruptedException fault) {
            promise.cancel(true);
            Thread.currentThread().interrupt();
            throw TarryException.noAnswer("interrupted", "the thread was interrupted", fault);
        } catch (ExecutionException fault) {
            Throwable cause = fault.getCause();
            if (cause instanceof TarryException) {
                cause.fillInStackTrace();
                throw (TarryException) cause;
            }
            if (cause instanceof RuntimeException) {
                throw (RuntimeException) cause;
            }
            throw new IllegalStateException(cause);
        }
    }

    /** A call with all its tries. */
    private final class Call<T> implements Runnable {
        final CompletableFuture<T> promise = new CompletableFuture<>();
        final Executor executor;
        private final Request request;
        private final Function<Answer, T> result;
        private final long began = System.nanoTime();
        private Duration pause;
        private boolean isRepeated;
        private boolean isLast;
        private TarryException failure; // what the try before failed with
        private Connection connection; // of the try under way

        Call(Request request, Function<Answer, T> result) {
            this.request = request;
            this.result = result;
            pause = request.pause;
            executor = request.isUrgent ? urgentCalls : calls;
            promise.whenComplete((value, fault) -> cut());
        }

        private synchronized void cut() {
            if (connection != null) {
                connection.close();
            }
        }

        /** Such that no cut of this call closes it from now on. */
        private synchronized void setConnection(Connection one) {
            connection = one;
        }

        /** The next try. */
        @Override
        public void run() {
            if (promise.isDone()) {
                return;
            }
            if (isTooLate() || isClosed && failure != null) {
                promise.completeExceptionally(failure == null ? TarryException.noAnswer("no_answer", "no answer: no connection was free in time", null) : failure);
                return;
            }
            int at = place.get();
            Connection one = places.get(at).connection(tls);
            setConnection(one);
            CompletableFuture<Void> limit = new CompletableFuture<Void>().orTimeout(request.timeout.toNanos(), TimeUnit.NANOSECONDS);
            limit.whenComplete((none, over) -> {
                if (over != null) {
                    one.close();
                }
            });
            try {
                if (promise.isDone()) {
                    one.close();
                }
                Answer answer = new Answer(one.ask(bytes(places.get(at))));
                setConnection(null);
                if (limit.complete(null) && one.isReusable() && !isClosed) {
                    places.get(at).keep(one);
                } else {
                    one.close();
                }
                judge(at, answer);
            } catch (IOException fault) {
                cut();
                if (promise.isDone()) {
                    return; // cancelled: the server is not at fault
                }
                nextPlace(at);
                isRepeated |= one.isSent();
                String why = limit.isCompletedExceptionally() ? "the time limit has passed" : fault.getMessage() == null ? fault.getClass().getSimpleName() : fault.getMessage();
                again(TarryException.noAnswer("no_answer", "no answer: " + why, fault));
            } catch (RuntimeException | Error fault) {
                cut();
                promise.completeExceptionally(fault);
            } finally {
                limit.complete(null);
            }
        }

        /**
         * Returns true if the call waited for its start longer than it may be repeated, and longer than a request may last. The last try comes when
         * the former has ended.
         */
        private boolean isTooLate() {
            Duration waited = Duration.ofNanos(System.nanoTime() - began);
            return waited.compareTo(request.timeout) > 0 && (isLast ? waited.minus(request.timeout) : waited).compareTo(request.retryFor) > 0;
        }

        private boolean isPrintable(String text) {
            for (int at = 0; at < text.length(); at++) {
                if (text.charAt(at) < ' ' || text.charAt(at) > '~') {
                    return false;
                }
            }
            return true;
        }

        private byte[] bytes(Place to) {
            if (!isPrintable(request.contentType)) {
                throw new IllegalArgumentException("bad content type '" + request.contentType.replaceAll("[^ -~]", "?") + "'");
            }
            String headers = "Host: " + to.host + ":" + to.port + "\r\nUser-Agent: tarry-java\r\n" + authorization + request.headers + (request.body.length > 0 ? "Content-Type: " + request.contentType + "\r\n" : "");
            return Connection.request(request.method, to.path + request.target, headers, request.body);
        }

        private void judge(int at, Answer answer) {
            answer.isRepeated = isRepeated;
            if (answer.status < 300 || answer.status == 404 && request.mayBeMissing || answer.status == 409 && request.mayConflict) {
                if (!promise.complete(result.apply(answer))) {
                    request.late.accept(answer);
                }
                return;
            }
            TarryException error = TarryException.of(answer.status, answer.json(), answer.retryAfter);
            boolean isOfProxy = answer.status == 502 || answer.status == 504;
            if (isOfProxy || answer.status == 503) {
                nextPlace(at);
            }
            isRepeated |= isOfProxy;
            if (isOfProxy || answer.status == 503 || answer.status == 429) {
                again(error);
            } else {
                promise.completeExceptionally(error);
            }
        }

        /** Waits and tries again, unless the time limit has passed. The last try is at the limit, not before it. */
        private void again(TarryException error) {
            failure = error;
            Duration left = request.retryFor.minusNanos(System.nanoTime() - began);
            Duration asked = error.retryAfter().orElse(null);
            Duration wait = asked == null ? jitter(pause) : asked;
            if (asked == null) {
                pause = longer(pause).compareTo(request.longestPause) < 0 ? longer(pause) : request.longestPause;
            }
            boolean isOver = isLast || left.isNegative() || left.isZero() || asked != null && asked.compareTo(left) > 0;
            if (!request.isMadeAgain || isClosed || isOver || !request.goesOn.getAsBoolean()) {
                promise.completeExceptionally(error);
            } else if (!promise.isDone()) {
                isLast = wait.compareTo(left) >= 0;
                CompletableFuture.delayedExecutor((isLast ? left : wait).toNanos(), TimeUnit.NANOSECONDS, executor).execute(this);
            }
        }
    }

    private void nextPlace(int failed) {
        place.compareAndSet(failed, (failed + 1) % places.size());
    }
}
