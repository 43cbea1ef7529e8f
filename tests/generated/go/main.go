// Uses the client that openapi-generator made for Go. Prints what it received as one JSON object.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"

	tarryapi "tarry/generated/tarry-api"
)

func must[T any](value T, _ *http.Response, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func refusal[T any](_ T, answer *http.Response, err error) []any {
	var refused *tarryapi.GenericOpenAPIError
	if !errors.As(err, &refused) {
		panic(err)
	}
	problem := refused.Model().(tarryapi.Problem)
	return []any{answer.StatusCode, problem.GetCode()}
}

func open(name string) *os.File {
	file, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	return file
}

func main() {
	topic, ctx := os.Args[1], context.Background()
	configuration := tarryapi.NewConfiguration()
	configuration.Servers = tarryapi.ServerConfigurations{{URL: os.Getenv("TARRY_URL")}}
	client := tarryapi.NewAPIClient(configuration)
	push, jobs, consume, topics, server := client.PushAPI, client.JobsAPI, client.ConsumeAPI, client.TopicsAPI, client.ServerAPI
	seen := map[string]any{}

	wanted := tarryapi.NewSettings()
	wanted.SetLeaseFor("45s")
	wanted.SetMaxAttempts(3)
	wanted.SetPushRate("1000/s")
	settings := must(topics.SetTopic(ctx, topic).Settings(*wanted).Execute()).Settings
	seen["settings"] = []any{settings.GetLeaseFor(), settings.GetMaxAttempts(), settings.GetPushRate()}
	patched := must(topics.PatchTopic(ctx, topic).Body(map[string]any{"max_attempts": "none"}).Execute())
	seen["patched"] = patched.Settings.GetMaxAttempts()

	seen["pushed"] = must(push.Push(ctx, topic, "now").Body(open(os.Args[2])).Execute()).GetResult()
	seen["delayed"] = must(push.Push(ctx, topic, "later").Delay("1h").Priority(7).MaxAttempts("5").Body(open(os.Args[2])).Execute()).GetState()
	listed := [][]any{}
	for _, job := range must(jobs.ListJobs(ctx, topic).State(tarryapi.STATE_DELAYED).Execute()).Jobs {
		listed = append(listed, []any{job.Id, job.State, job.Priority})
	}
	seen["listed"] = listed
	seen["due_at"] = must(jobs.Get(ctx, topic, "later").Execute()).DueAt.Unix()

	job := must(consume.Take(ctx, topic).Max(1).Body("base64").LeaseFor("30s").Execute()).Jobs[0]
	seen["taken"] = []any{job.Id, job.GetBodyBase64(), job.Attempt}
	seen["delivery"] = job.Delivery
	seen["extended"] = must(consume.Extend(ctx).Lease([]string{job.Lease}).LeaseFor("1m").Execute()).Results[0].Result
	seen["acked"] = must(consume.Ack(ctx).AckLeases(*tarryapi.NewAckLeases([]tarryapi.AckLease{tarryapi.StringAsAckLease(&job.Lease)})).Execute()).Results[0].Result
	seen["acked_again"] = refusal(consume.Ack(ctx).Lease([]string{job.Lease}).Execute())

	a, b, bad := tarryapi.NewItem(topic), tarryapi.NewItem(topic), tarryapi.NewItem(topic)
	a.SetId("a")
	a.SetBody(map[string]any{"n": 1})
	a.SetMeta(map[string]string{"kind": "x"})
	b.SetId("b")
	b.SetBody("text")
	bad.SetId("b ad")
	batch := []string{}
	for _, result := range must(push.PushBatch(ctx).Item([]tarryapi.Item{*a, *b, *bad}).Execute()).Results {
		batch = append(batch, result.Result)
	}
	seen["batch"] = batch
	taken := must(consume.TakeAny(ctx).Topic([]string{topic}).Max(2).Wait("5s").Execute()).Jobs
	first, second := taken[0], taken[1]
	seen["bodies"] = []any{first.Body, first.Meta, second.Body}
	options := tarryapi.NewNackLeaseOptions(first.Lease)
	options.SetDelay("1h")
	options.SetError("too early")
	nack := tarryapi.NewNackLeases([]tarryapi.NackLease{tarryapi.NackLeaseOptionsAsNackLease(options)})
	seen["nacked"] = must(consume.Nack(ctx).NackLeases(*nack).Execute()).Results[0].GetState()
	back := tarryapi.NewReturnLeases([]tarryapi.ReturnLease{tarryapi.StringAsReturnLease(&second.Lease)})
	seen["returned"] = must(consume.ReturnJobs(ctx).ReturnLeases(*back).Execute()).Results[0].GetState()
	seen["cancelled"] = must(jobs.Cancel(ctx, topic, "later").Execute()).Result
	seen["missing"] = refusal(jobs.Get(ctx, topic, "later").Execute())
	seen["bad_delay"] = refusal(push.Push(ctx, topic, "x").Delay("soon").Body(open(os.Args[2])).Execute())

	counts := must(topics.Topic(ctx, topic).Execute()).Counts
	seen["counts"] = []any{counts.GetRetrying(), counts.GetReady(), counts.GetLeased()}
	seen["last_error"] = must(jobs.Get(ctx, topic, "a").Execute()).GetLastError()
	seen["about"] = []any{must(server.Info(ctx).Execute()).Name, must(server.Server(ctx).Execute()).Store, must(server.Status(ctx).Execute()).Well}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		panic(err)
	}
}
