package sim

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
)

// A visitor is another shard, which lives for a moment: it takes a partition that its owner has released, reserves
// for one of its pods, and exits. It knows all facts and the newest documents, and keeps every rule of the protocol.
// Sometimes it is of a later version and writes fields that no other member knows.

// visits counts them; their members' names differ.
type visits struct{ visited int }

// roundTrips: partitions of pods that a transaction has nothing to do with go and come back, too.
func roundTrips(w *world, p *proc, _ ledger.Txn) {
	s := w.shardOf(p)
	if s == nil {
		return
	}
	for _, pod := range w.api.pods() {
		if pod.Spec.NodeName == "" && w.chance(30) {
			w.roundTrip(s, string(pod.UID))
		}
	}
}

// meanwhile draws an event that happens while a transaction is under way.
func (w *world) meanwhile(what string, t ledger.Txn) {
	if w.cluster.family != returned || what != "T1" {
		return
	}
	for _, uid := range newReservations(t) {
		owner, _, ok := w.oracle.truth.Roster().Owner(ledger.PartitionOf(uid))
		if !ok || !w.chance(60) {
			continue
		}
		for _, s := range w.shards {
			if s.member() == owner.Member {
				w.roundTrip(s, uid)
			}
		}
	}
}

// newReservations are the pods with reservations in the documents that a transaction would write.
func newReservations(t ledger.Txn) (uids []string) {
	for _, put := range t.Puts {
		if !isDoc(put.Key) {
			continue
		}
		d, err := codec.DecodeNodeDoc(ledger.KV{Key: put.Key, Value: put.Value})
		if err != nil {
			continue
		}
		for _, e := range d.Entries {
			if e.Role == ledger.RoleReservation {
				uids = append(uids, e.PodUID)
			}
		}
	}
	return uids
}

func (w *world) shardOf(p *proc) *shard {
	for _, s := range w.shards {
		if &s.proc == p {
			return s
		}
	}
	return nil
}

// giveAndTake has a partition of any shard go and come back.
func (w *world) giveAndTake() error {
	s := w.shards[w.rng.IntN(len(w.shards))]
	for _, p := range w.api.pods() {
		if p.Spec.NodeName == "" && w.chance(50) {
			w.roundTrip(s, string(p.UID))
			break
		}
	}
	return w.broke
}

// roundTrip moves the partition of a pod from its owner to a visitor and back. The owner's keeper has released it, as
// it does for a new shard. The owner also has a request to take the partition under way, sent after it saw it vacant,
// which arrives when the visitor has exited. None of this is in the owner's view of the ledger at that time.
func (w *world) roundTrip(s *shard, podUID string) {
	partition := w.partitionOf(podUID)
	owner, epoch, held := w.oracle.truth.Roster().Owner(partition)
	if !s.up || s.draining || !held || owner.Member != s.member() || !w.leases.alive(s.id) || w.now < w.faults.leaderless {
		return
	}
	release, err := roster.ReleasePartition(partition, epoch)
	if err != nil || !w.visit(&s.proc, "T13 release", release) {
		return
	}
	w.visited++
	v := &proc{w: w, role: "scheduler", n: shardCount + w.visited}
	v.begin()
	session, err := w.store.OpenSession(w.ctx, memberTTL)
	if err != nil {
		w.note("form", "open a session: %v", err)
		return
	}
	if !w.takeFor(v, partition, session.Lease()) {
		return
	}
	_, epoch, _ = w.oracle.truth.Roster().Owner(partition)
	w.tracef("%s visits partition %d of %s", v.member(), partition, s.member())
	if p, ok := w.api.pod(podUID); ok && w.chance(80) {
		w.reserveFor(v, p, epoch)
	}
	w.store.Expire(session.Lease())
	w.observe(nil)
	if w.chance(15) {
		return // a shard takes it when it sees that
	}
	if w.takeFor(&s.proc, partition, s.id) {
		w.hit("partition taken over and given back")
		w.hit("take of a partition late")
	}
	if w.chance(40) {
		s.deaf = w.now + time.Duration(200+w.rng.IntN(2000))*time.Millisecond
	}
}

// partitionOf is the partition of a pod: that of its group, if it has one.
func (w *world) partitionOf(podUID string) int32 {
	if p, ok := w.api.pod(podUID); ok && groupOf(p) != "" {
		return ledger.PartitionOf(state.NewPod(p).Group())
	}
	return ledger.PartitionOf(podUID)
}

func (w *world) takeFor(p *proc, partition int32, lease int64) bool {
	take, err := roster.TakePartition(partition, roster.Owner{Member: p.member()}, lease)
	return err == nil && w.visit(p, "T13", take)
}

// visit carries out a transaction at once.
func (w *world) visit(p *proc, what string, t ledger.Txn) bool {
	r, err := w.store.Commit(w.ctx, t)
	if err != nil || !r.Succeeded {
		return false
	}
	w.tracef("%s %s: succeeded true at %d", p.member(), what, r.Revision)
	w.observe(&committed{what: what, who: p, member: p.member(), txn: t, knew: knowledge{}, knowsAll: true})
	return true
}

// reserveFor reserves for a pod without rules on a node that has room, if there is one.
func (w *world) reserveFor(v *proc, p *corev1.Pod, epoch int64) {
	if w.cluster.rules || !plain(p) || groupOf(p) != "" || len(w.oracle.promised.reservations()[string(p.UID)]) > 0 {
		return
	}
	if _, _, reserved := w.oracle.truth.Entry(string(p.UID)); reserved {
		return // held
	}
	nodes := w.api.nodes()
	from := w.rng.IntN(len(nodes))
	for i := range nodes {
		n := nodes[(from+i)%len(nodes)]
		rv := nodeVersion(n)
		admitted := w.oracle.truth.Names().Admission(string(n.UID), n.Name, rv) == replica.Admitted
		if n.Spec.Unschedulable || !admitted || w.promisedOn(n)+size(p) > room(n) {
			continue
		}
		w.cluster.tokens++
		t, err := w.placing(v, p, n, epoch)
		if err != nil {
			w.note("form", "%s: %v", v.member(), err)
			return
		}
		if w.visit(v, "T1", t) {
			w.hit("pod reserved by another shard before its partition came back")
		}
		return
	}
}

// plain: the pod can be placed by looking at room alone.
func plain(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates)+len(p.Spec.Volumes)+len(p.Spec.ResourceClaims) == 0 &&
		p.Spec.Affinity == nil && len(p.Spec.TopologySpreadConstraints) == 0 && len(p.OwnerReferences) == 0 &&
		len(p.Spec.Containers[0].Ports) == 0
}

// promisedOn is the largest possible use of a node, whatever the outcome of the promises there.
func (w *world) promisedOn(n *corev1.Node) (used int64) {
	for _, s := range w.oracle.placements() {
		if s.node.Name == n.Name {
			used += size(s.pod)
		}
	}
	for _, d := range w.oracle.promised.docs {
		for _, e := range d.GetEntries() {
			if d.GetNodeName() == n.Name && !live(e) {
				used += crowd // a plan is about this node: not today
			}
		}
	}
	return used
}

// placing is T1 for one pod.
func (w *world) placing(v *proc, p *corev1.Pod, n *corev1.Node, epoch int64) (ledger.Txn, error) {
	pod, truth := state.NewPod(p.DeepCopy()), w.oracle.truth
	token := ledger.Token(visitorTokens | w.cluster.tokens)
	e := ledger.Entry{
		PodUID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Role: ledger.RoleReservation, State: ledger.Committed,
		Priority: pod.Priority, PodRV: pod.ResourceVersion, PlacementHash: pod.PlacementHash(),
		Token: token, Shard: v.member(),
		SchedulerName: pod.SchedulerName, Requests: pod.Requests.Map(),
		NonZeroCPU: pod.NonZero.MilliCPU, NonZeroMemory: pod.NonZero.Memory,
	}
	d := truth.Open(string(n.UID), n.Name, nodeVersion(n))
	if w.chance(50) {
		later := string(laterField(w.cluster.tokens))
		e.Later, d.Later = later, later
	}
	doc, err := txns.Place(d.Cover(ledger.KindNode, nodeVersion(n)), e)
	if err != nil {
		return ledger.Txn{}, err
	}
	return txns.PlaceBatch{
		Epochs: map[int32]int64{ledger.PartitionOf(pod.UID): epoch}, TermRegistryRevision: truth.Terms().RegistryRevision(),
		Docs: []ledger.NodeDoc{doc}, Placed: []ledger.Token{token},
	}.Txn()
}

// visitorTokens sets the tokens of visitors apart from those of the queues.
const visitorTokens = 1 << 62

// rewrite makes a member of a later version write some values again, with fields that no member here knows.
func (w *world) rewrite() error {
	kvs, _, err := w.store.List(w.ctx, "")
	if err != nil {
		return err
	}
	for _, kv := range kvs {
		if !isRewritten(kv.Key) || !w.chance(40) {
			continue
		}
		w.cluster.tokens++
		var value []byte
		if value, err = addLater(kv, laterField(w.cluster.tokens)); err != nil {
			return err
		}
		t := ledger.Txn{
			Compares: []ledger.Compare{{Key: kv.Key, Target: ledger.ModRevision, Revision: kv.ModRevision}},
			Puts:     []ledger.Put{{Key: kv.Key, Value: value}},
		}
		v := &proc{w: w, role: "binder", n: binderCount, name: "later"}
		if w.visit(v, "rewrite of "+strings.SplitN(kv.Key, "/", 2)[0], t) {
			w.hit("document of a later version")
		}
	}
	return w.broke
}
