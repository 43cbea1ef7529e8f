package io.tarry.queue;

import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.spi.AbstractSelectableChannel;
import java.nio.channels.spi.AbstractSelector;
import java.util.Set;

/**
 * Lets Thread.interrupt() end a wait in the library. The JDK has one public notification of an interrupt, that of selectors: the object
 * between whose begin() and end() a thread waits is woken by wakeup(). One object for each wait.
 */
final class Interruption extends AbstractSelector {
    private final Thread waiter = Thread.currentThread();
    private final long handle;
    private final long tag;
    private volatile boolean isOver;

    Interruption(long handle, long tag) {
        super(null);
        this.handle = handle;
        this.tag = tag;
    }

    /** The answer of a take that may wait. One that begins interrupted does not. */
    byte[] take(Pack pack, boolean pops, long waitMs) {
        begin();
        try {
            return Native.take(handle, pack.bytes, pack.length, pops, waiter.isInterrupted() ? 0 : waitMs, tag);
        } finally {
            isOver = true;
            end();
        }
    }

    /** The answer of a wait for the end of a job. */
    byte[] await(Pack pack, boolean pushes, long waitMs) {
        begin();
        try {
            return Native.await(handle, pack.bytes, pack.length, pushes, waiter.isInterrupted() ? 0 : waitMs, tag);
        } finally {
            isOver = true;
            end();
        }
    }

    /** Runs on the interrupting thread; repeats until the take has ended, because it may not have begun to wait. */
    @Override
    public Selector wakeup() {
        while (!isOver && Thread.currentThread() != waiter && !Native.interrupt(handle, tag)) {
            Thread.onSpinWait();
        }
        return this;
    }

    // Methods of a selector of channels, which this class is not.

    @Override
    protected void implCloseSelector() {}

    @Override
    protected SelectionKey register(AbstractSelectableChannel channel, int operations, Object attachment) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Set<SelectionKey> keys() {
        throw new UnsupportedOperationException();
    }

    @Override
    public Set<SelectionKey> selectedKeys() {
        throw new UnsupportedOperationException();
    }

    @Override
    public int selectNow() {
        throw new UnsupportedOperationException();
    }

    @Override
    public int select(long timeout) {
        throw new UnsupportedOperationException();
    }

    @Override
    public int select() {
        throw new UnsupportedOperationException();
    }
}
