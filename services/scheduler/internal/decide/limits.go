package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
)

// refusalLasts is how long a store that has refused a transaction for its size is taken to refuse others
// that are as large: somebody may raise its limit.
const refusalLasts = time.Minute

// limits is what the store takes in one transaction, as far as refusals have shown. The ledger's own
// limits leave room below etcd's defaults, so that none comes from a store that is set up like that.
type limits struct {
	// refused is the size of the smallest transaction that was refused, 0 for none, and when that was.
	refused int
	at      time.Time
	// most is how many pods a batch has at most after one was refused, 0 for no bound of that kind.
	most int
}

// batchBytes is how large a batch may become.
func (l *limits) batchBytes(now time.Time) int {
	l.expire(now)
	if l.refused == 0 {
		return ledger.MaxTxnBytes
	}
	return min(l.refused-1, ledger.MaxTxnBytes)
}

// full says whether a batch of so many pods takes no more.
func (l *limits) full(pods int) bool { return l.most > 0 && pods >= l.most }

// refuse notes a refusal.
func (l *limits) refuse(txn ledger.Txn, now time.Time) {
	if bytes := txn.Bytes(); l.refused == 0 || bytes < l.refused {
		l.refused = bytes
	}
	l.at = now
}

// took notes that the store has taken a transaction.
func (l *limits) took(f *flight) {
	if f.txn.Bytes() >= l.refused {
		l.refused = 0
	}
	if l.most *= 2; l.most >= batchPods {
		l.most = 0
	}
}

func (l *limits) expire(now time.Time) {
	if l.refused > 0 && now.Sub(l.at) > refusalLasts {
		l.refused = 0
	}
}

// check refuses a transaction that is as large as one that the store has just refused.
func (l *limits) check(txn ledger.Txn, now time.Time) error {
	l.expire(now)
	if bytes := txn.Bytes(); l.refused > 0 && bytes >= l.refused {
		return &ledger.TxnError{
			TooLarge: true, Reason: fmt.Sprintf("%d bytes, and the store has just refused %d", bytes, l.refused),
		}
	}
	return nil
}

// refused takes in that the store does not take a transaction of this size: nothing of it has happened,
// and it is not sent again.
func (c *Core) refused(f *flight, why string) {
	c.limits.refuse(f.txn, c.shard.Now)
	switch {
	case f.ofTerms: // who waits for them asks again, and is told in the end
	case f.deed != nil:
		f.deed.tooLarge(c, why)
	default:
		c.split(f, why)
	}
}

// split has a batch that could not be carried out tried in parts, in their order; the attempt that is
// alone in one fails. One of which an earlier copy may have been carried out is given back, as when it
// has lost.
func (c *Core) split(f *flight, why string) {
	if len(f.attempts) == 1 && !f.attempts[0].Doubtful {
		c.life.Fail(f.attempts[0], why)
		return
	}
	c.limits.most = max(1, len(f.attempts)/2)
	rest := slices.Clone(f.attempts)
	for _, a := range f.attempts {
		if a.Doubtful {
			c.life.GiveBack(a)
		}
	}
	rest = slices.DeleteFunc(rest, func(a *attempt.Attempt) bool { return a.Doubtful })
	c.attempts.Prepend(attempt.Staged, rest...)
}

// crowdedOut sends an attempt on whose node has no room for it in its document: to the next-best one, or
// back to be decided again when something has moved. A node whose document is full for any pod is left
// alone by all (ledger.NodeDoc.HasRoom).
func (c *Core) crowdedOut(a *attempt.Attempt, why error) {
	a.Losses++
	switch {
	case c.shard.Draining:
		c.life.GiveBack(a)
	case a.Losses >= MaxLosses:
		c.life.Fail(a, why.Error())
	case c.nextBest(a):
	default:
		c.life.Unstage(a)
		a.Pick = attempt.Pick{}
		a.Counsel.Forget()
		c.life.Defer(a)
	}
}
