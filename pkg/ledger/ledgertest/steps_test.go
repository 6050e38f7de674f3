package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// place is T1 of a shard that knows what its views show, together with the hand-over of the same document. A pod of
// a controller takes a placeholder over where there is one.
func (w *world) place(ctx context.Context) error {
	m := w.member()
	p, epoch, ok := w.candidate(m)
	if !ok {
		return nil
	}
	d := m.doc(nodeUID(w.choose("node", worldNodes)))
	if !w.rules.noHighWater && m.progress < d.HW[ledger.KindPod] {
		return nil
	}
	if !m.fits(p.uid, d.NodeUID, now, nil) {
		return nil
	}
	d, _ = txns.Finish(d, m)
	w.token++
	e := m.reservation(p, w.token, ledger.Committed)
	d, ok, err := m.placed(w, d, e)
	if !ok || err != nil {
		return err
	}
	b := txns.PlaceBatch{
		Epochs: map[int32]int64{ledger.PartitionOf(p.uid): epoch}, Docs: []ledger.NodeDoc{d},
		TermRegistryRevision: m.view.Terms().RegistryRevision(), Placed: []ledger.Token{e.Token},
	}
	n := txns.Needs{}
	if n.Guards, ok = m.guards(p.uid, d.NodeUID); !ok {
		return nil
	}
	if b.Exclusives, ok = m.volume(e, d.NodeUID, 0); !ok {
		return nil
	}
	if has(p.uid, "f") {
		if b.Docs, n.Pins, ok = w.follow(m, b.Docs, e); !ok {
			return nil
		}
	}
	b.Needs = map[ledger.Token]txns.Needs{e.Token: n}
	txn, err := b.Txn()
	if err != nil {
		return err
	}
	return w.submit(ctx, m, attempt{
		what: "placed", uid: p.uid, epochs: b.Epochs, txn: txn, hint: hintOf(d.NodeUID, e),
		losers: func(r ledger.TxnResult) (txns.Outcome, error) { return txns.Classify(b, r) },
	})
}

func hintOf(node string, e ledger.Entry) *bindRequest {
	return &bindRequest{node: node, uid: e.PodUID, rv: e.PodRV, token: e.Token}
}

func (m *member) doc(uid string) ledger.NodeDoc {
	if d, ok := m.view.Doc(uid); ok {
		return d
	}
	return node(uid)
}

func (m *member) reservation(p apiPod, token ledger.Token, s ledger.State) ledger.Entry {
	return ledger.Entry{
		PodUID: p.uid, Role: ledger.RoleReservation, State: s, PodRV: p.rv, Token: token, Shard: m.id,
		Priority: priority(p.uid),
	}
}

// placed puts an entry into a document, if it also has room there in the future test.
func (m *member) placed(w *world, d ledger.NodeDoc, e ledger.Entry) (ledger.NodeDoc, bool, error) {
	if has(e.PodUID, "m") {
		next, err := txns.TakeOver(d, replacementOf(), 0, e)
		if err == nil {
			w.counts["taken over"]++
			return next, m.fits(e.PodUID, d.NodeUID, future, map[string]bool{placeholder(d): true}), nil
		}
	}
	next, err := txns.Place(d, e)
	return next, m.fits(e.PodUID, d.NodeUID, future, nil), err
}

// placeholder returns what the first placeholder of a document counts as.
func placeholder(d ledger.NodeDoc) string {
	for _, e := range d.Entries {
		if e.Role == ledger.RoleMove {
			return "move " + e.Token.String()
		}
	}
	return ""
}

// follow pins a bound pod that the entry's pod relies on.
func (w *world) follow(m *member, docs []ledger.NodeDoc, e ledger.Entry) ([]ledger.NodeDoc, []string, bool) {
	var bound []string
	for uid, p := range m.pods {
		if p.node != "" && !p.deleting {
			bound = append(bound, uid)
		}
	}
	slices.Sort(bound)
	uid, ok := pick(w, "keeper", bound)
	if !ok {
		return nil, nil, false
	}
	home := m.doc(m.pods[uid].node)
	at := slices.IndexFunc(docs, func(d ledger.NodeDoc) bool { return d.NodeUID == home.NodeUID })
	if at >= 0 {
		home = docs[at]
	}
	next, err := txns.Pin(home, ledger.Entry{PodUID: uid}, ledger.Dependent{PodUID: e.PodUID, PodRV: e.PodRV})
	if err != nil || m.progress < home.HW[ledger.KindPod] {
		return nil, nil, false
	}
	w.counts["pinned"]++
	if at >= 0 {
		docs[at] = next
		return docs, []string{home.NodeUID}, true
	}
	return append(docs, next), []string{home.NodeUID}, true
}

// candidate returns a pod that the member owns, and that by its views is neither bound, nor reserved, nor of
// unknown outcome.
func (w *world) candidate(m *member) (p apiPod, epoch int64, ok bool) {
	var uids []string
	for uid, p := range m.pods {
		_, _, reserved := m.view.Entry(uid)
		if m.owns(uid) && !reserved && p.node == "" && !m.undecided(uid) {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	uid, ok := pick(w, "pending", uids)
	_, epoch, _ = m.view.Roster().Owner(ledger.PartitionOf(uid))
	return m.pods[uid], epoch, ok
}

func (m *member) owns(uid string) bool {
	owner, _, owned := m.view.Roster().Owner(ledger.PartitionOf(uid))
	return owned && owner.Member == m.id
}

func (m *member) undecided(uid string) bool {
	return slices.ContainsFunc(m.pending, func(a attempt) bool { return a.uid == uid })
}

// question is which of the two questions is asked.
type question uint8

const (
	now    question = iota // with victims that are still there, without holds
	future                 // of each plan the larger side: the hold or its victims
)

// counted is the counting rule: what counts where, now, or in the future, where each plan may be given up or
// carried out, whichever is worse.
func (m *member) counted(t question, without map[string]bool) map[string][]string {
	out := map[string][]string{}
	plans := ledgerPlans{}
	add := func(node, plan, what string, held bool) {
		switch {
		case without[what]:
		case t == future && plan != "":
			plans.add(node, plan, what, held)
		default:
			out[node] = append(out[node], what)
		}
	}
	for uid, p := range m.pods {
		if p.node == "" {
			continue
		}
		plan := ""
		if _, v, ok := m.view.Plans().Victim(uid); ok && m.view.Plans().VictimOfLivePlan(v) {
			plan = v.Plan
		}
		add(p.node, plan, uid, false)
	}
	for d := range m.view.Docs() {
		for _, e := range d.Entries {
			p, known := m.pods[e.PodUID]
			counts := known && p.node == "" || !known && m.progress < e.PodRV
			switch {
			case e.Role == ledger.RoleMove && t == future:
				add(d.NodeUID, e.Plan, "move "+e.Token.String(), true)
			case e.Role == ledger.RoleReservation && counts && (t == future || e.State != ledger.Held):
				add(d.NodeUID, e.Plan, e.PodUID, true)
			}
		}
	}
	for key, at := range plans {
		if m.trusting {
			at.going = nil
			plans[key] = at
		}
	}
	plans.larger(out)
	return out
}

// ledgerPlans holds what plans have on nodes: the held pods, and the victims.
type ledgerPlans map[[2]string]*struct{ held, going []string }

func (p ledgerPlans) add(node, plan, what string, held bool) {
	at := p[[2]string{node, plan}]
	if at == nil {
		at = &struct{ held, going []string }{}
		p[[2]string{node, plan}] = at
	}
	if held {
		at.held = append(at.held, what)
	} else {
		at.going = append(at.going, what)
	}
}

// larger adds to each node the larger side of each plan: the plan may be given up, and then its victims stay, or be
// carried out.
func (p ledgerPlans) larger(out map[string][]string) {
	for key, at := range p {
		more := at.held
		if len(at.going) > len(at.held) {
			more = at.going
		}
		out[key[0]] = append(out[key[0]], more...)
	}
}

// fits asks one of the two questions about a pod on a node.
func (m *member) fits(uid, node string, t question, without map[string]bool) bool {
	all := m.counted(t, without)
	others := func(node string) []string {
		return slices.DeleteFunc(all[node], func(other string) bool { return other == uid })
	}
	if len(others(node)) >= worldCapacity {
		return false
	}
	for n := range all {
		for _, other := range others(n) {
			if len(other) > 4 && other[:4] == "move" {
				continue
			}
			if has(uid, "x") && has(other, "x") && zone(n) == zone(node) || has(uid, "v") && has(other, "v") {
				return false
			}
		}
	}
	return true
}

// guards returns what a carrier needs; false while its zone is not fully counted.
func (m *member) guards(uid, node string) ([]registry.GuardUse, bool) {
	if !has(uid, "x") {
		return nil, true
	}
	for d := range m.view.Docs() {
		if zone(d.NodeUID) == zone(node) && m.progress < d.HW[ledger.KindPod] {
			return nil, false
		}
	}
	uses := []registry.GuardUse{
		{Key: carriers(worldTerm, zone(node)), Compare: true, Put: true},
		{Key: matchers(worldTerm, zone(node)), Compare: true},
	}
	for i := range uses {
		var ok bool
		if uses[i].Revision, ok = m.view.Terms().Guard(uses[i].Key); !ok {
			return nil, false
		}
	}
	return uses, true
}

// volume returns the volume's document with the entry's pod as its holder, if the pod uses the volume, and without
// the reservation of another token; false if the pod cannot have it.
func (m *member) volume(e ledger.Entry, node string, without ledger.Token) ([]ledger.ExclusiveDoc, bool) {
	x, freed := m.view.Exclusives().Of(worldVolume).ReleaseHolder(without)
	if has(e.PodUID, "v") {
		var err error
		x, err = x.AddHolder(ledger.Holder{PodUID: e.PodUID, Token: e.Token, NodeUID: node})
		if err != nil || m.progress < x.HW[ledger.KindPod] {
			return nil, false
		}
		freed = true
	}
	if !freed {
		return nil, true
	}
	return []ledger.ExclusiveDoc{x}, true
}

// submit commits a transaction whose answer may be lost before or after it is carried out.
func (w *world) submit(ctx context.Context, m *member, a attempt) error {
	switch w.choose("fault", 10) {
	case 0:
		w.store.FailTxns(1)
	case 1:
		w.store.LoseAnswers(1)
	}
	r, err := w.commit(ctx, a.txn)
	w.store.FailTxns(0)
	w.store.LoseAnswers(0)
	if errors.Is(err, mem.ErrInjected) {
		m.pending = append(m.pending, a)
		w.counts["unknown"]++
		return onlyViolations(err)
	}
	if err != nil {
		return err
	}
	lost, err := a.losers(r)
	if err != nil {
		return err
	}
	if !lost.Applied {
		w.counts["lost"]++
		w.counts[a.what+": lost"]++
		_, err = m.view.Learn(r.Current)
		return err
	}
	if r.Succeeded {
		if err := w.checkEpochs(a.epochs); err != nil {
			return err
		}
	}
	w.counts[a.what]++
	if _, err := m.view.LearnOwn(a.txn, r); err != nil {
		return err
	}
	if _, err := m.view.Learn(r.Current); err != nil {
		return err
	}
	if a.hint != nil {
		h := *a.hint
		h.revision = lost.AppliedAt
		w.hints = append(w.hints, h)
	}
	return nil
}

// carry submits a change.
func (w *world) carry(ctx context.Context, m *member, what, uid string, c txns.Change) error {
	txn, err := c.Txn()
	if err != nil {
		return err
	}
	a := attempt{what: what, uid: uid, txn: txn, losers: c.Classify}
	if c.Authority != nil {
		a.epochs = c.Authority.Epochs
	}
	if c.Marker.State == ledger.Committed {
		for _, d := range c.Docs {
			if e, ok := d.Find(uid); ok && e.Token == c.Marker.Token {
				a.hint = hintOf(d.NodeUID, e)
			}
		}
	}
	return w.submit(ctx, m, a)
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

// checkEpochs is S11: the transaction that has just committed was decided under the current epochs.
func (w *world) checkEpochs(epochs map[int32]int64) error {
	for p, epoch := range epochs {
		if _, now, ok := w.truth.Roster().Owner(p); !ok || now != epoch {
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
	a := m.pending[0]
	m.pending = m.pending[1:]
	return w.submit(ctx, m, a)
}

// checkHint is a binder that looks at its ledger watch, which has reached the hint, and sends the bind. The bind
// itself happens whenever it arrives.
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

// bind is the arrival of a bind at the API server. S2: no bind succeeds after its entry was released.
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

// handOver is T5 by any member, on whatever its views show.
func (w *world) handOver(ctx context.Context) error {
	m := w.member()
	d, ok := m.view.Doc(nodeUID(w.choose("node", worldNodes)))
	if !ok {
		return nil
	}
	d, changed := txns.Finish(d, m)
	if !changed {
		return nil
	}
	w.counts["handed over"]++
	return w.replace(ctx, d)
}

func (w *world) replace(ctx context.Context, d ledger.NodeDoc) error {
	txn, err := txns.Replace(d)
	if err != nil {
		return err
	}
	_, err = w.commit(ctx, txn)
	return err
}

// entries returns the entries of a state, as a binder that follows the ledger closely sees them.
func (w *world) entries(s ledger.State) []bindRequest {
	var out []bindRequest
	for i := range worldNodes {
		d, _ := w.truth.Doc(nodeUID(i))
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
	d, err := txns.MarkFencing(d, e.uid, e.token, ledger.FenceByPod)
	if err != nil {
		return err
	}
	return w.replace(ctx, d)
}

// fencePatch changes a pod whose entry is Fencing. After a crash the answer is lost; the next binder repeats the
// change.
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
	d, err := txns.ReleaseFenced(d, f.uid, f.token, f.rv)
	var gone *txns.TransitionError
	if errors.As(err, &gone) {
		return nil
	}
	if err != nil {
		return err
	}
	w.counts["fenced"]++
	return w.replace(ctx, d)
}
