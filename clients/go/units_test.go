package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestMillisecondsAreRoundedUp(t *testing.T) {
	for d, expected := range map[time.Duration]string{0: "", 1: "1ms", time.Millisecond: "1ms", 1500*time.Millisecond + 1: "1501ms", -time.Second: "-1000ms"} {
		if found := milliseconds(d); found != expected {
			t.Errorf("%v: %s, not %s", d, found, expected)
		}
	}
	if found := moment(time.UnixMilli(1700000000000).Add(1)); found != "1700000000001" {
		t.Error(found)
	}
	if found := moment(time.Time{}); found != "" {
		t.Error(found)
	}
}

func TestIDsAreULIDs(t *testing.T) {
	now := time.UnixMilli(1469918176385) // the example of the specification of ULIDs
	one, other := newID(now), newID(now)
	if !strings.HasPrefix(one, "01ARYZ6S41") || len(one) != 26 || one == other || strings.Trim(one, crockford) != "" {
		t.Error(one, other)
	}
}

func TestBodies(t *testing.T) {
	type order struct {
		Text string `json:"text"`
	}
	for _, c := range []struct {
		body     any
		expected string
		kind     string
	}{
		{nil, "", "application/octet-stream"},
		{[]byte{0, 255}, "\x00\xff", "application/octet-stream"},
		{"Grüße", "Grüße", "text/plain; charset=utf-8"},
		{order{"<&>"}, `{"text":"<&>"}`, "application/json"},
		{json.RawMessage(`{"a" : 1.0}`), `{"a" : 1.0}`, "application/json"},
	} {
		push := Push{Topic: "t", Body: c.body}
		made, err := push.item(nil)
		if err != nil || string(made.Body) != c.expected || made.ContentType != c.kind || made.Body == nil {
			t.Errorf("%v: %q %s %v", c.body, made.Body, made.ContentType, err)
		}
	}
	push := Push{Topic: "t", Body: func() {}}
	if _, err := push.item(nil); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

func TestAnIDOfTheClientKeeps(t *testing.T) {
	push := Push{Topic: "t", TraceParent: "00-a", Meta: map[string]string{"who": "Ada"}}
	made, _ := push.item(nil)
	if made.OnConflict != "keep" || made.Meta["traceparent"] != "00-a" || made.Meta["who"] != "Ada" || len(push.Meta) != 1 {
		t.Error(made)
	}
	push.ID = "1001"
	if made, _ = push.item(nil); made.OnConflict != "" || made.ID != "1001" {
		t.Error(made)
	}
}

func TestTheOptionsOfABatchAreInTheQueryOfAPushThatWaits(t *testing.T) {
	push := Push{Topic: "t", ID: "1", OnDead: "hold", Batch: JobName{"r", "&"}, Parent: "L", Waits: true, Members: 2, WaitAtMost: time.Second, CloseWithin: 2 * time.Second}
	made, err := push.item(nil)
	const wanted = "batch_id=%26&batch_topic=r&close_within=2000ms&members=2&on_dead=hold&parent=L&wait_at_most=1000ms&waits=true"
	if found := made.query().Encode(); err != nil || found != wanted {
		t.Error(found, err)
	}
}

func TestABatchThatASecondTryDoesNotFindMayHaveBeenClosed(t *testing.T) {
	left := []int{504, 404, 404}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(left[0])
		left = left[1:]
	}))
	defer server.Close()
	client, err := New(Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CloseBatch(context.Background(), "t", "1"); err != nil {
		t.Error(err)
	}
	if err := client.CloseBatch(context.Background(), "t", "1"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestErrorsOfAttemptsAreCut(t *testing.T) {
	found := cutText(strings.Repeat("a", 199) + "é\n")
	if len(found) != 199 || !utf8.ValidString(found) {
		t.Error(found)
	}
	if found = cutText("two\nlines"); found != "two lines" {
		t.Error(found)
	}
}

func TestKindsOfErrors(t *testing.T) {
	for _, c := range []struct {
		code   string
		status int
		kind   error
	}{
		{"leased", 409, ErrConflict}, {"lease_ended", 0, ErrLeaseEnded}, {"bad_topic", 0, ErrRefused}, {"", 413, ErrRefused}, {"", 507, ErrFull},
		{"", 503, ErrUnavailable}, {"too_many_requests", 0, ErrUnavailable}, {"", 403, ErrDenied}, {"", 500, ErrServer}, {"", 302, ErrServer},
	} {
		err := error((&result{Code: c.code}).toError(c.status, 0))
		var fault *Error
		if !errors.Is(err, c.kind) || !errors.As(err, &fault) || fault.Detail == "" {
			t.Error(c, err)
		}
	}
	cause := errors.New("boom")
	if err := Retry(time.Second, cause); !errors.Is(err, cause) || err.Error() != "boom" || Reject(nil).Error() == "" {
		t.Error(err)
	}
}

func TestRetryAfterIsHeldAgainstTheDateOfTheAnswer(t *testing.T) {
	for text, expected := range map[string]time.Duration{
		"": noRetryAfter, "soon": noRetryAfter, "3": 3 * time.Second, "0": 0, "Mon, 02 Jan 2006 15:04:12 GMT": 7 * time.Second, "Mon, 02 Jan 2006 15:04:00 GMT": 0,
	} {
		header := http.Header{"Date": {"Mon, 02 Jan 2006 15:04:05 GMT"}, "Retry-After": {text}}
		if found := retryAfterOf(header); found != expected {
			t.Errorf("%q: %v", text, found)
		}
	}
}

func TestURLs(t *testing.T) {
	t.Setenv("TARRY_URL", "")
	for text, expected := range map[string]string{
		"": "http://127.0.0.1:8279", "queue": "http://queue:8279", "http://queue:80/q/": "http://queue:80/q", "https://queue": "https://queue", " http://a:1 , b:2,": "http://a:1 http://b:2",
	} {
		client, err := New(Options{URL: text})
		if err != nil || strings.Join(client.transport.places, " ") != expected {
			t.Errorf("%q: %v %v", text, client, err)
		}
	}
	for _, text := range []string{"ftp://queue", "http://", ",", "http://a b"} {
		if _, err := New(Options{URL: text}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestTokensComeFromTheEnvironment(t *testing.T) {
	t.Setenv("TARRY_TOKEN", "of the environment")
	if client, err := New(Options{}); err != nil || client.transport.token != "of the environment" {
		t.Error(err)
	}
	if client, err := New(Options{Token: "given"}); err != nil || client.transport.token != "given" {
		t.Error(err)
	}
	file := t.TempDir() + "/token"
	t.Setenv("TARRY_TOKEN_FILE", file)
	if err := os.WriteFile(file, []byte("of the file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if client, err := New(Options{}); err != nil || client.transport.token != "of the file" {
		t.Error(err)
	}
	t.Setenv("TARRY_TOKEN_FILE", file+"/none")
	if _, err := New(Options{}); err == nil {
		t.Error("an unreadable token causes no error")
	}
}

func TestSeveralServersAreTriedInTurn(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	var target string
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target = r.RequestURI
		w.Write([]byte(`{"due_at":"2026-01-02T03:04:05.678Z"}`))
	}))
	defer there.Close()
	client, _ := New(Options{URL: gone.URL + "," + there.URL + "/q"})
	due, err := client.Reschedule(context.Background(), "a topic", "x/ü+1", Move{At: time.UnixMilli(5), Priority: Priority(0)})
	if err != nil || due.UnixMilli() != 1767323045678 || target != "/q/v1/topics/a%20topic/jobs/x%2F%C3%BC+1?at=5&priority=0" {
		t.Error(due, err, target)
	}
}

func TestAJobThatASecondTryDoesNotFindMayBeCancelledButMayBeDoneWhereItsHolderWasAsked(t *testing.T) {
	left := []int{504, 404, 504, 404, 404}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(left[0])
		left = left[1:]
	}))
	defer server.Close()
	client, _ := New(Options{URL: server.URL})
	ctx := context.Background()
	if found, err := client.Cancel(ctx, "t", "1"); !found || err != nil {
		t.Error(found, err)
	}
	if found, err := client.RequestCancel(ctx, "t", "1"); found != "" || err != nil {
		t.Error(found, err)
	}
	if found, err := client.Cancel(ctx, "t", "1"); found || err != nil {
		t.Error(found, err)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(503)
	}))
	defer busy.Close()
	client, _ := New(Options{URL: busy.URL})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := client.Push(ctx, Push{Topic: "t"})
	if !errors.Is(err, ErrUnavailable) || time.Since(began) > 5*time.Second {
		t.Error(err, time.Since(began))
	}
	client, _ = New(Options{URL: busy.URL, RetryFor: -1})
	var fault *Error
	if _, err = client.Push(context.Background(), Push{Topic: "t"}); !errors.As(err, &fault) || fault.RetryAfter != 20*time.Second {
		t.Error(err)
	}
}

func TestASignatureOfAWrongSecret(t *testing.T) {
	header := http.Header{"Webhook-Id": {"a"}, "Webhook-Timestamp": {"1000"}, "Webhook-Signature": {"v1,AAAA"}}
	if _, err := VerifyAt(time.Unix(1000, 0), []string{"c2VjcmV0"}, header, nil); !errors.Is(err, ErrSignature) {
		t.Error(err)
	}
	if _, err := VerifyAt(time.Unix(1000, 0), []string{"no base64!"}, header, nil); err == nil || errors.Is(err, ErrSignature) {
		t.Error(err)
	}
	header.Set("Webhook-Timestamp", "18446744073709551615")
	if _, err := VerifyAt(time.Unix(-1, 0), []string{"c2VjcmV0"}, header, nil); !errors.Is(err, ErrSignature) {
		t.Error(err)
	}
}

func TestAPushThatWaitsForOthersEndsWithItsContext(t *testing.T) {
	release, requests := make(chan struct{}), make(chan int, 9)
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var items []item
		json.NewDecoder(r.Body).Decode(&items)
		requests <- len(items)
		<-release
		results := make([]map[string]string, len(items))
		for at := range items {
			results[at] = map[string]string{"id": items[at].ID, "result": "created"}
		}
		json.NewEncoder(w).Encode(map[string]any{"results": results})
	}))
	defer busy.Close()
	client, _ := New(Options{URL: busy.URL})
	done := make(chan string, 9)
	push := func(ctx context.Context, id string, body []byte) {
		pushed, err := client.Push(ctx, Push{Topic: "t", ID: id, Body: body})
		if err == nil && pushed.ID != id || err != nil && ctx.Err() == nil {
			t.Error(id, pushed, err)
		}
		done <- id
	}
	waiting := func(n int) {
		for found := -1; found != n; time.Sleep(time.Millisecond) {
			client.gatherer.mutex.Lock()
			found = len(client.gatherer.waiting)
			client.gatherer.mutex.Unlock()
		}
	}
	for n := 0; n < firstTriesMax; n++ {
		go push(context.Background(), strconv.Itoa(n), nil)
		if <-requests != 1 {
			t.Error(n)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	big := make([]byte, gatheredBytes)
	for n, id := range []string{"c", "d", "e", "big"} {
		own, body := context.Background(), []byte("x")
		if id == "d" {
			own = ctx
		}
		if id == "big" {
			body = big
		}
		go push(own, id, body)
		waiting(n + 1)
	}
	cancel()
	if <-done != "d" {
		t.Error("another ended")
	}
	waiting(3)
	close(release)
	for n := 0; n < firstTriesMax+3; n++ {
		<-done
	}
	if one, other := <-requests, <-requests; one+other != 3 || one == 3 || other == 3 {
		t.Error("c and e together, and the big one by itself, not", one, other)
	}
}

func TestAConsumerIsHostAndProcessIn64Characters(t *testing.T) {
	for host, name := range map[string]string{"shop-1": "shop-1:77", "sh op\né": "shop:77", strings.Repeat("h", 80): strings.Repeat("h", 61) + ":77", "": ":77"} {
		if found := consumerName(host, 77); found != name {
			t.Errorf("%q of %q", found, host)
		}
	}
}

func TestAResultBelongsToOneJob(t *testing.T) {
	client, _ := New(Options{URL: "http://127.0.0.1:9", RetryFor: -1})
	for _, leases := range [][]string{{}, {"a", "b"}} {
		if _, err := client.AckWith(context.Background(), Ack{Result: "x"}, leases); err == nil || !strings.Contains(err.Error(), "a result belongs to one job") {
			t.Error(leases, err)
		}
	}
	var one answer
	if err := one.setResult(map[string]int{"sum": 3}, "", nil); err != nil || string(one.Result) != `{"sum":3}` || one.ResultType != "application/json" {
		t.Error(one, err)
	}
	if err := one.setResult(func() {}, "", nil); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

func TestAPushThatWaitsNeedsAnIDIfItHasAOnce(t *testing.T) {
	client, _ := New(Options{URL: "http://127.0.0.1:9", RetryFor: -1})
	if _, err := client.PushAndWait(context.Background(), Push{Topic: "t", Once: "order-1"}, time.Second); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

func TestRequestsWithResultsStayBelowTheLimitOfTheServer(t *testing.T) {
	if found := fitting(make([]answer, 2500)); found != leasesMax {
		t.Error(found)
	}
	big := answer{Result: make([]byte, 3<<15)} // 128 KiB in base64
	if found := fitting([]answer{big, big, big, big, big}); found != 4 {
		t.Error(found)
	}
	if found := fitting([]answer{{Result: make([]byte, 1<<20)}, big}); found != 1 {
		t.Error(found)
	}
}

func TestAFinishedJobIsRead(t *testing.T) {
	var job Job
	text := `{"topic":"t","id":"1","state":"finished","outcome":"acked","finished_at":"2026-11-20T09:00:00.000Z","duration_ms":1500,"result_type":"application/json","result_base64":"eyJzdW0iOjN9"}`
	var sum struct{ Sum int }
	if err := json.Unmarshal([]byte(text), &job); err != nil || job.Duration() != 1500*time.Millisecond || !job.FinishedAt.Equal(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)) {
		t.Error(job, err)
	}
	if err := job.ResultJSON(&sum); err != nil || sum.Sum != 3 || job.ResultText() != `{"sum":3}` || job.Name() != (JobName{"t", "1"}) {
		t.Error(sum, err)
	}
	if _, err := job.ReportProgress(context.Background(), "x"); err == nil {
		t.Error("no worker holds this job")
	}
}

func TestJobsAndLeasesAreGivenInEachForm(t *testing.T) {
	a, b := Job{Lease: "a"}, Job{Lease: "b"}
	for _, jobs := range [][]any{{a, b}, {&a, &b}, {[]Job{a, b}}, {[]*Job{&a, &b}}, {"a", "b"}, {[]string{"a", "b"}}, {a, []string{"b"}}} {
		if found, err := leasesOf(jobs); err != nil || strings.Join(found, " ") != "a b" {
			t.Error(jobs, found, err)
		}
	}
	client, _ := New(Options{URL: "http://127.0.0.1:9"})
	for _, wrong := range []any{nil, 7, a.Name()} {
		if _, err := client.Ack(context.Background(), a, wrong); err == nil || !strings.Contains(err.Error(), "give a Job") {
			t.Error(wrong, err)
		}
	}
}

func TestAKindOfCallThatFailsIsLoggedOnceInTenSecondsAndReportedEachTime(t *testing.T) {
	client, _ := New(Options{URL: "http://127.0.0.1:9"})
	for _, noLog := range []bool{false, true} {
		var lines strings.Builder
		reported := 0
		worker := NewWorker(client, []string{"t"}, nil, WorkerOptions{Logger: slog.New(slog.NewTextHandler(&lines, nil)), NoLog: noLog, OnError: func(error, string) { reported++ }})
		for _, what := range []string{"take", "take", "extend"} {
			worker.report(errors.New("no route"), what)
		}
		if reported != 3 || strings.Count(lines.String(), "take failed: no route") != strings.Count(lines.String(), "extend failed: no route") || (lines.Len() == 0) != noLog {
			t.Error(reported, lines.String())
		}
	}
}
