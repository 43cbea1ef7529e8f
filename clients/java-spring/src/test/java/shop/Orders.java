package shop;

import io.tarry.Job;
import io.tarry.Push;
import io.tarry.spring.TarryListener;
import io.tarry.spring.TarryTemplate;
import java.time.Duration;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

@Service
public class Orders {
    private final JdbcTemplate db;
    private final TarryTemplate tarry;
    private final String topic;
    private final Duration payWithin;

    public Orders(JdbcTemplate db, TarryTemplate tarry, @Value("${orders.topic:orders}") String topic, @Value("${orders.pay-within:30m}") Duration payWithin) {
        this.db = db;
        this.tarry = tarry;
        this.topic = topic;
        this.payWithin = payWithin;
    }

    @Transactional
    public void place(String order) {
        db.update("INSERT INTO orders (id, closed) VALUES (?, FALSE)", order);
        tarry.pushAfterCommit(new Push(topic, Map.of("order", order)).id(order).delay(payWithin));
    }

    @TarryListener(topic = "${orders.topic:orders}", concurrency = 4)
    @Transactional
    public void close(Job job) {
        db.update("UPDATE orders SET closed = TRUE WHERE id = ?", job.id());
    }
}
