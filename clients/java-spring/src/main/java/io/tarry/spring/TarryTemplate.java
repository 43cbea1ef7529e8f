package io.tarry.spring;

import io.tarry.Client;
import io.tarry.Push;
import io.tarry.Pushed;
import io.tarry.TarryException;
import java.util.ArrayList;
import java.util.List;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Pushes that go with the transaction of the thread. */
public class TarryTemplate {
    private final Client client;

    public TarryTemplate(Client client) {
        this.client = client;
    }

    /**
     * Pushes once the transaction is committed, and not if it is rolled back; immediately without a transaction. A delay counts from then. If the
     * push fails, the commit is already done: the exception comes out of the transaction's end, and the rows exist.
     */
    public void pushAfterCommit(Push push) {
        if (!TransactionSynchronizationManager.isActualTransactionActive() || !TransactionSynchronizationManager.isSynchronizationActive()) {
            client.push(push);
            return;
        }
        pendingOfTransaction().pushes.add(push);
    }

    /** Returns the one object of this transaction: of several, Spring would skip those after the first that fails. */
    private Pending pendingOfTransaction() {
        for (TransactionSynchronization one : TransactionSynchronizationManager.getSynchronizations()) {
            if (one instanceof Pending pending && pending.client == client) {
                return pending;
            }
        }
        Pending pending = new Pending(client);
        TransactionSynchronizationManager.registerSynchronization(pending);
        return pending;
    }

    private static final class Pending implements TransactionSynchronization {
        private final Client client;
        private final List<Push> pushes = new ArrayList<>();

        private Pending(Client client) {
            this.client = client;
        }

        @Override
        public void afterCommit() {
            TarryException first = null;
            for (Pushed one : client.pushMany(pushes)) {
                TarryException error = one.error().orElse(null);
                if (first == null) {
                    first = error;
                } else if (error != null) {
                    first.addSuppressed(error);
                }
            }
            if (first != null) {
                throw first;
            }
        }
    }
}
