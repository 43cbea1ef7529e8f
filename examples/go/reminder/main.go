// A reminder for a meeting that is moved: go run ./reminder [SECONDS], 3600 by default.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	tarry "tarry.io/tarry/clients/go"
)

func main() {
	delay := time.Hour
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
	now := time.Now()
	if _, err := client.Push(ctx, tarry.Push{Topic: "reminders", Body: "meeting with Ada", ID: "meeting-7", At: now.Add(24 * delay)}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("reminder set")
	if _, err := client.Reschedule(ctx, "reminders", "meeting-7", tarry.Move{At: now.Add(delay)}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("meeting moved, reminder moved")
	remind := func(_ context.Context, job *tarry.Job) error {
		fmt.Println("reminder:", job.Text())
		stop() // your own worker runs until SIGTERM
		return nil
	}
	if err := tarry.NewWorker(client, []string{"reminders"}, remind, tarry.WorkerOptions{}).Run(ctx); err != nil {
		log.Fatal(err)
	}
}
