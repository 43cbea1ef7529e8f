package delay;

import java.io.Serializable;

/** A job as a bean. Dubbo serializes it. */
public class Job implements Serializable {
    private static final long serialVersionUID = 1;
    private String topic, id, bizKey, body;
    private long delay;

    public Job() {
    }

    public Job(String topic, String id, String bizKey, long delay, String body) {
        this.topic = topic;
        this.id = id;
        this.bizKey = bizKey;
        this.delay = delay;
        this.body = body;
    }

    public String getTopic() {
        return topic;
    }

    public String getId() {
        return id;
    }

    public String getBizKey() {
        return bizKey;
    }

    public String getBody() {
        return body;
    }

    public long getDelay() {
        return delay;
    }
}
