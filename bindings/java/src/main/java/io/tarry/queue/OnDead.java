package io.tarry.queue;

/**
 * The effect of a dead member on the job that waits for it. GO: the member has ended. HOLD: it has not ended until it is redriven or cancelled. STOP:
 * the other members are cancelled, and those that are leased get a request.
 */
public enum OnDead { GO, HOLD, STOP }
