import delay.*;
import io.tarry.Client;
import io.tarry.MykitDelay;
import org.apache.dubbo.config.*;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;

/** A Dubbo consumer of MykitDelay, which a Dubbo provider of this process serves: arguments are the address of --mykit, the protocol of Dubbo, and its port. */
public class DubboDelay {
    public static void main(String[] words) {
        var service = new ServiceConfig<Delay>();
        service.setInterface(Delay.class);
        service.setRef(MykitDelay.of(Delay.class, Client.builder().url("http://" + words[0]).build()));
        service.setVersion("1.0.0");
        var reference = new ReferenceConfig<Delay>();
        reference.setInterface(Delay.class);
        reference.setVersion("1.0.0");
        reference.setUrl(words[1] + "://tarry.test:" + words[2] + "/delay.Delay");
        reference.setTimeout(20000);
        reference.setCheck(false);
        reference.setScope("remote");
        reference.setRetries(0);
        var application = new ApplicationConfig("test");
        application.setQosEnable(false);
        application.setSerializeCheckStatus("DISABLE");
        var protocol = new ProtocolConfig(words[1], Integer.parseInt(words[2]));
        protocol.setHost("127.0.0.1");
        DubboBootstrap.getInstance().application(application).registry(new RegistryConfig("N/A")).protocol(protocol).service(service).reference(reference).start();
        Delay delay = reference.get();
        show("push", delay.push(new Job("orders", "o-1", "b-7", 3600000, "{\"total\":12}")));
        show("push", delay.push(new Job("orders", "o-2", null, 3600000, "x")));
        show("no topic", delay.push(new Job(null, "o-3", null, 0, "x")));
        show("delete", delay.delete("o-2"));
        show("finish", delay.finish("o-1"));
        show("restore job", delay.reStoreJob("none"));
        show("clear", delay.clearAll());
        System.out.println("made " + (delay.push(new Job("orders", null, null, 3600000, "y")).data instanceof String));
        System.exit(0);
    }

    private static void show(String call, Answer answer) {
        System.out.println(call + " " + answer.success + " " + answer.data);
    }
}
