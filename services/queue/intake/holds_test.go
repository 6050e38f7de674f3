package intake

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
)

// factsOf returns a snapshot of pods on a node, by name and priority; those of priority 0 are leaving.
func factsOf(t *testing.T, priorities map[string]int32) *state.Snapshot {
	t.Helper()
	store, rv := state.New(), uint64(0)
	for name, priority := range priorities {
		rv++
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
			Spec:       corev1.PodSpec{NodeName: "n", Priority: &priority},
		}
		version(p, rv)
		if priority == 0 {
			now := metav1.Unix(1, 0)
			p.DeletionTimestamp = &now
		}
		raw, err := p.Marshal()
		must(t, err)
		_, err = store.Apply([]events.SequencedFact{{Sequence: rv, Fact: events.Fact{
			Kind: events.KindPod, Op: events.OpUpsert, UID: name, Namespace: "ns", Name: name, ResourceVersion: rv, Object: raw,
		}}})
		must(t, err)
	}
	return store.Snapshot()
}

// A pod that was protected from being a victim, is no longer, and stays is what counts as freed.
func TestWhomTheEndOfAPromiseFrees(t *testing.T) {
	facts := factsOf(t, map[string]int32{"v": 5, "leaving": 0})
	victim := func(uid string) ledger.Entry { return ledger.Entry{PodUID: uid, Role: ledger.RoleVictim} }
	place := func(s ledger.State) ledger.Entry {
		return ledger.Entry{PodUID: "v", Role: ledger.RoleReservation, State: s}
	}
	evicting := victim("v")
	evicting.State = ledger.Evicting
	for name, test := range map[string]struct {
		before, after []ledger.Entry
		want          []int32
	}{
		"a victim that is let go": {[]ledger.Entry{victim("v")}, nil, []int32{5}},
		"a keeper":                {[]ledger.Entry{{PodUID: "v", Role: ledger.RoleKeeper}}, nil, []int32{5}},
		"a place that is held no more but had": {
			[]ledger.Entry{place(ledger.Held)}, []ledger.Entry{place(ledger.Committed)}, []int32{5},
		},
		"a reservation that is handed over": {[]ledger.Entry{place(ledger.Committed)}, nil, nil},
		"an eviction that begins":           {[]ledger.Entry{victim("v")}, []ledger.Entry{evicting}, nil},
		"a victim that leaves":              {[]ledger.Entry{victim("leaving")}, nil, nil},
		"a victim that has gone":            {[]ledger.Entry{victim("gone")}, nil, nil},
		"a keeper that becomes a victim": {
			[]ledger.Entry{{PodUID: "v", Role: ledger.RoleKeeper}}, []ledger.Entry{victim("v")}, nil,
		},
	} {
		c := changeOf(t, test.before, test.after)
		if got := unprotectedIn(&c, facts); !slices.Equal(got, test.want) {
			t.Errorf("%s: frees %v, want %v", name, got, test.want)
		}
	}
}

// changeOf returns the change of a document as a view reports it.
func changeOf(t *testing.T, before, after []ledger.Entry) replica.DocChange {
	t.Helper()
	view := replica.NewView()
	var change replica.DocChange
	for i, entries := range [][]ledger.Entry{before, after} {
		value, err := codec.EncodeNodeDoc(ledger.NodeDoc{NodeUID: "n", NodeName: "node", Entries: entries})
		if err != nil {
			t.Fatal(err)
		}
		revision := int64(i + 2)
		kv := ledger.KV{Key: ledger.KeyNode("n"), Value: value, ModRevision: revision}
		changes, err := view.Apply(ledger.EventBatch{Revision: revision, Events: []ledger.Event{{KV: kv}}})
		if err != nil {
			t.Fatal(err)
		}
		change = changes.Docs[0]
	}
	return change
}

// A place that was kept and is gone leaves room, unless a pod has got it in the same revision.
func TestWhenAKeptPlaceLeavesRoom(t *testing.T) {
	kept := func(token ledger.Token) ledger.Entry {
		return ledger.Entry{PodUID: "v", Role: ledger.RoleMove, Token: token}
	}
	placed := ledger.Entry{PodUID: "r", Role: ledger.RoleReservation, State: ledger.Committed}
	for name, test := range map[string]struct {
		before, after []ledger.Entry
		want          bool
	}{
		"given up":                       {[]ledger.Entry{kept(1)}, nil, true},
		"taken over":                     {[]ledger.Entry{kept(1)}, []ledger.Entry{placed}, false},
		"one given up beside another":    {[]ledger.Entry{kept(1), kept(2)}, []ledger.Entry{kept(2)}, true},
		"one of two taken over":          {[]ledger.Entry{kept(1), kept(2)}, []ledger.Entry{kept(2), placed}, false},
		"given up beside one who stands": {[]ledger.Entry{kept(1), placed}, []ledger.Entry{placed}, true},
		"kept":                           {nil, []ledger.Entry{kept(1)}, false},
		"a reservation that is gone":     {[]ledger.Entry{placed}, nil, false},
	} {
		c := changeOf(t, test.before, test.after)
		if got := freesPlace(&c); got != test.want {
			t.Errorf("%s: leaves room: %t, want %t", name, got, test.want)
		}
	}
}
