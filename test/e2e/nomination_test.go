//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// nominationGate keeps a pod from being tried until it has been nominated.
const nominationGate = "test.example/nominate"

// nominate writes a pod's nominatedNodeName, as another component does.
func (s *stack) nominate(ns, pod, node string) {
	s.Helper()
	patch := fmt.Sprintf(`{"status":{"nominatedNodeName":%q}}`, node)
	_, err := s.client.CoreV1().Pods(ns).Patch(
		s.Context(), pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	s.must(err)
}

// createNominated creates a pod that is nominated to a node before it is tried.
func (s *stack) createNominated(pod *corev1.Pod, node string) {
	s.Helper()
	gated(nominationGate)(pod)
	s.create(pod)
	s.nominate(pod.Namespace, pod.Name, node)
	s.removeGates(pod.Namespace, pod.Name, `[]`)
}

// history returns the versions of a pod until one satisfies a condition, by a watch that began before the pod.
func (s *stack) history(w watch.Interface, pod string, last func(*corev1.Pod) bool) (versions []*corev1.Pod) {
	s.Helper()
	end := time.After(placedWithin)
	for {
		select {
		case event := <-w.ResultChan():
			p, ok := event.Object.(*corev1.Pod)
			if !ok || p.Name != pod {
				continue
			}
			if versions = append(versions, p); last(p) {
				return versions
			}
		case <-end:
			s.Fatalf("pod %s: %d versions, and none is the last", pod, len(versions))
		}
	}
}

// The name of a node that leads nowhere is cleared in the write of the condition, whoever wrote it. A pod that never
// preempts keeps it, as with kube-scheduler.
func TestNominationThatLeadsNowhereIsCleared(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"})
	s.up(harness.UpConfig{Shards: 2, Binders: 2})
	ns := s.namespace("stale")
	_, err := s.client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "never"}, PreemptionPolicy: ptr.To(corev1.PreemptNever),
	}, metav1.CreateOptions{})
	s.must(err)
	s.priorityClass("high", 1000) // admission knows the first class when it knows this one
	s.create(newPod(ns, "filler", "3", ofPriority("high")))
	s.nodeOf(ns, "filler")
	w, err := harness.WatchPods(t.Context(), s.cluster.Rest, ns)
	s.must(err)
	defer w.Stop()
	for _, test := range []struct {
		pod, node, left string
		option          podOption
	}{
		{"ghost", "ghost", "", func(*corev1.Pod) {}},
		{"full", "node-0", "", func(*corev1.Pod) {}},
		{"never", "node-0", "node-0", ofPriority("never")},
	} {
		s.createNominated(newPod(ns, test.pod, "2", test.option), test.node)
		versions := s.history(w, test.pod, func(p *corev1.Pod) bool {
			return conditionOf(p).Reason == corev1.PodReasonUnschedulable
		})
		// The first version with the condition has lost the name.
		if name := versions[len(versions)-1].Status.NominatedNodeName; name != test.left {
			t.Errorf("pod %s is nominated to %q with its condition, want %q", test.pod, name, test.left)
		}
	}
	s.audit()
}

// The node is in the pod's status within a second of the claim's being assigned to it, before that write, and until the
// bind. Pods without anything to prepare are not written to.
func TestNodeIsAnnouncedWhileItsVolumeIsMade(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0"}, nodeSpec{name: "node-1"})
	s.provisioner()
	s.up(harness.UpConfig{Shards: 2, Binders: 2})
	ns := s.namespace("announced")
	// No provisioner serves it: the test makes the volume.
	s.class("slow", "slow.example.com", storagev1.VolumeBindingWaitForFirstConsumer, nil)
	s.class("failing", diskProvisioner, storagev1.VolumeBindingWaitForFirstConsumer, map[string]string{"fail": "yes"})
	w, err := harness.WatchPods(t.Context(), s.cluster.Rest, ns)
	s.must(err)
	defer w.Stop()

	s.claim(ns, "plain", "slow", corev1.ReadWriteOnce)
	s.create(newPod(ns, "plain", "100m"))
	s.nodeOf(ns, "plain")
	for _, p := range s.history(w, "plain", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }) {
		if p.Status.NominatedNodeName != "" {
			t.Errorf("a pod without claims was nominated to %s", p.Status.NominatedNodeName)
		}
	}

	s.claim(ns, "waits", "slow", corev1.ReadWriteOnce)
	s.create(newPod(ns, "waits", "100m", withClaim("waits")))
	node := ""
	s.eventually(placedWithin, "the claim has a node", func(ctx context.Context) (string, error) {
		claim, err := s.client.CoreV1().PersistentVolumeClaims(ns).Get(ctx, "waits", metav1.GetOptions{})
		if node = claim.Annotations["volume.kubernetes.io/selected-node"]; node == "" {
			return "no", err
		}
		return "", err
	})
	if name := s.pod(ns, "waits").Status.NominatedNodeName; name != node {
		t.Errorf("the claim is for node %s, and the pod is nominated to %q", node, name)
	}
	s.make(ns, "waits", "slow", node)
	if got := s.nodeOf(ns, "waits"); got != node {
		t.Errorf("bound to %s, announced was %s", got, node)
	}
	named := false
	for _, p := range s.history(w, "waits", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }) {
		if named && p.Spec.NodeName == "" && p.Status.NominatedNodeName != node {
			t.Errorf("nominated to %q between the announcement and the bind", p.Status.NominatedNodeName)
		}
		named = named || p.Status.NominatedNodeName == node
	}

	// The provisioner gives the claim back, and the reservation is taken back.
	s.claim(ns, "fails", "failing", corev1.ReadWriteOnce)
	s.create(newPod(ns, "fails", "100m", withClaim("fails")))
	versions := s.history(w, "fails", func(p *corev1.Pod) bool { return p.Annotations["berth.dev/fence"] != "" })
	fenced := versions[len(versions)-1]
	if name := fenced.Status.NominatedNodeName; name != "" {
		t.Errorf("nominated to %s with the fence", name)
	}
	if before := versions[max(len(versions)-2, 0)].Status.NominatedNodeName; before == "" {
		t.Error("not announced before the fence")
	}
	s.audit()
}

// make makes the volume of a claim for a node.
func (s *stack) make(ns, name, class, node string) {
	s.Helper()
	claim, err := s.client.CoreV1().PersistentVolumeClaims(ns).Get(s.Context(), name, metav1.GetOptions{})
	s.must(err)
	_, err = s.client.CoreV1().PersistentVolumes().Create(s.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName:       class,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt"}},
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: ns, Name: name, UID: claim.UID,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
				}}},
			}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
}

// Two hundred pods are nominated to twenty nodes that just open up, and four hundred less important ones arrive at the
// same time, with some that are as important, on four shards: every nominated pod gets its node.
func TestNominationsHoldRoom(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	const nodes, each, others = 20, 10, 400
	starting := corev1.Taint{Key: "test.example/starting", Effect: corev1.TaintEffectNoSchedule}
	var specs []nodeSpec
	for i := range nodes {
		specs = append(specs, nodeSpec{name: fmt.Sprintf("node-%02d", i), capacity: "10", taints: []corev1.Taint{starting}})
	}
	s.addNodes(specs...)
	s.up(harness.UpConfig{Shards: 4, Binders: 2})
	ns := s.namespace("room")
	s.priorityClass("low", 10)
	s.priorityClass("middle", 100)
	// Nominated pods with gates, so that they are not tried before they have their names.
	pods := newPods(ns, "nominated", nodes*each, "1", ofPriority("middle"), gated(nominationGate))
	s.create(pods...)
	want := map[string]string{}
	for i, p := range pods {
		want[p.Name] = fmt.Sprintf("node-%02d", i%nodes)
		s.nominate(ns, p.Name, want[p.Name])
	}
	s.create(newPods(ns, "other", others, "1", ofPriority("low"))...)
	s.create(newPods(ns, "equal", nodes, "1", ofPriority("middle"))...)
	for i := range nodes {
		_, err := s.client.CoreV1().Nodes().Patch(s.Context(), fmt.Sprintf("node-%02d", i), types.MergePatchType,
			[]byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
		s.must(err)
	}
	s.unschedulable(ns, "other-0000", "Insufficient cpu")
	for _, p := range pods {
		s.removeGates(ns, p.Name, `[]`)
	}
	for _, p := range s.bound(ns, nodes*each, 5*placedWithin) {
		if node, is := want[p.Name]; !is || p.Spec.NodeName != node {
			t.Errorf("pod %s is bound to %s, want %q", p.Name, p.Spec.NodeName, node)
		}
	}
	s.audit()
}

// A name holds no room against a more important pod, nor does the name of a node that does not exist; and a pod that is
// as important waits until the nominated pod is gone.
func TestNominationAgainstOthers(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0", capacity: "2"})
	s.up(harness.UpConfig{Shards: 2, Binders: 2})
	ns := s.namespace("others")
	s.priorityClass("middle", 100)
	s.priorityClass("high", 1000)
	for pod, node := range map[string]string{"lost": "ghost", "nominated": "node-0"} {
		s.create(newPod(ns, pod, "1", ofPriority("middle"), gated(nominationGate)))
		s.nominate(ns, pod, node)
	}
	s.create(newPod(ns, "first", "1", ofPriority("middle")))
	s.nodeOf(ns, "first")
	s.create(newPod(ns, "second", "1", ofPriority("middle")))
	s.unschedulable(ns, "second", "1 Insufficient cpu.")
	s.must(s.client.CoreV1().Pods(ns).Delete(s.Context(), "nominated", metav1.DeleteOptions{}))
	s.nodeOf(ns, "second")
	at := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	s.must(s.client.CoreV1().Pods(ns).Delete(s.Context(), "second", at))

	s.create(newPod(ns, "again", "1", ofPriority("middle"), gated(nominationGate)))
	s.nominate(ns, "again", "node-0")
	s.create(newPod(ns, "urgent", "1", ofPriority("high")))
	s.nodeOf(ns, "urgent")
	if left := s.pod(ns, "first"); left.DeletionTimestamp != nil {
		t.Error("a pod was evicted, though the more important one could take the room of the nominated one")
	}
	s.audit()
}
