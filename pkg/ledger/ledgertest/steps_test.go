package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
)

// place is T1 of a shard that knows what its two views tell it, with the hand-over of the
// same document riding along.
func (w *world) place(ctx context.Context) error {
	m := w.member()
	p, epoch, ok := w.candidate(m)
	if !ok {
		return nil
	}
	uid := fmt.Sprintf("n%d", w.choose("node", worldNodes))
	d, ok := m.view.Doc(uid)
	if !ok {
		d = node(uid)
	}
	if (!w.rules.noHighWater && m.progress < d.HW[ledger.KindPod]) || m.used(d) >= worldCapacity {
		return nil
	}
	d, _ = ledger.Finish(d, m)
	w.token++
	d, err := ledger.Place(d, ledger.Entry{
		PodUID: p.uid, Role: ledger.RoleReservation, State: ledger.Committed, PodRV: p.rv, Token: w.token, Shard: m.id,
	})
	if err != nil {
		return err
	}
	b := ledger.PlaceBatch{
		Epochs: map[int32]int64{ledger.PartitionOf(p.uid): epoch},
		Docs:   []ledger.NodeDoc{d},
		Placed: []ledger.Token{w.token},
	}
	txn, err := b.Txn()
	if err != nil {
		return err
	}
	return w.submit(ctx, m, unresolved{batch: b, txn: txn})
}

// candidate is a pod the member owns, and by its views neither bound, nor reserved, nor of
// unknown outcome.
func (w *world) candidate(m *member) (p apiPod, epoch int64, ok bool) {
	var uids []string
	for uid, p := range m.pods {
		owner, _, owned := m.view.Owner(ledger.PartitionOf(uid))
		_, _, reserved := m.view.Entry(uid)
		if owned && owner.Member == m.id && !reserved && p.node == "" && !m.undecided(uid) {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	uid, ok := pick(w, "pending", uids)
	_, epoch, _ = m.view.Owner(ledger.PartitionOf(uid))
	return m.pods[uid], epoch, ok
}

func (m *member) undecided(uid string) bool {
	return slices.ContainsFunc(m.pending, func(u unresolved) bool {
		_, mine := u.batch.Docs[0].Find(uid)
		return mine
	})
}

// used is the counting rule for one node.
func (m *member) used(d ledger.NodeDoc) int {
	n := 0
	for _, p := range m.pods {
		if p.node == d.NodeUID {
			n++
		}
	}
	for _, e := range d.Entries {
		p, known := m.pods[e.PodUID]
		if (known && p.node == "") || (!known && m.progress < e.PodRV) {
			n++
		}
	}
	return n
}

// submit commits a T1, with an answer that may be lost before or after the fact.
func (w *world) submit(ctx context.Context, m *member, u unresolved) error {
	switch w.choose("fault", 6) {
	case 0:
		w.store.FailTxns(1)
	case 1:
		w.store.LoseAnswers(1)
	}
	r, err := w.commit(ctx, u.txn)
	w.store.FailTxns(0)
	w.store.LoseAnswers(0)
	if errors.Is(err, mem.ErrInjected) {
		m.pending = append(m.pending, u)
		w.counts["unknown"]++
		return onlyViolations(err)
	}
	if err != nil {
		return err
	}
	lost, err := ledger.Losers(u.batch, r)
	if err != nil {
		return err
	}
	if !lost.Applied {
		w.counts["lost"]++
		_, err = m.view.Learn(r.Current)
		return err
	}
	if r.Succeeded {
		if err := w.checkEpochs(u.batch); err != nil {
			return err
		}
	}
	w.counts["placed"]++
	if _, err := m.view.Learn(append(u.txn.Committed(r), r.Current...)); err != nil {
		return err
	}
	d := u.batch.Docs[0]
	e := d.Entries[len(d.Entries)-1]
	w.hints = append(w.hints, bindRequest{
		node: d.NodeUID, uid: e.PodUID, rv: e.PodRV, token: e.Token, revision: lost.AppliedAt,
	})
	return nil
}

// onlyViolations strips the injected fault from an error of commit.
func onlyViolations(err error) error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return nil
	}
	for _, e := range joined.Unwrap() {
		if !errors.Is(e, mem.ErrInjected) {
			return e
		}
	}
	return nil
}

// checkEpochs is S11: what has just committed was decided under the current epochs.
func (w *world) checkEpochs(b ledger.PlaceBatch) error {
	for p, epoch := range b.Epochs {
		if _, now, ok := w.truth.Owner(p); !ok || now != epoch {
			return fmt.Errorf("S11: a decision of epoch %d of partition %d committed in epoch %d", epoch, p, now)
		}
	}
	return nil
}

// resolve resubmits a transaction of unknown outcome.
func (w *world) resolve(ctx context.Context) error {
	m := w.member()
	if len(m.pending) == 0 {
		return nil
	}
	u := m.pending[0]
	m.pending = m.pending[1:]
	return w.submit(ctx, m, u)
}

// checkHint is a binder that looks at its ledger watch, which has reached the hint, and
// sends the bind. The bind itself happens whenever it arrives.
func (w *world) checkHint(context.Context) error {
	h, ok := pick(w, "hint", w.hints)
	if !ok {
		return nil
	}
	d, _ := w.truth.Doc(h.node)
	if e, ok := d.Find(h.uid); ok && e.Token == h.token && e.State == ledger.Committed {
		w.sent = append(w.sent, h)
	}
	return nil
}

// bind arrives at the API server. S2: no bind succeeds after its entry was released.
func (w *world) bind(context.Context) error {
	h, ok := pick(w, "bind", w.sent)
	if !ok {
		return nil
	}
	p, ok := w.pods[h.uid]
	if !ok || p.node != "" || (p.rv != h.rv && !w.rules.noPrecondition) {
		return nil
	}
	p.node = h.node
	w.change(p)
	w.counts["bound"]++
	d, _ := w.truth.Doc(h.node)
	if e, ok := d.Find(h.uid); !ok || e.Token != h.token {
		return fmt.Errorf("S2: pod %s was bound to %s with token %s, whose entry has been released", h.uid, h.node, h.token)
	}
	return w.check()
}

// handOver is T5 by anybody, on whatever its views show.
func (w *world) handOver(ctx context.Context) error {
	m := w.member()
	d, ok := m.view.Doc(fmt.Sprintf("n%d", w.choose("node", worldNodes)))
	if !ok {
		return nil
	}
	d, changed := ledger.Finish(d, m)
	if !changed {
		return nil
	}
	w.counts["handed over"]++
	return w.replace(ctx, d)
}

func (w *world) replace(ctx context.Context, d ledger.NodeDoc) error {
	txn, err := ledger.Replace(d)
	if err != nil {
		return err
	}
	_, err = w.commit(ctx, txn)
	return err
}

// entries of a state, as a binder that watches the ledger closely sees them.
func (w *world) entries(s ledger.State) []bindRequest {
	var out []bindRequest
	for i := range worldNodes {
		d, _ := w.truth.Doc(fmt.Sprintf("n%d", i))
		for _, e := range d.Entries {
			if e.State == s {
				out = append(out, bindRequest{node: d.NodeUID, uid: e.PodUID, rv: e.PodRV, token: e.Token})
			}
		}
	}
	return out
}

func (w *world) fenceMark(ctx context.Context) error {
	e, ok := pick(w, "mark", w.entries(ledger.Committed))
	if !ok || w.choose("fence", 2) != 0 {
		return nil
	}
	d, _ := w.truth.Doc(e.node)
	d, err := ledger.MarkFencing(d, e.uid, e.token)
	if err != nil {
		return err
	}
	return w.replace(ctx, d)
}

// fencePatch changes a pod whose entry is Fencing. A crash afterwards forgets the answer;
// the next one repeats the change.
func (w *world) fencePatch(context.Context) error {
	e, ok := pick(w, "patch", w.entries(ledger.Fencing))
	if !ok {
		return nil
	}
	p, ok := w.pods[e.uid]
	if !ok {
		return nil
	}
	if w.rules.noFencePatch {
		p.rv = max(p.rv, e.rv+1)
	} else {
		p = w.change(p)
	}
	if p.node == "" {
		w.fences = append(w.fences, patched{node: e.node, uid: e.uid, token: e.token, rv: p.rv})
	}
	return nil
}

func (w *world) fenceRelease(ctx context.Context) error {
	f, ok := pick(w, "release", w.fences)
	if !ok {
		return nil
	}
	d, _ := w.truth.Doc(f.node)
	d, err := ledger.ReleaseFenced(d, f.uid, f.token, f.rv)
	var gone *ledger.TransitionError
	if errors.As(err, &gone) {
		return nil
	}
	if err != nil {
		return err
	}
	w.counts["fenced"]++
	return w.replace(ctx, d)
}
