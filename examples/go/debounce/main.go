// A document that is saved again and again is indexed once, when it has been quiet for a while: go run ./debounce [SECONDS], 5 by default.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	tarry "tarry.io/tarry/clients/go"
)

// save pushes a job that replaces that of the save before, if it still waits: its body, and when it is due.
func save(ctx context.Context, client *tarry.Client, version int, delay time.Duration) {
	push := tarry.Push{Topic: "reindex", Body: version, ID: "doc-7", Delay: delay, OnConflict: "replace"}
	if _, err := client.Push(ctx, push); err != nil {
		log.Fatal(err)
	}
	fmt.Println("saved version", version)
}

func main() {
	delay := 5 * time.Second
	if len(os.Args) > 1 {
		var err error
		if delay, err = time.ParseDuration(os.Args[1] + "s"); err != nil {
			log.Fatal(err)
		}
	}
	client, err := tarry.New(tarry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	for version := 1; version <= 3; version++ {
		save(ctx, client, version, delay)
	}
	index := func(_ context.Context, job *tarry.Job) error {
		fmt.Println("indexing version", job.Text())
		stop() // your own worker runs until SIGTERM
		return nil
	}
	if err := tarry.NewWorker(client, []string{"reindex"}, index, tarry.WorkerOptions{}).Run(ctx); err != nil {
		log.Fatal(err)
	}
}
