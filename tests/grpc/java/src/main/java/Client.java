import com.google.protobuf.ByteString;
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import tarry.v1.*;

/** The calls of the service by the generated client of grpc-java: the argument is the address. */
public class Client {
    public static void main(String[] words) throws Exception {
        var channel = ManagedChannelBuilder.forTarget(words[0]).usePlaintext().build();
        var stub = QueueGrpc.newBlockingStub(channel);
        for (String id : List.of("a", "b"))
            stub.withDeadlineAfter(20, TimeUnit.SECONDS).push(PushRequest.newBuilder().setTopic("mail").setId(id).setBody(ByteString.copyFromUtf8("x\0")).putMeta("k", "v").build());
        var job = stub.withDeadlineAfter(20, TimeUnit.SECONDS).take(TakeRequest.newBuilder().addTopics("mail").build()).getJobs(0);
        System.out.println("taken " + job.getId() + " " + job.getBody().size() + " " + job.getMetaOrThrow("k"));
        var ack = AnswerRequest.newBuilder().setLease(job.getLease()).build();
        stub.ack(ack);
        try {
            stub.ack(ack);
        } catch (StatusRuntimeException error) {
            System.out.println("error " + error.getStatus().getCode());
        }
        System.out.println("empty " + stub.withDeadlineAfter(2, TimeUnit.SECONDS).take(TakeRequest.newBuilder().addTopics("none").build()).getJobsCount());
        var ended = new CountDownLatch(1);
        @SuppressWarnings("unchecked")
        StreamObserver<WorkRequest>[] out = new StreamObserver[1];
        out[0] = QueueGrpc.newStub(channel).work(new StreamObserver<WorkResponse>() {
            public void onNext(WorkResponse message) {
                System.out.println("work " + message.getKindCase().name().toLowerCase() + (message.hasJob() ? " " + message.getJob().getId() : ""));
                if (!message.hasJob()) return;
                var answer = AnswerRequest.newBuilder().setLease(message.getJob().getLease());
                out[0].onNext(WorkRequest.newBuilder().setAnswer(Answer.newBuilder().setVerb(Verb.VERB_ACK).setAnswer(answer)).build());
                out[0].onCompleted();
            }

            public void onError(Throwable error) {
                System.out.println("error " + error);
                ended.countDown();
            }

            public void onCompleted() {
                System.out.println("end");
                ended.countDown();
            }
        });
        out[0].onNext(WorkRequest.newBuilder().setHello(Hello.newBuilder().addTopics("mail").setCredit(5).setConfirm(true)).build());
        ended.await(20, TimeUnit.SECONDS);
        channel.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
    }
}
