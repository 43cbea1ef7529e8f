// Package tarry is a client of tarry, the delay queue: push a job now, work on it when it is due.
//
// docs/clients.md says what it does call by call, and why.
package tarry

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	pushesMax = 1000 // in a request
	leasesMax = 1000
)

// Client calls a server, or several that share a store. Any number of goroutines may use one at once.
type Client struct {
	transport *transport
	gatherer  gatherer
}

// New makes a client. It speaks to nobody yet.
func New(options Options) (*Client, error) {
	made, err := newTransport(options)
	if err != nil {
		return nil, err
	}
	return &Client{transport: made}, nil
}

// Close closes connections that nobody uses just now.
func (c *Client) Close() { c.transport.http.CloseIdleConnections() }

// PushResult is what became of an item of PushMany: Err says why it was refused.
type PushResult struct {
	Pushed
	Err error
}

// PushMany hands over any number of jobs. One that is refused is an error in its place, and spoils no other. Where a request fails as a
// whole its error is given, too, in the place of each job whose fate is not known and of those that were not sent.
func (c *Client) PushMany(ctx context.Context, pushes []Push) ([]PushResult, error) {
	results := make([]PushResult, len(pushes))
	items := make([]item, 0, len(pushes))
	places := make([]int, 0, len(pushes)) // of items in results
	for at := range pushes {
		made, err := pushes[at].item()
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

// pushItems sends one request; what a limit refuses just now is made again as a call would be.
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

func pushedOf(results []result, n int) PushResult {
	if n >= len(results) {
		return PushResult{Err: errNoResult}
	}
	one := &results[n]
	switch one.Result {
	case "created", "replaced", "existed":
		return PushResult{Pushed: Pushed{ID: one.ID, Result: one.Result, DueAt: one.DueAt}}
	}
	return PushResult{Err: one.toError(0, 0)}
}

var errNoResult error = &Error{Kind: ErrServer, Code: "bad_answer", Detail: "the answer has no result for it"}

func jobPath(topic, id string, rest ...string) string {
	return "/v1/topics/" + url.PathEscape(topic) + "/jobs/" + url.PathEscape(id) + strings.Join(rest, "")
}

// What RequestCancel did.
const (
	Cancelled = "cancelled"
	Requested = "requested"
)

// Cancel says false where there is no such job. A job that somebody holds cannot be cancelled: ErrConflict; see RequestCancel.
func (c *Client) Cancel(ctx context.Context, topic, id string) (bool, error) {
	r := request{method: "DELETE", path: jobPath(topic, id)}
	found, err := c.cancel(ctx, &r)
	return found != "" || err == nil && r.isRepeated, err // an earlier try may have done it
}

// RequestCancel gives Cancelled; or Requested where a consumer holds the job, who is told, and it is cancelled unless he acks it; or "" where
// the job does not exist.
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

// Move is what Reschedule changes: what is zero stays.
type Move struct {
	Delay    time.Duration // from now
	At       time.Time     // in place of Delay
	Priority *int
}

// Reschedule gives the new due.
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

// Get gives the job as it stands, or ErrNotFound.
func (c *Client) Get(ctx context.Context, topic, id string) (*Job, error) {
	var job Job
	if err := c.transport.call(ctx, &request{method: "GET", path: jobPath(topic, id), query: url.Values{"body": {"base64"}}}, &job); err != nil {
		return nil, err
	}
	return &job, nil
}

// ListOptions says which jobs of a topic; the zero value is all, without bodies.
type ListOptions struct {
	State    string
	IDPrefix string
	Bodies   bool
	Page     int // jobs in a request, 100
}

// List goes through the jobs of a topic by due, asked for page by page: `for job, err := range client.List(…)` from Go 1.23 on; before,
// call it with the body of the loop. An error is the last that comes.
func (c *Client) List(ctx context.Context, topic string, options ListOptions) func(yield func(*Job, error) bool) {
	return func(yield func(*Job, error) bool) {
		query := url.Values{"limit": {strconv.Itoa(max(options.Page, 0))}}
		if options.Page == 0 {
			query.Set("limit", "100")
		}
		add(query, "state", options.State)
		add(query, "id_prefix", options.IDPrefix)
		if options.Bodies {
			query.Set("body", "base64")
		}
		for {
			var answer struct {
				Jobs   []Job
				Cursor string
			}
			err := c.transport.call(ctx, &request{method: "GET", path: "/v1/topics/" + url.PathEscape(topic) + "/jobs", query: query}, &answer)
			if errors.Is(err, ErrNotFound) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for at := range answer.Jobs {
				if !yield(&answer.Jobs[at], nil) {
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

// Take says what is wanted.
type Take struct {
	Topics []string      // that named first is served first
	Max    int           // jobs at most, 1
	Wait   time.Duration // for the first of them
	Lease  time.Duration // 0: the job's
	// Consumer is who takes, in 64 printable ASCII characters at most: shown as the holder.
	Consumer string
}

// Take gives ready jobs. It is never made again by itself: a try whose answer was lost may hold jobs until their lease ends.
func (c *Client) Take(ctx context.Context, take Take) ([]Job, error) {
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

// answer is what is said about a lease.
type answer struct {
	Lease    string `json:"lease"`
	Delay    string `json:"delay,omitempty"`
	Error    string `json:"error,omitempty"`
	Final    bool   `json:"final,omitempty"`
	LeaseFor string `json:"lease_for,omitempty"`
}

// Ack says that the jobs are done. The errors are those of the leases, in order, nil for each that counts; one that an earlier try of this
// call may have acked counts. The same goes for Nack, Extend and GiveBack.
func (c *Client) Ack(ctx context.Context, leases ...string) ([]error, error) {
	return c.answer(ctx, "ack", leases, answer{})
}

// Nack is how the jobs failed.
type Nack struct {
	Delay time.Duration // 0: by the job's backoff
	Error string
	Final bool // no further attempt
}

// Nack says that the jobs failed.
func (c *Client) Nack(ctx context.Context, nack Nack, leases ...string) ([]error, error) {
	return c.answer(ctx, "nack", leases, answer{Delay: milliseconds(nack.Delay), Error: cutText(nack.Error), Final: nack.Final})
}

// Extend makes the leases end so long from now; 0: as long as the job's lease is.
func (c *Client) Extend(ctx context.Context, lease time.Duration, leases ...string) ([]error, error) {
	return c.answer(ctx, "extend", leases, answer{LeaseFor: milliseconds(lease)})
}

// GiveBack says that the jobs were not begun: they are ready again at once, and the attempt does not count.
func (c *Client) GiveBack(ctx context.Context, leases ...string) ([]error, error) {
	return c.answer(ctx, "return", leases, answer{})
}

func (c *Client) answer(ctx context.Context, verb string, leases []string, like answer) ([]error, error) {
	answers := make([]answer, len(leases))
	for at, lease := range leases {
		answers[at] = like
		answers[at].Lease = lease
	}
	return c.answerLeases(ctx, verb, answers, request{})
}

func (c *Client) answerLeases(ctx context.Context, verb string, answers []answer, how request) ([]error, error) {
	type leases struct {
		Leases []answer `json:"leases"`
	}
	outcomes := make([]error, 0, len(answers))
	for start := 0; start < len(answers); start += leasesMax {
		part := answers[start:min(start+leasesMax, len(answers))]
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
