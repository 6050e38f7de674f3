package decide_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

func TestAnswer(t *testing.T) {
	st := newScenario(t, 2, 2, 1)
	uid := st.pod("p")
	st.answer()
	st.deliverLedger()
	core := st.s.core
	a, ok := core.Answer(explain.Question{Pod: uid})
	if !ok || a.Pod == nil || a.Pod.Promise == nil || a.Pod.Promise.State != "committed" {
		t.Fatalf("answer %+v, want the reservation", a.Pod)
	}
	if _, ok = st.shards[1].core.Answer(explain.Question{Pod: uid}); ok {
		t.Error("a shard answers for a pod of another's partition")
	}
	node, ok := core.Answer(explain.Question{Node: a.Pod.Promise.Node})
	if !ok || node.Node.Pods != 1 || len(node.Node.Promises) != 1 || len(node.Node.Standing) != 1 ||
		!node.Node.Standing[0].Reserved {
		t.Errorf("node %+v, want one pod that is reserved", node.Node)
	}
	if _, ok = core.Answer(explain.Question{Node: "nowhere"}); ok {
		t.Error("a node that is not there is known")
	}
	other := st.pod("q", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("150m")}
	})
	a, ok = core.Answer(explain.Question{Pod: other})
	if !ok || a.Pod.Feasible != 0 || len(a.Pod.Nearest) != 2 || a.Pod.Nearest[0].Short[0].Lacked != 50 {
		t.Errorf("answer %+v, want a node that lacks 50m", a.Pod)
	}
}

// BenchmarkAnswer measures the cost of a question to an idle shard: 5,000 nodes with 30 pods each, and a pod that
// fits on none.
func BenchmarkAnswer(b *testing.B) {
	const nodes, each = 5000, 30
	st := &scenario{world: newWorld(b, 1, 1)}
	st.s = st.shards[0]
	for n := range nodes {
		st.addNode(fmt.Sprintf("n%d", n), each)
		for i := range each {
			st.running(fmt.Sprintf("p-%d-%d", n, i), fmt.Sprintf("n%d", n))
		}
	}
	st.addPod("wants-room")
	if _, err := checked(st.s.core.Step(decideInput(st), st.now)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		a, ok := st.s.core.Answer(explain.Question{Pod: "pod-wants-room"})
		if !ok || a.Pod.Nodes != nodes || a.Pod.Feasible != 0 {
			b.Fatalf("answer %+v", a.Pod)
		}
	}
}

func decideInput(st *scenario) (in step.Input) {
	in.Facts = st.s.fold(follow.Batch{Facts: st.facts})
	for _, batch := range st.history {
		in.Ledger = append(in.Ledger, replica.Batch{Events: batch})
	}
	return in
}
