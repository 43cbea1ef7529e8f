// Reads a list of CronJobs, and prints by namespace and name their next 12 fires after each moment, parsed as the controller of CronJobs does it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/robfig/cron/v3"
)

type list struct {
	Items []struct {
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			Schedule string
			TimeZone *string
		}
	}
}

func main() {
	var jobs list
	if err := json.NewDecoder(os.Stdin).Decode(&jobs); err != nil {
		panic(err)
	}
	fires := map[string][][]int64{}
	for _, job := range jobs.Items {
		text := job.Spec.Schedule
		if job.Spec.TimeZone != nil {
			text = fmt.Sprintf("TZ=%s %s", *job.Spec.TimeZone, text)
		}
		schedule, err := cron.ParseStandard(text)
		if err != nil {
			panic(err)
		}
		name := job.Metadata.Namespace + "." + job.Metadata.Name
		for _, argument := range os.Args[1:] {
			moment, err := strconv.ParseInt(argument, 10, 64)
			if err != nil {
				panic(err)
			}
			next, at := []int64{}, time.UnixMilli(moment).UTC()
			for len(next) < 12 {
				at = schedule.Next(at)
				next = append(next, at.UnixMilli())
			}
			fires[name] = append(fires[name], next)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(fires); err != nil {
		panic(err)
	}
}
