package decide

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// protectionCase is one pod that does not tolerate its node's taint, and what protects it.
type protectionCase struct {
	name    string
	pod     []func(*corev1.Pod)
	evictor string
	objects []state.APIObject
	want    descheduling.Refusal
}

// podsAsTheyAre returns protections that depend on the pod alone.
func podsAsTheyAre() []protectionCase {
	hostPath := volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }
	evict := annotated(descheduling.AnnotationEvict, "false")
	prefersNot := annotated(descheduling.AnnotationNoEviction, "")
	reduced := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: events.TooLargeGate}} }
	high := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high", UID: "uid-high"}, Value: 1000}
	return []protectionCase{
		{name: "nothing stands against it"},
		{name: "terminating", pod: with(terminating), want: descheduling.Terminating},
		{name: "terminating, whatever it is annotated with", pod: with(terminating, evict), want: descheduling.Terminating},
		{name: "too large, whatever it is annotated with", pod: with(reduced, evict), want: descheduling.TooLarge},
		{name: "mirror", pod: with(annotated(corev1.MirrorPodAnnotationKey, "x")), want: descheduling.Mirror},
		{name: "static", pod: with(annotated("kubernetes.io/config.source", "file")), want: descheduling.Static},
		{name: "from the API", pod: with(annotated("kubernetes.io/config.source", "api"))},
		{name: "forced", pod: with(annotated("kubernetes.io/config.source", "file"), hostPath, ownedBy("Pod"), evict)},
		{name: "prefers not", pod: with(prefersNot)},
		{name: "prefers not, mandatory", pod: with(prefersNot), evictor: "noEvictionPolicy: Mandatory",
			want: descheduling.NoEviction},
		{name: "prefers not, mandatory, forced", pod: with(prefersNot, evict), evictor: "noEvictionPolicy: Mandatory"},

		{name: "critical", pod: with(priority(2_000_000_000)), want: descheduling.SystemCritical},
		{name: "critical may go", pod: with(priority(2_000_000_000)), evictor: "evictSystemCriticalPods: true"},
		{name: "just below critical", pod: with(priority(1_999_999_999))},
		{name: "at the threshold", pod: with(priority(1000)), evictor: "priorityThreshold: {value: 1000}",
			want: descheduling.AboveThreshold},
		{name: "below the threshold", pod: with(priority(999)), evictor: "priorityThreshold: {value: 1000}"},
		{name: "no priority at all", evictor: "priorityThreshold: {value: 0}"},
		{name: "at the class", pod: with(priority(1000)), evictor: "priorityThreshold: {name: high}",
			objects: objects(high),
			want:    descheduling.AboveThreshold},
		{name: "below the class", pod: with(priority(999)), evictor: "priorityThreshold: {name: high}",
			objects: objects(high)},
		{name: "no such class", evictor: "priorityThreshold: {name: high}", want: descheduling.PriorityClassUnknown},

		{name: "bare", pod: with(ownedBy("ReplicaSet")), want: descheduling.Bare},
		{name: "bare, failed ones may go", pod: with(ownedBy("ReplicaSet")), evictor: "evictFailedBarePods: true",
			want: descheduling.Bare},
		{name: "host path", pod: with(hostPath), want: descheduling.LocalStorage},
		{name: "empty dir", pod: with(volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})),
			want: descheduling.LocalStorage},
		{name: "local storage may go", pod: with(hostPath), evictor: "evictLocalStoragePods: true"},
		{name: "local storage may go, new way", pod: with(hostPath),
			evictor: "podProtections: {defaultDisabled: [PodsWithLocalStorage]}"},
		{name: "daemon", pod: with(ownedBy("DaemonSet", "ds")), want: descheduling.DaemonSet},
		{name: "daemon may go", pod: with(ownedBy("DaemonSet", "ds")), evictor: "evictDaemonSetPods: true"},
	}
}

// podsInTheirWorld returns protections by claims, budgets, labels, replicas and age.
func podsInTheirWorld() []protectionCase {
	evict := annotated(descheduling.AnnotationEvict, "")
	labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }
	claiming := func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }
	fast := "fast"
	fastClaim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "uid-data"},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &fast},
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-pdb"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
	}
	teamA := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "default", UID: "uid-default", Labels: map[string]string{"team": "a"},
	}}
	pvcOf := func(class string) string {
		return "podProtections: {extraEnabled: [PodsWithPVC], " +
			"config: {PodsWithPVC: {protectedStorageClasses: [{name: " + class + "}]}}}"
	}
	return []protectionCase{
		{name: "claims", pod: with(claim("data"))},
		{name: "claims protect", pod: with(claim("data")), evictor: "ignorePvcPods: true", want: descheduling.VolumeClaims},
		{name: "claim of the class", pod: with(claim("data")), evictor: pvcOf("fast"), objects: objects(fastClaim),
			want: descheduling.VolumeClaims},
		{name: "claim unknown", pod: with(claim("other")), evictor: pvcOf("fast"), objects: objects(fastClaim),
			want: descheduling.VolumeClaims},
		{name: "claim of another class", pod: with(claim("data")), objects: objects(fastClaim),
			evictor: pvcOf("slow")},
		{name: "no budget", evictor: "ignorePodsWithoutPDB: true", objects: objects(budget),
			want: descheduling.WithoutBudget},
		{name: "a budget", pod: with(labelled), evictor: "ignorePodsWithoutPDB: true", objects: objects(budget)},
		{name: "device claims", pod: with(claiming), evictor: "podProtections: {extraEnabled: [PodsWithResourceClaims]}",
			want: descheduling.ResourceClaims},

		{name: "other labels", evictor: "labelSelector: {matchLabels: {app: web}}", want: descheduling.OtherLabels},
		{name: "these labels", pod: with(labelled), evictor: "labelSelector: {matchLabels: {app: web}}"},
		{name: "too few replicas", evictor: "minReplicas: 2", want: descheduling.FewReplicas},
		{name: "enough replicas", evictor: "minReplicas: 2", objects: objects(running("second", "spare"))},
		{name: "two owners are not counted", pod: with(ownedBy("ReplicaSet", "a", "b")), evictor: "minReplicas: 2"},
		{name: "too young", evictor: "minPodAge: 61m", want: descheduling.TooYoung},
		{name: "old enough", evictor: "minPodAge: 60m"},
		{name: "not started", pod: with(func(p *corev1.Pod) { p.Status.StartTime = nil }), evictor: "minPodAge: 0s",
			want: descheduling.TooYoung},
		{name: "namespace unknown", evictor: "namespaceLabelSelector: {matchLabels: {team: a}}",
			want: descheduling.OtherNamespace},
		{name: "namespace matches", evictor: "namespaceLabelSelector: {matchLabels: {team: a}}", objects: objects(teamA)},
		{name: "namespace does not match, forced", pod: with(evict),
			evictor: "namespaceLabelSelector: {matchLabels: {team: b}}", objects: objects(teamA),
			want: descheduling.OtherNamespace},
	}
}

func TestProtections(t *testing.T) {
	for _, tt := range append(podsAsTheyAre(), podsInTheirWorld()...) {
		t.Run(tt.name, func(t *testing.T) {
			all := append(objects(tainted("bad"), roomy("spare"), running("pod", "bad", tt.pod...)), tt.objects...)
			out := Cycle(input(t, taints(t, "", tt.evictor), statetest.Snapshot(t, all...)))
			if got, want := summary(out), expected(tt.want); got != want {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
	t.Run("terminal pods are not looked at", func(t *testing.T) {
		failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
		out := Cycle(input(t, taints(t, "", "evictFailedBarePods: true"),
			statetest.Snapshot(t, tainted("bad"), roomy("spare"), running("pod", "bad", failed, ownedBy("Pod")))))
		if out.Picked != 0 {
			t.Errorf("picked %d", out.Picked)
		}
	})
}

func with(changes ...func(*corev1.Pod)) []func(*corev1.Pod) { return changes }

func objects(o ...state.APIObject) []state.APIObject { return o }

func expected(r descheduling.Refusal) string {
	if r == "" {
		return "default/pod from bad\n"
	}
	return "kept 1: " + string(r) + "\n"
}

// TestTaints: which taints of a node count against a pod without tolerations.
func TestTaints(t *testing.T) {
	taint := func(key, value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: effect}
	}
	noSchedule := taint("dedicated", "gpu", corev1.TaintEffectNoSchedule)
	for _, tt := range []struct {
		name       string
		taints     []corev1.Taint
		toleration *corev1.Toleration
		args       string
		want       bool
	}{
		{name: "no taint"},
		{name: "NoSchedule", taints: []corev1.Taint{noSchedule}, want: true},
		{name: "NoExecute is not ours", taints: []corev1.Taint{taint("a", "", corev1.TaintEffectNoExecute)}},
		{name: "PreferNoSchedule", taints: []corev1.Taint{taint("a", "", corev1.TaintEffectPreferNoSchedule)}},
		{name: "PreferNoSchedule asked for", taints: []corev1.Taint{taint("a", "", corev1.TaintEffectPreferNoSchedule)},
			args: "includePreferNoSchedule: true", want: true},
		{name: "tolerated", taints: []corev1.Taint{noSchedule},
			toleration: &corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists}},
		{name: "one of two tolerated", taints: []corev1.Taint{noSchedule, taint("b", "", corev1.TaintEffectNoSchedule)},
			toleration: &corev1.Toleration{Key: "dedicated", Value: "gpu"}, want: true},
		{name: "compared as a number", taints: []corev1.Taint{taint("sla", "950", corev1.TaintEffectNoSchedule)},
			toleration: &corev1.Toleration{Key: "sla", Operator: corev1.TolerationOpGt, Value: "900"}},
		{name: "no number", taints: []corev1.Taint{taint("sla", "x", corev1.TaintEffectNoSchedule)},
			toleration: &corev1.Toleration{Key: "sla", Operator: corev1.TolerationOpGt, Value: "900"}, want: true},
		{name: "excluded by key", taints: []corev1.Taint{noSchedule}, args: "excludedTaints: [dedicated]"},
		{name: "excluded by key and value", taints: []corev1.Taint{noSchedule}, args: "excludedTaints: [dedicated=gpu]"},
		{name: "another value excluded", taints: []corev1.Taint{noSchedule}, args: "excludedTaints: [dedicated=cpu]",
			want: true},
		{name: "included", taints: []corev1.Taint{noSchedule}, args: "includedTaints: [dedicated=gpu]", want: true},
		{name: "another included", taints: []corev1.Taint{noSchedule}, args: "includedTaints: [other]"},
		{name: "none included", taints: []corev1.Taint{noSchedule}, args: "includedTaints: []"},
		{name: "namespace included", taints: []corev1.Taint{noSchedule}, args: "namespaces: {include: [default]}",
			want: true},
		{name: "another namespace included", taints: []corev1.Taint{noSchedule}, args: "namespaces: {include: [other]}"},
		{name: "namespace excluded", taints: []corev1.Taint{noSchedule}, args: "namespaces: {exclude: [default]}"},
		{name: "labels", taints: []corev1.Taint{noSchedule}, args: "labelSelector: {matchLabels: {app: web}}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node, pod := roomy("bad"), running("pod", "bad")
			node.Spec.Taints = tt.taints
			if tt.toleration != nil {
				pod.Spec.Tolerations = []corev1.Toleration{*tt.toleration}
			}
			out := Cycle(input(t, taints(t, tt.args, ""), statetest.Snapshot(t, node, roomy("spare"), pod)))
			if got := len(out.Evict) == 1; got != tt.want {
				t.Errorf("asked for %t, want %t:\n%s", got, tt.want, summary(out))
			}
		})
	}
}

// TestNodes: the pods of which nodes are considered.
func TestNodes(t *testing.T) {
	notReady := func(n *corev1.Node) *corev1.Node {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
		return n
	}
	cordoned := func(n *corev1.Node) *corev1.Node { n.Spec.Unschedulable = true; return n }
	pod := running("pod", "bad")
	for _, tt := range []struct {
		name    string
		top     string
		objects []state.APIObject
		want    string
	}{
		{name: "one node", objects: objects(tainted("bad"), pod),
			want: "skipped: 1 ready nodes match the policy, at least 2 are needed\n"},
		{name: "one ready node", objects: objects(tainted("bad"), notReady(roomy("spare")), pod),
			want: "skipped: 1 ready nodes match the policy, at least 2 are needed\n"},
		{name: "pods of a node that is not ready stay",
			objects: objects(notReady(tainted("bad")), roomy("a"), roomy("b"), pod)},
		{name: "a cordoned node counts", objects: objects(cordoned(tainted("bad")), roomy("a"), pod),
			want: "default/pod from bad\n"},
		{name: "selected nodes only", top: "nodeSelector: kubernetes.io/hostname!=bad,",
			objects: objects(tainted("bad"), roomy("a"), roomy("b"), pod)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := Cycle(input(t, taints(t, "", "", tt.top), statetest.Snapshot(t, tt.objects...)))
			if got := summary(out); got != tt.want {
				t.Errorf("got:\n%swant:\n%s", got, tt.want)
			}
		})
	}
}

func TestMinPodAgeIsExact(t *testing.T) {
	cluster := statetest.Snapshot(t, tainted("bad"), roomy("spare"), running("pod", "bad"))
	in := input(t, taints(t, "", "minPodAge: 60m"), cluster)
	in.Now = now.Add(-time.Nanosecond)
	if out := Cycle(in); len(out.Evict) != 0 {
		t.Errorf("a nanosecond too early:\n%s", summary(out))
	}
}
