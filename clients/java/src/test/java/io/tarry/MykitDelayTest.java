package io.tarry;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class MykitDelayTest {
    /** Answers as those of mykit-delay. */
    public static class Answer {
        final String message;

        private Answer(String message) {
            this.message = message;
        }

        public static Answer ok(Object data) {
            return new Answer(null);
        }

        public static Answer error(String message) {
            return new Answer(message);
        }
    }

    /** Answers that cannot report a failure. */
    public static class OnlyOk {
        public static OnlyOk ok(Object data) {
            return new OnlyOk();
        }
    }

    /** Answers whose factory is a method of an object. */
    public static class NotStatic {
        public static NotStatic ok(Object data) {
            return new NotStatic();
        }

        public NotStatic error(String message) {
            return this;
        }
    }

    public interface Delay {
        Answer push(Object job);

        Answer delete(Object id);

        Answer unknown();
    }

    public interface LacksError {
        OnlyOk push(Object job);
    }

    public interface LacksStatic {
        NotStatic push(Object job);
    }

    /** A job whose property, or the text of an id, cannot be read. */
    public static class Broken {
        public String getTopic() {
            throw new IllegalStateException("no topic today");
        }

        @Override
        public String toString() {
            throw new UnsupportedOperationException();
        }
    }

    private static Client away() {
        return Client.builder().url("http://127.0.0.1:1").build();
    }

    @Test
    void answersReportEveryFailure() {
        try (Client client = away()) {
            Delay delay = MykitDelay.of(Delay.class, client);
            assertTrue(delay.push(new Broken()).message.contains("no topic today"));
            assertEquals("java.lang.UnsupportedOperationException", delay.delete(new Broken()).message);
            assertTrue(delay.unknown().message.contains("'unknown'"));
        }
    }

    @Test
    void answersNeedBothFactories() {
        try (Client client = away()) {
            assertThrows(IllegalArgumentException.class, () -> MykitDelay.of(LacksError.class, client));
            assertThrows(IllegalArgumentException.class, () -> MykitDelay.of(LacksStatic.class, client));
        }
    }
}
