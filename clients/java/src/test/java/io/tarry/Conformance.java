package io.tarry;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;

/** The adapter for clients/conformance: JSON lines in, JSON lines out. */
public final class Conformance {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<String, Worker> WORKERS = new ConcurrentHashMap<>();
    private static final Map<String, Job> TAKEN = new ConcurrentHashMap<>();
    private static Client client;

    /** A request of the suite. */
    private static final class Request {
        final Map<String, Object> members;

        Request(Map<String, Object> members) {
            this.members = members;
        }

        boolean has(String name) {
            return members.get(name) != null;
        }

        String text(String name) {
            return (String) members.get(name);
        }

        int number(String name, int otherwise) {
            return has(name) ? ((Number) members.get(name)).intValue() : otherwise;
        }

        Duration duration(String name) {
            return has(name) ? Duration.ofMillis(((Number) members.get(name)).longValue()) : null;
        }

        Instant instant(String name) {
            return has(name) ? Instant.ofEpochMilli(((Number) members.get(name)).longValue()) : null;
        }

        List<String> texts(String name) {
            return ((List<?>) members.get(name)).stream().map(String.class::cast).collect(Collectors.toList());
        }

        List<Request> requests(String name) {
            return ((List<?>) members.get(name)).stream().map(Request::of).collect(Collectors.toList());
        }

        @SuppressWarnings("unchecked")
        static Request of(Object found) {
            return new Request((Map<String, Object>) found);
        }

        Object body() {
            return has("body_base64") ? Base64.getDecoder().decode(text("body_base64")) : has("text") ? text("text") : members.get("json");
        }

        /** The result that a request or a step of a handler describes. */
        Object result() {
            if (!has("result")) {
                return null;
            }
            Request given = of(members.get("result"));
            return given.has("base64") ? Base64.getDecoder().decode(given.text("base64")) : given.has("text") ? given.text("text") : given.members.get("json");
        }

        String resultType() {
            return has("result") ? of(members.get("result")).text("content_type") : null;
        }

        /** The leases as they are, or their jobs. */
        List<?> given() {
            return has("as") ? texts("leases").stream().map(TAKEN::get).collect(Collectors.toList()) : texts("leases");
        }

        Schedule schedule() {
            Schedule out = body() == null ? new Schedule(text("topic")) : new Schedule(text("topic"), body());
            if (has("cron")) {
                out.cron(members.get("cron") instanceof List ? texts("cron").toArray(new String[0]) : new String[] {text("cron")});
            }
            Optional.ofNullable(duration("every_ms")).ifPresent(out::every);
            Optional.ofNullable(text("zone")).ifPresent(out::zone);
            if (has("members")) {
                of(members.get("members")).members.forEach(out::with);
            }
            return Boolean.TRUE.equals(members.get("take_over")) ? out.takeOver() : out;
        }

        List<Push> pushes(String name) {
            return requests(name).stream().map(Request::push).collect(Collectors.toList());
        }

        Push push() {
            Object body = body();
            Push push = new Push(text("topic"), body);
            Optional.ofNullable(text("id")).ifPresent(push::id);
            Optional.ofNullable(duration("delay_ms")).ifPresent(push::delay);
            Optional.ofNullable(instant("at_ms")).ifPresent(push::at);
            Optional.ofNullable(duration("ttl_ms")).ifPresent(push::ttl);
            Optional.ofNullable(text("backoff")).ifPresent(push::backoff);
            Optional.ofNullable(text("on_conflict")).ifPresent(push::onConflict);
            Optional.ofNullable(text("once")).ifPresent(push::once);
            Optional.ofNullable(text("content_type")).ifPresent(push::contentType);
            Optional.ofNullable(duration("keep_finished_ms")).ifPresent(push::keepFinished);
            Optional.ofNullable(text("group")).ifPresent(push::group);
            Optional.ofNullable(text("parent")).ifPresent(push::parent);
            Optional.ofNullable(text("on_dead")).ifPresent(push::onDead);
            Optional.ofNullable(duration("wait_at_most_ms")).ifPresent(push::waitAtMost);
            Optional.ofNullable(duration("close_within_ms")).ifPresent(push::closeWithin);
            if (has("batch")) {
                Request batch = of(members.get("batch"));
                push.batch(batch.text("topic"), batch.text("id"));
            }
            if (has("waits")) {
                push.waits();
            }
            if (members.get("members") instanceof List) {
                push.memberJobs(pushes("members"));
            } else if (has("members")) {
                push.members(number("members", 0));
            }
            if (has("priority")) {
                push.priority(number("priority", 0));
            }
            if (has("max_attempts")) {
                push.maxAttempts(number("max_attempts", 0));
            }
            if (has("meta")) {
                of(members.get("meta")).members.forEach((name, value) -> push.meta(name, value.toString()));
            }
            return push;
        }
    }

    private static Map<String, Object> object(Object... pairs) {
        Map<String, Object> out = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            out.put((String) pairs[at], pairs[at + 1]);
        }
        return out;
    }

    private static synchronized void say(Map<String, Object> line) {
        OUT.println(Json.write(line));
        OUT.flush();
    }

    private static Map<String, Object> problem(TarryException fault) {
        return object("kind", fault.getClass().getSimpleName(), "code", fault.code(), "status", fault.status(), "detail", fault.detail());
    }

    private static Map<String, Object> job(Job job) {
        boolean isDecoded = job.codecError().isEmpty();
        return object("topic", job.topic(), "id", job.id(), "lease", job.lease(), "attempt", job.attempt(), "delivery", job.delivery(),
            "body_base64", isDecoded ? Base64.getEncoder().encodeToString(job.body()) : null, "codec_error", job.codecError().map(TarryException::detail).orElse(null), "content_type", job.contentType(), "meta", job.meta(), "consumer", job.consumer().orElse(null),
            "cancel_requested", job.isCancelRequested(), "state", job.state(), "group", job.group().orElse(null), "waits_for", job.waitsFor().orElse(null), "outcomes", job.outcomes(),
            "batch", job.batch().map(name -> object("topic", name.getKey(), "id", name.getValue())).orElse(null), "outcome", job.outcome().orElse(null), "progress", job.progress().orElse(null),
            "last_error", job.lastError().orElse(null), "finished_at_ms", job.finishedAt() == null ? null : job.finishedAt().toEpochMilli(),
            "duration_ms", job.duration().map(Duration::toMillis).orElse(null), "result_type", job.resultType().orElse(null),
            "result_base64", !isDecoded ? null : job.result().map(Base64.getEncoder()::encodeToString).orElse(null));
    }

    private static String lower(Enum<?> one) {
        return one.name().toLowerCase(Locale.ROOT);
    }

    private static Object pushed(Pushed one) {
        return one.error().isPresent() ? object("error", problem(one.error().get()))
            : object("id", one.id(), "result", lower(one.result()), "due_at_ms", one.dueAt() == null ? null : one.dueAt().toEpochMilli());
    }

    private static Object results(List<Optional<TarryException>> found) {
        return object("results", found.stream().map(one -> one.map(TarryException::code).orElse("ok")).collect(Collectors.toList()));
    }

    private static Object done(boolean isDone) {
        return object("done", isDone);
    }

    private static Object carryOut(Request request) {
        String topic = request.text("topic");
        String id = request.text("id");
        switch (request.text("op")) {
            case "open":
                Client.Builder builder = Client.builder().url(request.text("url")).token(request.text("token"));
                Optional.ofNullable(request.duration("retry_for_ms")).ifPresent(builder::retryFor);
                Optional.ofNullable(request.duration("timeout_ms")).ifPresent(builder::timeout);
                client = builder.codec(codec(request)).build();
                return Map.of();
            case "recode": // for bench/codec.py
                Codec codec = codec(request);
                byte[] body = Base64.getDecoder().decode(request.text("body_base64"));
                byte[] decoded = body;
                for (int n = 0; n < request.number("times", 0); n++) {
                    Codec.Content made = codec.encode(body, request.text("content_type"));
                    decoded = codec.decode(made.data(), made.type()).data();
                }
                return object("body_base64", Base64.getEncoder().encodeToString(decoded));
            case "push":
                return pushed(client.push(request.push()));
            case "push_many":
                return client.pushMany(request.pushes("items")).stream().map(Conformance::pushed).collect(Collectors.toList());
            case "push_batch":
                Client.Batch batch = client.pushBatch(Request.of(request.members.get("job")).push(), request.pushes("members"));
                return object("closed", batch.isClosed(), "results", batch.results().stream().map(Conformance::pushed).collect(Collectors.toList()));
            case "close_batch":
                client.closeBatch(topic, id);
                return done(true);
            case "members":
                Members choice = new Members().page(request.number("page", 100));
                Optional.ofNullable(request.text("outcome")).ifPresent(choice::outcome);
                return object("jobs", client.members(topic, id, choice).map(Conformance::job).collect(Collectors.toList()));
            case "cancel":
                return done(client.cancel(topic, id));
            case "cancel_batch":
                return done(client.cancelBatch(topic, id));
            case "request_cancel":
                Client.Cancel found = client.requestCancel(topic, id);
                return object("result", found == Client.Cancel.NOT_FOUND ? null : lower(found));
            case "run":
                client.run(topic, id);
                return done(true);
            case "reschedule":
                Integer priority = request.has("priority") ? (Integer) request.number("priority", 0) : null;
                if (request.has("at_ms")) {
                    client.reschedule(topic, id, request.instant("at_ms"), priority);
                } else {
                    client.reschedule(topic, id, request.duration("delay_ms"), priority);
                }
                return done(true);
            case "get":
                return object("job", client.get(topic, id).map(Conformance::job).orElse(null));
            case "list":
                Listing listing = new Listing().page(request.number("page", 100));
                Optional.ofNullable(request.text("state")).ifPresent(listing::state);
                return object("ids", client.list(topic, listing).map(Job::id).collect(Collectors.toList()));
            case "take":
                Take take = new Take(request.texts("topics")).max(request.number("max", 1)).waitFor(request.duration("wait_ms")).lease(request.duration("lease_ms")).consumer(request.text("consumer"));
                List<Job> taken = client.take(take);
                taken.forEach(job -> TAKEN.put(job.lease(), job));
                return object("jobs", taken.stream().map(Conformance::job).collect(Collectors.toList()));
            case "ack":
                if (request.has("as") && !request.has("result") && !request.text("as").equals("list")) {
                    return results(client.ack(request.given().toArray(new Job[0])));
                }
                return results(client.ack(new Ack(request.given()).result(request.result()).contentType(request.resultType()).hold(request.duration("hold_ms"))));
            case "nack":
                Nack nack = new Nack(request.given()).delay(request.duration("delay_ms")).error(request.text("error")).result(request.result()).contentType(request.resultType()).hold(request.duration("hold_ms"));
                return results(client.nack(Boolean.TRUE.equals(request.members.get("final")) ? nack.isFinal() : nack));
            case "extend":
                Extend extend = new Extend(request.given()).lease(request.duration("lease_ms"));
                return results(client.extend(request.has("progress") ? extend.progress(request.text("progress")) : extend));
            case "push_and_wait":
                return object("job", job(client.pushAndWait(request.push(), request.duration("wait_ms"))));
            case "wait":
                Wait wait = new Wait().timeout(request.duration("timeout_ms"));
                request.texts("ids").forEach(one -> wait.job(topic, one));
                return object("jobs", client.waitFor(Boolean.TRUE.equals(request.members.get("any")) ? wait.any() : wait).stream().map(Conformance::job).collect(Collectors.toList()));
            case "again":
                return done(client.again(request.texts("leases").get(0), request.text("text"), request.duration("delay_ms")));
            case "schedule":
                Scheduled made = client.schedule(request.text("name"), request.schedule());
                return object("result", lower(made.result()), "next_ms", made.next().map(Instant::toEpochMilli).orElse(null));
            case "unschedule":
                return done(client.unschedule(request.text("name")));
            case "give_back":
                return results(client.giveBack(request.given()));
            case "worker":
                WORKERS.put(request.text("name"), worker(request));
                return Map.of();
            case "stop":
                WORKERS.remove(request.text("name")).stop(request.duration("grace_ms"));
                return Map.of();
            case "verify":
                return object("valid", isValid(request));
            case "quit":
                return Map.of();
            default:
                throw new IllegalArgumentException("no such request: " + request.text("op"));
        }
    }

    /** The codec that a request describes. */
    private static Codec codec(Request request) {
        if (!request.has("codec")) {
            return null;
        }
        Request given = Request.of(request.members.get("codec"));
        Codec codec = new Codec().context(Optional.ofNullable(given.text("context")).orElse(""));
        if (given.has("gzip")) {
            codec.gzip();
        }
        if (given.has("keys")) {
            Map<String, byte[]> keys = new LinkedHashMap<>();
            Request.of(given.members.get("keys")).members.forEach((id, key) -> keys.put(id, Base64.getDecoder().decode((String) key)));
            codec.aesGcm(given.text("current"), keys);
        }
        if (given.has("claim_check")) {
            Request check = Request.of(given.members.get("claim_check"));
            codec.claimCheck(new Codec.DirectoryStore(java.nio.file.Path.of(check.text("directory"))), check.number("above", 0), true);
        }
        return codec;
    }

    private static boolean isValid(Request request) {
        try {
            Instant now = request.has("now_ms") ? request.instant("now_ms") : Instant.now();
            Signature.verify(request.texts("secrets"), Request.of(request.members.get("headers")).members, Base64.getDecoder().decode(request.text("body_base64")), now);
            return true;
        } catch (BadSignature fault) {
            return false;
        }
    }

    /** The handler that treats jobs by the plan. */
    private static Worker.Handler handler(String name, Request plan) {
        return job -> {
            say(object("event", "began", "worker", name, "id", job.id(), "attempt", job.attempt(), "delivery", job.delivery()));
            List<Request> steps = plan.has("by_attempt") ? plan.requests("by_attempt") : List.of(plan);
            Request step = steps.get(Math.min(job.attempt(), steps.size()) - 1);
            if (step.has("progress")) {
                say(object("event", "reported", "worker", name, "id", job.id(), "done", job.reportProgress(step.text("progress"))));
            }
            job.setResult(step.result());
            try {
                Thread.sleep(step.number("sleep_ms", 0));
            } catch (InterruptedException interrupt) {
                say(object("event", "notified", "worker", name, "id", job.id(), "cancel_requested", job.isCancelRequested()));
                if (!Boolean.FALSE.equals(step.members.get("heeds"))) {
                    throw interrupt;
                }
            }
            switch (step.text("do")) {
                case "fail":
                    throw new IllegalStateException(step.text("error"));
                case "retry":
                    throw new Retry(step.duration("after_ms"), step.text("error"));
                case "reject":
                    throw new Reject(step.text("error"));
                default:
            }
        };
    }

    private static Worker worker(Request request) {
        String name = request.text("name");
        boolean isByTopic = request.has("handlers");
        Worker.Builder builder = isByTopic ? Worker.builder(client) : Worker.builder(client, request.texts("topics"), handler(name, Request.of(request.members.get("handler"))));
        if (isByTopic) {
            Request.of(request.members.get("handlers")).members.forEach((topic, plan) -> builder.handler(topic, handler(name, Request.of(plan))));
        }
        if (request.has("log")) {
            builder.log((Boolean) request.members.get("log"));
        }
        return builder.concurrency(request.number("concurrency", 10)).lease(request.duration("lease_ms")).consumer(request.text("consumer"))
            .onDone((job, outcome, took) -> say(object("event", "ended", "worker", name, "id", job.id(), "attempt", job.attempt(), "outcome", lower(outcome))))
            .onError((fault, what) -> System.err.println(Instant.now() + " " + what + " " + fault))
            .start();
    }

    public static void main(String... arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Request request = Request.of(Json.parse(line));
            Object number = request.members.get("n");
            try {
                say(object("ok", carryOut(request), "n", number));
            } catch (TarryException fault) {
                say(object("error", problem(fault), "n", number));
            }
            if (request.text("op").equals("quit")) {
                System.exit(0);
            }
        }
    }
}
