// A call that fails is made again later: go run ./call_retry [SECONDS], 10 by default. The service is here as well: it answers 503 twice,
// then 200.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"time"

	tarry "tarry.io/tarry/clients/go"
)

func main() {
	delay := 10 * time.Second
	if len(os.Args) > 1 {
		var err error
		if delay, err = time.ParseDuration(os.Args[1] + "s"); err != nil {
			log.Fatal(err)
		}
	}
	var calls atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) <= 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer service.Close()
	client, err := tarry.New(tarry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	if _, err := client.Push(ctx, tarry.Push{Topic: "calls", Body: service.URL}); err != nil {
		log.Fatal(err)
	}
	call := func(ctx context.Context, job *tarry.Job) error {
		request, err := http.NewRequestWithContext(ctx, "POST", job.Text(), nil) // given up once the lease is lost
		if err != nil {
			return tarry.Reject(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err // tried again by the job's own backoff
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusServiceUnavailable {
			fmt.Printf("call %d: 503, again later\n", job.Attempt)
			return tarry.Retry(delay, errors.New("the service answered 503"))
		}
		fmt.Printf("call %d: %d, done\n", job.Attempt, answer.StatusCode)
		stop() // your own worker runs until SIGTERM
		return nil
	}
	if err := tarry.NewWorker(client, []string{"calls"}, call, tarry.WorkerOptions{}).Run(ctx); err != nil {
		log.Fatal(err)
	}
}
