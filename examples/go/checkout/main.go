// An order is charged, then shipped, then the customer gets a mail: go run ./checkout [SECONDS], the mail 0 seconds after the shipment by default.
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
	delay := time.Duration(0)
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
	charge := tarry.Push{Topic: "charge", ID: "1001"}
	ship := tarry.Push{Topic: "ship", ID: "1001", MemberJobs: []tarry.Push{charge}}
	if _, _, err := client.PushBatch(ctx, tarry.Push{Topic: "mail", ID: "1001", Delay: delay}, ship); err != nil {
		log.Fatal(err)
	}
	fmt.Println("order 1001 placed")
	step := func(_ context.Context, job *tarry.Job) error {
		fmt.Println(job.Topic, job.ID)
		if job.Topic == "mail" {
			stop() // your own worker runs until SIGTERM
		}
		return nil
	}
	if err := tarry.NewWorker(client, []string{"charge", "ship", "mail"}, step, tarry.WorkerOptions{}).Run(ctx); err != nil {
		log.Fatal(err)
	}
}
