package bind

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
)

// newest knows the revisions of documents, as the binder's store of documents does.
type newest map[string]ledger.NodeDoc

func (n newest) Get(nodeUID string) (ledger.NodeDoc, bool) {
	d, ok := n[nodeUID]
	return d, ok
}

func (n newest) Learn(d ledger.NodeDoc) bool {
	if known, ok := n[d.NodeUID]; ok && known.Revision >= d.Revision {
		return false
	}
	n[d.NodeUID] = d
	return true
}

func (n newest) Forget(nodeUID string, by int64) bool {
	d, ok := n[nodeUID]
	if !ok || d.Revision > by {
		return false
	}
	delete(n, nodeUID)
	return true
}

// described lists what reservations are known, and which of them were touched.
func described(b *Reservations, touched Touched) []string {
	var out []string
	for key, r := range b.all {
		out = append(out, fmt.Sprintf("%v on %s: %+v, waits %t", key, r.nodeUID, r.entry, b.waiting[key] != nil))
	}
	for node, d := range b.ofNode {
		out = append(out, fmt.Sprintf("%s: %v", node, d.keys))
	}
	slices.Sort(out)
	for _, r := range touched {
		out = append(out, fmt.Sprintf("touched %v", r.key))
	}
	return out
}

// The reservations that follow the changes of documents are those that look at every entry of every document, also
// where a read has shown a document ahead of the watch, or the watch delivers several revisions at once.
func TestFollowsChangesLikeWholeDocuments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		newSet := func() *Reservations {
			base := basis.New("binder-0", basis.DefaultLimits(), nil)
			base.Now = time.Unix(1000, 0)
			return New(base, newest{})
		}
		byChange, whole := newSet(), newSet()
		view := replica.NewView()
		docs := map[string]ledger.NodeDoc{}
		var pending []ledger.Event
		revision := int64(1)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			node := rapid.SampledFrom([]string{"n0", "n1"}).Draw(t, "node")
			var changed, all Touched
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 5:
				revision++
				docs[node] = nextDoc(t, docs[node], node, revision)
				pending = append(pending, ledger.Event{KV: stored(t, docs[node])})
			case what == 5:
				if d, known := docs[node]; known { // a read shows it ahead of the watch
					changed, all = byChange.Learn(d), whole.Learn(d)
				}
			case what == 6:
				if _, known := docs[node]; known {
					revision++
					delete(docs, node)
					gone := ledger.KV{Key: ledger.KeyNode(node), ModRevision: revision}
					pending = append(pending, ledger.Event{KV: gone, Deleted: true})
				}
			default:
				changes, err := view.Apply(ledger.EventBatch{Revision: revision, Events: pending})
				if err != nil {
					t.Fatal(err)
				}
				pending = nil
				for i := range changes.Docs {
					a, b := applyBoth(t, byChange, whole, &changes.Docs[i])
					changed, all = append(changed, a...), append(all, b...)
				}
			}
			if diff := cmp.Diff(described(whole, all), described(byChange, changed)); diff != "" {
				t.Fatalf("reservations (-whole documents +changes):\n%s", diff)
			}
		}
	})
}

// applyBoth applies a change of the view to both, or skips it: as when a later change of the batch follows.
func applyBoth(t *rapid.T, byChange, whole *Reservations, c *replica.DocChange) (changed, all Touched) {
	switch {
	case c.After.NodeUID == "":
		byChange.Forget(c.Before.NodeUID, c.Before.Revision+1)
		whole.Forget(c.Before.NodeUID, c.Before.Revision+1)
	case rapid.IntRange(0, 3).Draw(t, "skipped") > 0:
		return byChange.Follow(c), whole.Learn(c.After)
	}
	return nil, nil
}

// nextDoc draws the next revision of a document. Two attempts at one pod may be in it, an attempt is in one document
// only, and once.
func nextDoc(t *rapid.T, d ledger.NodeDoc, node string, revision int64) ledger.NodeDoc {
	d = d.Clone()
	d.NodeUID, d.NodeName = node, node
	d.Revision = revision
	for range rapid.IntRange(0, 2).Draw(t, "changes") {
		at := rapid.IntRange(0, max(len(d.Entries)-1, 0)).Draw(t, "at")
		switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
		case what < 3 || len(d.Entries) == 0:
			e := ledger.Entry{
				PodUID: fmt.Sprint("p", rapid.IntRange(0, 4).Draw(t, "pod")), Role: ledger.RoleReservation, PodRV: 5,
				State: ledger.Committed, Token: ledger.Token(rapid.Uint64Range(1, 2).Draw(t, "token")<<8 | uint64(node[1])),
			}
			if !slices.ContainsFunc(d.Entries, func(o ledger.Entry) bool { return o.PodUID == e.PodUID && o.Token == e.Token }) {
				d.Entries = append(d.Entries, e)
			}
		case what == 3:
			d.Entries = slices.Delete(d.Entries, at, at+1)
		case what == 4:
			d.Entries[at].State = ledger.Fencing
		default:
			d.Entries[at].PodRV++
		}
	}
	return d
}

func stored(t *rapid.T, d ledger.NodeDoc) ledger.KV {
	value, err := codec.EncodeNodeDoc(d)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.KV{Key: ledger.KeyNode(d.NodeUID), Value: value, ModRevision: d.Revision}
}
