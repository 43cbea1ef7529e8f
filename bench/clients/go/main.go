// Drives tarry's Go client or asynq, and prints one figure: go run . tarry|asynq push|many|work JOBS
//
// push: single calls from 100 goroutines, a second. many: by the client's call for many, a second; asynq has no such call. work: a
// worker with 100 parallel jobs that are only counted, a second, from the tenth of the jobs to the last, so without its start.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	tarry "tarry.io/tarry/clients/go"
)

const concurrency = 100

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// rate calls push so often, from so many goroutines as there are to be.
func rate(jobs int, push func() error) float64 {
	var left atomic.Int64
	left.Store(int64(jobs))
	var all sync.WaitGroup
	began := time.Now()
	for n := 0; n < concurrency; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for left.Add(-1) >= 0 {
				check(push())
			}
		}()
	}
	all.Wait()
	return float64(jobs) / time.Since(began).Seconds()
}

// counter counts a worker's finished jobs, and signals the last one.
type counter struct {
	jobs  int64
	done  atomic.Int64
	first time.Time
	all   chan float64
}

func count(jobs int) *counter { return &counter{jobs: int64(jobs), all: make(chan float64, 1)} }

func (c *counter) add() {
	switch done := c.done.Add(1); done {
	case c.jobs / 10:
		c.first = time.Now()
	case c.jobs:
		c.all <- float64(c.jobs-c.jobs/10) / time.Since(c.first).Seconds()
	}
}

func ofTarry(what string, jobs int) float64 {
	client, err := tarry.New(tarry.Options{})
	check(err)
	ctx := context.Background()
	one := tarry.Push{Topic: "bench", Body: "{}"}
	switch what {
	case "push":
		return rate(jobs, func() error { _, err := client.Push(ctx, one); return err })
	case "many":
		pushes := make([]tarry.Push, jobs)
		for at := range pushes {
			pushes[at] = one
		}
		began := time.Now()
		_, err := client.PushMany(ctx, pushes)
		check(err)
		return float64(jobs) / time.Since(began).Seconds()
	}
	c := count(jobs)
	worker := tarry.NewWorker(client, []string{"bench"}, func(context.Context, *tarry.Job) error { c.add(); return nil },
		tarry.WorkerOptions{Concurrency: concurrency})
	go func() { check(worker.Run(ctx)) }()
	found := <-c.all
	worker.Stop(10 * time.Second)
	return found
}

func ofAsynq(what string, jobs int) float64 {
	redis := asynq.RedisClientOpt{Addr: os.Getenv("BENCH_REDIS"), PoolSize: 2 * concurrency}
	if what == "push" {
		client := asynq.NewClient(redis)
		defer client.Close()
		return rate(jobs, func() error { _, err := client.Enqueue(asynq.NewTask("bench", []byte("{}"))); return err })
	}
	c := count(jobs)
	server := asynq.NewServer(redis, asynq.Config{Concurrency: concurrency, LogLevel: asynq.FatalLevel})
	check(server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { c.add(); return nil })))
	found := <-c.all
	server.Shutdown()
	return found
}

func main() {
	jobs, err := strconv.Atoi(os.Args[3])
	check(err)
	of := map[string]func(string, int) float64{"tarry": ofTarry, "asynq": ofAsynq}[os.Args[1]]
	fmt.Println(of(os.Args[2], jobs))
}
