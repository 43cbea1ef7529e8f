package io.tarry;

import java.io.ByteArrayOutputStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Function;

/**
 * Makes the first tries of single pushes. Pushes that come while four requests are in flight go together in the next one, because a request
 * costs both sides far more than a job in it; a single push does not wait for others. Each push is repeated by itself if its first try left it
 * open, so that it does not wait for another's pauses. Any thread may push; a thread of the transport completes a result. A push that is
 * cancelled before its request is made is not sent.
 */
final class Gatherer {
    private static final int REQUESTS_MAX = 4;
    /** Of items in one request: a big one goes by itself. */
    private static final int BYTES_MAX = 256 << 10;

    /** A push as the API takes it: checked and written before it joins others, so that a bad one only fails its own caller. */
    static final class Item {
        final String id;
        final byte[] json;

        Item(Push push, Codec codec) {
            this.json = Json.encode(Json.write(push.item(codec)));
            this.id = push.id();
        }

        /** The body of a request. */
        static byte[] array(List<Item> items) {
            ByteArrayOutputStream out = new ByteArrayOutputStream(items.stream().mapToInt(one -> one.json.length + 1).sum() + 1);
            for (Item one : items) {
                out.write(out.size() == 0 ? '[' : ',');
                out.writeBytes(one.json);
            }
            out.write(']');
            return out.toByteArray();
        }
    }

    /** The result of a first try. */
    static final class First {
        final Pushed pushed;
        final TarryException error;
        /** The error is that of a request with several, and may be another's. */
        final boolean isShared;

        First(Pushed pushed, TarryException error, boolean isShared) {
            this.pushed = pushed;
            this.error = error;
            this.isShared = isShared;
        }
    }

    private static final class Waiting {
        final Item item;
        final CompletableFuture<First> result = new CompletableFuture<>();

        Waiting(Item item) {
            this.item = item;
        }
    }

    private final Function<List<Item>, CompletableFuture<List<Pushed>>> request;
    private final ArrayDeque<Waiting> waiting = new ArrayDeque<>();
    private int underWay;

    Gatherer(Function<List<Item>, CompletableFuture<List<Pushed>>> request) {
        this.request = request;
    }

    CompletableFuture<First> push(Item item) {
        Waiting one = new Waiting(item);
        List<Waiting> those;
        synchronized (this) {
            waiting.add(one);
            if (underWay == REQUESTS_MAX) {
                return one.result;
            }
            underWay++;
            those = next();
        }
        send(those);
        return one.result;
    }

    /** Returns the pushes of the next request, without cancelled ones. The caller holds the lock. */
    private List<Waiting> next() {
        List<Waiting> those = new ArrayList<>();
        int bytes = 0;
        while (!waiting.isEmpty() && those.size() < Client.BATCH) {
            if (waiting.peek().result.isDone()) {
                waiting.poll();
                continue;
            }
            bytes += waiting.peek().item.json.length;
            if (bytes > BYTES_MAX && !those.isEmpty()) {
                break;
            }
            those.add(waiting.poll());
        }
        return those;
    }

    private void send(List<Waiting> those) {
        List<Item> items = new ArrayList<>();
        those.forEach(one -> items.add(one.item));
        CompletableFuture<List<Pushed>> sent;
        try {
            sent = request.apply(items);
        } catch (RuntimeException fault) {
            sent = CompletableFuture.failedFuture(fault);
        }
        sent.whenComplete((results, fault) -> {
            List<Waiting> more;
            synchronized (this) {
                more = next();
                if (more.isEmpty()) {
                    underWay--;
                }
            }
            if (!more.isEmpty()) {
                send(more);
            }
            for (int at = 0; at < those.size(); at++) {
                complete(those.get(at).result, results == null ? null : results.get(at), fault, those.size() > 1);
            }
        });
    }

    private static void complete(CompletableFuture<First> result, Pushed pushed, Throwable fault, boolean isShared) {
        Throwable cause = fault instanceof CompletionException && fault.getCause() != null ? fault.getCause() : fault;
        if (pushed != null) {
            result.complete(new First(pushed, pushed.error().orElse(null), false));
        } else if (cause instanceof TarryException) {
            result.complete(new First(null, (TarryException) cause, isShared));
        } else {
            result.completeExceptionally(cause);
        }
    }
}
