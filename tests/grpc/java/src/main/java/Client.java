import com.google.gson.Gson;
import com.google.protobuf.util.JsonFormat;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.stub.StreamObserver;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import tarry.v1.*;

/** Calls of the generated client of grpc-java: arguments are the address and repeats.json. */
public class Client extends Lines {
    private final ManagedChannel channel;
    private final Map<String, StreamObserver<WorkRequest>> streams = new HashMap<>();

    Client(String address, String repeats) {
        Map<String, ?> config = new Gson().fromJson(repeats, Map.class);
        channel = ManagedChannelBuilder.forTarget(address).usePlaintext().defaultServiceConfig(config).build();
        // There is no option for the reconnect backoff.
        Executors.newSingleThreadScheduledExecutor().scheduleWithFixedDelay(() -> {
            if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) channel.resetConnectBackoff();
        }, 200, 200, TimeUnit.MILLISECONDS);
    }

    @Override Object stub(int ms) {
        return QueueGrpc.newBlockingStub(channel).withDeadlineAfter(ms, TimeUnit.MILLISECONDS);
    }

    @Override String nameOf(String method) {
        return method.equals("Return") ? "return_" : method.substring(0, 1).toLowerCase() + method.substring(1);
    }

    @Override void work(String number, String text) throws Exception {
        var out = streams.computeIfAbsent(number, one -> QueueGrpc.newStub(channel).work(new StreamObserver<WorkResponse>() {
            public void onNext(WorkResponse message) {
                try {
                    show(number, -1, text(message));
                } catch (Exception fault) {
                    throw new IllegalStateException(fault);
                }
            }

            public void onError(Throwable fault) {
                fail(number, fault);
            }

            public void onCompleted() {
                show(number, 0, "");
            }
        }));
        if (text.isEmpty()) {
            out.onCompleted();
            return;
        }
        var message = WorkRequest.newBuilder();
        JsonFormat.parser().merge(text, message);
        try {
            out.onNext(message.build());
        } catch (IllegalStateException ended) {
            // onError has the reason
        }
    }

    public static void main(String[] words) throws Exception {
        new Client(words[0], Files.readString(Path.of(words[1]))).run();
    }
}
