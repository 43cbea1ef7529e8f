import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import io.grpc.Metadata;
import io.grpc.Status;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Base64;

/** The lines that adapter.py describes. */
abstract class Lines {
    private static final Metadata.Key<byte[]> DETAILS = Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

    /** Where the method of this name is called, with the time that it has. */
    abstract Object stub(int ms);

    abstract String nameOf(String method);

    abstract void work(String number, String text) throws Exception;

    Status statusOf(Throwable fault) {
        return Status.fromThrowable(fault);
    }

    static synchronized void show(String number, int status, String rest) {
        System.out.println(number + "\t" + status + "\t" + rest);
    }

    static String text(Message message) throws Exception {
        return JsonFormat.printer().preservingProtoFieldNames().omittingInsignificantWhitespace().print(message);
    }

    void fail(String number, Throwable fault) {
        Metadata trailers = Status.trailersFromThrowable(fault);
        byte[] details = trailers == null ? null : trailers.get(DETAILS);
        show(number, statusOf(fault).getCode().value(), details == null ? "" : Base64.getEncoder().encodeToString(details));
    }

    private void unary(String number, String name, int ms, String text) {
        try {
            Object stub = stub(ms);
            Method method = Arrays.stream(stub.getClass().getMethods()).filter(one -> one.getName().equals(nameOf(name)) && one.getParameterCount() == 1).findFirst().orElseThrow();
            var request = (Message.Builder) method.getParameterTypes()[0].getMethod("newBuilder").invoke(null);
            JsonFormat.parser().merge(text, request);
            show(number, 0, text((Message) method.invoke(stub, request.build())));
        } catch (InvocationTargetException fault) {
            fail(number, fault.getCause());
        } catch (Exception fault) {
            fault.printStackTrace();
            System.exit(1);
        }
    }

    void run() throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = lines.readLine()) != null;) {
            String[] words = line.split("\t", 4);
            if (words[1].equals("Work")) work(words[0], words[3]);
            else new Thread(() -> unary(words[0], words[1], Integer.parseInt(words[2]), words[3])).start();
        }
        System.exit(0);
    }
}
