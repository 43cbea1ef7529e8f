package tarry

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// server gives a client of the server at TARRY_URL, and an unused topic. The caller of check.sh starts the server.
func server(t *testing.T) (*Client, string) {
	t.Helper()
	if os.Getenv("TARRY_URL") == "" {
		t.Skip("not run: TARRY_URL names no server")
	}
	client, err := New(Options{RetryFor: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, "go-" + newID(time.Now())
}

func push(t *testing.T, client *Client, pushes ...Push) {
	t.Helper()
	results, err := client.PushMany(context.Background(), pushes)
	for _, one := range results {
		err = errors.Join(err, one.Err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAWorkerAcksEachOnce(t *testing.T) {
	client, topic := server(t)
	const jobs = 2000
	push(t, client, make2000(topic)...)
	var mutex sync.Mutex
	seen := map[string]int{}
	var worker *Worker
	worker = NewWorker(client, []string{topic}, func(context.Context, *Job) error { return nil }, WorkerOptions{
		Concurrency: 32,
		OnDone: func(job *Job, outcome string, _ time.Duration) {
			mutex.Lock()
			defer mutex.Unlock()
			if seen[job.ID]++; outcome != Acked {
				t.Error(job.ID, outcome)
			}
			if len(seen) == jobs {
				worker.Quit()
			}
		},
	})
	if err := worker.Run(context.Background()); err != nil || len(seen) != jobs {
		t.Fatal(err, len(seen))
	}
	for id, times := range seen {
		if times != 1 {
			t.Error(id, times)
		}
	}
	client.List(context.Background(), topic, ListOptions{})(func(job *Job, err error) bool {
		t.Error("left behind:", job, err)
		return true
	})
	if worker.Run(context.Background()) == nil {
		t.Error("it runs twice")
	}
}

func make2000(topic string) []Push {
	pushes := make([]Push, 2000)
	for at := range pushes {
		pushes[at] = Push{Topic: topic, Body: at}
	}
	return pushes
}

func TestAPanicFailsItsJobAlone(t *testing.T) {
	client, topic := server(t)
	push(t, client, Push{Topic: topic, ID: "a", Backoff: "fixed:10ms"}, Push{Topic: topic, ID: "b"})
	var mutex sync.Mutex
	ended := map[string][]string{}
	reported := ""
	var worker *Worker
	worker = NewWorker(client, []string{topic}, func(_ context.Context, job *Job) error {
		if job.ID == "a" && job.Attempt == 1 {
			panic("no such order")
		}
		return nil
	}, WorkerOptions{
		OnError: func(err error, what string) { reported = what + " " + err.Error() },
		OnDone: func(job *Job, outcome string, _ time.Duration) {
			mutex.Lock()
			defer mutex.Unlock()
			ended[job.ID] = append(ended[job.ID], outcome)
			if len(ended["a"]) == 2 && len(ended["b"]) == 1 {
				worker.Quit()
			}
		},
	})
	if err := worker.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if strings.Join(ended["a"], " ") != "nack ack" || ended["b"][0] != Acked || !strings.HasPrefix(reported, "handler panic: no such order\n") {
		t.Error(ended, reported)
	}
}

func TestTheContextOfAHandlerEndsAfterTheGrace(t *testing.T) {
	client, topic := server(t)
	push(t, client, Push{Topic: topic, ID: "a"})
	ctx, stop := context.WithCancelCause(context.Background())
	var cause error
	outcome := ""
	worker := NewWorker(client, []string{topic}, func(own context.Context, _ *Job) error {
		stop(errors.New("of Run"))
		<-own.Done()
		cause = context.Cause(own)
		return nil
	}, WorkerOptions{Grace: 100 * time.Millisecond, OnDone: func(_ *Job, found string, _ time.Duration) { outcome = found }})
	if err := worker.Run(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // the handler ends by itself
	if !errors.Is(cause, errGraceOver) || outcome != GivenBack {
		t.Error(cause, outcome)
	}
	job, err := client.Get(context.Background(), topic, "a")
	if err != nil || job.State != "ready" {
		t.Error(job, err)
	}
}

func TestAWorkerThatIsRefusedEnds(t *testing.T) {
	client, _ := server(t)
	err := NewWorker(client, []string{"no topic"}, nil, WorkerOptions{}).Run(context.Background())
	if !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	worker := NewWorker(client, []string{"t"}, nil, WorkerOptions{})
	worker.Stop(0)
	if err = worker.Run(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestPushesOfManyGoroutinesGoTogether(t *testing.T) {
	client, topic := server(t)
	var all sync.WaitGroup
	var mutex sync.Mutex
	seen := map[string]bool{}
	for n := 0; n < 300; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			push := Push{Topic: topic, Body: n, Delay: time.Hour}
			if n%10 == 0 {
				push.Topic = "no topic" // spoils no other
			}
			pushed, err := client.Push(context.Background(), push)
			if isBad := n%10 == 0; isBad != errors.Is(err, ErrRefused) {
				t.Error(n, err)
			} else if !isBad {
				job, err := client.Get(context.Background(), topic, pushed.ID)
				if err != nil || job.Text() != strconv.Itoa(n) {
					t.Error(n, job, err) // the result of another
				}
				mutex.Lock()
				seen[pushed.ID] = true
				mutex.Unlock()
			}
		}(n)
	}
	all.Wait()
	if len(seen) != 270 || client.gatherer.underWay != 0 || client.gatherer.waiting != nil {
		t.Error(len(seen), client.gatherer.underWay)
	}
}
