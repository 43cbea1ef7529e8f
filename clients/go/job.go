package tarry

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Push is a job to be pushed. Only the topic is required; zero values mean the topic's defaults.
type Push struct {
	Topic string
	// Body is []byte, a string, or anything else, which becomes JSON (json.RawMessage as it is).
	Body        any
	ID          string // your id, to cancel, move and get the job. Without it the client generates a ULID
	Delay       time.Duration
	At          time.Time // in place of Delay
	Priority    *int      // lower comes first; see Priority
	TTL         time.Duration
	Lease       time.Duration
	MaxAttempts int
	Backoff     string // like exponential:1s..1h, or fixed:30s
	OnConflict  string // if the id exists: keep, replace, reject, after
	// Once makes the push idempotent: if a push to the topic had the same text within OnceFor (5 minutes), nothing changes, even if its job has
	// ended. The server then generates a missing id.
	Once    string
	OnceFor time.Duration
	// KeepFinished is how long the server keeps the job and its result after its end, in place of the setting of the topic; see Keep.
	KeepFinished *time.Duration
	Group        string  // groups, such as the tenants of a service, are served fairly and may have limits
	Batch        JobName // the waiting job of the batch of which this job is a member
	Parent       string  // the lease of a member that runs, which may add members after the close of the batch
	Waits        bool    // the job becomes due when its batch is closed and all members have ended
	Members      int     // the batch of this waiting job closes itself when it has this number of members
	// WaitAtMost is the time after which the waiting job becomes due in any case; 0: 7 days.
	WaitAtMost  time.Duration
	CloseWithin time.Duration // the waiting job is dead if its batch is not closed within this time; 0: 1 hour
	OnDead      string        // effect of a dead member on the waiting job: go, hold, stop
	// MemberJobs are the members of a member in PushBatch.
	MemberJobs  []Push
	Callback    string
	Meta        map[string]string
	ContentType string
	TraceParent string
	TraceState  string
}

// Priority returns a priority for Push and Move.
func Priority(n int) *int { return &n }

// Keep returns a time for Push.KeepFinished; 0 keeps nothing.
func Keep(d time.Duration) *time.Duration { return &d }

// JobName names a job, for Wait, or a batch by its waiting job.
type JobName struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
}

// Pushed is the result of a push.
type Pushed struct {
	Topic  string
	ID     string
	Result string // created, replaced, or existed if nothing was changed
	DueAt  time.Time
}

// Job is a taken job, or the current state of a job. Body has exactly the pushed bytes.
type Job struct {
	Topic       string            `json:"topic"`
	ID          string            `json:"id"`
	Body        []byte            `json:"body_base64"`
	ContentType string            `json:"content_type"`
	Meta        map[string]string `json:"meta"`
	Attempt     int               `json:"attempt"`
	// Delivery increases with every delivery: pass it to the systems that you write to, so that they can reject late writers.
	Delivery   int64     `json:"delivery"`
	Priority   int       `json:"priority"`
	State      string    `json:"state"`
	DueAt      time.Time `json:"due_at"`
	Lease      string    `json:"lease"`
	LeaseUntil time.Time `json:"lease_until"`
	LastError  string    `json:"last_error"`
	Consumer   string    `json:"consumer"` // name of the consumer that holds the job
	// CancelRequested is set in jobs of Get and List: the job is cancelled when its lease ends, unless it is acked.
	CancelRequested bool `json:"cancel_requested"`

	// Members of a job that has ended. Its State is "finished" or "dead".
	Group      string    `json:"group"`
	Batch      JobName   `json:"batch"`     // the waiting job of the batch of which the job is a member
	WaitsFor   int       `json:"waits_for"` // the number of members that have not ended, while the job waits for them
	Outcomes   Outcomes  `json:"outcomes"`  // members of a waiting job by their outcome
	Outcome    string    `json:"outcome"`   // acked, cancelled, expired
	FinishedAt time.Time `json:"finished_at"`
	DurationMS int64     `json:"duration_ms"`   // of the last attempt; see Duration
	Progress   string    `json:"progress"`      // the last one that the worker reported, also of a leased job
	Result     []byte    `json:"result_base64"` // that the worker returned
	ResultType string    `json:"result_type"`

	// CodecErr is why the body or the result, which is empty then, cannot be decoded. Check it before you ack a job whose body you read as bytes.
	CodecErr error  `json:"-"`
	StoredAs string `json:"-"` // the name of the body in the store of a ClaimCheck

	toSet  any // the result that a handler has set
	extend func(ctx context.Context, progress string) (bool, error)
}

// Outcomes counts the members of a batch by their outcome.
type Outcomes struct {
	Unfinished int `json:"unfinished"`
	Acked      int `json:"acked"`
	Dead       int `json:"dead"`
	Cancelled  int `json:"cancelled"`
	Expired    int `json:"expired"`
}

// Name names the job, for Wait.
func (j *Job) Name() JobName { return JobName{j.Topic, j.ID} }

// Name names the job, for Wait.
func (p Pushed) Name() JobName { return JobName{p.Topic, p.ID} }

// Duration returns the duration of the last attempt of a finished job.
func (j *Job) Duration() time.Duration { return time.Duration(j.DurationMS) * time.Millisecond }

// ResultText returns the result as a string.
func (j *Job) ResultText() string { return string(j.Result) }

// ResultJSON reads the result into v.
func (j *Job) ResultJSON(v any) error {
	if j.CodecErr != nil {
		return j.CodecErr
	}
	return json.Unmarshal(j.Result, v)
}

// SetResult sets the result of the job, for handlers: []byte, a string, or anything else, which becomes JSON. It is sent with the ack, or with the nack of Reject.
func (j *Job) SetResult(result any) { j.toSet = result }

// ReportProgress stores the progress of the job, which is shown with it, for handlers: up to 256 bytes of text. It returns false if the lease is lost.
func (j *Job) ReportProgress(ctx context.Context, progress string) (bool, error) {
	if j.extend == nil {
		return false, errors.New("tarry: no worker holds the job")
	}
	return j.extend(ctx, progress)
}

// Text returns the body as a string.
func (j *Job) Text() string { return string(j.Body) }

// JSON reads the body into v.
func (j *Job) JSON(v any) error {
	if j.CodecErr != nil {
		return j.CodecErr
	}
	return json.Unmarshal(j.Body, v)
}

// TraceParent returns the trace in which the job was pushed, or "".
func (j *Job) TraceParent() string { return j.Meta["traceparent"] }

// LogValue makes slog write topic, id and attempt as a group, and never the body.
func (j *Job) LogValue() slog.Value {
	return slog.GroupValue(slog.String("topic", j.Topic), slog.String("id", j.ID), slog.Int("attempt", j.Attempt))
}

// item is a job of a batch push as the API has it.
type item struct {
	Topic       string            `json:"topic"`
	ID          string            `json:"id,omitempty"`
	Body        []byte            `json:"body_base64"`
	ContentType string            `json:"content_type"`
	Delay       string            `json:"delay,omitempty"`
	At          string            `json:"at,omitempty"`
	Priority    *int              `json:"priority,omitempty"`
	TTL         string            `json:"ttl,omitempty"`
	Lease       string            `json:"lease_for,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	Backoff     string            `json:"backoff,omitempty"`
	OnConflict  string            `json:"on_conflict,omitempty"`
	Once        string            `json:"once,omitempty"`
	OnceFor     string            `json:"once_for,omitempty"`
	Keep        string            `json:"keep_finished,omitempty"`
	Group       string            `json:"group,omitempty"`
	BatchTopic  string            `json:"batch_topic,omitempty"`
	BatchID     string            `json:"batch_id,omitempty"`
	Parent      string            `json:"parent,omitempty"`
	Waits       bool              `json:"waits,omitempty"`
	Members     any               `json:"members,omitempty"` // a number, or the items of the members
	WaitAtMost  string            `json:"wait_at_most,omitempty"`
	CloseWithin string            `json:"close_within,omitempty"`
	OnDead      string            `json:"on_dead,omitempty"`
	Callback    string            `json:"callback,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
}

func (p *Push) item(codec *Codec) (item, error) {
	body, contentType, err := bodyOf(p.Body)
	if err != nil {
		return item{}, err
	}
	if body, contentType, err = codec.encode(body, firstOf(p.ContentType, contentType), partBody, false, nil); err != nil {
		return item{}, err
	}
	made := item{
		Topic: p.Topic, ID: p.ID, Body: body, ContentType: contentType, Delay: milliseconds(p.Delay), At: moment(p.At), Priority: p.Priority,
		TTL: milliseconds(p.TTL), Lease: milliseconds(p.Lease), MaxAttempts: p.MaxAttempts, Backoff: p.Backoff, OnConflict: p.OnConflict,
		Once: p.Once, OnceFor: milliseconds(p.OnceFor), Callback: p.Callback, Meta: p.Meta, Group: p.Group,
		BatchTopic: p.Batch.Topic, BatchID: p.Batch.ID, Parent: p.Parent, Waits: p.Waits, WaitAtMost: milliseconds(p.WaitAtMost),
		CloseWithin: milliseconds(p.CloseWithin), OnDead: p.OnDead,
	}
	if p.Members != 0 {
		made.Members = p.Members
	}
	if p.KeepFinished != nil {
		made.Keep = wholeMilliseconds(*p.KeepFinished)
	}
	if made.ID == "" {
		if p.Once == "" { // else the server generates one that belongs to the shard of the once
			made.ID = newID(time.Now())
		}
		if made.OnConflict == "" {
			made.OnConflict = "keep" // a try whose answer was lost may have created the job
		}
	}
	if p.TraceParent != "" || p.TraceState != "" {
		made.Meta = map[string]string{}
		for name, value := range map[string]string{"traceparent": p.TraceParent, "tracestate": p.TraceState} {
			if value != "" {
				made.Meta[name] = value
			}
		}
		for name, value := range p.Meta {
			made.Meta[name] = value
		}
	}
	return made, nil
}

// bodyOf returns the bytes and their content type. The bytes are never nil, because the API requires a text, not null.
func bodyOf(body any) ([]byte, string, error) {
	switch body := body.(type) {
	case nil:
		return []byte{}, "application/octet-stream", nil
	case []byte:
		return append([]byte{}, body...), "application/octet-stream", nil
	case string:
		return []byte(body), "text/plain; charset=utf-8", nil
	case json.RawMessage:
		return append([]byte{}, body...), "application/json", nil
	}
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, "", &Error{Kind: ErrRefused, Code: "bad_body", Detail: "the body cannot be written as JSON: " + err.Error(), cause: err}
	}
	return bytes.TrimSuffix(made.Bytes(), []byte("\n")), "application/json", nil
}

// milliseconds returns a duration in the form of the API, rounded up so that a job is never early. "" for 0.
func milliseconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return wholeMilliseconds(d)
}

func wholeMilliseconds(d time.Duration) string {
	n := d.Milliseconds()
	if d > time.Duration(n)*time.Millisecond {
		n++
	}
	return strconv.FormatInt(n, 10) + "ms"
}

// moment returns a time in the form of the API, in milliseconds since 1970, rounded up. "" for no time.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	n := t.UnixMilli()
	if t.After(time.UnixMilli(n)) {
		n++
	}
	return strconv.FormatInt(n, 10)
}

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// newID returns a ULID: 48 bits of milliseconds and 80 random ones, five to a letter.
func newID(now time.Time) string {
	var bits [16]byte
	binary.BigEndian.PutUint64(bits[:8], uint64(now.UnixMilli())<<16)
	if _, err := rand.Read(bits[6:]); err != nil {
		panic("tarry: no random numbers: " + err.Error())
	}
	high, low := binary.BigEndian.Uint64(bits[:8]), binary.BigEndian.Uint64(bits[8:])
	var id [26]byte
	for at := 25; at >= 0; at-- {
		id[at] = crockford[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(id[:])
}

const (
	errorBytes    = 200 // of an attempt's error, as the server keeps them
	progressBytes = 256
)

// cutText returns one line of valid UTF-8 with at most the length of an error.
func cutText(text string) string { return cutTextTo(text, errorBytes) }

func cutTextTo(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
