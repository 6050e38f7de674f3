package membership

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/ledger"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

func drawMembers(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.StringMatching(`scheduler-[0-9]-[a-z0-9]{5}`), 1, 12, rapid.ID).Draw(t, "members")
}

func TestAssignGivesEveryPartitionToOneMember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t)
		owner := map[int32]string{}
		for m, ps := range Assign(members, ledger.Partitions) {
			if !slices.Contains(members, m) || !slices.IsSorted(ps) {
				t.Fatalf("member %q gets %v", m, ps)
			}
			for _, p := range ps {
				if other, twice := owner[p]; twice {
					t.Fatalf("partition %d goes to %s and %s", p, other, m)
				}
				owner[p] = m
			}
		}
		if len(owner) != ledger.Partitions {
			t.Fatalf("%d of %d partitions are assigned", len(owner), ledger.Partitions)
		}
		shuffled := rapid.Permutation(members).Draw(t, "order")
		for p, m := range owner {
			if got := Home(shuffled, fmt.Sprint(p)); got != m {
				t.Fatalf("partition %d goes to %s or %s, by the order of members", p, m, got)
			}
		}
	})
}

func TestAssignMovesOnlyTheShareOfWhoComesOrGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t)
		without := members[1:]
		before, after := Assign(without, ledger.Partitions), Assign(members, ledger.Partitions)
		for _, m := range without {
			for _, p := range after[m] {
				if !slices.Contains(before[m], p) {
					t.Fatalf("partition %d moved between members that stayed, to %s", p, m)
				}
			}
		}
	})
}

func TestAssignIsEvenEnough(t *testing.T) {
	for n := 2; n <= 8; n++ {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf("scheduler-%d-abcde", i))
		}
		for m, ps := range Assign(members, ledger.Partitions) {
			if mean := ledger.Partitions / n; len(ps) < mean/2 || len(ps) > 2*mean {
				t.Errorf("%d members: %s gets %d partitions, want about %d", n, m, len(ps), mean)
			}
		}
	}
}

// TestHashesStayAsTheyAre pins the hashes: they are part of the format, and members of two versions must agree.
func TestHashesStayAsTheyAre(t *testing.T) {
	const uid = "0f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f"
	got := []any{
		ledger.PartitionOf(uid), BinderPartition(uid), Home([]string{"a", "b", "c"}, uid),
		len(Assign([]string{"a", "b", "c"}, ledger.Partitions)["a"]),
	}
	want := []any{int32(32), int32(32), "b", 78}
	if !slices.Equal(got, want) {
		t.Errorf("hashes: %v, want %v", got, want)
	}
}

func TestEveryMemberIsHomeOfNodes(t *testing.T) {
	members := []string{"a", "b", "c"}
	homes := map[string]int{}
	for i := range 300 {
		homes[Home(members, fmt.Sprintf("node-%d", i))]++
	}
	for _, m := range members {
		if homes[m] < 50 {
			t.Errorf("%s is home of %d of 300 nodes", m, homes[m])
		}
	}
	if len(homes) != len(members) {
		t.Errorf("homes are %v, members are %v", homes, members)
	}
	if home := Home(nil, "x"); home != "" {
		t.Errorf("without members the home is %q", home)
	}
}

func TestPlanPartitions(t *testing.T) {
	members := []string{"a", "b"}
	desired := Desired(members, nil, "a")
	other := Desired(members, nil, "b")
	holders := map[int32]Holder{
		desired[0]: {Member: "a", Epoch: 5},
		desired[1]: {Member: "b", Epoch: 6},
		other[0]:   {Member: "a", Epoch: 7},
		other[1]:   {Member: "b", Epoch: 8},
	}
	take, release := PlanPartitions(Snapshot{Holders: holders}, members, "a")
	if !slices.Equal(take, desired[2:]) {
		t.Errorf("takes %v, want the vacant ones of its own: %v", take, desired[2:])
	}
	if !slices.Equal(release, other[:1]) {
		t.Errorf("releases %v, want %v", release, other[:1])
	}
	// a is wanted for one of b's partitions, and b for one of a's; a wanted member that is gone does not count.
	wanted := map[int32]string{other[2]: "a", desired[0]: "b", desired[2]: "gone"}
	take, release = PlanPartitions(Snapshot{Holders: holders, Wanted: wanted}, members, "a")
	want := slices.Sorted(slices.Values(append(slices.Clone(desired[2:]), other[2])))
	if !slices.Equal(take, want) {
		t.Errorf("takes %v, want %v", take, want)
	}
	want = slices.Sorted(slices.Values([]int32{other[0], desired[0]}))
	if !slices.Equal(release, want) {
		t.Errorf("releases %v, want %v", release, want)
	}
	if got := Desired(nil, nil, "a"); len(got) != ledger.Partitions {
		t.Errorf("alone, a desires %d partitions", len(got))
	}
}
