package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// steps returns everything that can happen next.
func (w *namesWorld) steps() []func(context.Context) error {
	return []func(context.Context) error{
		w.createPod, w.createPod, w.createPod, w.deletePod, w.registerAgain, w.take, w.take, w.expire,
		w.learnPods, w.learnPods, w.learnPods, w.learnNodes, w.learnNodes,
		w.learnLedger, w.learnLedger, w.learnLedger, w.learnLedger, w.learnLedger,
		w.stage, w.stage, w.stage, w.submit, w.submit, w.submit, w.admit, w.admit,
		w.sendBind, w.bind, w.bind, w.handOver, w.handOver, w.handOver, w.fenceMark, w.fencePatch, w.fenceRelease,
		w.collect, w.collect, w.laterVersion, w.backUp, w.restore,
	}
}

func (w *namesWorld) member() *namesMember { return w.members[w.choose("member", len(w.members))] }

func (w *namesWorld) some(what string, n int) int {
	if w.choose(what+" all", 2) == 0 {
		return n
	}
	return w.choose(what, n+1)
}

func oneOf[T any](w *namesWorld, what string, from []T) (T, bool) {
	var none T
	if len(from) == 0 {
		return none, false
	}
	return from[w.choose(what, len(from))], true
}

func (w *namesWorld) createPod(context.Context) error {
	if len(w.pods) < namesPods {
		w.change(apiPod{uid: podUID(len(w.history), "0")})
	}
	return nil
}

func (w *namesWorld) deletePod(context.Context) error {
	uid, ok := oneOf(w, "pod", slices.Sorted(maps.Keys(w.pods)))
	if ok && w.choose("delete", 2) == 0 {
		p := w.pods[uid]
		p.deleted = true
		w.change(p)
	}
	return w.check()
}

// registerAgain deletes a node that then comes back under its name. Pods bound to the name stay.
func (w *namesWorld) registerAgain(context.Context) error {
	if w.choose("register", 3) == 0 {
		w.register(nodeUID(w.choose("node", namesCount)))
		w.counts["registered again"]++
	}
	return nil
}

func (w *namesWorld) take(ctx context.Context) error {
	m := w.member()
	txn, err := roster.TakePartition(
		int32(w.choose("partition", worldPartitions)), roster.Owner{Member: m.id}, m.session.Lease())
	if err != nil {
		return err
	}
	_, err = w.commit(ctx, txn)
	return err
}

// expire ends a member's lease; the member learns that from the ledger.
func (w *namesWorld) expire(ctx context.Context) error {
	m := w.member()
	if w.choose("expire", 3) != 0 {
		return nil
	}
	w.store.Expire(m.session.Lease())
	var err error
	if m.session, err = w.store.OpenSession(ctx, sessionTTL); err != nil {
		return err
	}
	return w.sync(ctx)
}

func (w *namesWorld) learnPods(context.Context) error {
	m := w.member()
	m.learnPods(w, w.some("pods", len(w.history)-int(m.progress)))
	return nil
}

func (w *namesWorld) learnNodes(context.Context) error {
	m := w.member()
	m.learnNodes(w, w.some("nodes", len(w.history)-int(m.seen)))
	return nil
}

func (w *namesWorld) learnLedger(context.Context) error {
	m := w.member()
	return m.learnLedger(w, w.some("ledger", len(w.log)-m.folded))
}

// holds returns the epoch in which a member may decide about a pod; 0 if there is none.
func (m *namesMember) holds(uid string) int64 {
	owner, epoch, ok := m.view.Roster().Owner(ledger.PartitionOf(uid))
	if !ok || owner.Member != m.id || epoch > m.view.Revision() || !m.view.IsOpen() {
		return 0
	}
	return epoch
}

func (m *namesMember) waits(uid string) bool {
	return slices.ContainsFunc(m.staged, func(s staged) bool { return s.uid == uid })
}

// stage decides about a pod on the node that a member's facts show under a name.
func (w *namesWorld) stage(context.Context) error {
	m := w.member()
	var could []string
	for uid, p := range m.pods {
		if _, _, reserved := m.view.Entry(uid); !reserved && p.node == "" && m.holds(uid) != 0 && !m.waits(uid) {
			could = append(could, uid)
		}
	}
	slices.Sort(could)
	uid, ok := oneOf(w, "pending", could)
	name := nodeUID(w.choose("node", namesCount))
	node, known := m.nodes[name]
	if !ok || !known || !w.usable(m, node, name) || m.used(name) >= namesCapacity {
		return nil
	}
	m.staged = append(m.staged, staged{
		uid: uid, node: node.uid, name: name, rv: m.pods[uid].rv, nodeRV: node.rv, version: m.view.Version(node.uid),
		epoch: m.holds(uid), large: w.choose("large", 4) == 0,
	})
	return nil
}

// usable reports whether a node's name stands for the node, and whether a member's facts have reached the
// document's high-waters.
func (w *namesWorld) usable(m *namesMember, node nodeFact, name string) bool {
	d := m.view.Open(node.uid, name, node.rv)
	return m.view.Names().Admission(node.uid, name, node.rv) == replica.Admitted &&
		(m.progress >= d.HighWater(ledger.KindPod) || w.rules.noFloor && d.Revision == 0)
}

// used returns what counts on a name: pods bound to it, reservations in documents, and staged pods.
func (m *namesMember) used(name string) int {
	n := 0
	for _, p := range m.pods {
		if p.node == name {
			n++
		}
	}
	for d := range m.view.Docs() {
		for _, e := range d.Entries {
			p, known := m.pods[e.PodUID]
			if d.NodeName == name && (known && p.node == "" || !known && m.progress < e.PodRV) {
				n++
			}
		}
	}
	for _, s := range m.staged {
		if s.name == name {
			n++
		}
	}
	return n
}

// submit is T1 of the pod that was staged first, whatever has happened to its partition since.
func (w *namesWorld) submit(ctx context.Context) error {
	m := w.member()
	if len(m.staged) == 0 {
		return nil
	}
	s := m.staged[0]
	m.staged = m.staged[1:]
	epoch := m.holds(s.uid)
	_, _, reserved := m.view.Entry(s.uid)
	if epoch == 0 || m.pods[s.uid].node != "" || m.view.Version(s.node) != s.version ||
		!w.rules.noEpoch && (epoch != s.epoch || reserved) {
		return nil
	}
	d, _ := txns.Finish(m.view.Open(s.node, s.name, s.nodeRV), m)
	if d.Revision == 0 && w.rules.noFloor {
		d.HW = map[string]uint64{ledger.KindNode: s.nodeRV}
	}
	w.token++
	e := ledger.Entry{
		PodUID: s.uid, Role: ledger.RoleReservation, State: ledger.Committed, PodRV: s.rv, Token: w.token, Shard: m.id,
	}
	if s.large {
		e.Later = laterFields(largeLater)
	}
	d, err := txns.Place(d, e)
	var large *ledger.DocTooLargeError
	if errors.As(err, &large) {
		w.counts["too large"]++
		return nil
	}
	if err != nil {
		return ignoreRefusals(err)
	}
	b := txns.PlaceBatch{
		Epochs: map[int32]int64{ledger.PartitionOf(s.uid): epoch}, Docs: []ledger.NodeDoc{d},
		TermRegistryRevision: m.view.Terms().RegistryRevision(), Placed: []ledger.Token{e.Token},
	}
	txn, err := b.Txn()
	if err != nil {
		return err
	}
	return w.place(ctx, m, s, txn)
}

func (w *namesWorld) place(ctx context.Context, m *namesMember, s staged, txn ledger.Txn) error {
	r, err := w.commit(ctx, txn)
	switch {
	case err != nil:
		return err
	case !r.Succeeded:
		w.counts["lost"]++
		_, err = m.view.Learn(r.Current)
		return err
	}
	w.counts["placed"]++
	if _, now, ok := w.truth.Roster().Owner(ledger.PartitionOf(s.uid)); !ok || now != s.epoch {
		return fmt.Errorf("S11: a decision of epoch %d about pod %s committed in epoch %d", s.epoch, s.uid, now)
	}
	_, err = m.view.LearnOwn(txn, r)
	return err
}

// admit is T15.
func (w *namesWorld) admit(ctx context.Context) error {
	m := w.member()
	name := nodeUID(w.choose("node", namesCount))
	node, known := m.nodes[name]
	if !known || !m.view.IsOpen() || m.view.Names().Admission(node.uid, name, node.rv) != replica.Unadmitted {
		return nil
	}
	change, err := txns.AdmitNode{
		NodeUID: node.uid, NodeName: name, NodeRV: node.rv, Known: m.view.Names().Incarnation(name),
		Docs:  m.view.Names().Docs(name),
		Floor: m.view.Floor(),
	}.Admit()
	if err != nil {
		return ignoreRefusals(err)
	}
	txn, err := change.Txn()
	if err != nil {
		return err
	}
	r, err := w.commit(ctx, txn)
	if err != nil || !r.Succeeded {
		return err
	}
	w.counts["admitted"]++
	_, err = m.view.LearnOwn(txn, r)
	return err
}

// entries returns the entries of a state, in all documents.
func (w *namesWorld) entries(s ledger.State) (out []bindRequest) {
	for d := range w.truth.Docs() {
		for _, e := range d.Entries {
			if e.State == s {
				out = append(out, bindRequest{node: d.NodeUID, uid: e.PodUID, rv: e.PodRV, token: e.Token})
			}
		}
	}
	slices.SortFunc(out, func(a, b bindRequest) int { return int(a.token) - int(b.token) })
	return out
}

// sendBind is a binder that has seen an entry in its watch, and does not check the node.
func (w *namesWorld) sendBind(context.Context) error {
	if b, ok := oneOf(w, "entry", w.entries(ledger.Committed)); ok && w.truth.IsOpen() {
		w.sent = append(w.sent, b)
	}
	return nil
}

// bind is the arrival of a bind at the API server, which binds by name.
func (w *namesWorld) bind(context.Context) error {
	b, ok := oneOf(w, "bind", w.sent)
	if !ok {
		return nil
	}
	return w.arrive(b)
}

func (w *namesWorld) arrive(b bindRequest) error {
	p, ok := w.pods[b.uid]
	if !ok || p.node != "" || p.rv != b.rv {
		return nil
	}
	d, _ := w.truth.Doc(b.node)
	if e, ok := d.Find(b.uid); w.truth.IsOpen() && (!ok || e.Token != b.token) {
		return fmt.Errorf("S2: pod %s was bound with token %s, whose entry has been released", b.uid, b.token)
	}
	p.node = b.node[:len("n0")]
	w.change(p)
	w.counts["bound"]++
	return w.check()
}

// handOver is T5 of any document.
func (w *namesWorld) handOver(ctx context.Context) error {
	m := w.member()
	d, ok := oneOf(w, "document", m.docs())
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

func (m *namesMember) docs() (out []ledger.NodeDoc) {
	for _, uid := range slices.Sorted(maps.Keys(stored(m.view))) {
		d, _ := m.view.Doc(uid)
		out = append(out, d)
	}
	return out
}

func (w *namesWorld) replace(ctx context.Context, d ledger.NodeDoc) error {
	txn, err := txns.Replace(d)
	if err != nil {
		return err
	}
	_, err = w.commit(ctx, txn)
	return err
}

func (w *namesWorld) fenceMark(ctx context.Context) error {
	e, ok := oneOf(w, "mark", w.entries(ledger.Committed))
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

func (w *namesWorld) fencePatch(context.Context) error {
	e, ok := oneOf(w, "patch", w.entries(ledger.Fencing))
	p, alive := w.pods[e.uid]
	if !ok || !alive {
		return nil
	}
	if p = w.change(p); p.node == "" {
		w.fences = append(w.fences, patched{node: e.node, uid: e.uid, token: e.token, rv: p.rv})
	}
	return nil
}

func (w *namesWorld) fenceRelease(ctx context.Context) error {
	f, ok := oneOf(w, "release", w.fences)
	if !ok {
		return nil
	}
	d, stored := w.truth.Doc(f.node)
	if !stored {
		return nil
	}
	d, err := txns.ReleaseFenced(d, f.uid, f.token, f.rv)
	if err != nil {
		return ignoreRefusals(err)
	}
	w.counts["fenced"]++
	return w.replace(ctx, d)
}

// collect is T16 of a document that promises nothing, whether its node is gone or not.
func (w *namesWorld) collect(ctx context.Context) error {
	m := w.member()
	var empty []string
	for key := range txns.Collectable(m.view) {
		empty = append(empty, key)
	}
	slices.Sort(empty)
	key, ok := oneOf(w, "empty", empty)
	if !ok || !m.view.IsOpen() || w.choose("collect", 2) != 0 {
		return nil
	}
	c := txns.CollectionOf(m.view, []string{key})
	if w.rules.noFloor {
		c.Floor.HW = nil
	}
	txn, err := c.Collect()
	if err != nil {
		return ignoreRefusals(err)
	}
	r, err := w.commit(ctx, txn)
	if r.Succeeded {
		w.counts["collected"]++
	}
	return err
}

// laterFields returns fields that this version does not know.
func laterFields(n int) string {
	return string(protowire.AppendBytes(protowire.AppendTag(nil, 9000, protowire.BytesType), make([]byte, n)))
}

// laterVersion is a member of a later version that rewrites a document.
func (w *namesWorld) laterVersion(ctx context.Context) error {
	m := w.member()
	d, ok := oneOf(w, "document", m.docs())
	if !ok || len(d.Later) > 0 {
		return nil
	}
	d.Later = laterFields(8)
	d.Entries = slices.Clone(d.Entries)
	for i := range d.Entries {
		if len(d.Entries[i].Later) == 0 && w.choose("later", 2) == 0 {
			d.Entries[i].Later = laterFields(8)
		}
	}
	w.counts["of a later version"]++
	return w.replaceUnchecked(ctx, d)
}

// replaceUnchecked writes a document whose entries may change in ways that only a later version may use.
func (w *namesWorld) replaceUnchecked(ctx context.Context, d ledger.NodeDoc) error {
	txn, err := txns.Replace(d)
	var large *ledger.DocTooLargeError
	if err != nil {
		if errors.As(err, &large) {
			return nil
		}
		return err
	}
	_, err = w.commit(ctx, txn)
	return err
}

func (w *namesWorld) backUp(context.Context) error {
	if w.truth.IsOpen() && w.choose("backup", 4) == 0 {
		w.backup = w.store.Backup()
		w.counts["backed up"]++
	}
	return nil
}

// restore makes the ledger go back. Every member starts from scratch, and the leader of the queues begins the next
// generation (identity.Generation): close, clear, wait for what is in flight, clear, open.
func (w *namesWorld) restore(ctx context.Context) error {
	if w.choose("restore", 40) != 0 {
		return nil
	}
	w.counts["restored"]++
	w.store = w.store.Restore(w.backup, w.choose("another", 2) == 0)
	if err := w.begin(ctx); err != nil {
		return err
	}
	id, err := w.store.ID(ctx)
	if err != nil {
		return err
	}
	g := w.truth.Generation()
	next, txn, err := g.Next(id, "it was restored", w.truth.Floor(), 0)
	if err != nil {
		return err
	}
	r, err := w.commit(ctx, txn)
	if err != nil {
		return err
	}
	next.Revision = r.Revision
	if err := w.clear(ctx, next); err != nil {
		return err
	}
	if !w.rules.noGrace {
		if err := w.land(); err != nil {
			return err
		}
	}
	rv := uint64(len(w.history))
	txn, err = next.OpenAt(map[string]uint64{ledger.KindPod: rv, ledger.KindNode: rv}, w.truth.Floor())
	if err != nil {
		return err
	}
	_, err = w.commit(ctx, txn)
	return err
}

// land ends what is in flight: it arrives, or it never will.
func (w *namesWorld) land() error {
	for _, b := range w.sent {
		if w.choose("arrives", 2) == 1 {
			continue
		}
		if err := w.arrive(b); err != nil {
			return err
		}
	}
	w.sent, w.fences = nil, nil
	return nil
}

func (w *namesWorld) clear(ctx context.Context, g identity.Generation) error {
	kvs, _, err := w.store.List(ctx, "")
	if err != nil {
		return err
	}
	for keys := identity.Promises(kvs); len(keys) > 0; {
		var txn ledger.Txn
		txn, keys = g.Clear(keys)
		if _, err := w.commit(ctx, txn); err != nil {
			return err
		}
	}
	return nil
}
