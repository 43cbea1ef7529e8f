package tarry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

const (
	takeWait         = 30 * time.Second
	momentLeft       = 500 * time.Millisecond // that a take has when the worker stops: jobs on their way through a proxy would wait for their lease to end
	consumerBytesMax = 64
	linger           = 5 * time.Millisecond   // for answers that come together
	beats            = 10                     // in the time of a lease: nine tenths are left whenever the server goes
	leaseGrace       = 2 * time.Second        // that leases have once a server is back
	logPause         = 10 * time.Second       // between lines about the same kind of call that fails
	beatPause        = 250 * time.Millisecond // at most, before an extend or an answer that failed is made again: soon enough for that grace
)

// Handler works on a job. Its context ends when the lease is lost (context.Cause is ErrLeaseEnded) or the grace time has passed; its return value
// is then discarded. The context also ends when the cancel of the job is requested (ErrCancelRequested); the return value then counts. nil: the job is done. Retry and Reject set the next step; other errors are retried by the job's backoff.
type Handler func(ctx context.Context, job *Job) error

// Outcomes of a job, as passed to OnDone.
const (
	Acked     = "ack"
	Failed    = "nack"
	Retried   = "retry"
	Rejected  = "reject"
	Lost      = "lost"       // another worker may have the job by now
	GivenBack = "given_back" // costs no attempt
)

// WorkerOptions of a worker. Everything has a default. Several goroutines may call hooks at the same time, so they should be quick.
type WorkerOptions struct {
	Concurrency int           // parallel jobs, 10
	Lease       time.Duration // 1 min, extended for as long as the handler works
	Consumer    string        // name shown as the holder of the jobs, HOST:PID
	Grace       time.Duration // time for handlers after Run's context has ended, 30 s; below 0: no time
	OnTaken     func(job *Job)
	OnDone      func(job *Job, outcome string, took time.Duration)
	OnError     func(err error, what string) // what failed: take, ack, nack, return, extend, result, or handler for a panic
	Logger      *slog.Logger                 // for failures, slog.Default()
	NoLog       bool                         // logs nothing
}

// TopicHandler is a topic and the handler of its jobs.
type TopicHandler struct {
	Topic  string
	Handle Handler
}

// Worker takes jobs, runs a handler on them, extends their leases and answers for them.
type Worker struct {
	client  *Client
	topics  []string
	options WorkerOptions

	handlers map[string]Handler // by topic

	stopping chan struct{} // closed by Stop
	over     chan struct{} // closed at the end of Run
	slot     chan struct{} // signals that a handler has ended
	beat     chan struct{} // signals that an extend has been answered
	rest     chan struct{} // signals that no handler is at work, or no job held

	mutex   sync.Mutex
	held    map[*held]struct{}
	running int // handlers
	grace   time.Duration
	isRun   bool
	isStop  bool
	queues  map[string]*queue
	logged  map[string]time.Time // when the failure of such a call was logged
}

// held is a job from take to answer. The worker's mutex guards it.
type held struct {
	job                  *Job
	takenAt              time.Time // with the clock that does not jump, as all times here
	livesUntil, nextBeat time.Time
	cancel               context.CancelCauseFunc // nil: not begun
	isEnded              bool                    // the handler
	isBeating            bool                    // an extend is in progress
	isAnswered           bool
	verb, outcome        string // of the answer, once it is known
	answer               answer
}

// queue has the answers of one verb that wait to be sent.
type queue struct {
	verb    string
	waiting []*held
	some    chan struct{} // signals that there are some
	now     chan struct{} // signals that no more are to be waited for
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// consumerName is HOST:PID, of 64 printable ASCII characters at most.
func consumerName(host string, pid int) string {
	end := fmt.Sprintf(":%d", pid)
	host = strings.Map(func(one rune) rune {
		if one > ' ' && one <= '~' {
			return one
		}
		return -1
	}, host)
	return host[:min(len(host), consumerBytesMax-len(end))] + end
}

// NewWorker returns a worker for the topics, which are served in this order.
func NewWorker(client *Client, topics []string, handler Handler, options WorkerOptions) *Worker {
	handlers := make([]TopicHandler, len(topics))
	for at, topic := range topics {
		handlers[at] = TopicHandler{topic, handler}
	}
	return NewTopicWorker(client, handlers, options)
}

// NewTopicWorker returns a worker with a handler for each topic. The topics are served in this order.
func NewTopicWorker(client *Client, handlers []TopicHandler, options WorkerOptions) *Worker {
	if options.Concurrency < 1 {
		options.Concurrency = 10
	}
	if options.Lease <= 0 {
		options.Lease = time.Minute
	}
	if options.Consumer == "" {
		host, _ := os.Hostname() // without one PID must do
		options.Consumer = consumerName(host, os.Getpid())
	}
	if options.Grace == 0 {
		options.Grace = 30 * time.Second
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	w := &Worker{
		client: client, options: options, handlers: map[string]Handler{}, logged: map[string]time.Time{}, grace: max(options.Grace, 0),
		stopping: make(chan struct{}), over: make(chan struct{}),
		slot: make(chan struct{}, 1), beat: make(chan struct{}, 1), rest: make(chan struct{}, 1),
		held: map[*held]struct{}{}, queues: map[string]*queue{},
	}
	for _, one := range handlers {
		w.topics = append(w.topics, one.Topic)
		w.handlers[one.Topic] = one.Handle
	}
	for _, verb := range []string{"ack", "nack", "return"} {
		w.queues[verb] = &queue{verb: verb, some: make(chan struct{}, 1), now: make(chan struct{}, 1)}
	}
	return w
}

// Run works until its context ends or Stop is called, and then returns nil; or until a take is refused permanently, and then returns that error.
// Handlers have the values of its context, and their own end. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	w.mutex.Lock()
	if w.isRun {
		w.mutex.Unlock()
		return errors.New("tarry: a worker runs once")
	}
	w.isRun = true
	w.mutex.Unlock()
	defer close(w.over)
	defer context.AfterFunc(ctx, w.Quit)()

	inner, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var helpers sync.WaitGroup
	for _, q := range w.queues {
		helpers.Add(1)
		go func(q *queue) { defer helpers.Done(); w.sendAnswers(inner, q) }(q)
	}
	helpers.Add(1)
	go func() { defer helpers.Done(); w.keepLeases(inner) }()

	err := w.takeUntilStopped(inner)
	w.windUp()
	end()
	helpers.Wait()
	return err
}

// Stop takes no more jobs, gives back those that were not started, and waits for running handlers, at most for the grace time; then their
// context ends and their jobs are given back. It returns once Run has ended.
func (w *Worker) Stop(grace time.Duration) {
	w.beginToStop(grace)
	w.mutex.Lock()
	isRun := w.isRun
	w.mutex.Unlock()
	if isRun {
		<-w.over
	}
}

// Quit is Stop for handlers and hooks: it does not wait, and leaves the grace as it is.
func (w *Worker) Quit() { w.beginToStop(max(w.options.Grace, 0)) }

func (w *Worker) beginToStop(grace time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if !w.isStop {
		w.isStop, w.grace = true, grace
		close(w.stopping)
	}
}

func (w *Worker) isStopping() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
	}
}

// ---- taking ----

func (w *Worker) takeUntilStopped(ctx context.Context) error {
	taking, cut := context.WithCancel(ctx)
	defer cut()
	go func() { // ends with the takes
		select {
		case <-w.stopping:
			sleep(taking, momentLeft)
			cut()
		case <-taking.Done():
		}
	}()
	pause := firstPause
	for {
		free := w.freeSlots()
		if free == 0 {
			return nil
		}
		jobs, err := w.client.take(taking, Take{Topics: w.topics, Max: min(free, leasesMax), Wait: takeWait, Lease: w.options.Lease, Consumer: w.options.Consumer})
		if err == nil {
			pause = firstPause
			w.begin(ctx, jobs)
			continue
		}
		if w.isStopping() {
			return nil
		}
		var fault *Error
		errors.As(err, &fault)
		if fault.Kind == ErrDenied || fault.Kind == ErrNotFound || fault.Kind == ErrRefused {
			w.Quit()
			return err
		}
		w.report(err, "take")
		wait := fault.RetryAfter
		if wait == 0 {
			wait, pause = jittered(pause), min(2*pause, longestPause)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.stopping:
			timer.Stop()
		}
	}
}

// freeSlots waits for one; 0 once the worker stops.
func (w *Worker) freeSlots() int {
	for {
		w.mutex.Lock()
		free := w.options.Concurrency - w.running
		w.mutex.Unlock()
		if w.isStopping() {
			return 0
		}
		if free > 0 {
			return free
		}
		select {
		case <-w.slot:
		case <-w.stopping:
		}
	}
}

// begin starts a handler for each job. If the worker is stopping, it gives the jobs back.
func (w *Worker) begin(ctx context.Context, jobs []Job) {
	now := time.Now()
	for at := range jobs {
		one := &held{job: &jobs[at], takenAt: now, livesUntil: now.Add(w.options.Lease), nextBeat: now.Add(w.options.Lease / beats)}
		one.job.extend = func(ctx context.Context, progress string) (bool, error) {
			results, err := w.client.ExtendWith(ctx, Extend{Lease: w.options.Lease, Progress: progress}, one.job.Lease)
			return err == nil && len(results) == 1 && results[0] == nil, err
		}
		if w.options.OnTaken != nil {
			w.options.OnTaken(one.job)
		}
		w.mutex.Lock()
		w.held[one] = struct{}{}
		if w.isStop {
			w.settle(one, "return", GivenBack, answer{})
		} else {
			var own context.Context
			own, one.cancel = context.WithCancelCause(ctx)
			w.running++
			go w.handle(own, one)
		}
		w.mutex.Unlock()
	}
}

// windUp waits for handlers and for answers, once there is no take any more.
func (w *Worker) windUp() {
	w.mutex.Lock()
	timer := time.NewTimer(w.grace)
	w.mutex.Unlock()
	defer timer.Stop()
	isOver := false
	for {
		w.mutex.Lock()
		for one := range w.held {
			if isOver && one.cancel != nil && !one.isEnded {
				one.cancel(errGraceOver)
				w.settle(one, "return", GivenBack, answer{})
			}
		}
		w.flush()
		left, running := len(w.held), w.running
		w.mutex.Unlock()
		if left == 0 && (running == 0 || isOver) {
			return
		}
		select {
		case <-w.rest:
		case <-timer.C:
			isOver = true
		}
	}
}

// ---- handling ----

func (w *Worker) handle(ctx context.Context, one *held) {
	err := w.callHandler(ctx, one.job)
	verb, outcome, reply := "ack", Acked, answer{}
	var retry *RetryError
	var reject *RejectError
	switch {
	case err == nil:
	case errors.As(err, &reject):
		verb, outcome, reply = "nack", Rejected, answer{Error: cutText(textOf("", reject.Err)), Final: true}
	case errors.As(err, &retry):
		verb, outcome, reply = "nack", Retried, answer{Error: cutText(textOf("", retry.Err)), Delay: milliseconds(max(retry.After, 0))}
	default:
		verb, outcome, reply = "nack", Failed, answer{Error: cutText(err.Error())}
	}
	if verb == "ack" || reply.Final {
		if err := reply.setResult(one.job.toSet, "", w.client.codec); err != nil {
			w.report(err, "result") // it is not JSON: the work is done, so the job is acked without it
		}
	}
	if err != nil && ctx.Err() == nil {
		w.log(fmt.Sprintf("job %s/%s failed in attempt %d: %s", one.job.Topic, one.job.ID, one.job.Attempt, err))
	}
	w.mutex.Lock()
	one.isEnded = true
	w.running--
	w.settle(one, verb, outcome, reply)
	if w.running == 0 {
		w.flush()
		signal(w.rest)
	}
	w.mutex.Unlock()
	signal(w.slot)
	one.cancel(nil)
}

// callHandler makes a panic an error: it fails one job, and not the program that has others under way.
func (w *Worker) callHandler(ctx context.Context, job *Job) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v", fault)
			w.report(fmt.Errorf("%w\n%s", err, debug.Stack()), "handler")
		}
	}()
	if w.client.codec.decodeJob(job); job.CodecErr != nil {
		return job.CodecErr
	}
	return w.handlers[job.Topic](ctx, job)
}

func (w *Worker) log(text string) {
	if !w.options.NoLog {
		w.options.Logger.Warn(text)
	}
}

func (w *Worker) report(err error, what string) {
	w.mutex.Lock()
	isDue := time.Since(w.logged[what]) >= logPause
	if isDue {
		w.logged[what] = time.Now()
	}
	w.mutex.Unlock()
	if isDue {
		w.log(what + " failed: " + err.Error())
	}
	if w.options.OnError != nil {
		w.options.OnError(err, what)
	}
}

// ---- leases ----

// keepLeases extends each after a tenth of it until its answer is answered.
func (w *Worker) keepLeases(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.beat:
		case <-timer.C:
		}
		now := time.Now()
		next := now.Add(w.options.Lease / beats) // one that is taken from now on is due no sooner
		var due, lost []*held
		w.mutex.Lock()
		for one := range w.held {
			switch {
			case one.isBeating:
				continue
			case one.verb == "" && !now.Before(one.livesUntil.Add(leaseGrace)):
				lost = append(lost, one)
				continue
			case !one.nextBeat.After(now.Add(w.options.Lease / 100)): // those of about the same time go together
				one.isBeating = true
				due = append(due, one)
				continue
			}
			if one.nextBeat.Before(next) {
				next = one.nextBeat
			}
		}
		w.mutex.Unlock()
		w.lose(lost)
		for start := 0; start < len(due); start += leasesMax {
			go w.extend(ctx, due[start:min(start+leasesMax, len(due))])
		}
		if !timer.Stop() {
			select {
			case <-timer.C:
			default:
			}
		}
		timer.Reset(max(time.Until(next), time.Millisecond))
	}
}

func (w *Worker) extend(ctx context.Context, due []*held) {
	sent := time.Now()
	answers := make([]answer, len(due))
	for at, one := range due {
		answers[at] = answer{Lease: one.job.Lease, LeaseFor: milliseconds(w.options.Lease)}
	}
	how := request{isOnce: true, timeout: min(max(w.options.Lease/4, 500*time.Millisecond), 1500*time.Millisecond)}
	var unwanted []*held
	how.onResult = func(at int, one *result) {
		if one.CancelRequested {
			unwanted = append(unwanted, due[at])
		}
	}
	results, err := w.client.answerLeases(ctx, "extend", answers, how)
	if err != nil && ctx.Err() == nil {
		w.report(err, "extend")
	}
	var lost []*held
	w.mutex.Lock()
	now := time.Now()
	for _, one := range unwanted {
		if one.verb == "" && one.cancel != nil {
			one.cancel(ErrCancelRequested) // the lease continues, and the handler's return value counts
		}
	}
	for at, one := range due {
		one.isBeating = false
		switch {
		case at < len(results) && results[at] == nil:
			one.livesUntil, one.nextBeat = sent.Add(w.options.Lease), sent.Add(w.options.Lease/beats)
		case at < len(results) && errors.Is(results[at], ErrLeaseEnded):
			if one.verb == "" {
				lost = append(lost, one)
			}
			one.nextBeat = now.Add(24 * time.Hour) // only the reply to its answer counts
		default:
			one.nextBeat = now.Add(min(w.options.Lease/(2*beats), beatPause))
		}
	}
	w.mutex.Unlock()
	w.lose(lost)
	signal(w.beat)
}

// lose ends the contexts of the handlers; their return values are discarded.
func (w *Worker) lose(those []*held) {
	for _, one := range those {
		w.mutex.Lock()
		isLost := one.verb == "" && !one.isAnswered
		if isLost {
			one.cancel(ErrLeaseEnded)
		}
		w.mutex.Unlock()
		if isLost {
			w.log(fmt.Sprintf("the lease of job %s/%s is lost; another worker may process it", one.job.Topic, one.job.ID))
			w.finish(one, Lost)
		}
	}
}

// ---- answers ----

// settle has its answer sent, once. Under the mutex.
func (w *Worker) settle(one *held, verb, outcome string, reply answer) {
	if one.verb != "" || one.isAnswered {
		return
	}
	reply.Lease = one.job.Lease
	one.verb, one.outcome, one.answer = verb, outcome, reply
	q := w.queues[verb]
	q.waiting = append(q.waiting, one)
	signal(q.some)
	if len(q.waiting) >= leasesMax {
		signal(q.now)
	}
}

// flush sends what waits for company. Under the mutex.
func (w *Worker) flush() {
	for _, q := range w.queues {
		if len(q.waiting) > 0 {
			signal(q.now)
		}
	}
}

func (w *Worker) finish(one *held, outcome string) {
	w.mutex.Lock()
	isFirst := !one.isAnswered
	one.isAnswered = true
	w.mutex.Unlock()
	if isFirst && w.options.OnDone != nil {
		w.options.OnDone(one.job, outcome, time.Since(one.takenAt))
	}
	w.mutex.Lock()
	delete(w.held, one) // after the hook: Run ends behind the last of them
	if len(w.held) == 0 {
		signal(w.rest)
	}
	w.mutex.Unlock()
}

func (w *Worker) sendAnswers(ctx context.Context, q *queue) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.some:
		}
		for {
			w.mutex.Lock()
			mayWait := w.running > 0 && !w.isStop && len(q.waiting) < leasesMax
			w.mutex.Unlock()
			if mayWait {
				timer := time.NewTimer(linger)
				select {
				case <-timer.C:
				case <-q.now:
				}
				timer.Stop()
			}
			w.mutex.Lock()
			those := q.waiting[:min(len(q.waiting), leasesMax)]
			q.waiting = q.waiting[len(those):]
			if len(q.waiting) == 0 {
				q.waiting = nil
			}
			w.mutex.Unlock()
			if len(those) == 0 {
				break
			}
			w.send(ctx, q.verb, those)
		}
	}
}

// send sends each part of the size of a request by itself: if one is rejected, the others count.
func (w *Worker) send(ctx context.Context, verb string, those []*held) {
	answers := make([]answer, len(those))
	for at, one := range those {
		answers[at] = one.answer
	}
	for len(those) > 0 {
		end := fitting(answers)
		w.sendPart(ctx, verb, those[:end], answers[:end])
		those, answers = those[end:], answers[end:]
	}
}

// sendPart makes the answer again for as long as one of the leases lives.
func (w *Worker) sendPart(ctx context.Context, verb string, those []*held, answers []answer) {
	how := request{retryFor: forever, pauseMax: beatPause, timeout: min(max(w.options.Lease/3, 500*time.Millisecond), w.client.transport.timeout), goesOn: func() bool {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		for _, one := range those {
			if time.Now().Before(one.livesUntil.Add(leaseGrace)) {
				return true
			}
		}
		return false
	}}
	how.onResult = func(at int, found *result) {
		if verb == "ack" && found.Result == "ok" && those[at].job.StoredAs != "" {
			go w.deleteStored(those[at].job)
		}
	}
	results, err := w.client.answerLeases(ctx, verb, answers, how)
	var fault *Error
	if errors.As(err, &fault) && (fault.Code == "result_too_big" || fault.Code == "body_too_big") {
		w.sendApart(ctx, verb, those, err)
		return
	}
	if err != nil {
		w.report(err, verb)
	}
	for at, one := range those {
		if at < len(results) && results[at] == nil {
			w.finish(one, one.outcome)
		} else {
			w.finish(one, Lost)
		}
	}
}

func (w *Worker) deleteStored(job *Job) {
	if err := w.client.codec.DeleteStored(job); err != nil {
		w.report(err, "delete")
	}
}

// sendApart finds the result that is too big, for which the server has rejected the request. Its job is done, so it is answered without the result.
func (w *Worker) sendApart(ctx context.Context, verb string, those []*held, err error) {
	if half := len(those) / 2; half > 0 {
		w.send(ctx, verb, those[:half])
		w.send(ctx, verb, those[half:])
		return
	}
	w.report(err, "result")
	those[0].answer.Result, those[0].answer.ResultType = nil, ""
	w.send(ctx, verb, those)
}
