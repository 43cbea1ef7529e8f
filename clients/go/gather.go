package tarry

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	firstTriesMax = 4         // requests in progress at the same time; later pushes go together in the next one
	gatheredBytes = 256 << 10 // of bodies, in a request: a big one goes by itself
)

// gatherer combines the first tries of pushes that many goroutines make at the same time, because a request costs both sides far more than a
// job in it. A single push does not wait for others. Each goroutine repeats its own push if the first try left it open, so that it does not
// wait for another's pauses.
type gatherer struct {
	mutex    sync.Mutex
	underWay int
	waiting  []*gathered
}

type gathered struct {
	item   item
	result chan PushResult // of one
	shared bool            // its error is that of a request with several. Before the result comes
}

// Push hands over a job. Without an ID it gets one here, so that a try whose answer was lost does not make two.
func (c *Client) Push(ctx context.Context, push Push) (Pushed, error) {
	made, err := push.item(c.codec)
	if err != nil {
		return Pushed{}, err
	}
	began := time.Now()
	result, isShared := c.firstTry(ctx, made)
	isOpen := errors.Is(result.Err, ErrUnavailable)
	if result.Err == nil || ctx.Err() != nil || !isOpen && !isShared || c.transport.retryFor < 0 {
		return result.Pushed, result.Err
	}
	if isOpen {
		wait := jittered(firstPause)
		var fault *Error
		if errors.As(result.Err, &fault) && fault.RetryAfter > 0 {
			wait = fault.RetryAfter
		}
		if time.Since(began)+wait > c.transport.retryFor || !sleep(ctx, wait) {
			return Pushed{}, result.Err
		}
	}
	results := make([]PushResult, 1)
	if err := c.pushItems(ctx, []item{made}, []int{0}, results); err != nil {
		return Pushed{}, err
	}
	return results[0].Pushed, results[0].Err
}

// firstTry also reports whether an error may belong to another push: that of a request with several.
func (c *Client) firstTry(ctx context.Context, made item) (PushResult, bool) {
	g := &c.gatherer
	g.mutex.Lock()
	if g.underWay < firstTriesMax {
		g.underWay++
		g.mutex.Unlock()
		defer c.nextTry()
		results, err := c.tryItems(ctx, []item{made})
		if err != nil {
			return PushResult{Err: err}, false
		}
		return pushedOf(results, 0), false
	}
	one := &gathered{item: made, result: make(chan PushResult, 1)}
	g.waiting = append(g.waiting, one)
	g.mutex.Unlock()
	select {
	case result := <-one.result:
		return result, one.shared
	case <-ctx.Done():
		g.forget(one)
		return PushResult{Err: &Error{Kind: ErrUnavailable, Code: "no_answer", Detail: "no answer: " + ctx.Err().Error(), cause: ctx.Err()}}, false
	}
}

// forget leaves out one that is not sent yet.
func (g *gatherer) forget(one *gathered) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for at, other := range g.waiting {
		if other == one {
			g.waiting = append(g.waiting[:at:at], g.waiting[at+1:]...)
			return
		}
	}
}

// nextTry sends the waiting pushes after a try has ended.
func (c *Client) nextTry() {
	g := &c.gatherer
	g.mutex.Lock()
	defer g.mutex.Unlock()
	end, size := 0, 0
	for end < len(g.waiting) && end < pushesMax {
		if size += len(g.waiting[end].item.Body); end > 0 && size > gatheredBytes {
			break
		}
		end++
	}
	if end == 0 {
		g.underWay--
		return
	}
	those := g.waiting[:end:end]
	if g.waiting = g.waiting[end:]; len(g.waiting) == 0 {
		g.waiting = nil
	}
	go func() {
		defer c.nextTry()
		items := make([]item, len(those))
		for at, one := range those {
			items[at] = one.item
		}
		results, err := c.tryItems(context.Background(), items)
		for at, one := range those {
			if err != nil {
				one.shared = len(those) > 1
				one.result <- PushResult{Err: err}
			} else {
				one.result <- pushedOf(results, at)
			}
		}
	}()
}

func (c *Client) tryItems(ctx context.Context, items []item) ([]result, error) {
	var answer struct{ Results []result }
	err := c.transport.call(ctx, &request{method: "POST", path: "/v1/jobs", body: items, isOnce: true}, &answer)
	return answer.Results, err
}
