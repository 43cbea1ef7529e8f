package shop;

import io.tarry.Job;
import io.tarry.Retry;
import io.tarry.spring.TarryListener;
import java.time.Duration;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Transactional;

/** A listener in a transaction that fails at first. */
@Component
class Tries {
    private final JdbcTemplate db;

    Tries(JdbcTemplate db) {
        this.db = db;
    }

    @TarryListener(topic = "${orders.topic}-fails")
    @Transactional
    public void failOnce(Job job) {
        db.update("INSERT INTO orders (id, closed) VALUES (?, FALSE)", job.id() + " " + job.attempt());
        if (job.attempt() == 1) {
            throw new Retry(Duration.ofMillis(50), "not yet");
        }
    }
}
