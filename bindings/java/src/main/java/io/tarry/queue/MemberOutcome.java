package io.tarry.queue;

/** The outcome of a member of a batch. */
public enum MemberOutcome { UNFINISHED, ACKED, DEAD, CANCELLED, EXPIRED }
