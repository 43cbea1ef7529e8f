package tarry

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// The kinds of refusals, for errors.Is. docs/clients.md says which code is which kind.
var (
	ErrNotFound    = errors.New("tarry: not found")     // no such job or topic, or the job has finished
	ErrConflict    = errors.New("tarry: conflict")      // the job is in a state in which this cannot be done: see Error.State
	ErrLeaseEnded  = errors.New("tarry: lease ended")   // the lease is over, or was answered
	ErrRefused     = errors.New("tarry: refused")       // the call is wrong, and would be wrong again
	ErrDenied      = errors.New("tarry: denied")        // the server does not know who calls, or they may not do this
	ErrFull        = errors.New("tarry: full")          // no room for another job
	ErrUnavailable = errors.New("tarry: unavailable")   // no answer for as long as was tried: what became of the call is not known
	ErrServer      = errors.New("tarry: server failed") // any other answer
	// ErrCancelRequested is why the context of a handler ends once somebody asks to cancel its job: what it returns still counts.
	ErrCancelRequested = errors.New("tarry: somebody asks to cancel the job")

	errGraceOver = errors.New("tarry: worker has stopped") // why the context of a handler ends once the grace is over
)

// Error is a refusal of the server, or that there was no answer. errors.Is tells its kind.
type Error struct {
	Kind       error         // one of those above
	Code       string        // stable; docs/api.md has the table
	Status     int           // of HTTP; 0 for an item of a batch, and where there was no answer
	Detail     string        // what to do, for people
	State      string        // of the job, with ErrConflict
	Limit      any           // that was met
	RetryAfter time.Duration // as the server asked; 0 where it did not
	cause      error
}

func (e *Error) Error() string {
	if e.Code == "" {
		return "tarry: " + e.Detail
	}
	return "tarry: " + e.Code + ": " + e.Detail
}

// Is says whether the error is of that kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

// Unwrap gives what kept the answer away: an error of net/http, or of the context.
func (e *Error) Unwrap() error { return e.cause }

// LogValue makes slog write code, status and detail as a group.
func (e *Error) LogValue() slog.Value {
	return slog.GroupValue(slog.String("code", e.Code), slog.Int("status", e.Status), slog.String("detail", e.Detail))
}

var kindOfCode = map[string]error{
	"not_found": ErrNotFound,
	"conflict":  ErrConflict, "leased": ErrConflict, "dead": ErrConflict,
	"lease_ended":  ErrLeaseEnded,
	"unauthorized": ErrDenied, "forbidden": ErrDenied,
	"topic_full": ErrFull, "caller_full": ErrFull, "no_space": ErrFull, "memory": ErrFull,
	"too_many_requests": ErrUnavailable, "unavailable": ErrUnavailable, "stopping": ErrUnavailable,
}

func kindOf(code string, status int) error {
	if kind := kindOfCode[code]; kind != nil {
		return kind
	}
	switch {
	case status == 401 || status == 403:
		return ErrDenied
	case status == 404:
		return ErrNotFound
	case status == 409:
		return ErrConflict
	case status == 507:
		return ErrFull
	case isAgain(status):
		return ErrUnavailable
	case status == 0 || status >= 400 && status < 500:
		return ErrRefused
	}
	return ErrServer
}

// result is one of a batch, or a problem: the members of both.
type result struct {
	ID     string    `json:"id"`
	Result string    `json:"result"`
	DueAt  time.Time `json:"due_at"`
	Code   string    `json:"code"`
	Title  string    `json:"title"`
	Detail string    `json:"detail"`
	State  string    `json:"state"`
	Limit  any       `json:"limit"`

	CancelRequested bool `json:"cancel_requested"`
}

func (r *result) toError(status int, retryAfter time.Duration) *Error {
	code, detail := r.Code, r.Detail
	if code == "" {
		code = r.Result
	}
	if detail == "" {
		detail = r.Title
	}
	if detail == "" && status == 0 {
		detail = "the item was refused"
	} else if detail == "" {
		detail = fmt.Sprintf("the server answered %d", status)
	}
	return &Error{Kind: kindOf(code, status), Code: code, Status: status, Detail: detail, State: r.State, Limit: r.Limit, RetryAfter: retryAfter}
}

func problemOf(status int, body []byte, retryAfter time.Duration) *Error {
	var problem result
	if json.Unmarshal(body, &problem) != nil {
		problem = result{} // a proxy's page
	}
	return problem.toError(status, retryAfter)
}

// RetryError is what a handler returns to say when its job is tried again.
type RetryError struct {
	After time.Duration // 0: after the job's backoff
	Err   error         // its text becomes the attempt's error; may be nil
}

func (e *RetryError) Error() string { return textOf("retry", e.Err) }
func (e *RetryError) Unwrap() error { return e.Err }

// Retry says: try the job again after that time, and not by its backoff. err is noted with the attempt.
func Retry(after time.Duration, err error) error { return &RetryError{After: after, Err: err} }

// RejectError is what a handler returns where no further attempt can help.
type RejectError struct {
	Err error // its text becomes the attempt's error; may be nil
}

func (e *RejectError) Error() string { return textOf("reject", e.Err) }
func (e *RejectError) Unwrap() error { return e.Err }

// Reject says: no further attempt can help, the job is dead at once.
func Reject(err error) error { return &RejectError{Err: err} }

func textOf(otherwise string, err error) string {
	if err == nil {
		return otherwise
	}
	return err.Error()
}
