package delay;

/** An interface with calls of mykit-delay's Dubbo interface. */
public interface Delay {
    Answer push(Job job);

    Answer delete(String jobId);

    Answer finish(String jobId);

    Answer reStoreJob(String jobId);

    Answer reStore(Boolean expire);

    Answer clearAll();
}
