package io.tarry.queue;

/** What becomes of a push whose id exists. */
public enum OnConflict {
    /** New body and due, and attempts begin anew. The default. */
    REPLACE,
    /** Nothing changes, and the answer says so. */
    KEEP,
    /** The push is refused. */
    REJECT;

    static OnConflict of(int number) {
        return number >= 1 && number <= values().length ? values()[number - 1] : null;
    }

    static int number(OnConflict one) {
        return one == null ? 0 : one.ordinal() + 1;
    }
}
