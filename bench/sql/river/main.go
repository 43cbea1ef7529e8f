// Drives River for bench/sql/peers, which documents the words and the lines.
//
//	drive URL SETTING push SECONDS CLIENTS
//	drive URL SETTING drain JOBS
//	drive URL SETTING fill JOBS
//	drive URL SETTING late RATE SECONDS
//
// SETTING is `default` (100 workers, pgx's own number of connections) or `tuned` (1,000 workers, 32 connections, a fetch every 10 ms). A job
// counts as done once River reports that its completion is stored.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const bulk = 5000

var body = strings.Repeat("x", 200)

// Order is the job.
type Order struct {
	Body  string `json:"body"`
	DueMS int64  `json:"due_ms"`
}

// Kind names it.
func (Order) Kind() string { return "order" }

// Worker notes how late its jobs are, if requested.
type Worker struct {
	river.WorkerDefaults[Order]
	lock   sync.Mutex
	noting bool
	lateMS []float64
	worked atomic.Int64
}

// Work does a job.
func (worker *Worker) Work(_ context.Context, job *river.Job[Order]) error {
	now := time.Now()
	worker.lock.Lock()
	if worker.noting {
		worker.lateMS = append(worker.lateMS, float64(now.UnixMicro()-job.Args.DueMS*1000)/1000)
	}
	worker.lock.Unlock()
	worker.worked.Add(1)
	return nil
}

type drive struct {
	context context.Context
	client  *river.Client[pgx.Tx]
	worker  *Worker
	input   *bufio.Reader
	begun   time.Time
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must(err)
	return value
}

// ready prints that the measurement can begin, and waits until it does.
func (drive *drive) ready() {
	fmt.Println("ready")
	_, err := drive.input.ReadString('\n')
	must(err)
	drive.begun = time.Now()
}

// report ends the measurement; the program ends when its input does.
func (drive *drive) report(found map[string]any) {
	found["seconds"] = time.Since(drive.begun).Seconds()
	must(json.NewEncoder(os.Stdout).Encode(found))
	_, _ = drive.input.ReadString('\n')
	must(drive.client.Stop(drive.context)) // gives up being leader, which the next one would have to wait for
	os.Exit(0)
}

func (drive *drive) insert(count int, due func() time.Time) {
	for count > 0 {
		some := min(count, bulk)
		jobs := make([]river.InsertManyParams, some)
		for i := range jobs {
			at := due()
			jobs[i] = river.InsertManyParams{Args: Order{body, at.UnixMilli()}, InsertOpts: &river.InsertOpts{ScheduledAt: time.UnixMilli(at.UnixMilli())}}
		}
		_, err := drive.client.InsertManyFast(drive.context, jobs)
		must(err)
		count -= some
	}
}

// push inserts one by one from so many goroutines until the time has passed.
func (drive *drive) push(seconds float64, clients int) int64 {
	var group sync.WaitGroup
	var pushed atomic.Int64
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for range clients {
		group.Add(1)
		go func() {
			defer group.Done()
			for time.Now().Before(until) {
				_, err := drive.client.Insert(drive.context, Order{body, 0}, &river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour)})
				must(err)
				pushed.Add(1)
			}
		}()
	}
	group.Wait()
	return pushed.Load()
}

// drain measures from the fifth of the jobs that is done to the last.
func (drive *drive) drain(jobs int) {
	drive.insert(jobs, func() time.Time { return time.Now().Add(-time.Second) })
	events, cancel := drive.client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 2 * jobs, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	defer cancel()
	must(drive.client.Start(drive.context))
	for range jobs / 5 {
		<-events
	}
	drive.ready()
	for range jobs - jobs/5 {
		<-events
	}
	drive.report(map[string]any{"jobs": jobs - jobs/5})
}

// late inserts at a rate what is due after 2 to 6 s; what comes in the first 12 s is not looked at.
func (drive *drive) late(rate float64, seconds float64) {
	const warmUp = 12
	must(drive.client.Start(drive.context))
	begun, pushed, noted := time.Now(), 0, 0
	for measuring := false; ; time.Sleep(20 * time.Millisecond) {
		elapsed := time.Since(begun).Seconds()
		if elapsed > seconds+warmUp {
			break
		}
		if !measuring && elapsed > warmUp {
			drive.ready()
			drive.worker.lock.Lock()
			drive.worker.noting, measuring, noted = true, true, int(drive.worker.worked.Load())
			drive.worker.lock.Unlock()
		}
		wanted := int(elapsed*rate) - pushed
		drive.insert(wanted, func() time.Time {
			return time.Now().Add(2*time.Second + time.Duration(rand.Intn(4000))*time.Millisecond)
		})
		pushed += max(wanted, 0)
	}
	for deadline := time.Now().Add(30 * time.Second); int(drive.worker.worked.Load()) < pushed && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	drive.worker.lock.Lock()
	drive.report(map[string]any{"jobs": pushed - noted, "late_ms": drive.worker.lateMS, "missing": pushed - int(drive.worker.worked.Load())})
}

func main() {
	url, tuned, mode, numbers := os.Args[1], os.Args[2] == "tuned", os.Args[3], os.Args[4:]
	drive := &drive{context: context.Background(), worker: &Worker{}, input: bufio.NewReader(os.Stdin)}
	pooled, err := pgxpool.ParseConfig(url)
	must(err)
	workers, queue := river.NewWorkers(), river.QueueConfig{MaxWorkers: 100}
	if tuned {
		pooled.MaxConns, queue.MaxWorkers = 32, 1000
		queue.FetchCooldown, queue.FetchPollInterval = 10*time.Millisecond, 100*time.Millisecond
	}
	pool, err := pgxpool.NewWithConfig(drive.context, pooled)
	must(err)
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	must(err)
	_, err = migrator.Migrate(drive.context, rivermigrate.DirectionUp, nil)
	must(err)
	river.AddWorker(workers, drive.worker)
	drive.client, err = river.NewClient(driver, &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: queue}, Workers: workers,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	must(err)
	switch mode {
	case "push":
		drive.push(1, number(numbers[1]))
		drive.ready()
		drive.report(map[string]any{"jobs": drive.push(float64(number(numbers[0])), number(numbers[1]))})
	case "drain":
		drive.drain(number(numbers[0]))
	case "fill":
		drive.insert(number(numbers[0]), func() time.Time { return time.Now().Add(5 * time.Hour) })
	case "late":
		drive.late(float64(number(numbers[0])), float64(number(numbers[1])))
	}
}
