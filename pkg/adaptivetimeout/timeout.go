package adaptivetimeout

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Timeout bounds the wait for an answer: each time without one it is doubled, and an answer resets it. The caller
// repeats a request without an answer, so the request must be idempotent: whether it was carried out is unknown. It is
// safe for concurrent use.
type Timeout struct {
	first, most time.Duration
	mu          struct {
		sync.Mutex
		limit time.Duration
	}
}

// New returns a Timeout whose first wait is first, and which never waits longer than most.
func New(first, most time.Duration) *Timeout {
	p := &Timeout{first: first, most: most}
	p.mu.limit = first
	return p
}

// Limit returns how long to wait for the next answer.
func (p *Timeout) Limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.limit
}

// Observe records how a request ended that was sent with this limit, on ctx, which had that limit as its timeout. Only
// an expired deadline counts as silence: a refusal is an answer, even if not a success. Many requests that were sent
// at the same time count as one: those whose limit is no longer the current one change nothing.
func (p *Timeout) Observe(ctx context.Context, limit time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.mu.limit = p.first
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && limit == p.mu.limit:
		p.mu.limit = min(2*limit, p.most)
	}
}
