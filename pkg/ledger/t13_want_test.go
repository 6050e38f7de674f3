package ledger

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWantPartitionsNamesAndForgets(t *testing.T) {
	value, err := EncodeOwner(Owner{Member: "s2"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := WantPartitions(map[int32]string{12: "s2", 3: "", 7: "s2"})
	want := Txn{
		Puts:    []Put{{Key: "want/007", Value: value}, {Key: "want/012", Value: value}},
		Deletes: []string{"want/003"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	all := map[int32]string{}
	for p := range int32(Partitions) {
		all[p] = "s2"
	}
	for _, err := range []error{
		second(WantPartitions(map[int32]string{Partitions: "s2"})), second(WantPartitions(map[int32]string{-1: "s2"})),
		second(WantPartitions(all)), // more than one transaction accepts
	} {
		if err == nil {
			t.Error("a malformed transaction was built")
		}
	}
}

func TestViewTellsWhoShouldHoldPartitions(t *testing.T) {
	v := NewView()
	named := func(p int32, member string, revision int64) Event {
		value, err := EncodeOwner(Owner{Member: member})
		if err != nil {
			t.Fatal(err)
		}
		return Event{KV: KV{Key: KeyWant(p), Value: value, CreateRevision: 2, ModRevision: revision}}
	}
	wanted := func(want map[int32]string) {
		t.Helper()
		if diff := cmp.Diff(want, maps.Collect(v.Wanted())); diff != "" {
			t.Errorf("wanted (-want +got):\n%s", diff)
		}
	}
	c := apply(t, v, 3, named(9, "s1", 2), named(4, "s2", 3))
	if !slices.Equal(c.Partitions, []int32{4, 9}) {
		t.Errorf("changes %+v, want partitions 4 and 9", c)
	}
	wanted(map[int32]string{9: "s1", 4: "s2"})
	if c := apply(t, v, 4, named(9, "s0", 1)); len(c.Partitions) != 0 {
		t.Errorf("an older value changed %+v", c)
	}
	if _, _, held := v.Owner(9); held {
		t.Error("who is wanted holds the partition already")
	}
	gone := Event{KV: KV{Key: KeyWant(9), ModRevision: 5}, Deleted: true}
	if c := apply(t, v, 5, gone, named(4, "s1", 5)); !slices.Equal(c.Partitions, []int32{4, 9}) {
		t.Errorf("changes %+v, want partitions 4 and 9", c)
	}
	wanted(map[int32]string{4: "s1"})
	if p, ok := ParseWant(KeyWant(255)); p != 255 || !ok {
		t.Errorf("key of 255 is read as %d, %v", p, ok)
	}
	if _, ok := ParseWant("want/256"); ok {
		t.Error("want/256 is no key")
	}
}
