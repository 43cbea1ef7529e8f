package io.tarry.queue;

/** Effect of a push whose id exists. */
public enum OnConflict {
    /** Replaces body and due time; attempts begin again. The default. */
    REPLACE,
    /** Changes nothing, and the answer shows this. */
    KEEP,
    /** The push is refused. */
    REJECT,
    /** Runs after the job that a consumer holds, however its lease ends; else like REPLACE. Only for a push. */
    AFTER;

    static OnConflict of(int number) {
        return number >= 1 && number <= values().length ? values()[number - 1] : null;
    }

    static int number(OnConflict one) {
        return one == null ? 0 : one.ordinal() + 1;
    }
}
