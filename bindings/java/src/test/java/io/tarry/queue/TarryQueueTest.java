package io.tarry.queue;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** Every call, by the test clock: what comes out, when, and what is refused by which exception. */
public class TarryQueueTest {
    private static final Instant START = Instant.parse("2026-03-01T12:00:00Z");

    private TarryQueue queue;

    @Before
    public void open() {
        queue = new TarryQueue.Options().testClock(START).open();
    }

    @After
    public void close() {
        queue.close();
    }

    /** Lets time pass. A delay of D ms has ended when D + 1 have passed. */
    private void pass(Duration time) {
        queue.advance(time.plusMillis(1));
    }

    private Job takeNow(String topic) throws InterruptedException {
        return queue.poll(Duration.ZERO, topic);
    }

    @Test
    public void aJobComesOutWhenItIsDueAndNotBefore() throws Exception {
        Outcome pushed = queue.push(new Push("orders", "1001").id("1001").delay(Duration.ofMinutes(30)));
        assertEquals("created", pushed.code());
        assertEquals("1001", pushed.id());
        queue.advance(Duration.ofMinutes(30).minusMillis(1));
        assertNull(takeNow("orders"));
        queue.advance(Duration.ofMillis(2));
        Job job = takeNow("orders");
        assertEquals("1001", job.text());
        assertEquals(1, job.attempt());
        assertEquals(State.LEASED, job.state());
        assertEquals(pushed.dueAt(), job.dueAt());
        job.ack();
        assertNull(queue.get("orders", "1001"));
        assertThrows(TarryException.LeaseEnded.class, job::ack);
    }

    @Test
    public void allOptionsOfAPushReachTheJob() throws Exception {
        byte[] body = new byte[5000];
        Arrays.fill(body, (byte) 0xff);
        queue.push(new Push("t", body).id("a").at(START.plusSeconds(60)).priority(7).ttl(Duration.ofMinutes(1)).lease(Duration.ofSeconds(5))
                .maxAttempts(2).backoff(Backoff.fixed(Duration.ofSeconds(10))).meta(Map.of("trace", "ü")).contentType("image/png"));
        pass(Duration.ofSeconds(60));
        Job job = takeNow("t");
        assertArrayEquals(body, job.body());
        assertEquals(7, job.priority());
        assertEquals(Map.of("trace", "ü"), job.meta());
        assertEquals("image/png", job.contentType());
        long leaseMs = Duration.between(queue.now(), job.leaseUntil()).toMillis();
        assertTrue("" + leaseMs, leaseMs >= 5000 && leaseMs <= 5001);
        job.nack("kein Öl");
        pass(Duration.ofMillis(7900)); // ten seconds, give or take a fifth
        assertNull(takeNow("t"));
        pass(Duration.ofMillis(4100));
        job = takeNow("t");
        assertEquals(2, job.attempt());
        assertEquals("kein Öl", job.lastError());
        assertEquals("failed", job.history().get(0).outcome);
        assertEquals("kein Öl", job.history().get(0).error);
        job.nack(null);
        assertEquals(State.DEAD, queue.get("t", "a").state());
    }

    @Test
    public void aPushOfAnIdThatExistsGoesByOnConflict() {
        Push push = new Push("t", "1").id("a").delay(Duration.ofSeconds(1));
        assertEquals("created", queue.push(push).code());
        assertEquals("replaced", queue.push(push).code());
        assertEquals("existed", queue.push(push.onConflict(OnConflict.KEEP)).code());
        TarryException refused = assertThrows(TarryException.Conflict.class, () -> queue.push(push.onConflict(OnConflict.REJECT)));
        assertEquals("conflict", refused.code);
        assertEquals(State.DELAYED, refused.state);
    }

    @Test
    public void oncePreventsASecondPushAfterTheAck() throws Exception {
        Push push = new Push("t", "1").once("order-7").onceFor(Duration.ofMinutes(1));
        assertEquals("created", queue.push(push).code());
        takeNow("t").ack();
        assertEquals("existed", queue.push(push).code());
        assertEquals("created", queue.push(new Push("t", "1").once("order-8")).code());
        assertThrows(TarryException.Refused.class, () -> queue.push(new Push("t").once("two words")));
    }

    @Test
    public void whatIsRefusedIsRefusedByName() {
        assertEquals("bad_topic", assertThrows(TarryException.Refused.class, () -> queue.push(new Push(".t"))).code);
        assertEquals("bad_id", assertThrows(TarryException.Refused.class, () -> queue.push(new Push("t").id("a b"))).code);
        TarryException refused = assertThrows(TarryException.Refused.class, () -> queue.push(new Push("t").delay(Duration.ofMillis(-5))));
        assertEquals("bad_option", refused.code);
        assertEquals("delay_ms", refused.detail);
        assertEquals("body_too_big", assertThrows(TarryException.Refused.class, () -> queue.push(new Push("t", new byte[1024 * 1024 + 1]))).code);
        assertThrows(IllegalArgumentException.class, () -> queue.push(new Push("t\0t")));
        assertThrows(IllegalArgumentException.class, () -> new Take("t").max(1001));
        assertThrows(TarryException.Refused.class, () -> queue.take(new Take().wait(Duration.ZERO)));
        assertThrows(TarryException.Refused.class, () -> new TarryQueue.Options().testClock(Instant.ofEpochSecond(1L << 50)).open());
        assertThrows(TarryException.NotFound.class, () -> queue.reschedule("t", "a", Duration.ZERO));
        String[] many = new String[65];
        Arrays.fill(many, "t");
        assertThrows(TarryException.Refused.class, () -> queue.take(new Take(many).wait(Duration.ZERO)));
    }

    @Test
    public void batchesGoInPartsAndAnItemThatIsRefusedSpoilsNoOther() throws Exception {
        List<Push> pushes = new ArrayList<>();
        for (int i = 0; i < 2500; i++) {
            pushes.add(i == 1700 ? new Push(".t") : new Push("t", "x").id("" + i));
        }
        List<Outcome> outcomes = queue.pushAll(pushes);
        assertEquals(2500, outcomes.size());
        for (int i = 0; i < 2500; i++) {
            assertEquals(i == 1700, outcomes.get(i).refusal() != null);
        }
        int count = 0;
        for (Job job : queue.list("t", State.READY)) {
            assertEquals("" + (count < 1700 ? count : count + 1), job.id());
            count++;
        }
        assertEquals(2499, count);
        List<Job> taken = new ArrayList<>();
        for (List<Job> some; !(some = queue.take(new Take("t").max(1000).wait(Duration.ZERO))).isEmpty();) {
            taken.addAll(some);
        }
        assertEquals(2499, taken.size());
        for (Outcome outcome : queue.ackAll(taken)) {
            assertNull(outcome.refusal());
        }
        assertEquals(0, queue.topic("t").leased);
    }

    @Test
    public void cancelReturnsWhetherTheJobExisted() throws Exception {
        queue.push(new Push("t").id("a").delay(Duration.ofMinutes(1)));
        assertTrue(queue.cancel("t", "a"));
        assertFalse(queue.cancel("t", "a"));
        queue.push(new Push("t").id("b"));
        Job job = takeNow("t");
        assertEquals("leased", assertThrows(TarryException.Conflict.class, () -> queue.cancel("t", "b")).code);
        assertEquals("requested", queue.requestCancel("t", "b"));
        assertTrue(job.extend());
        job.nack("asked to");
        assertNull(queue.get("t", "b"));
        assertNull(queue.requestCancel("t", "b"));
    }

    @Test
    public void aJobWaitsForItsMembers() throws Exception {
        queue.push(new Push("t").id("w").waits().onDead(OnDead.HOLD).closeWithin(Duration.ofMinutes(1)).waitAtMost(Duration.ofHours(1)));
        queue.pushAll(List.of(new Push("m").id("a").batch("t", "w"), new Push("m").id("b").batch("t", "w")));
        Batch own = queue.get("t", "w").batch();
        assertTrue(own.hasOwn() && !own.isClosed() && own.topic().isEmpty());
        assertEquals(2, own.waitsFor());
        assertEquals("w", queue.get("m", "a").batch().id());
        queue.closeBatch("t", "w");
        Job parent = takeNow("m");
        queue.push(new Push("m").id("c").batch("t", "w").parent(parent));
        assertEquals("batch_closed", assertThrows(TarryException.class, () -> queue.push(new Push("m").id("d").batch("t", "w"))).code);
        parent.ack();
        int count = 0;
        for (Job member : queue.members("t", "w", MemberOutcome.UNFINISHED)) {
            assertTrue(List.of("b", "c").contains(member.id()));
            count++;
        }
        assertEquals(2, count);
        assertThrows(TarryException.class, () -> queue.members("t", "none", null).iterator().hasNext());
        takeNow("m").ack();
        takeNow("m").ack();
        Job last = takeNow("t");
        assertEquals(Map.of("tarry-batch", "acked=3 dead=0 cancelled=0 expired=0 missing=0"), last.meta());
        assertTrue(last.batch().hasEnded());
        assertEquals(3, (int) last.batch().outcomes().get(MemberOutcome.ACKED));
    }

    @Test
    public void aCancelledBatchEndsWithItsMembers() throws Exception {
        queue.push(new Push("t").id("w").waits().members(2));
        queue.pushAll(List.of(new Push("m").id("a").batch("t", "w"), new Push("m").id("b").batch("t", "w")));
        assertTrue(queue.get("t", "w").batch().isClosed());
        Job held = takeNow("m");
        assertTrue(queue.cancelBatch("t", "w"));
        assertFalse(queue.cancelBatch("t", "w"));
        assertTrue(held.extend());
        assertNull(takeNow("m"));
    }

    @Test
    public void aJobIsRescheduledAndRunByItsId() throws Exception {
        Instant due = queue.push(new Push("t").id("a").delay(Duration.ofHours(1))).dueAt();
        assertEquals(due.plusSeconds(3600), queue.reschedule("t", "a", Duration.ofHours(2)).dueAt());
        assertEquals(START.plusSeconds(90), queue.reschedule("t", "a", START.plusSeconds(90)).dueAt());
        queue.reprioritize("t", "a", 1);
        assertEquals(1, queue.get("t", "a").priority());
        queue.run("t", "a");
        assertNotNull(takeNow("t"));
    }

    @Test
    public void answersExtendGiveBackAndComeAgain() throws Exception {
        queue.push(new Push("t", "1").id("a"));
        Job job = queue.take(new Take("t").lease(Duration.ofSeconds(10)).consumer("host:1")).get(0);
        assertEquals("host:1", queue.get("t", "a").consumer());
        queue.advance(Duration.ofSeconds(9));
        assertFalse(queue.extend(job, Duration.ofSeconds(20)));
        queue.advance(Duration.ofSeconds(19));
        job.giveBack();
        job = takeNow("t");
        assertEquals(1, job.attempt());
        job.again("2".getBytes(), Duration.ofMinutes(1));
        assertNull(takeNow("t"));
        pass(Duration.ofMinutes(1));
        job = takeNow("t");
        assertEquals("2", job.text());
        job.again(null, null);
        Job last = takeNow("t");
        assertEquals("2", last.text());
        queue.reject(last, "never");
        assertEquals(State.DEAD, queue.get("t", "a").state());
        assertThrows(TarryException.LeaseEnded.class, () -> last.again(null, null));
        Job seen = queue.get("t", "a");
        assertThrows(TarryException.LeaseEnded.class, () -> seen.again(null, null));
    }

    @Test
    public void jobsComeByPriorityThenDueAndFromSeveralTopics() throws Exception {
        queue.push(new Push("a", "3").priority(200));
        queue.push(new Push("a", "1").priority(1));
        queue.push(new Push("a", "2"));
        queue.push(new Push("b", "4"));
        StringBuilder order = new StringBuilder();
        for (Job job : queue.pop(new Take("a", "b").max(10))) {
            order.append(job.text());
        }
        assertEquals("1234", order.toString());
    }

    @Test
    public void aListHasAWaitForEachRetry() throws Exception {
        Backoff list = Backoff.list(Duration.ofSeconds(10), Duration.ofMinutes(1));
        assertEquals("list:10000ms,60000ms", list.toString());
        queue.putTopic("u", new Settings().backoff(list));
        assertEquals(list, queue.settings("u").backoff());
        queue.push(new Push("t").id("a").backoff(list));
        for (int seconds : new int[] {10, 60, 60}) {
            takeNow("t").nack("no");
            pass(Duration.ofMillis(790L * seconds)); // give or take a fifth
            assertNull(takeNow("t"));
            pass(Duration.ofMillis(420L * seconds));
        }
        assertThrows(IllegalArgumentException.class, () -> Backoff.list(Duration.ofDays(60)));
    }

    @Test
    public void topicsHaveSettingsAndFigures() throws Exception {
        Settings settings = new Settings().lease(Duration.ofSeconds(5)).ttl(Duration.ofSeconds(100)).maxAttempts(3)
                .backoff(Backoff.exponential(Duration.ofMillis(100), Duration.ofSeconds(5))).priority(9).onConflict(OnConflict.KEEP)
                .dedupWindow(Duration.ofMinutes(1)).maxJobs(2).deadLetterExpired(true);
        queue.putTopic("t", settings);
        Settings found = queue.settings("t");
        assertEquals(settings.lease(), found.lease());
        assertEquals(settings.ttl(), found.ttl());
        assertEquals(3, found.maxAttempts());
        assertEquals(settings.backoff(), found.backoff());
        assertEquals(Integer.valueOf(9), found.priority());
        assertEquals(OnConflict.KEEP, found.onConflict());
        assertEquals(settings.dedupWindow(), found.dedupWindow());
        assertEquals(2, found.maxJobs());
        assertTrue(found.deadLetterExpired());
        queue.push(new Push("t").id("a"));
        queue.push(new Push("t").id("b").delay(Duration.ofSeconds(1)));
        assertEquals("topic_full", assertThrows(TarryException.Full.class, () -> queue.push(new Push("t"))).code);
        assertEquals(1, queue.topic("t").ready);
        assertEquals(1, queue.topic("t").delayed);
        assertThrows(TarryException.NotFound.class, () -> queue.topic("missing"));
        queue.pause("t", null);
        assertTrue(queue.topic("t").isPaused);
        assertNull(takeNow("t"));
        queue.resume("t");
        queue.reject(takeNow("t"), null);
        assertEquals(1, queue.redrive("t", null, 0));
        assertEquals(1, queue.purge("t", State.DELAYED));
        assertEquals(1, queue.deleteTopic("t"));
        for (int i = 0; i < 250; i++) {
            queue.putTopic(String.format("n%03d", i), new Settings());
        }
        assertEquals(250, queue.topics().size());
        assertEquals("n249", queue.topics().get(249).name);
    }

    @Test
    public void aJobOutlivesItsQueue() throws Exception {
        queue.push(new Push("t", "kept"));
        Job job = takeNow("t");
        queue.close();
        queue.close();
        assertEquals("kept", job.text());
        assertThrows(TarryException.Closed.class, job::ack);
        assertThrows(TarryException.Closed.class, () -> job.again(null, null));
        assertThrows(TarryException.Closed.class, () -> queue.push(new Push("t")));
        assertThrows(TarryException.Closed.class, () -> queue.take("t"));
        assertThrows(TarryException.Closed.class, () -> queue.topics());
        assertThrows(TarryException.Closed.class, () -> queue.list("t", null).iterator().hasNext());
        assertThrows(TarryException.Closed.class, () -> queue.now());
    }

    @Test
    public void jobsInADirectoryOutliveTheirQueueAndOneAtATimeHasIt() throws Exception {
        Path dir = Files.createTempDirectory("tarry").resolve("queue");
        TarryQueue.Options options = new TarryQueue.Options().dir(dir).sync(TarryQueue.Sync.ALWAYS);
        try (TarryQueue kept = options.open()) {
            kept.push(new Push("t", "kept").id("a"));
            TarryException refused = assertThrows(TarryException.Unavailable.class, options::open);
            assertTrue(refused.getMessage(), refused.getMessage().contains(dir.toString()));
        }
        try (TarryQueue kept = options.open()) {
            Job job = kept.poll(Duration.ofSeconds(60), "t");
            assertEquals("kept", job.text());
            job.again("again".getBytes(), Duration.ofMillis(5));
            job = kept.poll(Duration.ofSeconds(60), "t");
            assertEquals("again", job.text());
            job.ack();
        } finally {
            try (Stream<Path> files = Files.walk(dir.getParent())) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            }
        }
    }

    @Test
    public void aQueueIsFullAtItsLimit() {
        try (TarryQueue small = new TarryQueue.Options().memoryMax(100_000).open()) {
            TarryException full = assertThrows(TarryException.Full.class, () -> {
                for (int i = 0; i < 10_000; i++) {
                    small.push(new Push("t", new byte[100]));
                }
            });
            assertEquals("no_space", full.code);
            assertThrows(TarryException.Refused.class, () -> small.advance(Duration.ofMillis(1)));
        }
    }

    @Test
    public void aKeptJobIsFoundWithItsResult() throws Exception {
        queue.putTopic("t", new Settings().keepFinished(Duration.ofHours(1)).keepFinishedMax(2).keepBody(true));
        assertEquals(Duration.ofHours(1), queue.settings("t").keepFinished());
        assertEquals(2, queue.settings("t").keepFinishedMax());
        assertTrue(queue.settings("t").keepBody());
        for (int i = 0; i < 3; i++) {
            queue.push(new Push("t", "body").id("" + i));
            Job job = takeNow("t");
            job.extend("half");
            job.ack("result " + i);
        }
        Job kept = queue.get("t", "2");
        assertEquals(State.FINISHED, kept.state());
        assertEquals("acked", kept.outcome());
        assertEquals("result 2", kept.resultText());
        assertEquals("text/plain; charset=utf-8", kept.resultType());
        assertEquals("half", kept.progress());
        assertEquals("body", kept.text());
        assertNotNull(kept.finishedAt());
        List<String> ids = new ArrayList<>();
        queue.list("t", State.FINISHED).forEach(job -> ids.add(job.id()));
        assertEquals(List.of("2", "1"), ids);
        assertEquals(2, queue.topic("t").finished);
    }

    @Test
    public void aPushDecidesHowLongItsJobIsKept() throws Exception {
        queue.push(new Push("t").id("a").keepFinished(Duration.ofMinutes(1)));
        queue.pop("t");
        assertEquals("acked", queue.get("t", "a").outcome());
        pass(Duration.ofMinutes(1));
        assertNull(queue.get("t", "a"));
    }

    @Test
    public void aWaitEndsWithTheJobOrWithItsTime() throws Exception {
        try (TarryQueue real = TarryQueue.open()) {
            real.push(new Push("t").id("a").delay(Duration.ofHours(1)));
            assertEquals(State.DELAYED, real.await("t", "a", Duration.ofMillis(10)).state());
            assertNull(real.await("t", "unknown", Duration.ZERO));
            Thread worker = new Thread(() -> {
                try {
                    real.take("t").ack(new byte[] {1, 0, 2}, null);
                } catch (InterruptedException never) {
                    throw new IllegalStateException(never);
                }
            });
            worker.start();
            Job ended = real.pushAndAwait(new Push("t", "x"), Duration.ofSeconds(30));
            worker.join();
            assertEquals("acked", ended.outcome());
            assertArrayEquals(new byte[] {1, 0, 2}, ended.result());
            assertNull(ended.resultType());
        }
    }
}
