package io.tarry;

/** A choice of members of a batch to list: {@code new Members().outcome("dead")}. */
public final class Members {
    private final StringBuilder options = new StringBuilder();
    private int page = 100;

    /** {@code unfinished}, {@code acked}, {@code dead}, {@code cancelled} or {@code expired}. */
    public Members outcome(String outcome) {
        options.append("&outcome=").append(Api.quote(outcome));
        return this;
    }

    /** Requests the results of finished members. */
    public Members results() {
        options.append("&results=true");
        return this;
    }

    /** Sets the number of members per request. */
    public Members page(int page) {
        this.page = page;
        return this;
    }

    String query(String cursor) {
        return "?limit=" + page + options + (cursor == null ? "" : "&cursor=" + Api.quote(cursor));
    }
}
