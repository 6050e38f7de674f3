package decide_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// explained returns the answer about gang g.
func (st *scenario) explained() *explain.GangView {
	st.t.Helper()
	a, ok := st.s.core.Answer(explain.Question{Gang: "d/g"})
	if !ok {
		st.t.Fatal("the shard has no answer")
	}
	return a.Gang
}

func TestExplainAGangThatWaits(t *testing.T) {
	st := newScenario(t, 1, 0, 0)
	st.addNodeIn("na0", "a", 1)
	st.addNodeIn("na1", "a", 1)
	st.addNodeIn("nb", "b", 3)
	st.deliverAll()
	st.gang("g", 5, 4, corev1.LabelTopologyZone)
	v := st.explained()
	if v.MinCount != 4 || v.Need != 4 || v.Counts[explain.MemberWaiting] != 5 {
		t.Errorf("minCount %d, %d needed, members %+v", v.MinCount, v.Need, v.Members)
	}
	want := []explain.GangDomain{{Name: "b", Nodes: 1, Slots: 3}, {Name: "a", Nodes: 2, Slots: 2}}
	if !slices.Equal(v.Domains, want) || v.DomainCount != 2 {
		t.Errorf("domains %+v of %d, want %+v", v.Domains, v.DomainCount, want)
	}
	if len(st.reservations()) > 0 || st.s.commit != nil {
		t.Error("the question has reserved something")
	}
}

func TestExplainAGangOnItsWay(t *testing.T) {
	st := newScenario(t, 1, 3, 2)
	st.gang("g", 4, 4)
	st.answerAll()
	st.bindMember("pod-g-0", st.reservations()["pod-g-0"])
	fenced := st.reservations()["pod-g-1"]
	st.touch(fenced, func(d ledger.NodeDoc) ledger.NodeDoc {
		d.Entries = slices.Clone(d.Entries)
		for i := range d.Entries {
			if d.Entries[i].PodUID == "pod-g-1" {
				d.Entries[i].State = ledger.Fencing
			}
		}
		return d
	})
	st.addPod("g-4", memberOf("g"))
	st.deliverAll()
	v := st.explained()
	var states []string
	for _, m := range v.Members {
		states = append(states, strings.TrimPrefix(m.Pod, "d/")+" "+m.State)
	}
	slices.Sort(states)
	want := []string{"g-0 bound", "g-1 reservation being taken back", "g-2 reserved", "g-3 reserved", "g-4 waiting"}
	if !slices.Equal(states, want) || v.Need != 1 {
		t.Errorf("members %q, %d needed; want %q and 1", states, v.Need, want)
	}
	if len(v.Domains) != 1 || v.Domains[0].Name != "" || v.Domains[0].Nodes != 3 {
		t.Errorf("domains %+v, want one of all nodes", v.Domains)
	}
}

// The answer is about pods without an object too, and about members in no domain. There is none about nothing.
func TestExplainGangsWithoutADomain(t *testing.T) {
	st := newScenario(t, 1, 0, 0)
	st.addNodeIn("na", "a", 1)
	st.addPod("early", memberOf("g"))
	st.deliverAll()
	if v := st.explained(); v.UID != "" || len(v.Members) != 1 || v.Need != 0 {
		t.Errorf("without an object: %+v", v)
	}
	if _, ok := st.s.core.Answer(explain.Question{Gang: "d/other"}); ok {
		t.Error("an answer about a group without an object and without pods")
	}
	st.gang("g", 1, 1, corev1.LabelTopologyZone)
	st.answerAll()
	n := st.nodeObjects["na"]
	delete(n.Labels, corev1.LabelTopologyZone)
	st.publishNode(n)
	st.addPod("late", memberOf("g"))
	st.deliverAll()
	const want = "cannot determine domain for already scheduled pods: node na has no label topology.kubernetes.io/zone"
	if v := st.explained(); v.Failed != want {
		t.Errorf("failed %q, want %q", v.Failed, want)
	}
}
