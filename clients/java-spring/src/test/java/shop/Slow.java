package shop;

import io.tarry.Job;
import io.tarry.spring.TarryListener;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Component;

/** A listener that takes its time, and needs the database at its end. */
@Component
class Slow {
    private final JdbcTemplate db;
    final CountDownLatch begun = new CountDownLatch(1);
    final CountDownLatch mayEnd = new CountDownLatch(1);
    volatile int rowsAtEnd = -1;

    Slow(JdbcTemplate db) {
        this.db = db;
    }

    @TarryListener(topic = "${orders.topic}-slow", concurrency = 1)
    void work(Job job) throws InterruptedException {
        begun.countDown();
        mayEnd.await(10, TimeUnit.SECONDS);
        rowsAtEnd = db.update("INSERT INTO orders (id, closed) VALUES (?, TRUE)", job.id());
    }
}
