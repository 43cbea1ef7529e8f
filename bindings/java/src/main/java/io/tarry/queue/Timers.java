package io.tarry.queue;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;

/**
 * Numbers that become due: a queue of libtarry whose jobs have numbers as ids. Not for several threads at the same time. Its memory outside
 * of the heap is freed by the garbage collector.
 */
final class Timers {
    private static final Cleaner CLEANER = Cleaner.create();

    static {
        NativeLibrary.ensure();
    }

    private final long handle;

    Timers() {
        long opened = open();
        if (opened == 0) {
            throw new OutOfMemoryError("no memory for a queue of libtarry");
        }
        handle = opened;
        CLEANER.register(this, () -> free(opened));
    }

    /** Adds a number; one that exists gets the new due time. */
    void add(int number, long delayMs) {
        try {
            check(push(handle, number, delayMs));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** One that is not there is fine. */
    void remove(int number) {
        try {
            int code = cancel(handle, number);
            check(code == Code.NOT_FOUND ? Code.OK : code);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Numbers that are due, in that order, as many as there is room for at most; they are gone from here. */
    int takeDue(int[] out) {
        try {
            int count = pop(handle, out);
            check(Math.max(-count, 0));
            return count;
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** For how many milliseconds nothing is due; -1: nothing is there. It may be less than until the first. */
    long nextMs() {
        try {
            return nextMs(handle);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    void removeAll() {
        try {
            check(clear(handle));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private static void check(int code) {
        if (code == Code.NO_MEMORY) {
            throw new OutOfMemoryError("no memory for a timer of libtarry");
        }
        if (Code.isRefusal(code)) {
            throw TarryException.of(code, null, null, 0);
        }
    }

    private static native long open();

    private static native void free(long handle);

    private static native int push(long handle, int number, long delayMs);

    private static native int cancel(long handle, int number);

    private static native int pop(long handle, int[] out);

    private static native long nextMs(long handle);

    private static native int clear(long handle);
}
