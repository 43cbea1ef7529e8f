package io.tarry;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import javax.net.ssl.SSLContext;

/**
 * Requests and answers: what is asked again, and when; docs/clients.md has the rules. Any number of threads may use it at once. Limits of time
 * go by {@link System#nanoTime}, never by the clock of the wall.
 */
final class Transport {
    static final Duration FIRST_PAUSE = Duration.ofMillis(50);
    static final Duration LONGEST_PAUSE = Duration.ofSeconds(5);
    /** Before Java 16 cancelling a request does not close its connection. */
    private static final boolean CANCEL_CUTS = Runtime.version().feature() >= 16;

    /** A call, and how it is made. */
    static final class Request {
        final String method;
        final String target;
        byte[] body = new byte[0];
        boolean isMadeAgain = true;
        /** 404 is an answer like any other. */
        boolean mayBeMissing;
        Duration timeout;
        Duration retryFor;
        BooleanSupplier goesOn = () -> true;
        /** Gets an answer that came when nobody wanted it any more. */
        Consumer<Answer> late = answer -> { };

        Request(String method, String target, Transport transport) {
            this.method = method;
            this.target = target;
            timeout = transport.timeout;
            retryFor = transport.retryFor;
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

        private Answer(HttpResponse<byte[]> response) {
            status = response.statusCode();
            body = response.body();
            retryAfter = retryAfter(response.headers(), Instant.now());
        }

        /** Empty where it is no JSON object. */
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

    final Duration timeout;
    final Duration retryFor;
    private final List<String> places = new ArrayList<>();
    private final AtomicInteger place = new AtomicInteger();
    private final String authorization;
    private volatile HttpClient http;

    Transport(String urls, String token, Duration timeout, Duration retryFor, SSLContext tls) {
        for (String url : urls.split(",")) {
            if (!url.isBlank()) {
                places.add(place(url.strip()));
            }
        }
        if (places.isEmpty()) {
            throw new IllegalArgumentException("no URL, give one like http://127.0.0.1:8279");
        }
        this.timeout = timeout;
        this.retryFor = retryFor;
        authorization = token == null || token.isEmpty() ? null : "Bearer " + token;
        HttpClient.Builder builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).followRedirects(HttpClient.Redirect.NEVER);
        http = (tls == null ? builder : builder.sslContext(tls)).build();
    }

    /** The URL of a server as it is written before a path. */
    static String place(String url) {
        URI uri;
        try {
            uri = URI.create(url.contains("://") ? url : "http://" + url);
        } catch (IllegalArgumentException fault) {
            uri = URI.create("none:");
        }
        boolean isTls = "https".equals(uri.getScheme());
        if (!isTls && !"http".equals(uri.getScheme()) || uri.getHost() == null) {
            throw new IllegalArgumentException("bad URL '" + url + "', give one like http://127.0.0.1:8279");
        }
        int port = uri.getPort() >= 0 ? uri.getPort() : isTls ? 443 : 8279;
        return uri.getScheme() + "://" + uri.getHost() + ":" + port + (uri.getRawPath() == null ? "" : uri.getRawPath().replaceAll("/+$", ""));
    }

    /** Calls under way go on to their end; none is begun or made again any more. */
    void close() {
        http = null; // with the last call it goes, and its connections and its thread with it
    }

    /** However the header says it; null where it says nothing. A date is held against the answer's own: the clock here may be wrong. */
    static Duration retryAfter(HttpHeaders headers, Instant now) {
        String text = headers.firstValue("Retry-After").orElse("").strip();
        if (text.matches("[0-9]{1,9}")) {
            return Duration.ofSeconds(Long.parseLong(text));
        }
        Instant then = date(text, null);
        if (then == null) {
            return null;
        }
        Duration found = Duration.between(date(headers.firstValue("Date").orElse(""), now), then);
        return found.isNegative() ? Duration.ZERO : found;
    }

    private static Instant date(String text, Instant otherwise) {
        try {
            return ZonedDateTime.parse(text.strip(), DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
        } catch (DateTimeException fault) {
            return otherwise;
        }
    }

    /** So long, or down to half of it: a hundred clients do not come back at once. */
    static Duration jitter(Duration pause) {
        return Duration.ofNanos((long) (pause.toNanos() * ThreadLocalRandom.current().nextDouble(0.5, 1)));
    }

    static Duration longer(Duration pause) {
        return pause.multipliedBy(2).compareTo(LONGEST_PAUSE) < 0 ? pause.multipliedBy(2) : LONGEST_PAUSE;
    }

    // ---- a call ----

    /** What the call gives, made by {@code result} of its answer; else a TarryException. Cancelling it cuts the request under way. */
    <T> CompletableFuture<T> call(Request request, Function<Answer, T> result) {
        Call<T> call = new Call<>(request, result);
        call.run();
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

    /** One call with all its tries. */
    private final class Call<T> implements Runnable {
        final CompletableFuture<T> promise = new CompletableFuture<>();
        private final Request request;
        private final Function<Answer, T> result;
        private final long began = System.nanoTime();
        private Duration pause = FIRST_PAUSE;
        private boolean isRepeated;
        private volatile CompletableFuture<Answer> attempt;

        Call(Request request, Function<Answer, T> result) {
            this.request = request;
            this.result = result;
            promise.whenComplete((value, fault) -> {
                CompletableFuture<Answer> one = attempt;
                if (one != null) {
                    one.cancel(true); // of no effect where it is done
                }
            });
        }

        /** The next try. */
        @Override
        public void run() {
            int at = place.get();
            CompletableFuture<Answer> one;
            try {
                one = once(places.get(at), request);
            } catch (RuntimeException fault) {
                promise.completeExceptionally(fault);
                return;
            }
            attempt = one;
            if (promise.isDone()) {
                one.cancel(true);
            }
            one.whenComplete((answer, fault) -> {
                try {
                    judge(at, answer, fault);
                } catch (RuntimeException unexpected) {
                    promise.completeExceptionally(unexpected);
                }
            });
        }

        private void judge(int at, Answer answer, Throwable fault) {
            TarryException error;
            if (fault != null) {
                Throwable cause = fault instanceof CompletionException && fault.getCause() != null ? fault.getCause() : fault;
                if (!(cause instanceof IOException) && !(cause instanceof TimeoutException)) {
                    promise.completeExceptionally(cause);
                    return;
                }
                nextPlace(at);
                isRepeated |= !(cause instanceof ConnectException);
                String why = cause instanceof TimeoutException ? "the time limit is over" : cause.getMessage() == null ? cause.getClass().getSimpleName() : cause.getMessage();
                error = TarryException.noAnswer("no_answer", "no answer: " + why, cause);
            } else {
                answer.isRepeated = isRepeated;
                if (answer.status < 400 || answer.status == 404 && request.mayBeMissing) {
                    if (!promise.complete(result.apply(answer))) {
                        request.late.accept(answer);
                    }
                    return;
                }
                error = TarryException.of(answer.status, answer.json(), answer.retryAfter);
                boolean isOfProxy = answer.status == 502 || answer.status == 504;
                if (isOfProxy || answer.status == 503) {
                    nextPlace(at);
                }
                if (!isOfProxy && answer.status != 503 && answer.status != 429) {
                    promise.completeExceptionally(error);
                    return;
                }
                isRepeated |= isOfProxy;
            }
            again(error);
        }

        /** Waits and tries again, unless that is over. */
        private void again(TarryException error) {
            Duration wait = error.retryAfter().orElse(null);
            if (wait == null) {
                wait = jitter(pause);
                pause = longer(pause);
            }
            Duration spent = Duration.ofNanos(System.nanoTime() - began);
            if (!request.isMadeAgain || http == null || spent.plus(wait).compareTo(request.retryFor) > 0 || !request.goesOn.getAsBoolean()) {
                promise.completeExceptionally(error);
            } else if (!promise.isDone()) {
                CompletableFuture.delayedExecutor(wait.toNanos(), TimeUnit.NANOSECONDS).execute(this);
            }
        }
    }

    private void nextPlace(int failed) {
        place.compareAndSet(failed, (failed + 1) % places.size());
    }

    /** One try. It fails with IOException or TimeoutException where there is no answer. */
    private CompletableFuture<Answer> once(String url, Request request) {
        HttpClient client = http;
        if (client == null) {
            throw new IllegalStateException("the client is closed");
        }
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(url + request.target)).setHeader("User-Agent", "tarry-java");
        builder.method(request.method, request.body.length > 0 || request.method.equals("POST")
            ? HttpRequest.BodyPublishers.ofByteArray(request.body) : HttpRequest.BodyPublishers.noBody());
        if (request.body.length > 0) {
            builder.setHeader("Content-Type", "application/json");
        }
        if (authorization != null) {
            builder.setHeader("Authorization", authorization);
        }
        if (!CANCEL_CUTS) {
            builder.timeout(request.timeout);
        }
        CompletableFuture<HttpResponse<byte[]>> sent = client.sendAsync(builder.build(), HttpResponse.BodyHandlers.ofByteArray());
        CompletableFuture<Answer> shown = new CompletableFuture<>();
        shown.orTimeout(request.timeout.toNanos(), TimeUnit.NANOSECONDS);
        shown.whenComplete((answer, fault) -> {
            if (fault != null && CANCEL_CUTS) {
                sent.cancel(true);
            }
        });
        sent.whenComplete((response, fault) -> {
            if (fault != null) {
                shown.completeExceptionally(fault);
            } else {
                Answer answer = new Answer(response);
                if (!shown.complete(answer)) {
                    request.late.accept(answer);
                }
            }
        });
        return shown;
    }
}
