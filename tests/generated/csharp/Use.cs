using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using Newtonsoft.Json;
using TarryApi.Api;
using TarryApi.Client;
using TarryApi.Model;

/// <summary>Uses the client that openapi-generator made for C#. Prints what it received as one JSON object.</summary>
public static class Use
{
    private static object[] Refusal(Action call)
    {
        try
        {
            call();
        }
        catch (ApiException refused)
        {
            return new object[] { refused.ErrorCode, JsonConvert.DeserializeObject<Problem>(refused.ErrorContent.ToString()).Code };
        }
        return null;
    }

    public static void Main(string[] arguments)
    {
        // Members without a value are otherwise sent as null, which is rejected.
        JsonConvert.DefaultSettings = () => new JsonSerializerSettings { NullValueHandling = NullValueHandling.Ignore };
        string topic = arguments[0], url = Environment.GetEnvironmentVariable("TARRY_URL");
        Func<FileParameter> body = () => new FileParameter("body", "application/octet-stream", File.OpenRead(arguments[1]));
        var push = new PushApi(url);
        var jobs = new JobsApi(url);
        var consume = new ConsumeApi(url);
        var topics = new TopicsApi(url);
        var server = new ServerApi(url);
        var seen = new Dictionary<string, object>();

        var settings = topics.SetTopic(topic, settings: new Settings(leaseFor: "45s", maxAttempts: 3, pushRate: "1000/s")).Settings;
        seen["settings"] = new[] { settings.LeaseFor, settings.MaxAttempts, settings.PushRate };
        seen["patched"] = topics.PatchTopic(topic, new Dictionary<string, object> { ["max_attempts"] = "none" }).Settings.MaxAttempts;

        seen["pushed"] = push.Push(topic, "now", body()).VarResult;
        seen["delayed"] = push.Push(topic, "later", body(), delay: "1h", priority: 7, maxAttempts: "5").State;
        seen["listed"] = jobs.ListJobs(topic, state: State.Delayed).Jobs.Select(one => new object[] { one.Id, one.State, one.Priority });
        seen["due_at"] = new DateTimeOffset(jobs.Get(topic, "later").DueAt.ToUniversalTime()).ToUnixTimeSeconds();

        var job = consume.Take(topic, max: 1, body: "base64", leaseFor: "30s").Jobs[0];
        seen["taken"] = new object[] { job.Id, job.BodyBase64, job.Attempt };
        seen["delivery"] = job.Delivery;
        seen["extended"] = consume.Extend(lease: new List<string> { job.Lease }, leaseFor: "1m").Results[0].Result;
        seen["acked"] = consume.Ack(ackLeases: new AckLeases(new List<AckLease> { new AckLease(job.Lease) })).Results[0].Result;
        seen["acked_again"] = Refusal(() => consume.Ack(lease: new List<string> { job.Lease }));

        var items = new List<Item> {
            new Item(topic, id: "a", body: new Dictionary<string, int> { ["n"] = 1 }, meta: new Dictionary<string, string> { ["kind"] = "x" }),
            new Item(topic, id: "b", body: "text"),
            new Item(topic, id: "b ad"),
        };
        seen["batch"] = push.PushBatch(items).VarResults.Select(result => result.VarResult);
        var taken = consume.TakeAny(new List<string> { topic }, max: 2, wait: "5s").Jobs;
        Taken first = taken[0], second = taken[1];
        seen["bodies"] = new object[] { first.Body, first.Meta, second.Body };
        var options = new NackLease(new NackLeaseOptions(lease: first.Lease, delay: "1h", error: "too early"));
        seen["nacked"] = consume.Nack(nackLeases: new NackLeases(new List<NackLease> { options })).Results[0].State;
        var returned = new ReturnLeases(new List<ReturnLease> { new ReturnLease(second.Lease) });
        seen["returned"] = consume.ReturnJobs(returnLeases: returned).Results[0].State;
        seen["cancelled"] = jobs.Cancel(topic, "later").VarResult;
        seen["missing"] = Refusal(() => jobs.Get(topic, "later"));
        seen["bad_delay"] = Refusal(() => push.Push(topic, "x", body(), delay: "soon"));

        var counts = topics.Topic(topic).Counts;
        seen["counts"] = new[] { counts.Retrying, counts.Ready, counts.Leased };
        seen["last_error"] = jobs.Get(topic, "a").LastError;
        seen["about"] = new object[] { server.Info().Name, server.Server().Store, server.Status().Well };
        Console.WriteLine(JsonConvert.SerializeObject(seen));
    }
}
