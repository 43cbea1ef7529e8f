// A report is sent when all rows of an import have been loaded: go run ./import_report [SECONDS [ROWS]], 0 seconds later and 20,000 rows by default.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	tarry "tarry.io/tarry/clients/go"
)

// pushImport pushes the report, its rows as members of its batch, and closes the batch.
func pushImport(ctx context.Context, client *tarry.Client, rows int, delay time.Duration) error {
	report := tarry.JobName{Topic: "reports", ID: "import-7"}
	if _, err := client.Push(ctx, tarry.Push{Topic: report.Topic, ID: report.ID, Waits: true, Delay: delay}); err != nil {
		return err
	}
	pushes := make([]tarry.Push, rows)
	for row := range pushes {
		pushes[row] = tarry.Push{Topic: "rows", Body: row, Batch: report}
	}
	if _, err := client.PushMany(ctx, pushes); err != nil {
		return err
	}
	return client.CloseBatch(ctx, report.Topic, report.ID)
}

func main() {
	delay, rows := time.Duration(0), 20000
	var err error
	if len(os.Args) > 1 {
		delay, err = time.ParseDuration(os.Args[1] + "s")
	}
	if len(os.Args) > 2 && err == nil {
		rows, err = strconv.Atoi(os.Args[2])
	}
	if err != nil {
		log.Fatal(err)
	}
	client, err := tarry.New(tarry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	if err := pushImport(ctx, client, rows, delay); err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows, "rows pushed")
	handle := func(_ context.Context, job *tarry.Job) error {
		if job.Topic == "reports" {
			fmt.Println("report:", job.Meta["tarry-batch"])
			stop() // your own worker runs until SIGTERM
		}
		return nil // your own handler writes the row to a database
	}
	if err := tarry.NewWorker(client, []string{"rows", "reports"}, handle, tarry.WorkerOptions{}).Run(ctx); err != nil {
		log.Fatal(err)
	}
}
