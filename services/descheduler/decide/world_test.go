package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// taints returns a policy with one profile of RemovePodsViolatingNodeTaints; both arguments are YAML in flow style,
// and top holds lines of the top level. Without nodeFit in evictor, no other place is searched for; without berth in
// top, all pods of an owner may be evicted at once.
func taints(t statetest.Fataler, args, evictor string, top ...string) *policy.Policy {
	t.Helper()
	if !strings.Contains(evictor, "nodeFit") {
		evictor = strings.TrimSuffix("nodeFit: false, "+evictor, ", ")
	}
	if !strings.Contains(strings.Join(top, ""), "berth:") {
		top = append(top, "berth: {maxPerOwner: 100%},")
	}
	text := fmt.Sprintf(`{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy, %s profiles: [{name: p,
pluginConfig: [{name: RemovePodsViolatingNodeTaints, args: {%s}}, {name: DefaultEvictor, args: {%s}}],
plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}}]}`, strings.Join(top, " "), args, evictor)
	p, err := policy.Parse("test", []byte(text))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

func input(t statetest.Fataler, p *policy.Policy, cluster *state.Snapshot) Input {
	t.Helper()
	profile, err := placement.NewProfile(placement.DefaultProfile("default-scheduler"))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return Input{
		Cluster: cluster, Policy: p, History: plan.NewHistory(), Actor: "descheduler-test", Now: now,
		Placement: func(string) *placement.Profile { return profile },
	}
}

// tainted returns a node that ordinary pods should leave.
func tainted(name string) *corev1.Node {
	n := roomy(name)
	n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	return n
}

func roomy(name string) *corev1.Node {
	return statetest.Node(name, "cpu", "8", "memory", "16Gi", "pods", "20")
}

// running returns a pod of a ReplicaSet that has been on a node for an hour.
func running(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := statetest.Pod("default", name, "cpu", "1")
	p.Spec.NodeName = node
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "uid-rs"}}
	p.Status.Phase = corev1.PodRunning
	p.Status.StartTime = &metav1.Time{Time: now.Add(-time.Hour)}
	for _, c := range change {
		c(p)
	}
	return p
}

func priority(v int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &v } }

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
}

func volume(source corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
	}
}

func claim(name string) func(*corev1.Pod) {
	return volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
}

func ownedBy(kind string, uids ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = nil
		for _, uid := range uids {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Kind: kind, Name: uid, UID: types.UID(uid)})
		}
	}
}

// summary prints an outcome, one item per line, in order.
func summary(out Outcome) string {
	var b strings.Builder
	if out.Skipped != "" {
		fmt.Fprintf(&b, "skipped: %s\n", out.Skipped)
	}
	for _, e := range out.Evict {
		fmt.Fprintf(&b, "%s/%s from %s\n", e.Decision.Pod.Namespace, e.Decision.Pod.Name, e.Decision.NodeName)
	}
	var kept []string
	for r, n := range out.Refused {
		kept = append(kept, fmt.Sprintf("kept %d: %s\n", n, r.Reason))
	}
	slices.Sort(kept)
	return b.String() + strings.Join(kept, "")
}
