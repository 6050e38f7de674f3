package crowd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

// member is a pod as the oracle knows it: its group, and its part in the rules of the kinds of groups.
type member struct {
	kind  kind
	group string
	// cpu in milli-CPU.
	cpu int64
}

type kind string

const (
	plain  kind = "plain"
	spread kind = "spread"
	apart  kind = "apart"
	hermit kind = "hermit"
	guest  kind = "guest"
)

// maxSkew is that of spread groups.
const maxSkew = 1

// oracle follows the ledger, revision by revision, and knows nothing of guards, views or shards: only which pod has
// been promised which node, and the rules as their users mean them. Pods are never deleted here, so that promises
// stay.
type oracle struct {
	pods map[string]member
	// rack and room of each node, by UID; room in milli-CPU.
	rack map[string]string
	room map[string]int64

	placed     map[string]string             // node UID by pod UID
	counts     map[string]map[string]int     // by group (and kind, of a pair), then rack
	used       map[string]int64              // by node UID
	shards     map[string]int                // placements by shard
	docs       map[string]ledger.NodeDoc     // by node UID
	violations []string                      // violations
	cost       struct{ txns, writes int }    // transactions that wrote to node documents or guards
	checks     map[kind]int                  // placements checked
	bound      func(podUID string) (ok bool) // whether the stage has bound a pod
}

func newOracle() *oracle {
	return &oracle{
		pods: map[string]member{}, rack: map[string]string{}, room: map[string]int64{},
		placed: map[string]string{}, counts: map[string]map[string]int{}, used: map[string]int64{},
		shards: map[string]int{}, docs: map[string]ledger.NodeDoc{}, checks: map[kind]int{},
	}
}

// see applies a batch of the watch, and returns the new promises: node UID by pod UID.
func (o *oracle) see(b ledger.EventBatch) map[string]string {
	fresh := map[string]string{}
	for len(b.Events) > 0 {
		revision := b.Events[0].ModRevision
		n := slices.IndexFunc(b.Events, func(e ledger.Event) bool { return e.ModRevision != revision })
		if n < 0 {
			n = len(b.Events)
		}
		o.revision(revision, b.Events[:n], fresh)
		b.Events = b.Events[n:]
	}
	return fresh
}

func (o *oracle) revision(revision int64, events []ledger.Event, fresh map[string]string) {
	writes := 0
	var touched []string
	for _, e := range events {
		if strings.HasPrefix(e.Key, ledger.PrefixNode) || strings.HasPrefix(e.Key, registry.PrefixGuard) ||
			strings.HasPrefix(e.Key, registry.PrefixTerm) {
			writes++
		}
		if !strings.HasPrefix(e.Key, ledger.PrefixNode) {
			continue
		}
		d, err := codec.DecodeNodeDoc(e.KV)
		if err != nil || e.Deleted {
			o.violated(revision, "document %s: deleted %v, %v", e.Key, e.Deleted, err)
			continue
		}
		touched = append(touched, o.document(revision, d, fresh)...)
	}
	if writes > 0 {
		o.cost.txns, o.cost.writes = o.cost.txns+1, o.cost.writes+writes
	}
	// All placements of one transaction take effect at once: the rules hold for it as a whole.
	for _, uid := range touched {
		o.check(revision, uid)
	}
}

// document compares a document with its last version.
func (o *oracle) document(revision int64, d ledger.NodeDoc, fresh map[string]string) (placed []string) {
	before := o.docs[d.NodeUID]
	o.docs[d.NodeUID] = d
	for _, v := range invariant.CheckSuccessor(before, d) {
		o.violated(revision, "%s", v)
	}
	for i := range before.Entries {
		e := &before.Entries[i]
		if _, still := d.Find(e.PodUID); e.Role == ledger.RoleReservation && !still && !o.bound(e.PodUID) {
			o.violated(revision, "the promise to %s is gone, and it is not bound", e.Name)
		}
	}
	for _, e := range d.Entries {
		if old, had := before.Find(e.PodUID); e.Role != ledger.RoleReservation || had && old.Token == e.Token {
			continue
		}
		if node, twice := o.placed[e.PodUID]; twice {
			o.violated(revision, "%s has a place on %s and gets one on %s", e.Name, node, d.NodeName)
			continue
		}
		o.placed[e.PodUID], fresh[e.PodUID] = d.NodeUID, d.NodeUID
		o.shards[e.Shard]++
		pod := o.pods[e.PodUID]
		o.used[d.NodeUID] += pod.cpu
		key := pod.key()
		if o.counts[key] == nil {
			o.counts[key] = map[string]int{}
		}
		o.counts[key][o.rack[d.NodeUID]]++
		placed = append(placed, e.PodUID)
	}
	return placed
}

// key of the count of a group; of a pair each half counts for itself.
func (m member) key() string { return string(m.kind) + "/" + m.group }

func (o *oracle) check(revision int64, uid string) {
	pod, node := o.pods[uid], o.placed[uid]
	rack := o.rack[node]
	o.checks[pod.kind]++
	if o.used[node] > o.room[node] {
		o.violated(revision, "node %s holds %dm of %dm", node, o.used[node], o.room[node])
	}
	here := o.counts[pod.key()]
	switch pod.kind {
	case spread:
		least := here[rack]
		for _, other := range o.racks() {
			least = min(least, here[other])
		}
		if here[rack]-least > maxSkew {
			o.violated(revision, "%s: %d pods in %s, %d in another rack", pod.group, here[rack], rack, least)
		}
	case apart:
		if here[rack] > 1 {
			o.violated(revision, "%s: %d pods in %s, which repel each other", pod.group, here[rack], rack)
		}
	case hermit, guest:
		hermits := o.counts[member{kind: hermit, group: pod.group}.key()]
		guests := o.counts[member{kind: guest, group: pod.group}.key()]
		if hermits[rack] > 0 && guests[rack] > 0 {
			o.violated(revision, "%s: %d hermits and %d guests in %s", pod.group, hermits[rack], guests[rack], rack)
		}
	case plain:
	}
}

func (o *oracle) racks() []string {
	var all []string
	for _, rack := range o.rack {
		all = append(all, rack)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (o *oracle) violated(revision int64, format string, args ...any) {
	o.violations = append(o.violations, fmt.Sprintf("revision %d: ", revision)+fmt.Sprintf(format, args...))
}

func (o *oracle) report(t *testing.T) {
	t.Helper()
	for i, violations := range o.violations {
		if i == 20 {
			t.Errorf("and %d more", len(o.violations)-i)
			break
		}
		t.Error(violations)
	}
	t.Logf("%d placements checked (%v), by shard %v", len(o.placed), o.checks, o.shards)
	t.Logf("%.2f transactions and %.2f writes a pod", float64(o.cost.txns)/float64(len(o.placed)),
		float64(o.cost.writes)/float64(len(o.placed)))
	if len(o.placed) < len(o.pods) {
		t.Errorf("%d of %d pods have a place", len(o.placed), len(o.pods))
	}
	if len(o.shards) < shards {
		t.Errorf("only %v placed anything: want all %d shards at it", o.shards, shards)
	}
}
