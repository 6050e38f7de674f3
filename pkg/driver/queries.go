package driver

import "context"

// Queries carries questions about a core to the goroutine that alone may look at it. Ask is safe for concurrent use.
//
// The channel has no buffer on purpose: a question that the source has not received yet can still be withdrawn, so
// that it never runs after its caller has gone and writes to variables that are not the caller's any more.
type Queries struct {
	asked chan func()
}

// NewQueries returns queries without a question.
func NewQueries() *Queries { return &Queries{asked: make(chan func())} }

// Ask runs a question on the deciding goroutine, between two steps, and returns once it has been answered. It returns
// the error of ctx if ctx ends before the question was received; the question then never runs. A question must be
// quick and must not call Ask: the core decides nothing meanwhile.
//
// Ask blocks until ctx ends if the loop has ended or was never started.
func (q *Queries) Ask(ctx context.Context, question func()) error {
	answered := make(chan struct{})
	run := func() {
		defer close(answered)
		question()
	}
	select {
	case q.asked <- run:
		<-answered
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Asked delivers the questions. A source includes it in its select and returns what it receives as Event.Query; it
// must not drop it, because Ask waits for the answer.
func (q *Queries) Asked() <-chan func() { return q.asked }
