package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

func own(t *testing.T, h Harness) {
	a, b := openSession(t, h.Store), openSession(t, h.Store)
	take := func(member string, s ledger.Session) ledger.Txn {
		txn, err := roster.TakePartition(7, roster.Owner{Member: member}, s.Lease())
		if err != nil {
			t.Fatal(err)
		}
		return txn
	}
	epoch := mustCommit(t, h.Store, take("a", a))
	if r := commit(t, h.Store, take("b", b)); r.Succeeded {
		t.Fatal("an owned partition was taken")
	}
	h.Expire(t, a.Lease())
	gone(t, h.Store, roster.KeyOwn(7), epoch)
	next := mustCommit(t, h.Store, take("b", b))
	if next <= epoch {
		t.Errorf("epoch %d follows %d", next, epoch)
	}
	stale, err := roster.ReleasePartition(7, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if r := commit(t, h.Store, stale); r.Succeeded {
		t.Error("a partition was released under a former epoch")
	}
	release, err := roster.ReleasePartition(7, next)
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Store, release)
	mustCommit(t, h.Store, take("b", b))
}

// wantMembers: wanted partitions are visible to all members, outlive both the wanted member and the current holder,
// and grant nothing.
func wantMembers(t *testing.T, h Harness) {
	want := func(members map[int32]string) int64 {
		txn, err := roster.WantPartitions(members)
		if err != nil {
			t.Fatal(err)
		}
		return mustCommit(t, h.Store, txn)
	}
	check := func(want map[int32]string) {
		t.Helper()
		kvs, revision := list(t, h.Store, "")
		v := replica.NewView()
		if err := v.Reset(kvs, revision); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, maps.Collect(v.Roster().Wanted())); diff != "" {
			t.Errorf("wanted (-want +got):\n%s", diff)
		}
	}
	want(map[int32]string{7: "b", 8: "b"})
	check(map[int32]string{7: "b", 8: "b"})
	a := openSession(t, h.Store)
	take, err := roster.TakePartition(7, roster.Owner{Member: "a"}, a.Lease())
	if err != nil {
		t.Fatal(err)
	}
	epoch := mustCommit(t, h.Store, take)
	want(map[int32]string{7: "c", 8: ""})
	check(map[int32]string{7: "c"})
	h.Expire(t, a.Lease())
	gone(t, h.Store, roster.KeyOwn(7), epoch)
	check(map[int32]string{7: "c"})
	want(map[int32]string{7: "", 200: ""})
	check(map[int32]string{})
}

// follow compares a view fed by Follow (and, ahead of it, by Learn) with one made from a listing.
func follow(t *testing.T, h Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan replica.Batch)
	done := make(chan error, 1)
	go func() { done <- replica.Follow(ctx, h.Store, out) }()
	v := replica.NewView()
	foldUpTo(t, v, out, 1)

	s := newShard(t, h, "s")
	var learned []ledger.KV
	for i := range 30 {
		uid := fmt.Sprintf("n%d", i%4)
		d, ok := v.Doc(uid)
		if !ok {
			d = node(uid)
		}
		txn := txnOf(t, s.batch(t, d))
		r := commit(t, h.Store, txn)
		if !r.Succeeded {
			t.Fatalf("round %d: a learned document is stale: %+v", i, r.Current)
		}
		learned = txn.Committed(r)
		if _, err := v.Learn(learned); err != nil {
			t.Fatal(err)
		}
	}
	h.Expire(t, s.session.Lease())
	gone(t, h.Store, roster.KeyOwn(255), s.epochs[255])
	kvs, revision := list(t, h.Store, "")
	foldUpTo(t, v, out, revision)
	if changes, err := v.Learn(learned); err != nil || len(changes.Docs) != 0 {
		t.Errorf("learning what the watch has told: %+v, %v", changes, err)
	}

	want := replica.NewView()
	if err := want.Reset(kvs, revision); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(viewContent(want), viewContent(v)); diff != "" {
		t.Errorf("listed and followed pictures differ (-listed +followed):\n%s", diff)
	}
	if n := len(maps.Collect(v.Roster().Owners())); n != 0 {
		t.Errorf("%d partitions are owned by an expired session", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("follow: %v", err)
	}
}

func foldUpTo(t *testing.T, v *replica.View, out <-chan replica.Batch, revision int64) {
	t.Helper()
	timeout := time.After(patience)
	for v.Revision() < revision {
		select {
		case b := <-out:
			if _, err := v.Fold(b); err != nil {
				t.Fatal(err)
			}
		case <-timeout:
			t.Fatalf("the picture stands at %d, want %d", v.Revision(), revision)
		}
	}
}

func viewContent(v *replica.View) map[string]any {
	docs := map[string]ledger.NodeDoc{}
	at := map[string]string{}
	for d := range v.Docs() {
		docs[d.NodeUID] = d
		for _, e := range d.Entries {
			found, _, _ := v.Entry(e.PodUID)
			at[e.PodUID] = found.NodeUID
		}
	}
	guards := map[string]int64{}
	for id := range v.Terms().All() {
		for _, key := range v.Terms().Guards(id) {
			guards[key], _ = v.Terms().Guard(key)
		}
	}
	return map[string]any{
		"docs": docs, "at": at, "owners": maps.Collect(v.Roster().Owners()),
		"reserved": slices.Sorted(v.Reserved()), "registry": v.Terms().Registry(),
		"terms": maps.Collect(v.Terms().All()), "guards": guards,
	}
}

func claim(t *testing.T, h Harness) {
	for range 2 {
		if _, err := identity.BindCluster(within(t), h.Store, "cluster-1"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := identity.BindCluster(within(t), h.Store, "cluster-2")
	var mismatch *identity.ClusterMismatchError
	if !errors.As(err, &mismatch) || mismatch.Ledger != "cluster-1" || mismatch.Cluster != "cluster-2" {
		t.Errorf("second cluster: %v, want a mismatch naming both", err)
	}
	if _, err := identity.BindCluster(within(t), h.Store, ""); err == nil {
		t.Error("a cluster without UID claimed the ledger")
	}
}
