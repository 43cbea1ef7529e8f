package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tarry.Client;
import io.tarry.Job;
import io.tarry.Push;
import io.tarry.TarryException;
import io.tarry.spring.TarryListener;
import io.tarry.spring.TarryListeners;
import io.tarry.spring.TarryTemplate;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.support.TransactionTemplate;

/** A real application on a real database (H2), against the server that TARRY_URL names. */
class SpringTest {
    private static final Duration LONG = Duration.ofHours(1);

    private final String topic = "spring-" + System.nanoTime();
    private final Client client = new Client();
    private ConfigurableApplicationContext context;

    @AfterEach
    void close() {
        if (context != null) {
            context.close();
        }
        client.close();
    }

    private void start(String payWithin, Class<?>... more) {
        context = new SpringApplicationBuilder(Shop.class).sources(more).web(WebApplicationType.NONE).run(
                "--tarry.url=" + System.getenv("TARRY_URL"), "--orders.topic=" + topic, "--orders.pay-within=" + payWithin,
                "--spring.main.banner-mode=off", "--logging.level.root=warn", "--spring.datasource.generate-unique-name=true");
    }

    private static void eventually(BooleanSupplier what) throws InterruptedException {
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10); !what.getAsBoolean(); Thread.sleep(20)) {
            assertTrue(System.nanoTime() < end, "it does not come");
        }
    }

    private int rows(String where) {
        return context.getBean(JdbcTemplate.class).queryForObject("SELECT count(*) FROM orders WHERE " + where, Integer.class);
    }

    private TransactionTemplate transaction() {
        return context.getBean(TransactionTemplate.class);
    }

    private boolean isThere(String id) {
        return client.get(topic, id).isPresent();
    }

    @Test
    void anOrderThatIsNotPaidIsClosedByItsListener() throws Exception {
        start("100ms");
        context.getBean(Orders.class).place("1001");
        eventually(() -> rows("closed") == 1);
        eventually(() -> !isThere("1001")); // acked
    }

    @Test
    void aJobIsPushedWhenTheTransactionIsCommittedAndNotBefore() {
        start("1h");
        transaction().executeWithoutResult(status -> {
            context.getBean(Orders.class).place("1001");
            assertFalse(isThere("1001"));
        });
        assertTrue(isThere("1001"));
        assertEquals(1, rows("id = '1001'"));
    }

    @Test
    void aTransactionThatIsRolledBackPushesNothing() {
        start("1h");
        transaction().executeWithoutResult(status -> {
            context.getBean(Orders.class).place("1001");
            status.setRollbackOnly();
        });
        assertEquals(0, rows("id = '1001'"));
        assertFalse(isThere("1001"));
    }

    @Test
    void withoutATransactionAJobIsPushedAtOnce() {
        start("1h");
        context.getBean(TarryTemplate.class).pushAfterCommit(new Push(topic, "").id("1").delay(LONG));
        assertTrue(isThere("1"));
    }

    @Test
    void oneThatIsRefusedKeepsNoOtherOfTheTransactionBack() {
        start("1h");
        TarryTemplate tarry = context.getBean(TarryTemplate.class);
        TarryException fault = assertThrows(TarryException.class, () -> transaction().executeWithoutResult(status -> {
            tarry.pushAfterCommit(new Push(topic, "").id("too-long").delay(Duration.ofDays(36_500)));
            tarry.pushAfterCommit(new Push(topic, "").id("good").delay(LONG));
        }));
        assertTrue(fault.getMessage().contains("delay"), fault.getMessage());
        assertTrue(isThere("good"));
    }

    @Test
    void aListenerThatFailsLeavesNoRowsAndIsTriedAgain() throws Exception {
        start("1h");
        client.push(new Push(topic + "-fails", "").id("1"));
        eventually(() -> rows("id LIKE '1 %'") == 1);
        assertEquals(1, rows("id = '1 2'"));
    }

    @Test
    void aJobUnderWayHasItsDatabaseToItsEndWhenTheContextCloses() throws Exception {
        start("1h");
        Slow slow = context.getBean(Slow.class);
        TarryListeners listeners = context.getBean(TarryListeners.class);
        for (String id : List.of("1", "2")) {
            client.push(new Push(topic + "-slow", "").id(id).delay(Duration.ZERO));
        }
        assertTrue(slow.begun.await(10, TimeUnit.SECONDS));
        CompletableFuture<Void> closed = CompletableFuture.runAsync(context::close);
        eventually(() -> !listeners.isRunning());
        assertFalse(closed.isDone());
        slow.mayEnd.countDown();
        closed.get(10, TimeUnit.SECONDS);
        assertEquals(1, slow.rowsAtEnd);
        assertTrue(client.get(topic + "-slow", "1").isEmpty(), "it is acked");
        assertEquals("ready", client.get(topic + "-slow", "2").orElseThrow().state());
    }

    /** A listener without an annotation: only the test that names it has it. */
    static class Wrong {
        @Bean
        Object wrong() {
            return new WrongListener();
        }
    }

    static class WrongListener {
        @TarryListener(topic = "orders")
        void close(Job job, String more) {
            throw new AssertionError(job + more);
        }
    }

    @Test
    void aListenerThatCannotBeCalledStopsTheStart() {
        Exception fault = assertThrows(Exception.class, () -> start("1h", Wrong.class));
        String all = fault + " " + fault.getCause();
        assertTrue(all.contains("give it one parameter, of io.tarry.Job"), all);
    }
}
