package decide

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// retireAbove is how many terms may be registered before the least recently used retire.
// Retired too early, a term costs its next carrier a registration; never retired, terms
// fill the registry: each rollout of a workload that counts its pods by template brings one.
const retireAbove = ledger.MaxTerms * 3 / 4

// tidyTerms takes unused terms out of the registry, one transaction at a time: first they
// retire, and when every pod that carries them is bound or gone they are dropped with their
// guards. Every shard does this on its heartbeat; of several at once one succeeds.
func (c *Core) tidyTerms(out *Output) {
	if c.flight != nil || c.draining || !c.usable() || c.ledger.Revision() < c.cross.hold {
		return
	}
	registry := c.ledger.Registry()
	var txn ledger.Txn
	var err error
	retiring := c.retiring()
	switch unguarded := c.ledger.Unguarded(); {
	case len(unguarded) > 0:
		txn, err = ledger.DropGuards(registry, c.guardsOf(unguarded, ledger.MaxTxnOps))
	case len(retiring) > 0 && c.settled(retiring):
		txn, err = c.dropTerms(registry, retiring)
	case len(retiring) == 0 && c.ledger.TermCount() > retireAbove:
		txn, err = ledger.RetireTerms(registry, c.leastUsed(termsPerTxn)...)
	default:
		return
	}
	if err == nil { // what does not fit or encode stays: a registry too full says so
		c.changeTerms(&flight{txn: txn}, out)
	}
}

func (c *Core) retiring() []ledger.TermID {
	var ids []ledger.TermID
	for id, t := range c.ledger.Terms() {
		if t.Retiring {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// guardsOf lists guards of some terms, at most limit.
func (c *Core) guardsOf(ids []ledger.TermID, limit int) []string {
	var keys []string
	for _, id := range ids {
		keys = append(keys, c.ledger.Guards(id)...)
	}
	return keys[:min(len(keys), limit)]
}

// dropTerms drops as many retiring terms as one transaction holds with their guards; guards
// first, if those of one term do not fit.
func (c *Core) dropTerms(r ledger.Registry, retiring []ledger.TermID) (ledger.Txn, error) {
	var ids []ledger.TermID
	var guards []string
	for _, id := range retiring {
		more := c.ledger.Guards(id)
		if 1+len(ids)+1+len(guards)+len(more) > ledger.MaxTxnOps {
			break
		}
		ids, guards = append(ids, id), append(guards, more...)
	}
	if len(ids) == 0 {
		return ledger.DropGuards(r, c.guardsOf(retiring[:1], ledger.MaxTxnOps))
	}
	return ledger.DropTerms(r, c.view.PodProgress(), ids, guards)
}

// settled says whether, by all this shard has applied, no pod that a retiring term concerns
// is reserved and not bound: what ledger.DropTerms demands. (Carriers are enough; but of
// those that spread by default, what they carried depends on objects that may have changed,
// and a carrier that its term does not select is an odd one.)
func (c *Core) settled(retiring []ledger.TermID) bool {
	if nodes, elsewhere := c.view.Uncounted(); len(nodes) > 0 || elsewhere {
		return false
	}
	for uid := range c.ledger.Reserved() {
		pod, known := c.view.Pod(uid)
		if !known || pod.NodeName != "" {
			continue
		}
		if c.concernedBy(pod, retiring) {
			return false
		}
	}
	return true
}

func (c *Core) concernedBy(pod *state.Pod, terms []ledger.TermID) bool {
	profile, ok := c.cfg.Profiles[pod.SchedulerName]
	if !ok {
		return true
	}
	concern, err := c.concernOf(pod, profile)
	return err != nil || concern.Uncertain || slices.ContainsFunc(terms, concern.Has)
}

// leastUsed are the terms that have gone unused the longest, by the ledger's revisions.
func (c *Core) leastUsed(n int) []ledger.Term {
	type used struct {
		id   ledger.TermID
		last int64
	}
	var all []used
	for id := range c.ledger.Terms() {
		all = append(all, used{id, c.ledger.LastUse(id)})
	}
	slices.SortFunc(all, func(a, b used) int { return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.id, b.id)) })
	terms := make([]ledger.Term, 0, n)
	for _, u := range all[:min(n, len(all))] {
		t, _ := c.ledger.Term(u.id)
		terms = append(terms, t.Term)
	}
	return terms
}
