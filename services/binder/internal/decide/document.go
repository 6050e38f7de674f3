package decide

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// document is one node's document as the binder last saw it.
type document struct {
	doc ledger.NodeDoc
	// since is when this revision was first seen. swept is when the document was last checked for entries to sweep;
	// most of them belong to pods that take their time to stop.
	since, swept time.Time
	// vouched is when this binder emitted the last transaction or read whose answer showed this document: the view's
	// content of it was valid then, or is later.
	vouched time.Time
	op      OpID
}

// ledgerMoved folds the watch in: documents first, then the work that follows from them. So a rule that looks at one
// document never finds another of the same revision missing.
func (c *Core) ledgerMoved(in LedgerMoved) {
	if in.Reset {
		present := make(map[string]bool, len(in.Docs))
		for _, d := range in.Docs {
			present[d.NodeUID] = true
		}
		for _, uid := range slices.Sorted(maps.Keys(c.docs)) {
			if !present[uid] {
				c.forgetDoc(uid, in.Revision)
			}
		}
	}
	var touched []*reservation
	for _, d := range in.Docs {
		touched = append(touched, c.learn(d)...)
	}
	for _, uid := range in.Deleted {
		c.forgetDoc(uid, in.Revision)
	}
	c.foldBatch(in.Batch)
	c.revision = max(c.revision, in.Revision) // hints up to here have met their entry or never will
	for _, r := range touched {
		r.advance(c)
	}
}

// learn adopts a document if it is newer than the known one, whether it comes from the watch, a linearizable read or
// the binder's own transaction, and returns the reservations in it that are new or changed.
func (c *Core) learn(d ledger.NodeDoc) []*reservation {
	known := c.docs[d.NodeUID]
	if known == nil {
		known = &document{}
		c.docs[d.NodeUID] = known
	} else if d.Revision <= known.doc.Revision {
		return nil
	}
	old := known.doc
	known.doc, known.since = d, c.now
	var touched []*reservation
	present := map[attempt]bool{}
	for _, e := range d.Entries {
		if e.Role != ledger.RoleReservation {
			continue
		}
		key := attempt{e.PodUID, e.Token}
		present[key] = true
		if r, changed := c.track(key, d, e); changed {
			touched = append(touched, r)
		}
	}
	c.untrack(old, present)
	return touched
}

// track creates or updates the reservation of one entry.
func (c *Core) track(key attempt, d ledger.NodeDoc, e ledger.Entry) (r *reservation, changed bool) {
	r, ok := c.reservations[key]
	if !ok {
		r = &reservation{
			promise: promise{
				key: key, nodeUID: d.NodeUID, nodeName: d.NodeName, entry: e, since: c.now, hint: c.hints[key],
			},
			rv: e.PodRV, retry: c.limits.Retry,
		}
		delete(c.hints, key)
		c.reservations[key] = r
		c.reserved[key.pod] = append(c.reserved[key.pod], r)
		return r, true
	}
	changed = r.entry.State != e.State || r.entry.Wanted != e.Wanted
	if r.entry.State != e.State {
		r.since = c.now
		r.settled = false
	}
	if r.entry.PodRV != e.PodRV {
		r.rv, r.room = e.PodRV, unknownRoom // promoted: the pod's version was checked again
	}
	r.entry = e
	return r, changed
}

// untrack drops the reservations of entries that left a document. One with an effect in flight lives on until its
// answer, so that a successful bind is still reported.
func (c *Core) untrack(old ledger.NodeDoc, present map[attempt]bool) {
	for i := range old.Entries {
		key := attempt{old.Entries[i].PodUID, old.Entries[i].Token}
		r, ok := c.reservations[key]
		if !ok || present[key] || old.Entries[i].Role != ledger.RoleReservation || r.nodeUID != old.NodeUID {
			continue
		}
		r.removed = true
		r.leftUnanswered(c)
		r.depart(c)
		delete(c.reservations, key)
		delete(c.waiting, key)
		rest := slices.DeleteFunc(c.reserved[key.pod], func(o *reservation) bool { return o == r })
		if len(rest) == 0 {
			delete(c.reserved, key.pod)
			continue
		}
		c.reserved[key.pod] = rest
	}
}

// vouch records the documents that a transaction has shown, once the view has them.
func (c *Core) vouch(in Amended) {
	for i := range in.KVs {
		if uid, is := strings.CutPrefix(in.KVs[i].Key, ledger.PrefixNode); is {
			c.vouchFor(uid, in.Op)
		}
	}
}

// vouchRead records that a document was read, if the view of the ledger has the version that was read.
func (c *Core) vouchRead(in DocRead) {
	if in.Problem != "" || in.Doc == nil {
		return
	}
	if known, ok := c.ledger.Doc(in.Doc.NodeUID); ok && known.Revision >= in.Doc.Revision {
		c.vouchFor(in.Doc.NodeUID, in.Op)
	}
}

// vouchFor dates a document from when the operation was emitted, not from its answer: the store answered in between.
func (c *Core) vouchFor(nodeUID string, op OpID) {
	if d, ok := c.docs[nodeUID]; ok && c.running[op].since.After(d.vouched) {
		d.vouched = c.running[op].since
	}
}

// forgetDoc drops a document that a revision of the ledger deleted, unless a transaction has put or shown it at a
// later revision: then it was created since.
func (c *Core) forgetDoc(nodeUID string, by int64) {
	if d, ok := c.docs[nodeUID]; ok && d.doc.Revision <= by {
		c.untrack(d.doc, nil)
		delete(c.docs, nodeUID)
	}
}

// sweep hands over entries of idle documents (T5), drops what is left of plans in them (T8), and forgets what has
// ended. Only the holder of the node's partition sweeps a document; if two binders do, one loses its compare.
//
// Order: the only effect is the transaction. A crash before it leaves the entries, which every reader ignores by the
// counting rule; a crash after it leaves nothing.
func (c *Core) sweep() {
	if c.draining {
		return
	}
	c.forget()
	var due []string
	for uid, d := range c.docs {
		if d.op == 0 && len(d.doc.Entries) > 0 && c.now.Sub(d.since) > c.limits.Idle &&
			c.now.Sub(d.swept) >= roundEvery && c.mayAct(uid) {
			due = append(due, uid)
		}
	}
	slices.Sort(due)
	var together handOver
	for _, uid := range due {
		d := c.docs[uid]
		d.swept = c.now
		change, changed := c.swept(d)
		switch {
		case !changed:
		case len(change.Docs) != 1 || len(change.Budgets)+len(change.Exclusives)+len(change.Plans) > 0:
			d.op = c.tidy(d, change, "sweep")
		default:
			together.add(c, d, change)
		}
	}
	together.send(c)
}

func (d *document) answered(c *Core, _ Input) {
	// Applied or not, the view shows the result. A repeated transaction contains the same change or loses its
	// compare.
	d.op, d.since = 0, c.now
}

// handOversAtOnce is how many documents share a transaction. They are idle, so it is rare that one of them has
// changed in the meantime, which makes the whole transaction fail.
const handOversAtOnce = 16

// handOver is T5 for several documents, all of which are changed, or none.
type handOver struct {
	docs   []*document
	change ledger.Change
	bytes  int
}

// add adds one document to the hand-over. It first sends the collected documents if the transaction has no room for
// one more, and afterwards if there are enough.
func (h *handOver) add(c *Core, d *document, change ledger.Change) {
	weight := 0
	for _, doc := range change.Docs {
		weight += doc.Weight()
	}
	if h.bytes+weight > workBytes {
		h.send(c)
	}
	h.docs = append(h.docs, d)
	h.change.Docs = append(h.change.Docs, change.Docs...)
	h.bytes += weight
	if len(h.docs) >= c.atOnce.most(handOversAtOnce) {
		h.send(c)
	}
}

func (h *handOver) send(c *Core) {
	if len(h.docs) == 0 {
		return
	}
	sent := *h
	*h = handOver{}
	op := c.tidy(&sent, sent.change, "hand-over")
	for _, d := range sent.docs {
		d.op = op
	}
}

func (h *handOver) answered(c *Core, in Input) {
	a, ok := in.(Amended)
	if ok {
		c.atOnce.learn(a.Result)
	}
	for _, d := range h.docs {
		d.op = 0
		if !ok || a.Result != Lost {
			d.since = c.now // the view shows the result
		}
	}
}

// forget drops what can no longer matter, so that memory is proportional to what is in flight.
func (c *Core) forget() {
	for k, d := range c.hints {
		if d.LedgerRevision <= c.revision {
			delete(c.hints, k)
		}
	}
	for k, e := range c.evictions {
		r, claimed := c.removals[k.pod]
		going := claimed && planToken(r.plan) == k.token.String() // its outcome has yet to be reported
		if e.op == 0 && !going && c.now.Sub(e.since) > c.limits.EvictionMemory {
			delete(c.evictions, k)
		}
	}
	if c.now.Sub(c.forgot) >= c.limits.ForgetEvery {
		c.forgot = c.now
		c.forgetPods()
	}
}

// forgetPods checks every remembered pod that waits.
func (c *Core) forgetPods() {
	for uid := range c.replaced {
		p, known, _ := c.pod(uid, 0)
		if _, waits := c.reserved[uid]; !waits && (!known || p.NodeName != "") {
			delete(c.replaced, uid)
		}
	}
	for uid, w := range c.conditions {
		if w.over(c, uid) {
			delete(c.conditions, uid)
		}
	}
}
