// The adapter of the Go client for clients/conformance: JSON lines in, JSON lines out.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	tarry "tarry.io/tarry/clients/go"
)

type object map[string]any

// step is what a handler does.
type step struct {
	Result   *outcome `json:"result"`
	Progress string   `json:"progress"`
	Do       string   `json:"do"`
	Error    string   `json:"error"`
	AfterMS  int      `json:"after_ms"`
	SleepMS  int      `json:"sleep_ms"`
	Heeds    *bool    `json:"heeds"`
}

// outcome is the result of a job.
type outcome struct {
	JSON        any     `json:"json"`
	Text        *string `json:"text"`
	Base64      []byte  `json:"base64"`
	ContentType string  `json:"content_type"`
}

func (o *outcome) value() (any, string) {
	switch {
	case o == nil:
		return nil, ""
	case o.Text != nil:
		return *o.Text, o.ContentType
	case o.JSON != nil:
		return o.JSON, o.ContentType
	}
	return o.Base64, o.ContentType
}

type plan struct {
	step
	ByAttempt []step `json:"by_attempt"`
}

// codec describes the codec of a client.
type codec struct {
	Current    string            `json:"current"`
	Keys       map[string][]byte `json:"keys"`
	Context    string            `json:"context"`
	Gzip       *tarry.Gzip       `json:"gzip"`
	ClaimCheck *struct {
		Directory string `json:"directory"`
		Above     int    `json:"above"`
	} `json:"claim_check"`
}

func (c *codec) made() (*tarry.Codec, error) {
	if c == nil {
		return nil, nil
	}
	made := &tarry.Codec{Gzip: c.Gzip, Context: c.Context}
	if c.ClaimCheck != nil {
		made.ClaimCheck = &tarry.ClaimCheck{Store: tarry.DirectoryStore(c.ClaimCheck.Directory), Above: c.ClaimCheck.Above}
	}
	if c.Keys == nil {
		return made, nil
	}
	var err error
	made.AesGcm, err = tarry.NewAesGcm(c.Current, c.Keys)
	return made, err
}

type call struct {
	N           any               `json:"n"`
	Op          string            `json:"op"`
	URL         string            `json:"url"`
	Token       string            `json:"token"`
	RetryForMS  int               `json:"retry_for_ms"`
	TimeoutMS   int               `json:"timeout_ms"`
	Topic       string            `json:"topic"`
	Topics      []string          `json:"topics"`
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Items       []call            `json:"items"`
	Body        []byte            `json:"body_base64"`
	Text        *string           `json:"text"`
	Once        string            `json:"once"`
	JSON        json.RawMessage   `json:"json"`
	DelayMS     int               `json:"delay_ms"`
	AtMS        int64             `json:"at_ms"`
	TTLMS       int               `json:"ttl_ms"`
	Priority    *int              `json:"priority"`
	MaxAttempts int               `json:"max_attempts"`
	Backoff     string            `json:"backoff"`
	OnConflict  string            `json:"on_conflict"`
	Meta        map[string]string `json:"meta"`
	ContentType string            `json:"content_type"`
	State       string            `json:"state"`
	Page        int               `json:"page"`
	Max         int               `json:"max"`
	WaitMS      int               `json:"wait_ms"`
	LeaseMS     int               `json:"lease_ms"`
	Leases      []string          `json:"leases"`
	Error       string            `json:"error"`
	Final       bool              `json:"final"`
	Concurrency int               `json:"concurrency"`
	Consumer    string            `json:"consumer"`
	Handler     plan              `json:"handler"`
	Handlers    map[string]plan   `json:"handlers"`
	NoLog       *bool             `json:"log"`
	Result      *outcome          `json:"result"`
	Progress    string            `json:"progress"`
	As          string            `json:"as"`
	IDs         []string          `json:"ids"`
	Any         bool              `json:"any"`
	KeepMS      *int              `json:"keep_finished_ms"`
	Group       string            `json:"group"`
	HoldMS      int               `json:"hold_ms"`
	GraceMS     int               `json:"grace_ms"`
	Secrets     []string          `json:"secrets"`
	Headers     map[string]string `json:"headers"`
	NowMS       *int64            `json:"now_ms"`
	Cron        any               `json:"cron"`
	EveryMS     int               `json:"every_ms"`
	Zone        string            `json:"zone"`
	TakeOver    bool              `json:"take_over"`
	Members     any               `json:"members"`
	Job         *call             `json:"job"`
	Batch       tarry.JobName     `json:"batch"`
	Parent      string            `json:"parent"`
	Waits       bool              `json:"waits"`
	OnDead      string            `json:"on_dead"`
	WaitAtMost  int               `json:"wait_at_most_ms"`
	CloseWithin int               `json:"close_within_ms"`
	Outcome     string            `json:"outcome"`
	Codec       *codec            `json:"codec"`
	Times       int               `json:"times"`
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

var (
	client  *tarry.Client
	workers = map[string]*tarry.Worker{}
	writing sync.Mutex
	writer  = json.NewEncoder(os.Stdout)
)

func say(line object) {
	writing.Lock()
	defer writing.Unlock()
	if err := writer.Encode(line); err != nil {
		fmt.Fprintln(os.Stderr, "cannot write:", err)
		os.Exit(1)
	}
}

var kinds = map[error]string{
	tarry.ErrNotFound: "NotFound", tarry.ErrConflict: "Conflict", tarry.ErrLeaseEnded: "LeaseEnded", tarry.ErrRefused: "Refused",
	tarry.ErrDenied: "Denied", tarry.ErrFull: "Full", tarry.ErrUnavailable: "Unavailable", tarry.ErrServer: "TarryError",
}

func problem(err error) object {
	var fault *tarry.Error
	if !errors.As(err, &fault) {
		return object{"kind": "error", "detail": err.Error()}
	}
	return object{"kind": kinds[fault.Kind], "code": fault.Code, "status": fault.Status, "detail": fault.Detail}
}

func (c *call) push() tarry.Push {
	made := tarry.Push{
		Topic: c.Topic, ID: c.ID, Body: c.Body, Delay: ms(c.DelayMS), Priority: c.Priority, TTL: ms(c.TTLMS), MaxAttempts: c.MaxAttempts,
		Backoff: c.Backoff, OnConflict: c.OnConflict, Once: c.Once, Meta: c.Meta, ContentType: c.ContentType, Group: c.Group,
		Batch: c.Batch, Parent: c.Parent, Waits: c.Waits, OnDead: c.OnDead, WaitAtMost: ms(c.WaitAtMost), CloseWithin: ms(c.CloseWithin),
	}
	switch members := c.Members.(type) {
	case float64:
		made.Members = int(members)
	case []any:
		for _, one := range c.memberJobs() {
			made.MemberJobs = append(made.MemberJobs, one.push())
		}
	}
	if c.KeepMS != nil {
		made.KeepFinished = tarry.Keep(ms(*c.KeepMS))
	}
	if c.AtMS != 0 {
		made.At = time.UnixMilli(c.AtMS)
	}
	if c.Text != nil {
		made.Body = *c.Text
	} else if c.JSON != nil {
		made.Body = c.JSON
	}
	return made
}

// memberJobs returns the members that are jobs.
func (c *call) memberJobs() []call {
	var jobs []call
	text, err := json.Marshal(c.Members)
	if err == nil {
		err = json.Unmarshal(text, &jobs)
	}
	if err != nil {
		panic(err)
	}
	return jobs
}

func shownResults(found []tarry.PushResult) []object {
	var results []object
	for _, one := range found {
		if one.Err != nil {
			results = append(results, object{"error": problem(one.Err)})
		} else {
			results = append(results, object{"id": one.ID, "result": one.Result})
		}
	}
	return results
}

func (c *call) schedule() tarry.Schedule {
	members, _ := c.Members.(map[string]any)
	made := tarry.Schedule{Topic: c.Topic, Every: ms(c.EveryMS), Zone: c.Zone, TakeOver: c.TakeOver, Members: members, Body: c.push().Body}
	if len(c.Body) == 0 && c.Text == nil && c.JSON == nil {
		made.Body = nil
	}
	if one, is := c.Cron.(string); is {
		made.Cron = []string{one}
	} else if many, is := c.Cron.([]any); is {
		for _, one := range many {
			made.Cron = append(made.Cron, fmt.Sprint(one))
		}
	}
	return made
}

func job(one *tarry.Job) object {
	meta := one.Meta
	if meta == nil {
		meta = map[string]string{}
	}
	shown := object{"topic": one.Topic, "id": one.ID, "lease": one.Lease, "attempt": one.Attempt, "delivery": one.Delivery,
		"body_base64": one.Body, "content_type": one.ContentType, "meta": meta, "consumer": one.Consumer, "cancel_requested": one.CancelRequested,
		"state": one.State, "group": one.Group, "batch": one.Batch, "waits_for": one.WaitsFor, "outcomes": one.Outcomes, "progress": one.Progress, "last_error": one.LastError, "duration_ms": one.Duration().Milliseconds(), "result_type": one.ResultType,
		"outcome": nil, "result_base64": nil, "codec_error": nil}
	var fault *tarry.Error
	if errors.As(one.CodecErr, &fault) {
		shown["codec_error"] = fault.Detail
	}
	if one.Outcome != "" {
		shown["outcome"], shown["finished_at_ms"] = one.Outcome, one.FinishedAt.UnixMilli()
	}
	if one.Result != nil {
		shown["result_base64"] = one.Result
	}
	return shown
}

var taken = map[string]tarry.Job{}

// given returns what the request gives to the call: leases, a job, a slice of jobs, or several jobs.
func (c *call) given() []any {
	if c.As == "" {
		return []any{c.Leases}
	}
	var jobs []tarry.Job
	var several []any
	for _, lease := range c.Leases {
		jobs, several = append(jobs, taken[lease]), append(several, taken[lease])
	}
	if c.As == "list" {
		return []any{jobs}
	}
	return several
}

func results(found []error, err error) (any, error) {
	codes := make([]string, len(found))
	for at, one := range found {
		var fault *tarry.Error
		if codes[at] = "ok"; errors.As(one, &fault) {
			codes[at] = fault.Code
		}
	}
	return object{"results": codes}, err
}

func (c *call) answer(ctx context.Context) (any, error) {
	done := object{"done": true}
	switch c.Op {
	case "open":
		codec, err := c.Codec.made()
		if err != nil {
			return nil, err
		}
		client, err = tarry.New(tarry.Options{Codec: codec, URL: c.URL, Token: c.Token, RetryFor: ms(c.RetryForMS), Timeout: ms(c.TimeoutMS)})
		return object{}, err
	case "recode": // for bench/codec.py
		codec, err := c.Codec.made()
		if err != nil {
			return nil, err
		}
		var found []byte
		for n := 0; n < c.Times; n++ {
			data, kind, err := codec.Encode(c.Body, c.ContentType)
			if err != nil {
				return nil, err
			}
			if found, _, err = codec.Decode(data, kind); err != nil {
				return nil, err
			}
		}
		return object{"body_base64": found}, nil
	case "push":
		found, err := client.Push(ctx, c.push())
		return object{"id": found.ID, "result": found.Result, "due_at_ms": found.DueAt.UnixMilli()}, err
	case "push_many":
		var pushes []tarry.Push
		for _, one := range c.Items {
			pushes = append(pushes, one.push())
		}
		found, err := client.PushMany(ctx, pushes)
		return shownResults(found), err
	case "push_batch":
		var members []tarry.Push
		for _, one := range c.memberJobs() {
			members = append(members, one.push())
		}
		found, isClosed, err := client.PushBatch(ctx, c.Job.push(), members...)
		return object{"closed": isClosed, "results": shownResults(found)}, err
	case "close_batch":
		return done, client.CloseBatch(ctx, c.Topic, c.ID)
	case "members":
		jobs := []object{}
		var fault error
		client.Members(ctx, c.Topic, c.ID, tarry.MembersOptions{Outcome: c.Outcome, Page: c.Page})(func(one *tarry.Job, err error) bool {
			if fault = err; err == nil {
				jobs = append(jobs, job(one))
			}
			return err == nil
		})
		return object{"jobs": jobs}, fault
	case "cancel":
		found, err := client.Cancel(ctx, c.Topic, c.ID)
		return object{"done": found}, err
	case "cancel_batch":
		found, err := client.CancelBatch(ctx, c.Topic, c.ID)
		return object{"done": found}, err
	case "request_cancel":
		found, err := client.RequestCancel(ctx, c.Topic, c.ID)
		if found == "" {
			return object{"result": nil}, err
		}
		return object{"result": found}, err
	case "run":
		return done, client.Run(ctx, c.Topic, c.ID)
	case "reschedule":
		move := tarry.Move{Delay: ms(c.DelayMS), Priority: c.Priority}
		if c.AtMS != 0 {
			move.At = time.UnixMilli(c.AtMS)
		}
		_, err := client.Reschedule(ctx, c.Topic, c.ID, move)
		return done, err
	case "get":
		found, err := client.Get(ctx, c.Topic, c.ID)
		if errors.Is(err, tarry.ErrNotFound) {
			return object{"job": nil}, nil
		} else if err != nil {
			return nil, err
		}
		return object{"job": job(found)}, nil
	case "list":
		ids := []string{}
		var fault error
		client.List(ctx, c.Topic, tarry.ListOptions{State: c.State, Page: c.Page})(func(one *tarry.Job, err error) bool {
			if fault = err; err == nil {
				ids = append(ids, one.ID)
			}
			return true
		})
		return object{"ids": ids}, fault
	case "take":
		found, err := client.Take(ctx, tarry.Take{Topics: c.Topics, Max: c.Max, Wait: ms(c.WaitMS), Lease: ms(c.LeaseMS), Consumer: c.Consumer})
		jobs := []object{}
		for at := range found {
			taken[found[at].Lease] = found[at]
			jobs = append(jobs, job(&found[at]))
		}
		return object{"jobs": jobs}, err
	case "ack":
		if value, contentType := c.Result.value(); value != nil || c.HoldMS != 0 {
			return results(client.AckWith(ctx, tarry.Ack{Result: value, ContentType: contentType, Hold: ms(c.HoldMS)}, c.given()...))
		}
		return results(client.Ack(ctx, c.given()...))
	case "nack":
		value, contentType := c.Result.value()
		return results(client.Nack(ctx, tarry.Nack{Delay: ms(c.DelayMS), Error: c.Error, Final: c.Final, Result: value, ContentType: contentType, Hold: ms(c.HoldMS)}, c.given()...))
	case "extend":
		if c.Progress != "" {
			return results(client.ExtendWith(ctx, tarry.Extend{Lease: ms(c.LeaseMS), Progress: c.Progress}, c.given()...))
		}
		return results(client.Extend(ctx, ms(c.LeaseMS), c.given()...))
	case "push_and_wait":
		found, err := client.PushAndWait(ctx, c.push(), ms(c.WaitMS))
		if err != nil {
			return nil, err
		}
		return object{"job": job(found)}, nil
	case "wait":
		var names []tarry.JobName
		for _, id := range c.IDs {
			names = append(names, tarry.JobName{Topic: c.Topic, ID: id})
		}
		found, err := client.Wait(ctx, tarry.WaitOptions{Any: c.Any, Timeout: ms(c.TimeoutMS)}, names...)
		jobs := []object{}
		for at := range found {
			jobs = append(jobs, job(&found[at]))
		}
		return object{"jobs": jobs}, err
	case "again":
		again := tarry.Again{Delay: ms(c.DelayMS), Priority: c.Priority}
		if c.Text != nil {
			again.Body = *c.Text
		}
		found, err := client.Again(ctx, again, c.Leases[0])
		return object{"done": found}, err
	case "schedule":
		found, err := client.Schedule(ctx, c.Name, c.schedule())
		return object{"result": found.Result, "next_ms": found.Next.UnixMilli()}, err
	case "unschedule":
		found, err := client.Unschedule(ctx, c.Name)
		return object{"done": found}, err
	case "give_back":
		return results(client.GiveBack(ctx, c.given()...))
	case "worker":
		c.startWorker(ctx)
		return object{}, nil
	case "stop":
		workers[c.Name].Stop(ms(c.GraceMS))
		return object{}, nil
	case "verify":
		now, header := time.Now(), http.Header{}
		if c.NowMS != nil {
			now = time.UnixMilli(*c.NowMS)
		}
		for name, value := range c.Headers {
			header.Set(name, value)
		}
		_, err := tarry.VerifyAt(now, c.Secrets, header, c.Body)
		if err != nil && !errors.Is(err, tarry.ErrSignature) {
			return nil, err
		}
		return object{"valid": err == nil}, nil
	case "quit":
		return object{}, nil
	}
	return nil, fmt.Errorf("no such op: %s", c.Op)
}

// handlerOf returns the handler that treats jobs by the plan.
func (c *call) handlerOf(plan plan) tarry.Handler {
	return func(ctx context.Context, job *tarry.Job) error {
		say(object{"event": "began", "worker": c.Name, "id": job.ID, "attempt": job.Attempt, "delivery": job.Delivery})
		now := plan.step
		if steps := plan.ByAttempt; len(steps) > 0 {
			now = steps[min(job.Attempt, len(steps))-1]
		}
		if now.Progress != "" {
			isDone, _ := job.ReportProgress(ctx, now.Progress)
			say(object{"event": "reported", "worker": c.Name, "id": job.ID, "done": isDone})
		}
		if value, _ := now.Result.value(); value != nil {
			job.SetResult(value)
		}
		select {
		case <-time.After(ms(now.SleepMS)):
		case <-ctx.Done():
			isUnwanted := errors.Is(context.Cause(ctx), tarry.ErrCancelRequested)
			say(object{"event": "notified", "worker": c.Name, "id": job.ID, "cancel_requested": isUnwanted})
			if isUnwanted && (now.Heeds == nil || *now.Heeds) {
				return ctx.Err()
			}
		}
		switch now.Do {
		case "fail":
			return errors.New(now.Error)
		case "retry":
			return tarry.Retry(ms(now.AfterMS), errors.New(now.Error))
		case "reject":
			return tarry.Reject(errors.New(now.Error))
		}
		return nil
	}
}

func (c *call) startWorker(ctx context.Context) {
	options := tarry.WorkerOptions{
		NoLog:       c.NoLog != nil && !*c.NoLog,
		Concurrency: c.Concurrency, Lease: ms(c.LeaseMS), Consumer: c.Consumer,
		OnDone: func(job *tarry.Job, outcome string, _ time.Duration) {
			say(object{"event": "ended", "worker": c.Name, "id": job.ID, "attempt": job.Attempt, "outcome": outcome})
		},
		OnError: func(err error, what string) { fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05.000"), what, err) },
	}
	worker := tarry.NewWorker(client, c.Topics, c.handlerOf(c.Handler), options)
	if c.Handlers != nil {
		var handlers []tarry.TopicHandler
		for topic, plan := range c.Handlers {
			handlers = append(handlers, tarry.TopicHandler{Topic: topic, Handle: c.handlerOf(plan)})
		}
		worker = tarry.NewTopicWorker(client, handlers, options)
	}
	workers[c.Name] = worker
	go func() {
		if err := worker.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
		}
	}()
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c call
		line := object{}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			line["error"] = problem(err)
		} else if found, err := c.answer(context.Background()); err != nil {
			line["error"] = problem(err)
		} else {
			line["ok"] = found
		}
		line["n"] = c.N
		say(line)
		if c.Op == "quit" {
			return
		}
	}
}
