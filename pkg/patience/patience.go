package patience

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Patience bounds the wait for an answer: each time none came it is doubled, and an answer resets it.
// Whoever asked asks again, so that what is asked has to be such that it may be: nobody knows whether it
// was carried out. Safe for concurrent use.
type Patience struct {
	first, most time.Duration
	mu          struct {
		sync.Mutex
		limit time.Duration
	}
}

// New waits for first at first, and never longer than most.
func New(first, most time.Duration) *Patience {
	p := &Patience{first: first, most: most}
	p.mu.limit = first
	return p
}

// Limit is how long the next answer is waited for.
func (p *Patience) Limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.limit
}

// Learn takes in how a request ended that had a limit and a context with it. Many that were sent at
// the same time count as one.
func (p *Patience) Learn(ctx context.Context, limit time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.mu.limit = p.first
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && limit == p.mu.limit:
		p.mu.limit = min(2*limit, p.most)
	}
}
