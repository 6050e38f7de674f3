package decide_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
)

// release reserves a node for a pod in another shard's name, and takes the reservation back like a binder of an
// older version, which does not record the cause.
func (st *scenario) release(node, uid string, token ledger.Token) {
	st.t.Helper()
	st.releaseFor(node, uid, token, 0)
}

func (st *scenario) releaseFor(node, uid string, token ledger.Token, cause ledger.FenceCause) {
	st.t.Helper()
	must := func(d ledger.NodeDoc, err error) ledger.NodeDoc {
		if err != nil {
			st.t.Fatal(err)
		}
		return d
	}
	st.touch(node, func(d ledger.NodeDoc) ledger.NodeDoc {
		return must(txns.Place(d, ledger.Entry{
			PodUID: uid, Name: uid, Namespace: st.pods[uid].Namespace, Role: ledger.RoleReservation, State: ledger.Committed,
			Token: token, PodRV: 1, Shard: "scheduler-9",
		}))
	})
	st.touch(node, func(d ledger.NodeDoc) ledger.NodeDoc { return must(txns.MarkFencing(d, uid, token, cause)) })
	st.touch(node, func(d ledger.NodeDoc) ledger.NodeDoc { return must(txns.ReleaseFenced(d, uid, token, st.rv)) })
	st.deliverLedger()
}

// distrust makes the binders take back twelve reservations on a node.
func (st *scenario) distrust(node string) {
	st.t.Helper()
	for i := range 12 {
		name := fmt.Sprintf("%s-victim-%d", node, i)
		st.addPod(name)
		st.deliverFacts()
		st.release(node, "pod-"+name, ledger.Token(1000+i))
	}
}

// places lets the shard place a pod, and returns the node, or an empty name and the message.
func (st *scenario) places(name string, options ...func(*corev1.Pod)) (node, message string) {
	st.t.Helper()
	before := len(st.s.decisions)
	st.pod(name, options...)
	if st.s.commit != nil {
		st.answer()
	}
	if len(st.s.decisions) != before+1 {
		st.t.Fatalf("pod %s: %d decisions, want one", name, len(st.s.decisions)-before)
	}
	d := st.s.decisions[before]
	return d.NodeName, d.Message
}

func TestNodeWhereReservationsKeepFailingIsLeftAlone(t *testing.T) {
	st := newScenario(t, 1, 4, 2)
	st.distrust("n0")
	if diff := cmp.Diff([]avoid.NoticeKind{avoid.Quarantined}, st.noticeKinds()); diff != "" {
		t.Fatalf("notices (-want +got):\n%s", diff)
	}
	for i := range 6 { // as many as the other nodes have room for
		if node, _ := st.places(fmt.Sprintf("p%d-", i)); node == "n0" || node == "" {
			t.Fatalf("pod %d goes to %q", i, node)
		}
	}
	_, message := st.places("q")
	want := "0/4 nodes are available: 1 node(s) were in quarantine, because reservations on them keep failing, " +
		"3 Insufficient cpu."
	if message != want {
		t.Errorf("message %q, want %q", message, want)
	}
	if last := st.s.decisions[len(st.s.decisions)-1]; last.Kind != events.DecisionFailed {
		t.Errorf("the pod is %s: want it tried again by time alone", last.Kind)
	} else if diff := cmp.Diff([]string{"n0"}, last.Withheld); diff != "" {
		t.Errorf("nodes that are withheld from it (-want +got):\n%s", diff)
	}
	if n := st.s.core.AvoidedCounts()["quarantine"]; n != 1 {
		t.Errorf("%d nodes in quarantine, want 1", n)
	}
	st.wait(61 * time.Second)
	if node, message := st.places("r"); node != "n0" {
		t.Errorf("after the quarantine: %q, %s", node, message)
	}
	if diff := cmp.Diff([]avoid.NoticeKind{avoid.QuarantineEnded}, st.noticeKinds()); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

// The next quarantine is twice as long.
func TestQuarantineGetsLonger(t *testing.T) {
	st := newScenario(t, 1, 4, 2)
	st.distrust("n0")
	st.wait(61 * time.Second)
	st.noticeKinds()
	for i := range 12 {
		st.release("n0", fmt.Sprintf("pod-n0-victim-%d", i), ledger.Token(2000+i))
	}
	st.wait(61 * time.Second)
	if n := st.s.core.AvoidedCounts()["quarantine"]; n != 1 {
		t.Error("the second quarantine is over after the time of the first")
	}
	st.wait(61 * time.Second)
	if n := st.s.core.AvoidedCounts()["quarantine"]; n != 0 {
		t.Error("the second quarantine is longer than two minutes")
	}
}

// A bind on the node, by any process, proves that it works.
func TestQuarantineEndsWithABind(t *testing.T) {
	st := newScenario(t, 1, 4, 2)
	st.distrust("n0")
	st.bind("pod-n0-victim-0", "n0")
	st.deliverFacts()
	if n := st.s.core.AvoidedCounts()["quarantine"]; n != 0 {
		t.Error("still in quarantine")
	}
}

// With binds in between, or after a long time, failures are no series.
func TestOddFailuresAreForgiven(t *testing.T) {
	for name, between := range map[string]func(st *scenario){
		"bind": func(st *scenario) { st.bind("pod-n0-victim-0", "n0"); st.deliverFacts() },
		"time": func(st *scenario) { st.wait(3 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			st := newScenario(t, 1, 4, 2)
			for i := range 20 {
				pod := fmt.Sprintf("n0-victim-%d", i)
				st.addPod(pod)
				st.deliverFacts()
				if i == 10 {
					between(st)
				}
				st.release("n0", "pod-"+pod, ledger.Token(1000+i))
			}
			if got := st.noticeKinds(); len(got) != 0 {
				t.Errorf("notices %v", got)
			}
		})
	}
}

// The owner of a pod can cause any number of fences. Fences because of the pod do not count against the node, and
// those that the owner could have caused count once for each namespace.
func TestFencesCountByWhatTheyAreAbout(t *testing.T) {
	for _, c := range []struct {
		name       string
		cause      ledger.FenceCause
		namespaces int
		want       bool
	}{
		{"not known, as today", 0, 1, true},
		{"of a later version", 99, 1, true},
		{"the node", ledger.FenceByNode, 1, true},
		{"the pod", ledger.FenceByPod, 1, false},
		{"the pods of many", ledger.FenceByPod, 12, false},
		{"the place is wanted", ledger.FenceByWant, 12, false},
		{"the claims of one namespace", ledger.FenceByClaims, 1, false},
		{"the claims of eleven", ledger.FenceByClaims, 11, false},
		{"the claims of twelve", ledger.FenceByClaims, 12, true},
		{"the binds of one namespace", ledger.FenceByBind, 1, false},
		{"the binds of twelve", ledger.FenceByBind, 12, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newScenario(t, 1, 4, 2)
			for i := range 24 {
				name := fmt.Sprint("p", i)
				st.addPod(name, inNamespace(fmt.Sprint("ns-", i%c.namespaces)))
				st.deliverFacts()
				st.releaseFor("n0", "pod-"+name, ledger.Token(1000+i), c.cause)
			}
			if n := st.s.core.AvoidedCounts()["quarantine"]; (n == 1) != c.want {
				t.Errorf("%d nodes in quarantine after 24 fences, want one: %v", n, c.want)
			}
		})
	}
}

// Lost races also count as disagreements.
func TestRacesLostForEverAreDisagreements(t *testing.T) {
	st := newScenario(t, 1, 4, 2)
	for i := 0; len(st.s.notices) == 0 && i < 100; i++ {
		st.pod(fmt.Sprintf("p%d-", i), onlyOn("n0"))
		for range attempt.MaxLosses {
			st.wait(2 * time.Second)
			st.deliverLedger()
			if st.target() == "" {
				break
			}
			st.lose()
		}
	}
	if diff := cmp.Diff([]avoid.NoticeKind{avoid.Quarantined}, st.noticeKinds()); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

func onlyOn(node string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node} }
}

// When all nodes seem bad, the cause is not the nodes.
func TestQuarantineIsBounded(t *testing.T) {
	st := newScenario(t, 1, 5, 2)
	for n := range 5 {
		st.distrust(fmt.Sprintf("n%d", n))
	}
	want := []avoid.NoticeKind{
		avoid.Quarantined,
		avoid.QuarantineRefused, avoid.QuarantineRefused, avoid.QuarantineRefused, avoid.QuarantineRefused,
	}
	if diff := cmp.Diff(want, st.noticeKinds()); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	small := newScenario(t, 1, 3, 2)
	small.distrust("n0")
	if diff := cmp.Diff([]avoid.NoticeKind{avoid.QuarantineRefused}, small.noticeKinds()); diff != "" {
		t.Errorf("notices in a cluster that can spare no node (-want +got):\n%s", diff)
	}
}

// ownedBy gives a pod a controller.
func ownedBy(uid string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		is := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: uid, UID: types.UID(uid), Controller: &is}}
	}
}

// reject binds a pod to its node, and lets the kubelet reject it.
func (st *scenario) reject(uid, node, reason string) {
	st.bind(uid, node)
	p := st.pods[uid]
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: "Pod was rejected: " + reason}
	st.publish(p)
	st.deliverAll()
}

// The pod that replaces a rejected one avoids the node; others may still be placed there.
func TestReplacementAvoidsTheNode(t *testing.T) {
	st := newScenario(t, 1, 2, 3)
	node, _ := st.places("p", ownedBy("web"))
	st.reject("pod-p0", node, "TopologyAffinityError")
	if diff := cmp.Diff([]avoid.NoticeKind{avoid.Avoided}, st.noticeKinds()); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	for i := range 3 { // as many as the other node has room for
		if got, _ := st.places(fmt.Sprintf("r%d-", i), ownedBy("web")); got == node || got == "" {
			t.Fatalf("replacement %d goes to %q, its predecessor was rejected by %s", i, got, node)
		}
	}
	_, message := st.places("s", ownedBy("web"))
	want := "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had just rejected a pod of the same owner."
	if message != want {
		t.Errorf("message %q, want %q", message, want)
	}
	if got, _ := st.places("t", ownedBy("db")); got != node {
		t.Errorf("another owner's pod goes to %q, want %s, which has room", got, node)
	}
	st.wait(31 * time.Second)
	if got, _ := st.places("u", ownedBy("web")); got != node {
		t.Errorf("after a while: %q, want %s", got, node)
	}
	// Rejected once more: twice as long.
	st.reject("pod-u0", node, "TopologyAffinityError")
	st.wait(31 * time.Second)
	if got, message := st.places("v", ownedBy("web")); got != "" || !strings.Contains(message, "same owner") {
		t.Errorf("goes to %q (%s) after the time of the first rejection", got, message)
	}
}

// After a kubelet has rejected a pod for lack of room, no pod is placed on the node until something changes.
func TestNodeWithLessRoomThanItSeemsIsLeftAlone(t *testing.T) {
	moves := map[string]func(st *scenario, node string){
		"time": func(st *scenario, _ string) { st.wait(11 * time.Second) },
		"its status": func(st *scenario, node string) {
			st.rv++
			n := st.nodeObjects[node]
			n.ResourceVersion = fmt.Sprint(st.rv)
			n.Labels["status"] = "moved"
			st.publishNode(n)
			st.deliverAll()
		},
		"a pod that leaves": func(st *scenario, _ string) { st.deletePod("pod-resident"); st.deliverAll() },
	}
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			st := newScenario(t, 1, 2, 3)
			node, _ := st.places("p", ownedBy("web"))
			st.addPod("resident")
			st.bind("pod-resident", node)
			st.reject("pod-p0", node, "OutOfcpu")
			if n := st.s.core.AvoidedCounts()["doubt"]; n != 1 {
				t.Fatalf("%d nodes doubted, want 1 (notices %v)", n, st.noticeKinds())
			}
			for i := range 3 {
				if got, _ := st.places(fmt.Sprintf("q%d-", i), ownedBy("db")); got == node || got == "" {
					t.Fatalf("pod %d goes to %q, whose kubelet has no room", i, got)
				}
			}
			_, message := st.places("r", ownedBy("db"))
			want := "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had just rejected a pod for want of room."
			if message != want {
				t.Errorf("message %q, want %q", message, want)
			}
			move(st, node)
			if got, message := st.places("s", ownedBy("db")); got != node {
				t.Errorf("when it has moved: %q (%s), want %s", got, message, node)
			}
		})
	}
}

// A pod that its user has placed on a full node shows nothing about the shards' view, whatever annotations the user
// writes.
func TestOnlyOwnPlacementsTeach(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"without an attempt":      nil,
		"with an attempt of his":  {events.AttemptAnnotation: "0000000000000001"},
		"with somebody's attempt": {events.AttemptAnnotation: ledger.Token(1).String()},
	} {
		t.Run(name, func(t *testing.T) {
			st := newScenario(t, 1, 2, 3)
			st.places("other", onNode("n0"))
			st.addPod("p")
			p := st.pods["pod-p"]
			p.Spec.NodeName, p.Annotations = "n0", annotations
			st.publish(p)
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: OutOfcpu"}
			st.publish(p)
			st.deliverAll()
			if got := st.noticeKinds(); len(got) != 0 || st.s.core.AvoidedCounts()["doubt"] != 0 {
				t.Errorf("notices %v", got)
			}
		})
	}
}

// A rejection counts also after the reservation has left the node's document, whichever member has written that.
func TestRejectionAfterTheHandOverTeaches(t *testing.T) {
	for name, handOver := range map[string]func(st *scenario){
		"by the shard": func(st *scenario) { st.places("next", onNode("n0")) },
		"by another": func(st *scenario) {
			st.touch("n0", func(d ledger.NodeDoc) ledger.NodeDoc {
				d, _ = txns.Finish(d, upToDate{st.world})
				return d
			})
			st.deliverAll()
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := newScenario(t, 1, 2, 3)
			st.places("p", onNode("n0"))
			st.bind("pod-p0", "n0")
			st.deliverAll()
			handOver(st)
			if _, _, reserved := st.hold("pod-p0"); reserved {
				t.Fatal("the reservation is in the ledger still")
			}
			p := st.pods["pod-p0"]
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: OutOfcpu"}
			st.publish(p)
			st.deliverAll()
			if n := st.s.core.AvoidedCounts()["doubt"]; n != 1 {
				t.Errorf("%d nodes doubted, want 1", n)
			}
		})
	}
}

// A pod that names the owner of pods in another namespace makes only the pods of its own namespace avoid the node.
func TestOwnersAreOfNamespaces(t *testing.T) {
	st := newScenario(t, 1, 1, 3)
	st.places("p", ownedBy("web"), inNamespace("another"))
	st.reject("pod-p0", "n0", "NodeAffinity")
	if node, message := st.places("q", ownedBy("web"), inNamespace("another")); node != "" {
		t.Errorf("the next pod of the owner goes to %q (%s)", node, message)
	}
	if node, message := st.places("r", ownedBy("web")); node != "n0" {
		t.Errorf("a pod of another namespace goes to %q: %s", node, message)
	}
}

// If all kubelets reject pods, nodes stay in use: it is better to try than to stop.
func TestDoubtIsBounded(t *testing.T) {
	st := newScenario(t, 1, 4, 3)
	for i := range 4 {
		node, _ := st.places(fmt.Sprintf("p%d-", i), ownedBy(fmt.Sprint("web", i)), onlyOn(fmt.Sprintf("n%d", i)))
		st.reject(fmt.Sprintf("pod-p%d-0", i), node, "OutOfmemory")
	}
	if n := st.s.core.AvoidedCounts()["doubt"]; n != 1 {
		t.Errorf("%d of 4 nodes doubted, want 1", n)
	}
}
