package replica_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
)

func TestWantPartitionsNamesAndForgets(t *testing.T) {
	value, err := roster.EncodeOwner(roster.Owner{Member: "s2"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := roster.WantPartitions(map[int32]string{12: "s2", 3: "", 7: "s2"})
	want := ledger.Txn{
		Puts:    []ledger.Put{{Key: "want/007", Value: value}, {Key: "want/012", Value: value}},
		Deletes: []string{"want/003"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	all := map[int32]string{}
	for p := range int32(ledger.Partitions) {
		all[p] = "s2"
	}
	for _, err := range []error{
		sampletest.ErrorOf(roster.WantPartitions(map[int32]string{ledger.Partitions: "s2"})),
		sampletest.ErrorOf(roster.WantPartitions(map[int32]string{-1: "s2"})),
		sampletest.ErrorOf(roster.WantPartitions(all)), // more than one transaction accepts
	} {
		if err == nil {
			t.Error("a malformed transaction was built")
		}
	}
}

func TestViewNamesWantedOwners(t *testing.T) {
	v := replica.NewView()
	named := func(p int32, member string, revision int64) ledger.Event {
		value, err := roster.EncodeOwner(roster.Owner{Member: member})
		if err != nil {
			t.Fatal(err)
		}
		return ledger.Event{KV: ledger.KV{Key: roster.KeyWant(p), Value: value, CreateRevision: 2, ModRevision: revision}}
	}
	wanted := func(want map[int32]string) {
		t.Helper()
		if diff := cmp.Diff(want, maps.Collect(v.Roster().Wanted())); diff != "" {
			t.Errorf("wanted (-want +got):\n%s", diff)
		}
	}
	c := sampletest.Apply(t, v, 3, named(9, "s1", 2), named(4, "s2", 3))
	if !slices.Equal(c.Partitions, []int32{4, 9}) {
		t.Errorf("changes %+v, want partitions 4 and 9", c)
	}
	wanted(map[int32]string{9: "s1", 4: "s2"})
	if c := sampletest.Apply(t, v, 4, named(9, "s0", 1)); len(c.Partitions) != 0 {
		t.Errorf("an older value changed %+v", c)
	}
	if _, _, held := v.Roster().Owner(9); held {
		t.Error("who is wanted holds the partition already")
	}
	gone := ledger.Event{KV: ledger.KV{Key: roster.KeyWant(9), ModRevision: 5}, Deleted: true}
	if c := sampletest.Apply(t, v, 5, gone, named(4, "s1", 5)); !slices.Equal(c.Partitions, []int32{4, 9}) {
		t.Errorf("changes %+v, want partitions 4 and 9", c)
	}
	wanted(map[int32]string{4: "s1"})
	if p, ok := roster.ParseWant(roster.KeyWant(255)); p != 255 || !ok {
		t.Errorf("key of 255 is read as %d, %v", p, ok)
	}
	if _, ok := roster.ParseWant("want/256"); ok {
		t.Error("want/256 is no key")
	}
}
