package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/explain"
)

// waitingGang is a gang of 14 pods, of which one is bound, that needs 7 more in one of four racks.
func waitingGang(now time.Time) explain.Gang {
	g := explain.Gang{
		GangView: explain.GangView{
			Namespace: "ml", Name: "train", UID: "u1", MinCount: 8, Topology: []string{"example.com/rack"}, Need: 7,
			Condition: "False, Unschedulable: pod group is unschedulable",
			Domains: []explain.GangDomain{
				{Name: "r4", Nodes: 3, Slots: 6}, {Name: "r3", Nodes: 3, Slots: 4}, {Name: "r2", Nodes: 2, Slots: 2},
				{Name: "r1", Nodes: 1, Slots: 0},
			},
			DomainCount: 4, Counts: map[string]int{explain.MemberBound: 1, explain.MemberWaiting: 13},
		},
		Member: "scheduler-1",
		Queue: &explain.QueueAnswer{
			Known: true, Where: explain.Where{Namespace: "ml", Name: "train-1"}, Pool: "parked",
			Reason: "rejected by GangScheduling: 0/4 placements are available", Since: now.Add(-time.Minute),
			Wakes: []explain.Wake{{Plugin: "NodeResourcesFit", Events: []string{"NodeAdd", "AssignedPodDelete"}}},
		},
	}
	for i := range 14 {
		m := explain.GangMember{Pod: fmt.Sprintf("ml/train-%d", i), State: explain.MemberWaiting}
		if i == 0 {
			m.State, m.Node = explain.MemberBound, "n1"
		}
		g.Members = append(g.Members, m)
	}
	return g
}

func TestTextOfAGangThatWaits(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	g := waitingGang(now)
	var out strings.Builder
	if err := g.Text(&out, now, false); err != nil {
		t.Fatal(err)
	}
	want := `gang ml/train  uid u1  minCount 8, all in one example.com/rack, as scheduler-1 counts it
14 pods: 1 bound, 13 waiting
7 of the waiting pods must find a node together
condition: False, Unschedulable: pod group is unschedulable
queue: ml/train-1 stands for the gang, in pool parked for 60s
  rejected by GangScheduling: 0/4 placements are available
  woken for NodeResourcesFit by: NodeAdd, AssignedPodDelete
domains: 4, by resources alone
  6 of the smallest waiting pods fit in r4, 3 nodes
  4 of the smallest waiting pods fit in r3, 3 nodes
  2 of the smallest waiting pods fit in r2, 2 nodes
MEMBER       STATE    NODE  MESSAGE
ml/train-0   bound    n1    -
`
	if got := out.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "and 2 more; -o wide shows more\n") {
		t.Errorf("text (-want +got):\n%s", cmp.Diff(want, got))
	}
	out.Reset()
	if err := g.Text(&out, now, true); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "ml/train-13") || !strings.Contains(got, "fit in r1, 1 nodes") {
		t.Errorf("the wide text is cut:\n%s", got)
	}
}

func TestTextOfOtherGroups(t *testing.T) {
	for name, test := range map[string]struct {
		g    explain.Gang
		want []string
	}{
		"without an object": {
			explain.Gang{GangView: explain.GangView{
				Namespace: "ml", Name: "x", Members: []explain.GangMember{{Pod: "ml/p", State: explain.MemberGated}},
				Counts: map[string]int{explain.MemberGated: 1},
			}},
			[]string{"gang ml/x  no PodGroup of this name exists", "1 pods: 1 gated", "queue: no leading queue answered"},
		},
		"without pods": {
			explain.Gang{GangView: explain.GangView{Namespace: "ml", Name: "x", UID: "u", MinCount: 3}},
			[]string{"minCount 3", "no pods"},
		},
		"gated": {
			explain.Gang{GangView: explain.GangView{Namespace: "ml", Name: "x", UID: "u"}, Queue: &explain.QueueAnswer{
				Where: explain.Where{Namespace: "ml", Name: "p"}, Pool: "gated", Reason: "waits", Since: time.Now(),
			}},
			[]string{"queue: ml/p is in pool gated for 0s\n  waits"},
		},
		"basic": {
			explain.Gang{GangView: explain.GangView{
				Namespace: "ml", Name: "x", UID: "u", Need: 1, Members: []explain.GangMember{{State: explain.MemberWaiting}},
				Domains: []explain.GangDomain{{Nodes: 9, Slots: 4}}, DomainCount: 1,
			}},
			[]string{"basic: its pods are placed one by one", "room: 4 of the smallest waiting pods fit on 9 nodes"},
		},
		"in two domains": {
			explain.Gang{GangView: explain.GangView{Namespace: "ml", Name: "x", UID: "u", Failed: "they are in a and b"}},
			[]string{"domains: they are in a and b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := test.g.Text(&out, time.Now(), false); err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the text lacks %q:\n%s", want, out.String())
				}
			}
		})
	}
}
