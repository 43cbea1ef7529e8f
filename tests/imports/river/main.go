// River's periodic jobs. The file export.go is the function of docs/schedules.md. Prints a row for each job, then a line with the next fires after each moment, in
// milliseconds, as the schedules of River and cron compute them.
package main

import (
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/riverqueue/river"
	"github.com/robfig/cron/v3"
)

// ReportArgs are the arguments of a job.
type ReportArgs struct {
	Day string `json:"day"`
}

// Kind names the job.
func (ReportArgs) Kind() string { return "report" }

type never struct{}

func (never) Next(at time.Time) time.Time { return at.AddDate(0, 0, at.Day()) }

func main() {
	construct := func() (river.JobArgs, *river.InsertOpts) { return ReportArgs{Day: "today"}, nil }
	tuned := func() (river.JobArgs, *river.InsertOpts) {
		return ReportArgs{}, &river.InsertOpts{MaxAttempts: 3, Priority: 2, Queue: "low"}
	}
	fires := map[string][][]int64{}
	expressions := []string{"CRON_TZ=Europe/Berlin 30 2 * * *", "CRON_TZ=America/New_York */5 8-10 * * MON-FRI", "CRON_TZ=Europe/Berlin 0 9 1,15 * *",
		"CRON_TZ=Europe/Berlin 0 0 13 * FRI", "CRON_TZ=Europe/Berlin 0 */2 * * *", "CRON_TZ=UTC @daily", "CRON_TZ=Europe/Berlin 0 2,3 * * *"}
	for at, one := range expressions {
		schedule, err := cron.ParseStandard(one)
		if err != nil {
			panic(err)
		}
		name := "cron-" + strconv.Itoa(at)
		export(schedule, construct, &river.PeriodicJobOpts{ID: name})
		for _, start := range os.Args[1:] {
			ms, _ := strconv.ParseInt(start, 10, 64)
			var some []int64
			for next, nth := time.UnixMilli(ms), 0; nth < 12; nth++ {
				next = schedule.Next(next)
				some = append(some, next.UnixMilli())
			}
			fires[name] = append(fires[name], some)
		}
	}
	export(river.PeriodicInterval(15*time.Minute), tuned, &river.PeriodicJobOpts{ID: "poll", RunOnStart: true})
	export(never{}, construct, &river.PeriodicJobOpts{ID: "own"})
	_ = json.NewEncoder(os.Stdout).Encode(fires)
}
