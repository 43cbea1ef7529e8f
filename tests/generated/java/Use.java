import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.File;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import tarry.ApiClient;
import tarry.ApiException;
import tarry.api.ConsumeApi;
import tarry.api.JobsApi;
import tarry.api.PushApi;
import tarry.api.ServerApi;
import tarry.api.TopicsApi;
import tarry.model.AckLeases;
import tarry.model.Item;
import tarry.model.Job;
import tarry.model.NackLease;
import tarry.model.NackLeaseOptions;
import tarry.model.NackLeases;
import tarry.model.Problem;
import tarry.model.Result;
import tarry.model.ReturnLease;
import tarry.model.ReturnLeases;
import tarry.model.Settings;
import tarry.model.State;
import tarry.model.Taken;
import tarry.model.TopicCounts;

/** Uses the client that openapi-generator made for Java. Prints what it received as one JSON object. */
public final class Use {
    private interface Call {
        void make() throws ApiException;
    }

    private static final ObjectMapper JSON = ApiClient.createDefaultObjectMapper();

    private static List<Object> refusal(Call call) throws Exception {
        try {
            call.make();
        } catch (ApiException refused) {
            return List.of(refused.getCode(), JSON.readValue(refused.getResponseBody(), Problem.class).getCode());
        }
        return null;
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[0];
        ApiClient client = new ApiClient();
        client.updateBaseUri(System.getenv("TARRY_URL"));
        PushApi push = new PushApi(client);
        JobsApi jobs = new JobsApi(client);
        ConsumeApi consume = new ConsumeApi(client);
        TopicsApi topics = new TopicsApi(client);
        ServerApi server = new ServerApi(client);
        Map<String, Object> seen = new LinkedHashMap<>();

        Settings wanted = new Settings().leaseFor("45s").maxAttempts(3).pushRate("1000/s");
        Settings settings = topics.setTopic(topic, null, null, null, null, null, null, null, null, null, null, null, wanted).getSettings();
        seen.put("settings", List.of(settings.getLeaseFor(), settings.getMaxAttempts(), settings.getPushRate()));
        seen.put("patched", topics.patchTopic(topic, Map.of("max_attempts", "none")).getSettings().getMaxAttempts());

        File body = new File(arguments[1]);
        // The library `native` writes a file as JSON, so bytes are pushed in a batch.
        Item bytes = new Item().topic(topic).id("now").bodyBase64(Base64.getEncoder().encodeToString(Files.readAllBytes(body.toPath())));
        seen.put("pushed", push.pushBatch(List.of(bytes), null, null, null).getResults().get(0).getResult());
        seen.put("delayed", push.push(topic, "later", body, "1h", null, 7, null, null, "5", null, null, null, null, null).getState());
        List<List<Object>> listed = new ArrayList<>();
        for (Job job : jobs.listJobs(topic, State.DELAYED, null, null, null, null, null, null).getJobs()) {
            listed.add(List.of(job.getId(), job.getState(), job.getPriority()));
        }
        seen.put("listed", listed);
        seen.put("due_at", jobs.get(topic, "later", null).getDueAt().toEpochSecond());

        Taken job = consume.take(topic, 1, null, "30s", "base64", null, null).getJobs().get(0);
        seen.put("taken", List.of(job.getId(), job.getBodyBase64(), job.getAttempt()));
        seen.put("delivery", job.getDelivery());
        seen.put("extended", consume.extend(List.of(job.getLease()), "1m", null).getResults().get(0).getResult());
        seen.put("acked", consume.ack(null, new AckLeases().addLeasesItem(job.getLease())).getResults().get(0).getResult());
        seen.put("acked_again", refusal(() -> consume.ack(List.of(job.getLease()), null)));

        List<Item> items = List.of(new Item().topic(topic).id("a").body(Map.of("n", 1)).putMetaItem("kind", "x"),
                new Item().topic(topic).id("b").body("text"), new Item().topic(topic).id("b ad"));
        List<String> batch = new ArrayList<>();
        for (Result result : push.pushBatch(items, null, null, null).getResults()) {
            batch.add(result.getResult());
        }
        seen.put("batch", batch);
        List<Taken> taken = consume.takeAny(List.of(topic), 2, "5s", null, null, null, null).getJobs();
        Taken first = taken.get(0);
        Taken second = taken.get(1);
        seen.put("bodies", List.of(first.getBody(), first.getMeta(), second.getBody()));
        NackLease options = new NackLease(new NackLeaseOptions().lease(first.getLease()).delay("1h").error("too early"));
        seen.put("nacked", consume.nack(null, null, null, null, null, new NackLeases().addLeasesItem(options)).getResults().get(0).getState());
        ReturnLeases returned = new ReturnLeases().addLeasesItem(new ReturnLease(second.getLease()));
        seen.put("returned", consume.returnJobs(null, null, returned).getResults().get(0).getState());
        seen.put("cancelled", jobs.cancel(topic, "later", null).getResult());
        seen.put("missing", refusal(() -> jobs.get(topic, "later", null)));
        seen.put("bad_delay", refusal(() -> push.push(topic, "x", body, "soon", null, null, null, null, null, null, null, null, null, null)));

        TopicCounts counts = topics.topic(topic).getCounts();
        seen.put("counts", List.of(counts.getRetrying(), counts.getReady(), counts.getLeased()));
        seen.put("last_error", jobs.get(topic, "a", null).getLastError());
        seen.put("about", List.of(server.info().getName(), server.server().getStore(), server.status().getWell()));
        System.out.println(JSON.writeValueAsString(seen));
    }
}
