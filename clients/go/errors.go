package tarry

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// The kinds of refusals, for errors.Is. docs/clients.md lists the codes of each kind.
var (
	ErrNotFound    = errors.New("tarry: not found")     // no such job or topic, or the job has finished
	ErrConflict    = errors.New("tarry: conflict")      // the state of the job does not allow this: see Error.State
	ErrLeaseEnded  = errors.New("tarry: lease ended")   // the lease has ended, or was answered
	ErrRefused     = errors.New("tarry: refused")       // the call is wrong; a retry would fail again
	ErrDenied      = errors.New("tarry: denied")        // the caller is unknown, or may not do this
	ErrFull        = errors.New("tarry: full")          // no room for another job
	ErrUnavailable = errors.New("tarry: unavailable")   // no answer during all retries: whether the call was done is not known
	ErrServer      = errors.New("tarry: server failed") // any other answer
	// ErrCancelRequested is the cause with which the context of a handler ends when the cancel of its job is requested: its return value still counts.
	ErrCancelRequested = errors.New("tarry: the cancel of the job was requested")

	errGraceOver = errors.New("tarry: worker has stopped") // the cause with which the context of a handler ends after the grace time
)

// Error is a refusal of the server, or a missing answer. errors.Is reports its kind.
type Error struct {
	Kind       error         // one of those above
	Code       string        // stable; docs/api.md has the table
	Status     int           // of HTTP; 0 for an item of a batch, and if there was no answer
	Detail     string        // what to do, for people
	State      string        // of the job, with ErrConflict
	Limit      any           // that was met
	RetryAfter time.Duration // as requested by the server; otherwise 0
	cause      error
}

func (e *Error) Error() string {
	if e.Code == "" {
		return "tarry: " + e.Detail
	}
	return "tarry: " + e.Code + ": " + e.Detail
}

// Is reports whether the error has this kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

// Unwrap returns the cause of a missing answer: an error of net/http, or of the context.
func (e *Error) Unwrap() error { return e.cause }

// LogValue makes slog write code, status and detail as a group.
func (e *Error) LogValue() slog.Value {
	return slog.GroupValue(slog.String("code", e.Code), slog.Int("status", e.Status), slog.String("detail", e.Detail))
}

var kindOfCode = map[string]error{
	"not_found": ErrNotFound,
	"conflict":  ErrConflict, "leased": ErrConflict, "dead": ErrConflict,
	"no_batch": ErrNotFound, "batch_closed": ErrConflict, "waits": ErrConflict, "too_many_members": ErrConflict, "too_many_batches": ErrConflict,
	"lease_ended":  ErrLeaseEnded,
	"unauthorized": ErrDenied, "forbidden": ErrDenied,
	"topic_full": ErrFull, "group_full": ErrFull, "caller_full": ErrFull, "no_space": ErrFull, "memory": ErrFull,
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
	Topic  string    `json:"topic"`
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

// RetryError is the return value with which a handler sets the time of the next attempt.
type RetryError struct {
	After time.Duration // 0: after the job's backoff
	Err   error         // its text becomes the attempt's error; may be nil
}

func (e *RetryError) Error() string { return textOf("retry", e.Err) }
func (e *RetryError) Unwrap() error { return e.Err }

// Retry makes the job's next attempt begin after this time instead of its backoff. err is stored with the attempt.
func Retry(after time.Duration, err error) error { return &RetryError{After: after, Err: err} }

// RejectError is the return value of a handler if no further attempt can help.
type RejectError struct {
	Err error // its text becomes the attempt's error; may be nil
}

func (e *RejectError) Error() string { return textOf("reject", e.Err) }
func (e *RejectError) Unwrap() error { return e.Err }

// Reject makes the job dead immediately, because no further attempt can help.
func Reject(err error) error { return &RejectError{Err: err} }

func textOf(otherwise string, err error) string {
	if err == nil {
		return otherwise
	}
	return err.Error()
}
