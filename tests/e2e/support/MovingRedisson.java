import io.netty.buffer.Unpooled;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.JsonJacksonCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.config.Config;

/**
 * java -cp JARS/* MovingRedisson.java fill PORT      a delayed queue of Redisson's own for each of three codecs, with two elements that are not due and one that is
 * java -cp JARS/* MovingRedisson.java read CODEC     standard input: bodies in base64, a line each; prints what the codec reads in them
 */
@SuppressWarnings("deprecation") // what came after RDelayedQueue is sold
public final class MovingRedisson {
    private static Codec codec(String name) {
        return switch (name) {
            case "text" -> StringCodec.INSTANCE;
            case "json" -> new JsonJacksonCodec();
            default -> new Kryo5Codec();
        };
    }

    private static void fill(int port) throws InterruptedException {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        RedissonClient client = Redisson.create(config);
        for (String name : List.of("text", "json", "kryo")) {
            RBlockingQueue<String> ready = client.getBlockingQueue(name, codec(name));
            RDelayedQueue<String> delayed = client.getDelayedQueue(ready);
            delayed.offer("due ü", 1, TimeUnit.MILLISECONDS);
            while (ready.isEmpty()) {
                Thread.sleep(5);
            }
            delayed.offer("in ten years, about", 3650, TimeUnit.DAYS);
            delayed.offer("in ten years, about", 3650, TimeUnit.DAYS);
            delayed.destroy();
        }
        client.shutdown();
    }

    public static void main(String[] words) throws Exception {
        if (words[0].equals("fill")) {
            fill(Integer.parseInt(words[1]));
            return;
        }
        for (String line : new String(System.in.readAllBytes(), StandardCharsets.UTF_8).split("\n")) {
            System.out.println(codec(words[1]).getValueDecoder().decode(Unpooled.wrappedBuffer(Base64.getDecoder().decode(line)), null));
        }
    }
}
