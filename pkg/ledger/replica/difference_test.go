package replica_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

// rewritten is a store whose documents are written again and again, and a view that follows it.
type rewritten struct {
	t        *rapid.T
	view     *replica.View
	revision int64
	docs     map[string]ledger.KV
	// pending are the changes that the watch has yet to deliver.
	pending []ledger.Event
}

var (
	rewrittenPods  = []string{"p0", "p1", "p2", "p3"}
	rewrittenNodes = []string{"n0", "n1", "n2"}
	rewrittenPlans = []string{"", ledger.PlanID(1, false), ledger.PlanID(2, false)}
)

// draw returns the next revision of a node's document, as a member would build it.
func (w *rewritten) draw() ledger.NodeDoc {
	node := rapid.SampledFrom(rewrittenNodes).Draw(w.t, "node")
	d := ledger.NodeDoc{NodeUID: node, NodeName: "name-of-" + node}
	if kv, known := w.docs[ledger.KeyNode(node)]; known {
		d = decodeWhole(w.t, kv)
	}
	d = d.Clone()
	for range rapid.IntRange(0, 3).Draw(w.t, "changes") {
		at := rapid.IntRange(0, max(len(d.Entries)-1, 0)).Draw(w.t, "at")
		switch what := rapid.IntRange(0, 6).Draw(w.t, "what"); {
		case what < 3 || len(d.Entries) == 0:
			d.Entries = append(d.Entries, w.entry(node))
		case what == 3:
			d.Entries = slices.Delete(d.Entries, at, at+1)
		case what == 4:
			d.Entries[at].State = ledger.Fencing
		case what == 5:
			d.Entries[0], d.Entries[at] = d.Entries[at], d.Entries[0]
		default:
			d.Raise(ledger.KindPod, rapid.Uint64Range(1, 9).Draw(w.t, "hw"))
		}
	}
	if rapid.IntRange(0, 19).Draw(w.t, "renamed") == 0 {
		d.NodeName += "'"
	}
	return d
}

// entry draws an entry. A pod is claimed as a victim on one node only, because a view shows one claim of a pod.
func (w *rewritten) entry(node string) ledger.Entry {
	e := ledger.Entry{
		PodUID: rapid.SampledFrom(rewrittenPods).Draw(w.t, "pod"), Namespace: "shop", Token: 1, PodRV: 100,
		Role:     ledger.Role(rapid.IntRange(int(ledger.RoleReservation), int(ledger.RoleMove)).Draw(w.t, "role")),
		Requests: map[string]int64{"cpu": 1}, Plan: rapid.SampledFrom(rewrittenPlans).Draw(w.t, "plan"),
	}
	e.PodRV += rapid.Uint64Range(0, 9).Draw(w.t, "rv")
	if e.Role == ledger.RoleReservation {
		e.State = ledger.State(rapid.IntRange(int(ledger.Held), int(ledger.Fencing)).Draw(w.t, "state"))
	}
	if e.Role == ledger.RoleVictim {
		e.PodUID = victimOn(node)
	}
	return e
}

func victimOn(node string) string { return "victim-on-" + node }

// commit writes a document, and returns the transaction and its result.
func (w *rewritten) commit(d ledger.NodeDoc) (ledger.Txn, ledger.TxnResult) {
	txn, err := txns.Replace(d)
	if err != nil {
		w.t.Fatal(err)
	}
	w.revision++
	for _, p := range txn.Puts {
		if strings.HasPrefix(p.Key, ledger.PrefixNode) {
			w.docs[p.Key] = ledger.KV{Key: p.Key, Value: p.Value, ModRevision: w.revision}
			w.pending = append(w.pending, ledger.Event{KV: w.docs[p.Key]})
		}
	}
	return txn, ledger.TxnResult{Succeeded: true, Revision: w.revision}
}

func decodeWhole(t *rapid.T, kv ledger.KV) ledger.NodeDoc {
	d, err := codec.DecodeNodeDoc(kv)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// check compares what a call has reported with the documents before and after it.
func (w *rewritten) check(before map[string]ledger.NodeDoc, changes replica.Changes, err error) {
	if err != nil {
		w.t.Fatal(err)
	}
	pods := map[string]struct{}{}
	for i := range changes.Docs {
		c := &changes.Docs[i]
		node := max(c.Before.NodeUID, c.After.NodeUID)
		if diff := cmp.Diff(before[node], c.Before); diff != "" {
			w.t.Fatalf("document before the change (-was +reported):\n%s", diff)
		}
		before[node] = c.After
		removed, added := entriesOf(c.Before.Entries), entriesOf(c.After.Entries)
		if c.Before.NodeName == c.After.NodeName {
			removed, added = without(removed, added), without(added, removed)
		}
		if !maps.Equal(removed, entriesAt(c.Removed)) || !maps.Equal(added, entriesAt(c.Added)) {
			w.t.Fatalf("removed %v and added %v, want %v and %v",
				entriesAt(c.Removed), entriesAt(c.Added), removed, added)
		}
		for _, e := range slices.Concat(c.Removed, c.Added) {
			if e.Role == ledger.RoleReservation {
				pods[e.PodUID] = struct{}{}
			}
		}
	}
	if want := slices.Sorted(maps.Keys(pods)); !slices.Equal(want, changes.PodUIDs) {
		w.t.Fatalf("pods %v, want %v", changes.PodUIDs, want)
	}
}

// entriesOf counts entries by their content, entriesAt does so for pointers, and without subtracts.
func entriesOf(entries []ledger.Entry) map[string]int {
	count := map[string]int{}
	for i := range entries {
		count[fmt.Sprintf("%+v", entries[i])]++
	}
	return count
}

func entriesAt(entries []*ledger.Entry) map[string]int {
	count := map[string]int{}
	for _, e := range entries {
		count[fmt.Sprintf("%+v", *e)]++
	}
	return count
}

func without(of, other map[string]int) map[string]int {
	out := map[string]int{}
	for text, n := range of {
		if rest := n - other[text]; rest > 0 {
			out[text] = rest
		}
	}
	return out
}

// documents returns those of the view, by node.
func (w *rewritten) documents() map[string]ledger.NodeDoc {
	docs := map[string]ledger.NodeDoc{}
	for d := range w.view.Docs() {
		docs[d.NodeUID] = d
	}
	return docs
}

// compare compares the view with one that reads all documents at once.
func (w *rewritten) compare(view *replica.View) {
	fresh := replica.NewView()
	if err := fresh.Reset(slices.Collect(maps.Values(w.docs)), w.revision); err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(snapshotOf(fresh), snapshotOf(view)); diff != "" {
		w.t.Fatalf("view (-read at once +followed):\n%s", diff)
	}
	for d := range view.Docs() {
		whole := decodeWhole(w.t, w.docs[ledger.KeyNode(d.NodeUID)])
		if d.Older = nil; !cmp.Equal(whole, d) {
			w.t.Fatalf("document (-decoded +followed):\n%s", cmp.Diff(whole, d))
		}
	}
}

// snapshotOf returns what the indexes of a view say that follow from its documents.
func snapshotOf(v *replica.View) map[string]any {
	out := map[string]any{"reserved": slices.Sorted(v.Reserved()), "victims": v.Plans().HasVictimsIn("shop")}
	for _, pod := range rewrittenPods {
		var nodes []string
		for d := range v.Reservations(pod) {
			nodes = append(nodes, d.NodeUID)
		}
		slices.Sort(nodes)
		d, e, ok := v.Entry(pod)
		out[pod] = []any{nodes, d.NodeUID, e, ok}
	}
	for _, plan := range rewrittenPlans[1:] {
		_, _, owned := v.Plans().Owner(plan)
		out[plan] = []any{v.Plans().Docs(plan), owned}
	}
	for _, node := range rewrittenNodes {
		_, _, claimed := v.Plans().Victim(victimOn(node))
		out[node] = []any{claimed, v.Names().Docs("name-of-" + node), v.Names().Docs("name-of-" + node + "'")}
	}
	return out
}

// A view that follows documents by difference is the one that decodes them as a whole, whichever way a revision comes
// in first: by the watch, as the member's own transaction has built it, or with a lost compare. What it reports as
// changed is what differs.
func TestFollowsDocumentsByDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &rewritten{t: t, view: replica.NewView(), revision: 1, docs: map[string]ledger.KV{}}
		t.Repeat(map[string]func(*rapid.T){
			"written by another member": func(*rapid.T) { w.commit(w.draw()) },
			"written by this member": func(*rapid.T) {
				before := w.documents()
				changes, err := w.view.LearnOwn(w.commit(w.draw()))
				w.check(before, changes, err)
			},
			"shown by a lost compare": func(t *rapid.T) {
				kv, known := w.docs[ledger.KeyNode(rapid.SampledFrom(rewrittenNodes).Draw(t, "node"))]
				if !known {
					return
				}
				before := w.documents()
				changes, err := w.view.Learn([]ledger.KV{kv})
				w.check(before, changes, err)
			},
			"deleted": func(t *rapid.T) {
				key := ledger.KeyNode(rapid.SampledFrom(rewrittenNodes).Draw(t, "node"))
				if _, known := w.docs[key]; known {
					delete(w.docs, key)
					w.revision++
					gone := ledger.KV{Key: key, ModRevision: w.revision}
					w.pending = append(w.pending, ledger.Event{Deleted: true, KV: gone})
				}
			},
			"watch": func(*rapid.T) {
				before := w.documents()
				changes, err := w.view.Apply(ledger.EventBatch{Revision: w.revision, Events: w.pending})
				w.pending = nil
				w.check(before, changes, err)
				w.compare(w.view)
				w.compare(w.view.Clone())
			},
			"list": func(*rapid.T) {
				b := replica.Batch{Reset: true, KVs: slices.Collect(maps.Values(w.docs)),
					Events: ledger.EventBatch{Revision: w.revision}}
				w.pending = nil
				if _, err := w.view.Fold(b); err != nil {
					t.Fatal(err)
				}
				w.compare(w.view)
			},
			"old list": func(*rapid.T) {
				// It was read before the last transaction of this member, and is folded in after its answer.
				b := replica.Batch{Reset: true, KVs: slices.Collect(maps.Values(w.docs)),
					Events: ledger.EventBatch{Revision: w.revision}}
				own := w.draw()
				if _, err := w.view.LearnOwn(w.commit(own)); err != nil {
					t.Fatal(err)
				}
				w.pending = w.pending[len(w.pending)-1:]
				if _, err := w.view.Fold(b); err != nil {
					t.Fatal(err)
				}
				w.compare(w.view)
			},
		})
	})
}
