package io.tarry;

/** The callback was not signed with one of the secrets, or not just now. */
public final class BadSignature extends RuntimeException {
    private static final long serialVersionUID = 1L;

    BadSignature(String detail) {
        super(detail);
    }
}
