// Package tarry is a client of tarry, the delay queue: push a job now, work on it when it is due.
//
// docs/clients.md documents each call and the reasons.
package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	pushesMax = 1000 // in a request
	leasesMax = 1000

	resultsBytesMax = 1 << 19 // of results in base64, in a request; the server takes 1 MiB
)

// Client calls a server, or several that share a store. Any number of goroutines may use a client at the same time.
type Client struct {
	transport *transport
	codec     *Codec
	gatherer  gatherer
}

// New returns a client. It does not connect yet.
func New(options Options) (*Client, error) {
	made, err := newTransport(options)
	if err != nil {
		return nil, err
	}
	return &Client{transport: made, codec: options.Codec}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.http.CloseIdleConnections() }

// PushResult is the outcome of an item of PushMany: Err is the reason if it was refused.
type PushResult struct {
	Pushed
	Err error
}

// PushMany pushes any number of jobs. A refused job has an error in its place and does not affect the others. If a whole request fails, its
// error is also in the place of each job whose outcome is unknown and of each job that was not sent.
func (c *Client) PushMany(ctx context.Context, pushes []Push) ([]PushResult, error) {
	results := make([]PushResult, len(pushes))
	items := make([]item, 0, len(pushes))
	places := make([]int, 0, len(pushes)) // of items in results
	for at := range pushes {
		made, err := pushes[at].item(c.codec)
		if err != nil {
			results[at].Err = err
			continue
		}
		items, places = append(items, made), append(places, at)
	}
	for start := 0; start < len(items); start += pushesMax {
		end := min(start+pushesMax, len(items))
		if err := c.pushItems(ctx, items[start:end], places[start:end], results); err != nil {
			for _, at := range places[end:] {
				results[at].Err = err
			}
			return results, err
		}
	}
	return results, nil
}

// pushItems sends one request. Items that a limit refuses are retried like a call.
func (c *Client) pushItems(ctx context.Context, items []item, places []int, results []PushResult) error {
	began, pause := time.Now(), firstPause
	for {
		var answer struct{ Results []result }
		if err := c.transport.call(ctx, &request{method: "POST", path: "/v1/jobs", body: items}, &answer); err != nil {
			for _, at := range places {
				results[at] = PushResult{Err: err}
			}
			return err
		}
		var leftItems []item
		var leftPlaces []int
		for n, at := range places {
			results[at] = pushedOf(answer.Results, n)
			if errors.Is(results[at].Err, ErrUnavailable) {
				leftItems, leftPlaces = append(leftItems, items[n]), append(leftPlaces, at)
			}
		}
		wait := jittered(pause)
		if len(leftItems) == 0 || time.Since(began)+wait > c.transport.retryFor || !sleep(ctx, wait) {
			return nil
		}
		items, places, pause = leftItems, leftPlaces, min(2*pause, longestPause)
	}
}

// PushBatch pushes a waiting job and up to 999 members in one call and closes the batch. Members may have MemberJobs, so a chain is one call. The
// results are those of the jobs, each waiting job before its members; if one has an error, its batch stays open, and isClosed is false.
func (c *Client) PushBatch(ctx context.Context, job Push, members ...Push) (results []PushResult, isClosed bool, err error) {
	made, err := job.item(c.codec)
	if err != nil {
		return nil, false, err
	}
	items, err := c.memberItems(members)
	if err != nil {
		return nil, false, err
	}
	body := struct {
		Job     item   `json:"job"`
		Members []item `json:"members"`
	}{made, items}
	var answer struct {
		Results []result
		Closed  bool
	}
	if err := c.transport.call(ctx, &request{method: "POST", path: "/v1/batches", body: body}, &answer); err != nil {
		return nil, false, err
	}
	for n := range answer.Results {
		results = append(results, pushedOf(answer.Results, n))
	}
	return results, answer.Closed, nil
}

func (c *Client) memberItems(members []Push) ([]item, error) {
	items := make([]item, len(members))
	for at := range members {
		made, err := members[at].item(c.codec)
		if err == nil && len(members[at].MemberJobs) > 0 {
			made.Members, err = c.memberItems(members[at].MemberJobs)
		}
		if err != nil {
			return nil, err
		}
		items[at] = made
	}
	return items, nil
}

// CloseBatch closes the batch of a waiting job: it gets no more members.
func (c *Client) CloseBatch(ctx context.Context, topic, id string) error {
	r := request{method: "POST", path: jobPath(topic, id, "/close")}
	err := c.transport.call(ctx, &r, nil)
	if r.isRepeated && errors.Is(err, ErrNotFound) {
		return nil // an earlier try may have closed it, and the job has ended since
	}
	return err
}

// CancelBatch cancels a waiting job and its members. Consumers that hold members are notified, as by RequestCancel. It returns false if the
// job does not exist.
func (c *Client) CancelBatch(ctx context.Context, topic, id string) (bool, error) {
	r := request{method: "DELETE", path: jobPath(topic, id), query: url.Values{"members": {"true"}}}
	found, err := c.cancel(ctx, &r)
	return found != "" || err == nil && r.isRepeated, err // an earlier try may have done it
}

func pushedOf(results []result, n int) PushResult {
	if n >= len(results) {
		return PushResult{Err: errNoResult}
	}
	one := &results[n]
	switch one.Result {
	case "created", "replaced", "existed":
		return PushResult{Pushed: Pushed{Topic: one.Topic, ID: one.ID, Result: one.Result, DueAt: one.DueAt}}
	}
	return PushResult{Err: one.toError(0, 0)}
}

var errNoResult error = &Error{Kind: ErrServer, Code: "bad_answer", Detail: "the answer has no result for it"}

func jobPath(topic, id string, rest ...string) string {
	return "/v1/topics/" + url.PathEscape(topic) + "/jobs/" + url.PathEscape(id) + strings.Join(rest, "")
}

// Results of RequestCancel.
const (
	Cancelled = "cancelled"
	Requested = "requested"
)

// Cancel returns false if the job does not exist. A job that a consumer holds cannot be cancelled (ErrConflict); see RequestCancel.
func (c *Client) Cancel(ctx context.Context, topic, id string) (bool, error) {
	r := request{method: "DELETE", path: jobPath(topic, id)}
	found, err := c.cancel(ctx, &r)
	return found != "" || err == nil && r.isRepeated, err // an earlier try may have done it
}

// RequestCancel returns Cancelled, or Requested if a consumer holds the job, or "" if the job does not exist. A consumer is notified, and the
// job is cancelled unless the consumer acks it.
func (c *Client) RequestCancel(ctx context.Context, topic, id string) (string, error) {
	return c.cancel(ctx, &request{method: "DELETE", path: jobPath(topic, id), query: url.Values{"request": {"true"}}})
}

func (c *Client) cancel(ctx context.Context, r *request) (string, error) {
	var answer result
	err := c.transport.call(ctx, r, &answer)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return answer.Result, err
}

// Move has the changes of Reschedule: zero values do not change.
type Move struct {
	Delay    time.Duration // from now
	At       time.Time     // in place of Delay
	Priority *int
}

// Reschedule returns the new due time.
func (c *Client) Reschedule(ctx context.Context, topic, id string, move Move) (time.Time, error) {
	query := url.Values{}
	add(query, "delay", milliseconds(move.Delay))
	add(query, "at", moment(move.At))
	if move.Priority != nil {
		add(query, "priority", strconv.Itoa(*move.Priority))
	}
	var answer result
	err := c.transport.call(ctx, &request{method: "PATCH", path: jobPath(topic, id), query: query}, &answer)
	return answer.DueAt, err
}

func add(query url.Values, name, value string) {
	if value != "" {
		query.Add(name, value)
	}
}

// Run makes the job due now.
func (c *Client) Run(ctx context.Context, topic, id string) error {
	return c.transport.call(ctx, &request{method: "POST", path: jobPath(topic, id, "/run")}, nil)
}

// Get returns the current state of the job, or ErrNotFound.
func (c *Client) Get(ctx context.Context, topic, id string) (*Job, error) {
	var job Job
	if err := c.transport.call(ctx, &request{method: "GET", path: jobPath(topic, id), query: url.Values{"body": {"base64"}}}, &job); err != nil {
		return nil, err
	}
	c.codec.decodeJob(&job)
	return &job, nil
}

// ListOptions selects jobs of a topic; the zero value selects all, without bodies.
type ListOptions struct {
	State    string
	IDPrefix string
	Bodies   bool
	Page     int // jobs in a request, 100
}

// List iterates over the jobs of a topic by due time, and requests them in pages: `for job, err := range client.List(…)` from Go 1.23 on; with
// older versions call it with the body of the loop. An error ends the iteration.
func (c *Client) List(ctx context.Context, topic string, options ListOptions) func(yield func(*Job, error) bool) {
	query := url.Values{}
	add(query, "state", options.State)
	add(query, "id_prefix", options.IDPrefix)
	if options.Bodies {
		query.Set("body", "base64")
	}
	return c.pages(ctx, "/v1/topics/"+url.PathEscape(topic)+"/jobs", query, options.Page)
}

// MembersOptions selects members of a batch; the zero value selects all, without results.
type MembersOptions struct {
	Outcome string // unfinished, acked, dead, cancelled, expired
	Results bool
	Page    int // members in a request, 100
}

// Members iterates over the members of a batch, like List. Finished members are found if they are kept.
func (c *Client) Members(ctx context.Context, topic, id string, options MembersOptions) func(yield func(*Job, error) bool) {
	query := url.Values{}
	add(query, "outcome", options.Outcome)
	if options.Results {
		query.Set("results", "true")
	}
	return c.pages(ctx, jobPath(topic, id, "/members"), query, options.Page)
}

func (c *Client) pages(ctx context.Context, path string, query url.Values, size int) func(yield func(*Job, error) bool) {
	return func(yield func(*Job, error) bool) {
		query.Set("limit", strconv.Itoa(max(size, 0)))
		if size == 0 {
			query.Set("limit", "100")
		}
		query.Del("cursor")
		for {
			var answer struct {
				Jobs    []Job
				Members []Job
				Cursor  string
			}
			err := c.transport.call(ctx, &request{method: "GET", path: path, query: query}, &answer)
			if errors.Is(err, ErrNotFound) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			jobs := append(answer.Jobs, answer.Members...)
			for at := range jobs {
				c.codec.decodeJob(&jobs[at])
				if !yield(&jobs[at], nil) {
					return
				}
			}
			if answer.Cursor == "" {
				return
			}
			query.Set("cursor", answer.Cursor)
		}
	}
}

// Schedule is a plan, and the jobs that it pushes. Topic is required, and one of Cron and Every.
type Schedule struct {
	Topic       string
	Body        any // as in Push
	ContentType string
	Cron        []string      // it fires when any of them fires
	Every       time.Duration // in place of Cron
	Zone        string        // UTC
	TakeOver    bool          // also changes a schedule of another owner
	// Members are other members of the specification in docs/schedules.md, as the API has them, such as "overlap": "skip".
	Members map[string]any
}

// Scheduled is the result of Schedule.
type Scheduled struct {
	Result string    `json:"result"` // created, replaced, or existed if nothing was changed
	Next   time.Time `json:"next"`   // the next fire; zero if there is none
}

// spec encodes the body so that equal bodies have equal bytes: the same specification again changes nothing.
func (s *Schedule) spec(codec *Codec) (map[string]any, error) {
	spec := make(map[string]any, len(s.Members)+5)
	for name, value := range s.Members {
		spec[name] = value
	}
	for name, value := range map[string]string{"topic": s.Topic, "every": milliseconds(s.Every), "zone": s.Zone, "content_type": s.ContentType} {
		if value != "" {
			spec[name] = value
		}
	}
	if len(s.Cron) > 0 {
		spec["cron"] = s.Cron
	}
	if s.Body != nil && codec != nil {
		bytes, kind, err := bodyOf(s.Body)
		if err == nil {
			bytes, kind, err = codec.encode(bytes, firstOf(s.ContentType, kind), partBody, true, nil)
		}
		if err != nil {
			return nil, err
		}
		spec["body_base64"], spec["content_type"] = bytes, kind
	} else if bytes, is := s.Body.([]byte); is {
		spec["body_base64"] = bytes
	} else if s.Body != nil {
		spec["body"] = s.Body
	}
	return spec, nil
}

func schedulePath(name string) string { return "/v1/schedules/" + url.PathEscape(name) }

// Schedule creates or replaces a schedule that pushes a job each time it fires. The same specification again changes nothing.
func (c *Client) Schedule(ctx context.Context, name string, schedule Schedule) (Scheduled, error) {
	var answer Scheduled
	spec, err := schedule.spec(c.codec)
	if err != nil {
		return answer, err
	}
	query := url.Values{}
	if schedule.TakeOver {
		query.Set("take_over", "true")
	}
	err = c.transport.call(ctx, &request{method: "PUT", path: schedulePath(name), query: query, body: spec}, &answer)
	return answer, err
}

// Unschedule deletes a schedule; its jobs that are due stay. It returns false if the schedule does not exist.
func (c *Client) Unschedule(ctx context.Context, name string) (bool, error) {
	r := request{method: "DELETE", path: schedulePath(name)}
	err := c.transport.call(ctx, &r, nil)
	if errors.Is(err, ErrNotFound) {
		return r.isRepeated, nil // an earlier try may have done it
	}
	return err == nil, err
}

// Take has the options of a take.
type Take struct {
	Topics []string      // served in this order
	Max    int           // jobs at most, 1
	Wait   time.Duration // for the first of them
	Lease  time.Duration // 0: the job's
	// Consumer is the name shown as the holder, at most 64 printable ASCII characters.
	Consumer string
}

// Take returns ready jobs. It is never retried automatically: a call whose answer was lost may hold jobs until their lease ends.
func (c *Client) Take(ctx context.Context, take Take) ([]Job, error) {
	jobs, err := c.take(ctx, take)
	for at := range jobs {
		c.codec.decodeJob(&jobs[at])
	}
	return jobs, err
}

// take returns jobs that are not decoded.
func (c *Client) take(ctx context.Context, take Take) ([]Job, error) {
	query := url.Values{"topic": take.Topics, "max": {strconv.Itoa(max(take.Max, 1))}, "wait": {wholeMilliseconds(take.Wait)}, "body": {"base64"}}
	add(query, "lease_for", milliseconds(take.Lease))
	add(query, "consumer", take.Consumer)
	var answer struct{ Jobs []Job }
	r := request{method: "POST", path: "/v1/take", query: query, timeout: take.Wait + c.transport.timeout, isOnce: true}
	if err := c.transport.call(ctx, &r, &answer); err != nil {
		return nil, err
	}
	for at := range answer.Jobs {
		if answer.Jobs[at].State == "" {
			answer.Jobs[at].State = "leased"
		}
	}
	return answer.Jobs, nil
}

// WaitOptions of Wait; the zero value waits up to 30 s for all jobs.
type WaitOptions struct {
	Any     bool          // until one of the jobs has ended
	Timeout time.Duration // up to 4 minutes
}

const waitDefault = 30 * time.Second

// Wait waits until all of up to 1,000 jobs have ended, or any. It returns each as it is then, in the given order. The state is "finished" or "dead" if the job has ended,
// and "unknown" if it does not exist: a job that finished before the call is found only if its topic keeps finished jobs.
func (c *Client) Wait(ctx context.Context, options WaitOptions, names ...JobName) ([]Job, error) {
	body := struct {
		Jobs []JobName `json:"jobs"`
		For  string    `json:"for"`
		Wait string    `json:"wait"`
	}{names, "all", ""}
	if options.Any {
		body.For = "any"
	}
	if options.Timeout == 0 {
		options.Timeout = waitDefault
	}
	body.Wait = wholeMilliseconds(options.Timeout)
	var found struct{ Jobs []Job }
	r := request{method: "POST", path: "/v1/wait", query: url.Values{"body": {"base64"}}, body: body}
	if err := c.transport.call(ctx, c.long(&r, options.Timeout), &found); err != nil {
		return nil, err
	}
	byName := make(map[JobName]Job, len(names))
	for _, job := range found.Jobs {
		c.codec.decodeJob(&job)
		byName[job.Name()] = job
	}
	jobs := make([]Job, len(names))
	for at, name := range names {
		if jobs[at] = byName[name]; jobs[at].ID == "" {
			jobs[at] = Job{Topic: name.Topic, ID: name.ID, State: "unknown"}
		}
	}
	return jobs, nil
}

// long prepares a call that the server answers after the wait at the latest.
func (c *Client) long(r *request, wait time.Duration) *request {
	r.timeout, r.retryFor = wait+c.transport.timeout, wait+max(c.transport.retryFor, 0)
	r.isOnce = c.transport.retryFor < 0
	return r
}

// PushAndWait pushes a job and waits for its end, up to 4 minutes (0: 30 s). It returns the job with its outcome and result, or as it is after the wait. If the answer is
// lost, the call is repeated, and the wait begins again; a job that was acked in between runs twice, unless its topic has a dedup_window.
func (c *Client) PushAndWait(ctx context.Context, push Push, wait time.Duration) (*Job, error) {
	made, err := push.item(c.codec)
	if err != nil {
		return nil, err
	}
	if made.ID == "" {
		return nil, &Error{Kind: ErrRefused, Code: "bad_id", Detail: "a push that waits needs an ID if it has a Once"}
	}
	if wait == 0 {
		wait = waitDefault
	}
	name := JobName{made.Topic, made.ID}
	r := request{method: "PUT", path: jobPath(name.Topic, name.ID), query: made.query(), raw: made.Body, contentType: made.ContentType, header: made.header()}
	r.query.Set("wait", wholeMilliseconds(wait))
	var answer struct {
		Job
		Attempt *int            `json:"attempt"`
		Result  json.RawMessage `json:"result"`
		Base64  []byte          `json:"result_base64"`
	}
	began := time.Now()
	err = c.transport.call(ctx, c.long(&r, wait), &answer)
	var fault *Error
	switch {
	case r.isRepeated && errors.As(err, &fault) && fault.Code == "leased": // an earlier try has pushed it, and a worker holds it
	case errors.Is(err, ErrNotFound): // it existed, has ended, and is not kept
	case err != nil:
		return nil, err
	}
	hasEnded := answer.State == "finished" || answer.State == "dead"
	if left := wait - time.Since(began); answer.Attempt != nil && !hasEnded { // a push that is not the first with its Once does not wait
		wait = left
	}
	if wait > 0 && !hasEnded {
		jobs, err := c.Wait(ctx, WaitOptions{Timeout: wait}, name)
		if err != nil {
			return nil, err
		}
		return &jobs[0], nil
	}
	job := answer.Job
	job.Attempt, job.Result = *answer.Attempt, answer.Base64
	var text string
	if answer.Result != nil && !strings.HasPrefix(job.ResultType, "application/json") && json.Unmarshal(answer.Result, &text) == nil {
		job.Result = []byte(text)
	} else if answer.Result != nil {
		job.Result = answer.Result
	}
	c.codec.decodeJob(&job)
	return &job, nil
}

// query returns the options of a push of one job.
func (i *item) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"delay": i.Delay, "at": i.At, "ttl": i.TTL, "lease_for": i.Lease, "backoff": i.Backoff, "on_conflict": i.OnConflict,
		"once": i.Once, "once_for": i.OnceFor, "keep_finished": i.Keep, "group": i.Group, "batch_topic": i.BatchTopic, "batch_id": i.BatchID, "parent": i.Parent,
		"wait_at_most": i.WaitAtMost, "close_within": i.CloseWithin, "on_dead": i.OnDead, "callback": i.Callback} {
		add(query, name, value)
	}
	if i.Priority != nil {
		query.Set("priority", strconv.Itoa(*i.Priority))
	}
	if i.Waits {
		query.Set("waits", "true")
	}
	if members, is := i.Members.(int); is {
		query.Set("members", strconv.Itoa(members))
	}
	if i.MaxAttempts != 0 {
		query.Set("max_attempts", strconv.Itoa(i.MaxAttempts))
	}
	return query
}

// header returns the meta of a push of one job.
func (i *item) header() http.Header {
	header := http.Header{}
	for name, value := range i.Meta {
		if name != "traceparent" && name != "tracestate" {
			name = "Tarry-Meta-" + name
		}
		header.Set(name, value)
	}
	return header
}

// answer is the answer for a lease.
type answer struct {
	Lease    string `json:"lease"`
	Delay    string `json:"delay,omitempty"`
	Error    string `json:"error,omitempty"`
	Final    bool   `json:"final,omitempty"`
	LeaseFor string `json:"lease_for,omitempty"`
	Hold     string `json:"hold,omitempty"`
	Progress string `json:"progress,omitempty"`

	Result     []byte `json:"result_base64,omitempty"`
	ResultType string `json:"result_type,omitempty"`
}

// setResult sets the result of the answer, unless it is nil.
func (a *answer) setResult(result any, contentType string, codec *Codec) error {
	if result == nil {
		return nil
	}
	bytes, found, err := bodyOf(result)
	if err == nil {
		bytes, found, err = codec.encode(bytes, firstOf(contentType, found), partResult, false, nil)
	}
	if err == nil {
		a.Result, a.ResultType = bytes, found
	}
	return err
}

// Ack reports that the jobs are done: a Job, a slice of them, several, or their leases (strings) in the same forms. The errors are those of the
// jobs, in order, nil for each success; a job that an earlier try of this call may have acked is a success. The same applies to Nack, Extend and
// GiveBack.
func (c *Client) Ack(ctx context.Context, jobs ...any) ([]error, error) {
	return c.answer(ctx, "ack", jobs, answer{})
}

// Ack has the result of a job: []byte, a string, or anything else, which becomes JSON.
type Ack struct {
	Result      any
	ContentType string // if another than that of the kind of value
	// Hold is how long no job of its group is delivered; without a group, of its topic.
	Hold time.Duration
}

// AckWith is Ack with a result, of one job, or with a hold. If the result is too big, the error is ErrRefused, and the job stays leased.
func (c *Client) AckWith(ctx context.Context, ack Ack, jobs ...any) ([]error, error) {
	like := answer{Hold: milliseconds(ack.Hold)}
	if err := like.setResult(ack.Result, ack.ContentType, c.codec); err != nil {
		return nil, err
	}
	return c.answer(ctx, "ack", jobs, like)
}

// Nack describes the failure of jobs. With Final it may have a result, of one job, which is sent to those that wait for the job.
type Nack struct {
	Delay time.Duration // 0: by the job's backoff
	Error string
	Final bool // no further attempt

	Result      any // as in Ack
	ContentType string
	Hold        time.Duration // as in Ack
}

// Nack reports that the jobs failed.
func (c *Client) Nack(ctx context.Context, nack Nack, jobs ...any) ([]error, error) {
	like := answer{Delay: milliseconds(nack.Delay), Error: cutText(nack.Error), Final: nack.Final, Hold: milliseconds(nack.Hold)}
	if err := like.setResult(nack.Result, nack.ContentType, c.codec); err != nil {
		return nil, err
	}
	return c.answer(ctx, "nack", jobs, like)
}

// Extend makes the leases end after this time from now; 0 means the lease time of the job.
func (c *Client) Extend(ctx context.Context, lease time.Duration, jobs ...any) ([]error, error) {
	return c.answer(ctx, "extend", jobs, answer{LeaseFor: milliseconds(lease)})
}

// Extend has the options of ExtendWith.
type Extend struct {
	Lease    time.Duration // 0: the lease time of the job
	Progress string        // how far the job is, up to 256 bytes of text; shown with the job
}

// ExtendWith is Extend with a progress.
func (c *Client) ExtendWith(ctx context.Context, extend Extend, jobs ...any) ([]error, error) {
	return c.answer(ctx, "extend", jobs, answer{LeaseFor: milliseconds(extend.Lease), Progress: cutTextTo(extend.Progress, progressBytes)})
}

// GiveBack returns jobs that were not started: they are ready again immediately, and the attempt does not count.
func (c *Client) GiveBack(ctx context.Context, jobs ...any) ([]error, error) {
	return c.answer(ctx, "return", jobs, answer{})
}

// Again describes how a job is pushed again. Zero values keep what the job has; without Delay and At it is due now.
type Again struct {
	Body        any // as in Push; nil: the old body
	Delay       time.Duration
	At          time.Time
	Priority    *int
	ContentType string
}

// Again acks a job and pushes it again in one step. It returns false if the cancel of the job was requested: the job has ended.
func (c *Client) Again(ctx context.Context, again Again, lease string) (bool, error) {
	query := url.Values{"lease": {lease}}
	for name, value := range map[string]string{"delay": milliseconds(again.Delay), "at": moment(again.At)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if again.Priority != nil {
		query.Set("priority", strconv.Itoa(*again.Priority))
	}
	r := request{method: "POST", path: "/v1/again", query: query}
	if again.Body != nil {
		body, contentType, err := bodyOf(again.Body)
		if err != nil {
			return false, err
		}
		if r.raw, r.contentType, err = c.codec.encode(body, firstOf(again.ContentType, contentType), partBody, false, nil); err != nil {
			return false, err
		}
	}
	var found struct{ Results []result }
	if err := c.transport.call(ctx, &r, &found); err != nil {
		return r.isRepeated && errors.Is(err, ErrLeaseEnded), ignoreIf(r.isRepeated && errors.Is(err, ErrLeaseEnded), err)
	}
	return len(found.Results) == 0 || found.Results[0].Result != Cancelled, nil
}

// ignoreIf returns nil if an earlier try of the call may have been carried out.
func ignoreIf(mayBeDone bool, err error) error {
	if mayBeDone {
		return nil
	}
	return err
}

// leasesOf returns the leases of jobs, each of which is a job, a lease, or a slice of them.
func leasesOf(jobs []any) ([]string, error) {
	leases := make([]string, 0, len(jobs))
	for _, one := range jobs {
		switch one := one.(type) {
		case string:
			leases = append(leases, one)
		case Job:
			leases = append(leases, one.Lease)
		case *Job:
			leases = append(leases, one.Lease)
		case []string:
			leases = append(leases, one...)
		case []Job:
			for at := range one {
				leases = append(leases, one[at].Lease)
			}
		case []*Job:
			for _, job := range one {
				leases = append(leases, job.Lease)
			}
		default:
			return nil, fmt.Errorf("tarry: cannot use a %T as a job, give a Job, its lease, or a slice of them", one)
		}
	}
	return leases, nil
}

func (c *Client) answer(ctx context.Context, verb string, jobs []any, like answer) ([]error, error) {
	leases, err := leasesOf(jobs)
	if err != nil {
		return nil, err
	}
	if like.Result != nil && len(leases) != 1 {
		return nil, errors.New("tarry: a result belongs to one job, so ack the others in another call")
	}
	answers := make([]answer, len(leases))
	for at, lease := range leases {
		answers[at] = like
		answers[at].Lease = lease
	}
	return c.answerLeases(ctx, verb, answers, request{})
}

// fitting returns how many of the answers go in one request.
func fitting(answers []answer) int {
	for at, size := 0, 0; at < len(answers) && at < leasesMax; at++ {
		if size += len(answers[at].Result) / 3 * 4; at > 0 && size > resultsBytesMax {
			return at
		}
	}
	return min(len(answers), leasesMax)
}

func (c *Client) answerLeases(ctx context.Context, verb string, answers []answer, how request) ([]error, error) {
	type leases struct {
		Leases []answer `json:"leases"`
	}
	outcomes := make([]error, 0, len(answers))
	for start, end := 0, 0; start < len(answers); start = end {
		end = start + fitting(answers[start:])
		part := answers[start:end]
		r := how
		r.method, r.path, r.body = "POST", "/v1/"+verb, leases{part}
		var found struct{ Results []result }
		if err := c.transport.call(ctx, &r, &found); err != nil {
			return outcomes, err
		}
		for n := range part {
			if how.onResult != nil && n < len(found.Results) {
				how.onResult(start+n, &found.Results[n])
			}
			switch {
			case n >= len(found.Results):
				outcomes = append(outcomes, errNoResult)
			case found.Results[n].Result == "ok", found.Results[n].Result == Cancelled, r.isRepeated && verb != "extend" && found.Results[n].Result == "lease_ended":
				outcomes = append(outcomes, nil)
			default:
				outcomes = append(outcomes, found.Results[n].toError(0, 0))
			}
		}
	}
	return outcomes, nil
}
