package io.tarry;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class GathererTest {
    private final List<List<Gatherer.Item>> requests = new ArrayList<>();
    private final List<CompletableFuture<List<Pushed>>> answers = new ArrayList<>();
    private final Gatherer gatherer = new Gatherer(items -> {
        requests.add(items);
        answers.add(new CompletableFuture<>());
        return answers.get(answers.size() - 1);
    });

    private CompletableFuture<Gatherer.First> push(String id, String body) {
        return gatherer.push(new Gatherer.Item(new Push("t", body).id(id), null));
    }

    private void answer(int nth) {
        answers.get(nth).complete(requests.get(nth).stream().map(one -> Pushed.of(one.id, Map.of("result", "created"))).collect(Collectors.toList()));
    }

    @Test
    void whatComesMeanwhileGoesTogetherAndEachGetsItsOwnResult() {
        List<CompletableFuture<Gatherer.First>> results = IntStream.range(0, 10).mapToObj(at -> push("" + at, "x")).collect(Collectors.toList());
        assertEquals(List.of(1, 1, 1, 1), requests.stream().map(List::size).collect(Collectors.toList()));
        answer(2);
        assertEquals("2", results.get(2).join().pushed.id());
        assertEquals(6, requests.get(4).size());
        answer(4);
        assertEquals(List.of("4", "5", "6", "7", "8", "9"), results.subList(4, 10).stream().map(one -> one.join().pushed.id()).collect(Collectors.toList()));
        assertFalse(results.get(0).isDone());
        push("alone", "x");
        assertEquals(6, requests.size());
    }

    @Test
    void oneThatIsCancelledWhileItWaitsIsNotPushed() {
        List<CompletableFuture<Gatherer.First>> results = IntStream.range(0, 7).mapToObj(at -> push("" + at, "x")).collect(Collectors.toList());
        results.get(5).cancel(false);
        answer(0);
        assertEquals(List.of("4", "6"), requests.get(4).stream().map(one -> one.id).collect(Collectors.toList()));
    }

    @Test
    void bigOnesDoNotShare() {
        IntStream.range(0, 6).forEach(at -> push("" + at, "x".repeat(300_000)));
        answer(0);
        assertEquals(1, requests.get(4).size());
    }

    @Test
    void anErrorOfARequestWithSeveralItemsNamesItAsShared() {
        List<CompletableFuture<Gatherer.First>> results = IntStream.range(0, 7).mapToObj(at -> push("" + at, "x")).collect(Collectors.toList());
        answers.get(0).completeExceptionally(TarryException.of(413, Map.of(), null));
        answers.get(4).completeExceptionally(TarryException.of(413, Map.of(), null));
        assertFalse(results.get(0).join().isShared);
        assertTrue(results.get(5).join().isShared);
        answers.get(1).completeExceptionally(new IllegalStateException("the client is closed"));
        assertThrows(RuntimeException.class, () -> results.get(1).join());
    }

    @Test
    void anItemThatIsNoTextIsItsCallersAlone() {
        assertThrows(IllegalArgumentException.class, () -> push("\ud800", "x"));
        assertTrue(requests.isEmpty());
    }
}
