import com.google.protobuf.ByteString;
import org.apache.dubbo.config.*;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import tarry.v1.*;

/** Calls by Dubbo's Triple protocol: the argument is the address. */
public class Dubbo {
    public static void main(String[] words) {
        var reference = new ReferenceConfig<tarry.v1.Queue>();
        reference.setInterface(tarry.v1.Queue.class);
        reference.setUrl("tri://" + words[0]);
        reference.setTimeout(20000);
        reference.setCheck(false);
        reference.setRetries(0);
        var application = new ApplicationConfig("test");
        application.setQosEnable(false);
        DubboBootstrap.getInstance().application(application).registry(new RegistryConfig("N/A")).reference(reference).start();
        var queue = reference.get();
        for (String id : java.util.List.of("a", "b"))
            queue.Push(PushRequest.newBuilder().setTopic("mail").setId(id).setBody(ByteString.copyFromUtf8("x\0")).putMeta("k", "v").build());
        var job = queue.Take(TakeRequest.newBuilder().addTopics("mail").build()).getJobs(0);
        System.out.println("taken " + job.getId() + " " + job.getBody().size() + " " + job.getMetaOrThrow("k"));
        var ack = AnswerRequest.newBuilder().setLease(job.getLease()).build();
        queue.Ack(ack);
        try {
            queue.Ack(ack);
        } catch (Exception error) {
            System.out.println("error " + String.valueOf(error.getMessage()).replaceAll("(?s).*(FAILED_PRECONDITION).*", "$1"));
        }
        System.exit(0);
    }
}
