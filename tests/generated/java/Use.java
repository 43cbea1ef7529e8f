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
import tarry.model.AckLease;
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

    private static JobsApi.APIGetRequest job(String topic, String id) {
        return JobsApi.APIGetRequest.newBuilder().topic(topic).id(id).build();
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
        Settings settings = topics.setTopic(TopicsApi.APISetTopicRequest.newBuilder().topic(topic).settings(wanted).build()).getSettings();
        seen.put("settings", List.of(settings.getLeaseFor(), settings.getMaxAttempts(), settings.getPushRate()));
        seen.put("patched", topics.patchTopic(topic, Map.of("max_attempts", "none")).getSettings().getMaxAttempts());

        File body = new File(arguments[1]);
        // The library `native` writes a file as JSON, so bytes are pushed in a batch.
        Item bytes = new Item().topic(topic).id("now").bodyBase64(Base64.getEncoder().encodeToString(Files.readAllBytes(body.toPath())));
        seen.put("pushed", push.pushBatch(PushApi.APIPushBatchRequest.newBuilder().item(List.of(bytes)).build()).getResults().get(0).getResult());
        PushApi.APIPushRequest later = PushApi.APIPushRequest.newBuilder().topic(topic).id("later").body(body).delay("1h").priority(7).maxAttempts("5").build();
        seen.put("delayed", push.push(later).getState());
        List<List<Object>> listed = new ArrayList<>();
        for (Job job : jobs.listJobs(JobsApi.APIListJobsRequest.newBuilder().topic(topic).state(State.DELAYED).build()).getJobs()) {
            listed.add(List.of(job.getId(), job.getState(), job.getPriority()));
        }
        seen.put("listed", listed);
        seen.put("due_at", jobs.get(job(topic, "later")).getDueAt().toEpochSecond());

        Taken job = consume.take(ConsumeApi.APITakeRequest.newBuilder().topic(topic).max(1).leaseFor("30s").body("base64").build()).getJobs().get(0);
        seen.put("taken", List.of(job.getId(), job.getBodyBase64(), job.getAttempt()));
        seen.put("delivery", job.getDelivery());
        seen.put("extended", consume.extend(ConsumeApi.APIExtendRequest.newBuilder().lease(List.of(job.getLease())).leaseFor("1m").build()).getResults().get(0).getResult());
        seen.put("acked", consume.ack(ConsumeApi.APIAckRequest.newBuilder().ackLeases(new AckLeases().addLeasesItem(new AckLease(job.getLease()))).build()).getResults().get(0).getResult());
        seen.put("acked_again", refusal(() -> consume.ack(ConsumeApi.APIAckRequest.newBuilder().lease(List.of(job.getLease())).build())));

        List<Item> items = List.of(new Item().topic(topic).id("a").body(Map.of("n", 1)).putMetaItem("kind", "x"),
                new Item().topic(topic).id("b").body("text"), new Item().topic(topic).id("b ad"));
        List<String> batch = new ArrayList<>();
        for (Result result : push.pushBatch(PushApi.APIPushBatchRequest.newBuilder().item(items).build()).getResults()) {
            batch.add(result.getResult());
        }
        seen.put("batch", batch);
        List<Taken> taken = consume.takeAny(ConsumeApi.APITakeAnyRequest.newBuilder().topic(List.of(topic)).max(2).waitFor("5s").build()).getJobs();
        Taken first = taken.get(0);
        Taken second = taken.get(1);
        seen.put("bodies", List.of(first.getBody(), first.getMeta(), second.getBody()));
        NackLease options = new NackLease(new NackLeaseOptions().lease(first.getLease()).delay("1h").error("too early"));
        ConsumeApi.APINackRequest nack = ConsumeApi.APINackRequest.newBuilder().nackLeases(new NackLeases().addLeasesItem(options)).build();
        seen.put("nacked", consume.nack(nack).getResults().get(0).getState());
        ReturnLeases returned = new ReturnLeases().addLeasesItem(new ReturnLease(second.getLease()));
        seen.put("returned", consume.returnJobs(ConsumeApi.APIReturnJobsRequest.newBuilder().returnLeases(returned).build()).getResults().get(0).getState());
        seen.put("cancelled", jobs.cancel(JobsApi.APICancelRequest.newBuilder().topic(topic).id("later").build()).getResult());
        seen.put("missing", refusal(() -> jobs.get(job(topic, "later"))));
        PushApi.APIPushRequest soon = PushApi.APIPushRequest.newBuilder().topic(topic).id("x").body(body).delay("soon").build();
        seen.put("bad_delay", refusal(() -> push.push(soon)));

        TopicCounts counts = topics.topic(topic).getCounts();
        seen.put("counts", List.of(counts.getRetrying(), counts.getReady(), counts.getLeased()));
        seen.put("last_error", jobs.get(job(topic, "a")).getLastError());
        seen.put("about", List.of(server.info().getName(), server.server().getStore(), server.status().getWell()));
        System.out.println(JSON.writeValueAsString(seen));
    }
}
