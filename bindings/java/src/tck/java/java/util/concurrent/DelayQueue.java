package java.util.concurrent;

import io.tarry.queue.TarryDelayQueue;
import java.util.Collection;

/**
 * Replaces the JDK's class of this name in the Java machine that runs its tests (--patch-module), so that neither their source nor their
 * classes mention another queue.
 */
public class DelayQueue<E extends Delayed> extends TarryDelayQueue<E> {
    public DelayQueue() {}

    public DelayQueue(Collection<? extends E> from) {
        super(from);
    }
}
