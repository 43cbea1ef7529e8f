package delay;

import java.io.Serializable;

/** An answer with the static methods that MykitDelay needs. Dubbo serializes it. */
public class Answer implements Serializable {
    private static final long serialVersionUID = 1;
    public boolean success;
    public Object data;
    public String message;

    public static Answer ok(Object data) {
        Answer made = new Answer();
        made.success = true;
        made.data = data;
        return made;
    }

    public static Answer error(String message) {
        Answer made = new Answer();
        made.message = message;
        return made;
    }
}
