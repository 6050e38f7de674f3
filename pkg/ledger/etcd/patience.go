package etcd

import (
	"context"
	"errors"
	"sync"
	"time"
)

// firstPatience is how long an answer is waited for at first. A server takes milliseconds; but a
// request that was on its way to a leader that died, or to a server that hangs, is not answered at
// all, and etcd gives up on it only after 5 s and two elections. A new leader is there after one or
// two seconds, and would have answered long since.
const firstPatience = 2500 * time.Millisecond

// patience bounds the wait for an answer: each time none came it is doubled, up to requestTimeout, so
// that slow servers are waited for, and an answer resets it. Whoever asked asks again (a transaction
// with the identical one, since nobody knows whether it was carried out). Safe for concurrent use; the
// zero value is ready.
type patience struct {
	mu struct {
		sync.Mutex
		longer time.Duration
	}
}

// limit is how long the next answer is waited for.
func (p *patience) limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return firstPatience + p.mu.longer
}

// learn takes in how a request ended that had a limit and a context with it. Many that were sent at
// the same time count as one.
func (p *patience) learn(ctx context.Context, limit time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.mu.longer = 0
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && limit == firstPatience+p.mu.longer:
		p.mu.longer = min(2*limit, requestTimeout) - firstPatience
	}
}
