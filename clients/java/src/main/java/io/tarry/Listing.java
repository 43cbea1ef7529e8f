package io.tarry;

/** A choice of jobs to list: {@code new Listing().state("delayed").idPrefix("order-")}. */
public final class Listing {
    private final StringBuilder options = new StringBuilder();
    private int page = 100;

    /** {@code delayed}, {@code retrying}, {@code ready}, {@code leased} or {@code dead}. */
    public Listing state(String state) {
        options.append("&state=").append(Api.quote(state));
        return this;
    }

    public Listing idPrefix(String prefix) {
        options.append("&id_prefix=").append(Api.quote(prefix));
        return this;
    }

    /** Requests the jobs' bodies. */
    public Listing bodies() {
        options.append("&body=base64");
        return this;
    }

    /** Sets the number of jobs per request. */
    public Listing page(int page) {
        this.page = page;
        return this;
    }

    String query(String cursor) {
        return "?limit=" + page + options + (cursor == null ? "" : "&cursor=" + Api.quote(cursor));
    }
}
