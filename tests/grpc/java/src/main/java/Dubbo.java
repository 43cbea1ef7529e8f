import io.grpc.Status;
import org.apache.dubbo.config.*;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.StatusRpcException;
import tarry.v1.*;

/** Calls by Dubbo's Triple protocol: the argument is the address. Dubbo would repeat any call after a failure of the network, also a take, so that is switched off. */
public class Dubbo extends Lines {
    private final tarry.v1.Queue queue;

    Dubbo(String address) {
        var reference = new ReferenceConfig<tarry.v1.Queue>();
        reference.setInterface(tarry.v1.Queue.class);
        reference.setUrl("tri://" + address.replace("127.0.0.1", "tarry.test"));
        reference.setTimeout(20000);
        reference.setCheck(false);
        reference.setRetries(0);
        var application = new ApplicationConfig("test");
        application.setQosEnable(false);
        DubboBootstrap.getInstance().application(application).registry(new RegistryConfig("N/A")).reference(reference).start();
        queue = reference.get();
    }

    @Override Object stub(int ms) {
        return queue;
    }

    @Override String nameOf(String method) {
        return method;
    }

    @Override void work(String number, String text) {
        throw new UnsupportedOperationException();
    }

    @Override Status statusOf(Throwable fault) {
        for (Throwable one = fault; one != null; one = one.getCause())
            if (one instanceof StatusRpcException found) {
                var code = Status.fromCodeValue(found.getStatus().code.code);
                return code.getCode() == Status.Code.CANCELLED ? Status.UNAVAILABLE : code; // a connection that was cut
            }
        if (fault instanceof RpcException found && (found.isNetwork() || found.isNoInvokerAvailableAfterFilter())) return Status.UNAVAILABLE;
        fault.printStackTrace();
        return Status.UNKNOWN;
    }

    public static void main(String[] words) throws Exception {
        new Dubbo(words[0]).run();
    }
}
