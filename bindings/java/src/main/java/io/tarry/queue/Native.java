package io.tarry.queue;

/** The functions of queue.c. Arguments and answers are packed, see Pack. */
final class Native {
    static final int PUSH = 1;
    static final int CANCEL = 2;
    static final int RESCHEDULE = 3;
    static final int RUN = 4;
    static final int ACK = 5;
    static final int NACK = 6;
    static final int EXTEND = 7;
    static final int RETURN = 8;
    static final int AGAIN = 9;
    static final int CLOSE_BATCH = 13;

    static final int GET = 1;
    static final int LIST = 2;
    static final int TOPIC_PUT = 3;
    static final int TOPIC_GET = 4;
    static final int TOPIC_SETTINGS = 5;
    static final int TOPIC_DELETE = 6;
    static final int TOPIC_PAUSE = 7;
    static final int TOPIC_RESUME = 8;
    static final int TOPIC_PURGE = 9;
    static final int TOPIC_REDRIVE = 10;
    static final int TOPICS = 11;
    static final int MEMBERS = 12;

    static final int HAS_PRIORITY = 1;
    static final int HAS_AT = 2;
    static final int HAS_DELAY = 16;
    static final int FINAL = 32;
    static final int WITH_BODY = 64;
    static final int DEAD_LETTER_EXPIRED = 128;
    static final int REQUEST = 256;
    static final int HAS_KEEP_FINISHED = 512;
    static final int KEEP_BODY = 1024;
    static final int WAITS = 2048;
    static final int WITH_MEMBERS = 4096;
    static final int TEST_CLOCK = 1;

    static {
        NativeLibrary.ensure();
    }

    private Native() {}

    static native byte[] open(byte[] packed, int length);

    static native int close(long handle);

    static native void free(long handle);

    static native byte[] call(long handle, int kind, byte[] packed, int length, int count);

    static native byte[] take(long handle, byte[] packed, int length, boolean pops, long waitMs, long tag);

    static native byte[] await(long handle, byte[] packed, int length, boolean pushes, long waitMs, long tag);

    static native boolean interrupt(long handle, long tag);

    static native void freeJob(long job);

    static native byte[] look(long handle, int look, byte[] packed, int length);

    static native int advance(long handle, long ms);

    static native long nowMs(long handle);

    static native String codeName(int code);

    static native String sentence(int code);
}
