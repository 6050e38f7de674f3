package decide_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// late publishes events of an earlier resourceVersion.
func (w *world) late(rv uint64, publish func()) {
	now := w.rv
	w.rv = rv
	publish()
	w.rv = now
}

// repels makes a pod repel pods with a label anywhere in the zone.
func repels(label, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:   corev1.LabelTopologyZone,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: value}},
			}},
		}}
	}
}

// A node was deleted and registered again, and a pod was bound to it. A shard has read the bind, and then the
// deletion, so that it sees the pod without a node. A pod that wants that pod's single-pod claim, or repels it,
// waits until the shard has read that the node exists.
func TestPodOnANodeThatSeemsGoneCounts(t *testing.T) {
	for name, wants := range map[string]func(*corev1.Pod){"claim": usingClaim("one"), "rules": repels("app", "web")} {
		t.Run(name, func(t *testing.T) {
			st := newScenario(t, 1, 0, 1)
			st.addNodeIn("n0", "z", 10)
			st.addNodeIn("n1", "z", 10)
			st.addVolume("volume", "", "")
			st.addClaim("one", "", "volume", corev1.ReadWriteOncePod)
			node := st.nodeObjects["n0"].DeepCopy()
			st.rv += 2
			deleted, again := st.rv-1, st.rv
			st.addPod("user", usingClaim("one"), func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
			st.touch("n0", func(d ledger.NodeDoc) ledger.NodeDoc { return d.Cover(ledger.KindPod, st.rv+1) })
			st.bind("pod-user", "n0")
			st.late(deleted, func() {
				st.fact(events.Fact{Kind: events.KindNode, Op: events.OpDelete, UID: string(node.UID), Name: "n0"})
			})
			st.deliverAll()

			uid := st.pod("next", wants)
			for range 3 {
				if st.s.commit != nil {
					st.answer()
				}
				st.deliverLedger()
			}
			if at := st.reservedAt(uid); len(at) > 0 || len(st.s.decisions) > 0 {
				t.Fatalf("reserved on %q and decided %+v while a node seems gone, want it to wait", at, st.s.decisions)
			}
			st.late(again, func() {
				node.UID, node.ResourceVersion = "node-again", "1"
				st.publishNode(node)
			})
			st.deliverAll()
			for st.s.commit != nil {
				st.answer()
				st.deliverLedger()
			}
			if at := st.reservedAt(uid); len(at) > 0 || len(st.s.decisions) != 1 ||
				st.s.decisions[0].Kind != events.DecisionUnplaceable {
				t.Errorf("reserved on %q and decided %+v, want it unplaceable", at, st.s.decisions)
			}
		})
	}
}
