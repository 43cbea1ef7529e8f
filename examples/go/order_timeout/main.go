// An order that is not paid in time is closed: go run ./order_timeout [SECONDS], 1800 by default.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	tarry "tarry.io/tarry/clients/go"
)

type order struct {
	Order string `json:"order"`
}

// place pushes a job that has the order's own number: the order number is enough to cancel it.
func place(ctx context.Context, client *tarry.Client, number string, delay time.Duration) {
	if _, err := client.Push(ctx, tarry.Push{Topic: "orders", Body: order{number}, ID: number, Delay: delay}); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("order %s placed\n", number)
}

func pay(ctx context.Context, client *tarry.Client, number string) {
	isCancelled, err := client.Cancel(ctx, "orders", number)
	if err != nil {
		log.Fatal(err)
	}
	if isCancelled {
		fmt.Printf("order %s paid, nothing to close\n", number)
	}
}

func main() {
	delay := 1800 * time.Second
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
	place(ctx, client, "1001", delay)
	place(ctx, client, "1002", delay)
	pay(ctx, client, "1001")
	closing := func(_ context.Context, job *tarry.Job) error {
		var due order
		if err := job.JSON(&due); err != nil {
			return tarry.Reject(err)
		}
		fmt.Printf("order %s closed: not paid in time\n", due.Order)
		stop() // your own worker runs until SIGTERM
		return nil
	}
	if err := tarry.NewWorker(client, []string{"orders"}, closing, tarry.WorkerOptions{}).Run(ctx); err != nil {
		log.Fatal(err)
	}
}
