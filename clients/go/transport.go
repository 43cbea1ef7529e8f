package tarry

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
	forever      = time.Duration(math.MaxInt64)
	connections  = 256 // kept open to a server
)

// Options of a client. Everything has a default.
type Options struct {
	URL      string        // TARRY_URL, else http://127.0.0.1:8279; several, separated by commas, are tried in turn
	Token    string        // what is in the file TARRY_TOKEN_FILE, else TARRY_TOKEN
	Timeout  time.Duration // of one request, 10 s; a take has its wait and this
	RetryFor time.Duration // how long a call is made again, 30 s; below 0: never
	TLS      *tls.Config   // for servers at https://
	Codec    *Codec        // of bodies and results
}

// transport sends requests over persistent connections and retries them as documented in docs/clients.md.
type transport struct {
	http     *http.Client
	places   []string
	at       atomic.Int64 // index into places of the server that answered last
	token    string
	timeout  time.Duration
	retryFor time.Duration
}

func newTransport(o Options) (*transport, error) {
	t := &transport{token: o.Token, timeout: o.Timeout, retryFor: o.RetryFor}
	if t.timeout == 0 {
		t.timeout = 10 * time.Second
	}
	if t.retryFor == 0 {
		t.retryFor = 30 * time.Second
	}
	text := firstOf(o.URL, os.Getenv("TARRY_URL"), "http://127.0.0.1:8279")
	for _, one := range strings.Split(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		if !strings.Contains(one, "://") {
			one = "http://" + one
		}
		found, err := url.Parse(one)
		if err != nil || found.Hostname() == "" || found.Scheme != "http" && found.Scheme != "https" {
			return nil, fmt.Errorf("tarry: bad URL %q, give one like http://127.0.0.1:8279", one)
		}
		if found.Port() == "" && found.Scheme == "http" {
			found.Host += ":8279"
		}
		t.places = append(t.places, found.Scheme+"://"+found.Host+strings.TrimRight(found.EscapedPath(), "/"))
	}
	if len(t.places) == 0 {
		return nil, errors.New("tarry: no URL, give one like http://127.0.0.1:8279")
	}
	if path := os.Getenv("TARRY_TOKEN_FILE"); t.token == "" && path != "" {
		found, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("tarry: the token cannot be read: %w", err)
		}
		t.token = strings.TrimSpace(string(found))
	} else {
		t.token = firstOf(t.token, os.Getenv("TARRY_TOKEN"))
	}
	through := http.DefaultTransport.(*http.Transport).Clone()
	through.TLSClientConfig = o.TLS
	through.MaxIdleConns, through.MaxIdleConnsPerHost = 0, connections
	through.DisableCompression = true
	t.http = &http.Client{Transport: through, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return t, nil
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// request is a call, and how it is made again.
type request struct {
	method, path string
	query        url.Values
	body         any    // written as JSON; nil: no body
	raw          []byte // in place of body, with its content type
	contentType  string
	header       http.Header
	timeout      time.Duration // of a try; 0: the client's
	isOnce       bool          // never made again
	retryFor     time.Duration // 0: the client's
	pauseMax     time.Duration // between tries, 0: longestPause
	goesOn       func() bool   // asked before each further try; nil: yes
	onResult     func(at int, one *result)
	isRepeated   bool // out: an earlier try may have been carried out
}

// call reads the answer into out, which may be nil.
func (t *transport) call(ctx context.Context, r *request, out any) error {
	body := r.raw
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return err
		}
	}
	retryFor := t.retryFor
	if r.retryFor != 0 {
		retryFor = r.retryFor
	}
	pauseMax := longestPause
	if r.pauseMax != 0 {
		pauseMax = r.pauseMax
	}
	began, pause, isLast := time.Now(), firstPause, false
	for {
		wait, fault := t.once(ctx, r, body, out)
		if fault == nil {
			return nil
		}
		if fault.Status != 0 && !isAgain(fault.Status) || r.isOnce || ctx.Err() != nil {
			return fault
		}
		if fault.Status != 429 && fault.Status != 503 {
			r.isRepeated = true
		}
		left := forever
		if retryFor != forever {
			left = retryFor - time.Since(began)
		}
		if wait == noRetryAfter {
			wait, pause = jittered(pause), min(2*pause, pauseMax)
		} else if wait > left {
			isLast = true
		}
		if isLast || r.goesOn != nil && !r.goesOn() {
			return fault
		}
		isLast = wait >= left // the last try is at the limit, not before it
		if !sleep(ctx, max(0, min(wait, left))) {
			return fault
		}
	}
}

func jittered(pause time.Duration) time.Duration {
	return pause/2 + time.Duration(rand.Int63n(int64(pause/2)+1))
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once makes one try. If it fails, it returns the wait that the server requested, or noRetryAfter.
func (t *transport) once(ctx context.Context, r *request, body []byte, out any) (time.Duration, *Error) {
	timeout := t.timeout
	if r.timeout != 0 {
		timeout = r.timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	at := t.at.Load()
	target := t.places[at] + r.path
	if len(r.query) > 0 {
		target += "?" + strings.ReplaceAll(r.query.Encode(), "+", "%20") // a plus itself is %2B by then
	}
	status, header, data, err := t.exchange(ctx, r, target, body)
	if err != nil || status >= 502 && status <= 504 {
		t.at.CompareAndSwap(at, (at+1)%int64(len(t.places)))
	}
	if err != nil {
		return noRetryAfter, &Error{Kind: ErrUnavailable, Code: "no_answer", Detail: "no answer: " + err.Error(), cause: err}
	}
	if status >= 300 {
		wait := retryAfterOf(header)
		return wait, problemOf(status, data, max(0, wait))
	}
	if out == nil || len(data) == 0 {
		return 0, nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return noRetryAfter, &Error{Kind: ErrServer, Code: "bad_answer", Status: status, Detail: "the answer cannot be read: " + err.Error(), cause: err}
	}
	return 0, nil
}

func (t *transport) exchange(ctx context.Context, r *request, target string, body []byte) (int, http.Header, []byte, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	message, err := http.NewRequestWithContext(ctx, r.method, target, reader)
	if err != nil {
		return 0, nil, nil, err
	}
	if r.header != nil {
		message.Header = r.header.Clone()
	}
	message.Header.Set("User-Agent", "tarry-go")
	if body != nil {
		contentType := firstOf(r.contentType, "application/json")
		message.Header.Set("Content-Type", contentType)
	}
	if t.token != "" {
		message.Header.Set("Authorization", "Bearer "+t.token)
	}
	answer, err := t.http.Do(message)
	if err != nil {
		return 0, nil, nil, err
	}
	defer answer.Body.Close()
	var data bytes.Buffer
	if answer.ContentLength > 0 {
		data.Grow(int(min(answer.ContentLength, 16<<20)) + bytes.MinRead)
	}
	_, err = data.ReadFrom(answer.Body)
	return answer.StatusCode, answer.Header, data.Bytes(), err
}

func isAgain(status int) bool { return status == 429 || status >= 502 && status <= 504 }

const noRetryAfter time.Duration = -1 // unlike 0: the answer has no such header

// retryAfterOf reads it in seconds, or as a date. A date is held against the answer's own Date: the clock here may be wrong.
func retryAfterOf(header http.Header) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	then, err := http.ParseTime(text)
	if err != nil {
		return noRetryAfter
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, then.Sub(now))
}
