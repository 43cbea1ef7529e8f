import io.tarry.queue.Job;
import io.tarry.queue.Push;
import io.tarry.queue.TarryQueue;
import java.time.Duration;
import java.time.Instant;

/** An order that is not paid within half an hour is closed, by a queue inside the program. Half an hour passes in no time:
 * its clock is a test clock. */
public class OrderTimeout {
    private final TarryQueue queue;

    OrderTimeout(TarryQueue queue) {
        this.queue = queue;
    }

    /** The job has the order's own number: the order number is enough to cancel it. */
    void place(String number) {
        queue.push(new Push("orders", number).id(number).delay(Duration.ofMinutes(30)));
        System.out.println("order " + number + " placed");
    }

    void pay(String number) {
        if (queue.cancel("orders", number)) {
            System.out.println("order " + number + " paid, nothing to close");
        }
    }

    /** Your own worker runs without end: take("orders") waits for the next order. */
    void closeOverdue() throws InterruptedException {
        for (Job job; (job = queue.poll(Duration.ZERO, "orders")) != null;) {
            System.out.println("order " + job.text() + " closed: not paid in time");
            job.ack();
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        // A program that is not a test opens its queue by TarryQueue.open().
        try (TarryQueue queue = new TarryQueue.Options().testClock(Instant.now()).open()) {
            OrderTimeout orders = new OrderTimeout(queue);
            orders.place("1001");
            orders.place("1002");
            queue.advance(Duration.ofMinutes(29));
            orders.pay("1001");
            orders.closeOverdue();
            System.out.println("a minute later");
            queue.advance(Duration.ofMinutes(1).plusMillis(1));
            orders.closeOverdue();
        }
    }
}
