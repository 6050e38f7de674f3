//go:build e2e

package deploy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
)

// bestEffort is the scheduler name of a profile that takes disruption budgets as a wish.
const bestEffort = "berth-best-effort"

// bothProfiles is the shipped configuration with that profile in addition to the shipped one.
const bothProfiles = `
- schedulerName: ` + bestEffort + `
  pluginConfig:
  - name: Berth
    args: {preemption: {pdb: bestEffort}}
`

// bench is a Berth with one replica of each service, and a fresh node for each step.
type bench struct {
	*system
	queue, shard, binder *member
	runs                 int
}

func newBench(s *system) *bench {
	s.Helper()
	shipped, err := os.ReadFile(filepath.Join(s.configDir(), "scheduler.yaml"))
	s.must(err)
	config := filepath.Join(s.configDir(), "both.yaml")
	s.must(os.WriteFile(config, append(shipped, bothProfiles[1:]...), 0o644))
	for class, value := range map[string]int32{"low": 10, "high": 1000} {
		_, err := s.client.SchedulingV1().PriorityClasses().Create(s.Context(),
			&schedulingv1.PriorityClass{ObjectMeta: named(class), Value: value}, metav1.CreateOptions{})
		s.must(err)
	}
	b := &bench{system: s}
	b.queue = s.start("queue", "queue-0", "--config="+config)
	b.shard = s.start("scheduler", "scheduler-0", "--config="+config)
	b.binder = s.start("binder", "binder-0", "--config="+config)
	return b
}

// steps are the binder's use of each permission.
func (b *bench) steps() map[string]step {
	all := map[string]step{}
	for permission, s := range map[string]struct {
		what string
		do   func(r run) error
	}{
		"get namespaces/kube-system":                   {"the binder stays ready", b.staysReady},
		"create pods/binding":                          {"a pod is bound", b.binds},
		"patch pods/status":                            {"a pod that fits nowhere says why", b.writesConditions},
		"patch podgroups/status.scheduling.k8s.io":     {"a group of pods gets its condition", b.writesGroups},
		"create events.events.k8s.io":                  {"there is an event about a pod that was placed", b.writesEvents},
		"patch events.events.k8s.io":                   {"events about the same become a series", b.retriesPods},
		"create pods/eviction":                         {"an important pod gets a place", b.preempts},
		"get poddisruptionbudgets.policy":              {"a claim is given up when every eviction was refused", b.givesUp},
		"delete pods":                                  {"a pod gets a place past a budget", b.preemptsPastBudget},
		"get persistentvolumes":                        {"a claim gets a volume", b.bindsVolumes},
		"patch persistentvolumes":                      {"a claim gets a volume", b.bindsVolumes},
		"get persistentvolumeclaims":                   {"a claim gets a volume", b.bindsVolumes},
		"patch persistentvolumeclaims":                 {"a node is selected for a claim", b.selectsNodes},
		"get resourceclaims.resource.k8s.io":           {"a claim gives its device back", b.freesDevices},
		"create resourceclaims.resource.k8s.io":        {"a claim is made for a resource", b.makesClaims},
		"delete resourceclaims.resource.k8s.io":        {"a claim that was made goes", b.deletesMadeClaims},
		"patch resourceclaims.resource.k8s.io":         {"a claim gets a device", b.allocatesDevices},
		"patch resourceclaims/status.resource.k8s.io":  {"a claim gets a device", b.allocatesDevices},
		"patch resourceclaims/binding.resource.k8s.io": {"a claim gets a device", b.allocatesDevices},
		"get pods": {"an important pod gets a place within a disruption budget", b.preemptsInBudget},
	} {
		all[permission] = step{s.what, func(_ *system, within time.Duration) error { return s.do(b.run(within)) }}
	}
	return all
}

// gateStep is the binder's use of the permission that comes with the quota gate.
func (b *bench) gateStep() step {
	return step{"a pod that Berth had gated is let go", func(_ *system, within time.Duration) error {
		return b.ungates(b.run(within))
	}}
}

// run is one try of a step: a namespace and a node of its own, and its time.
type run struct {
	*bench
	ns, node string
	limit    time.Duration
}

func (b *bench) run(within time.Duration) run {
	b.Helper()
	b.runs++
	r := run{bench: b, ns: fmt.Sprintf("step-%d", b.runs), node: fmt.Sprintf("node-%d", b.runs), limit: within}
	b.create(&corev1.Namespace{ObjectMeta: named(r.ns)})
	file := filepath.Join(b.dir, r.node+".yaml")
	text := fmt.Sprintf("groups:\n- name: %s\n  capacity: {cpu: \"4\", memory: 8Gi, pods: \"10\"}\n  labels: {step: %s}\n",
		r.node, r.ns)
	b.must(os.WriteFile(file, []byte(text), 0o644))
	add := exec.CommandContext(b.Context(), programs.Cluster, "nodes", "--dir", b.cluster.Dir, "-f", file)
	out, err := add.CombinedOutput()
	if err != nil {
		b.Fatalf("cluster nodes: %v\n%s", err, out)
	}
	return r
}

// tidy lets the next step begin with everything in order.
func (b *bench) tidy() {
	b.Helper()
	for _, m := range []*member{b.queue, b.shard, b.binder} {
		b.eventually(readyWithin, m.Name+" is ready", m.missing)
	}
}

// pod creates a pod for the run's node.
func (r run) pod(name, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	r.Helper()
	from := template(name, cpu)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: from.Labels}, Spec: from.Spec}
	pod.Spec.NodeSelector = map[string]string{"step": r.ns}
	for _, c := range change {
		c(pod)
	}
	created, err := r.client.CoreV1().Pods(r.ns).Create(r.Context(), pod, metav1.CreateOptions{})
	r.must(err)
	return created
}

func class(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
}

func filler(p *corev1.Pod) { p.Labels["app"], p.Spec.PriorityClassName = "filler", "low" }

func nowhere(p *corev1.Pod) { p.Spec.NodeSelector = nodeless }

// see waits until a pod looks as it should.
func (r run) see(name, what string, accept func(*corev1.Pod) bool) error {
	return r.within(r.limit, what, func(ctx context.Context) (string, error) {
		pod, err := r.client.CoreV1().Pods(r.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), nil
		}
		if !accept(pod) {
			return fmt.Sprintf("%+v", pod.Status.Conditions), nil
		}
		return "", nil
	})
}

func placed(p *corev1.Pod) bool { return p.Spec.NodeName != "" }

func (b *bench) binds(r run) error {
	r.pod("plain", "100m")
	return r.see("plain", "it is bound", placed)
}

func (b *bench) writesConditions(r run) error {
	r.pod("stuck", "100m", nowhere)
	return r.see("stuck", "it has a condition", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return true
			}
		}
		return false
	})
}

// podGroup is a group whose pods are placed one by one.
func podGroup(name string) *schedulingv1alpha2.PodGroup {
	g := &schedulingv1alpha2.PodGroup{ObjectMeta: named(name)}
	g.Spec.SchedulingPolicy.Basic = &schedulingv1alpha2.BasicSchedulingPolicy{}
	return g
}

func (b *bench) writesGroups(r run) error {
	groups := r.client.SchedulingV1alpha2().PodGroups(r.ns)
	_, err := groups.Create(r.Context(), podGroup("group"), metav1.CreateOptions{})
	r.must(err)
	r.pod("member", "100m", func(p *corev1.Pod) {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("group")}
	})
	return r.within(r.limit, "the group has its condition", func(ctx context.Context) (string, error) {
		obj, err := groups.Get(ctx, "group", metav1.GetOptions{})
		if err != nil {
			return err.Error(), nil
		}
		if !meta.IsStatusConditionTrue(obj.Status.Conditions, schedulingv1alpha2.PodGroupScheduled) {
			return fmt.Sprintf("%+v", obj.Status.Conditions), nil
		}
		return "", nil
	})
}

func (b *bench) writesEvents(r run) error {
	r.pod("plain", "100m")
	return r.event("Scheduled", false)
}

// retriesPods: a taint keeps the pod away, and a toleration is added that does not help. It
// might have, so the pod is tried again.
func (b *bench) retriesPods(r run) error {
	taint := []byte(`{"spec":{"taints":[{"key":"step","effect":"NoSchedule"}]}}`)
	_, err := r.client.CoreV1().Nodes().Patch(
		r.Context(), r.node, types.StrategicMergePatchType, taint, metav1.PatchOptions{})
	r.must(err)
	name := r.pod("stuck", "100m").Name
	if err := r.event("FailedScheduling", false); err != nil {
		return err
	}
	pod, err := r.client.CoreV1().Pods(r.ns).Get(r.Context(), name, metav1.GetOptions{})
	r.must(err)
	useless := corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, useless)
	_, err = r.client.CoreV1().Pods(r.ns).Update(r.Context(), pod, metav1.UpdateOptions{})
	r.must(err)
	return r.event("FailedScheduling", true)
}

// event waits for an event of the run, or for a series of them.
func (r run) event(reason string, series bool) error {
	return r.within(r.limit, "event "+reason, func(ctx context.Context) (string, error) {
		list, err := r.client.EventsV1().Events(r.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error(), nil
		}
		for _, e := range list.Items {
			if e.Reason == reason && (!series || e.Series != nil) {
				return "", nil
			}
		}
		return fmt.Sprintf("%d events", len(list.Items)), nil
	})
}

func (b *bench) ungates(r run) error {
	r.pod("gated", "100m", func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: events.QuotaGate}}
	})
	return r.see("gated", "it has no gate", func(p *corev1.Pod) bool { return len(p.Spec.SchedulingGates) == 0 })
}

// fill leaves no room on the run's node for another of its pods.
func (r run) fill() {
	r.Helper()
	for i := range 2 {
		r.pod(fmt.Sprintf("filler-%d", i), "1500m", filler)
	}
	for i := range 2 {
		if err := r.see(fmt.Sprintf("filler-%d", i), "it is bound", placed); err != nil {
			r.Fatal(err) // binding is not what this step is about
		}
	}
}

func (b *bench) preempts(r run) error {
	r.fill()
	r.pod("urgent", "1500m", class("high"))
	return r.see("urgent", "it is bound", placed)
}

// preemptsInBudget: a pod that a budget covers is looked at before it is evicted.
func (b *bench) preemptsInBudget(r run) error {
	r.fill()
	r.budget(0, 2)
	r.pod("urgent", "1500m", class("high"))
	return r.see("urgent", "it is bound", placed)
}

// denial refuses what an expression does not allow, in one namespace.
const denial = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NS}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [RESOURCE]}
  validations:
  - expression: "ALLOWED"
    message: not here
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NS}
spec: {policyName: NS, validationActions: [Deny]}
`

// rehearsals are evictions that do not happen.
const rehearsals = "has(object.deleteOptions) && has(object.deleteOptions.dryRun) && " +
	"size(object.deleteOptions.dryRun) > 0"

// deny makes the API server refuse objects of a resource in the run's namespace that are created and not allowed, and
// waits until it refuses the attempt of try.
func (r run) deny(resource, allowed string, try func(context.Context) error) {
	r.Helper()
	_, err := r.kubectl(strings.NewReplacer("NS", r.ns, "RESOURCE", resource, "ALLOWED", allowed).Replace(denial),
		"apply", "-f", "-")
	r.must(err)
	r.eventually(inForceWithin, resource+" is refused", func(ctx context.Context) (string, error) {
		if err := try(ctx); err == nil || !strings.Contains(err.Error(), "not here") {
			return fmt.Sprint(err), nil
		}
		return "", nil
	})
}

// givesUp: evictions of a pod with a budget are refused although their rehearsals are not. What
// was sent may have taken from the budget, so it is read before the claim is given up.
func (b *bench) givesUp(r run) error {
	r.fill()
	r.budget(0, 2)
	r.deny("pods/eviction", rehearsals, func(ctx context.Context) error {
		return r.client.CoreV1().Pods(r.ns).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: named("nobody")})
	})
	store, err := r.openLedger("binder")
	r.must(err)
	r.pod("urgent", "1500m", class("high"))
	first := ""
	return r.within(r.limit, "a claim is given up", func(ctx context.Context) (string, error) {
		now, err := claims(ctx, store, r.node)
		switch {
		case err != nil:
			return "", err
		case first == "" && len(now) > 0:
			first = now[0]
		case first != "" && !slices.Contains(now, first):
			return "", nil
		}
		return fmt.Sprintf("claims %v", now), nil
	})
}

// claims are the victims on a node, each with its plan.
func claims(ctx context.Context, store *etcd.Store, node string) ([]string, error) {
	docs, _, err := store.List(ctx, ledger.PrefixNode)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, kv := range docs {
		doc, err := codec.DecodeNodeDoc(kv)
		if err != nil {
			return nil, err
		}
		for _, e := range doc.Entries {
			if doc.NodeName == node && e.Role == ledger.RoleVictim {
				all = append(all, e.PodUID+" for "+e.Plan)
			}
		}
	}
	return all, nil
}

func (b *bench) preemptsPastBudget(r run) error {
	r.fill()
	r.budget(2, 0)
	r.pod("urgent", "1500m", class("high"), func(p *corev1.Pod) { p.Spec.SchedulerName = bestEffort })
	return r.see("urgent", "it is bound", placed)
}

// budget covers the fillers; it waits for the controller that computes the allowed disruptions.
func (r run) budget(minimum int, allows int32) {
	r.Helper()
	least := intstr.FromInt(minimum)
	_, err := r.client.PolicyV1().PodDisruptionBudgets(r.ns).Create(r.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: named("fillers"),
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: labels("filler")},
	}, metav1.CreateOptions{})
	r.must(err)
	r.eventually(stepWithin, "the budget is worked out", func(ctx context.Context) (string, error) {
		pdb, err := r.client.PolicyV1().PodDisruptionBudgets(r.ns).Get(ctx, "fillers", metav1.GetOptions{})
		if err != nil || pdb.Status.ObservedGeneration == 0 || pdb.Status.DisruptionsAllowed != allows ||
			pdb.Status.CurrentHealthy != 2 {
			return fmt.Sprintf("%+v, %v", pdb.Status, err), nil
		}
		return "", nil
	})
}

// steadyFor is longer than it takes to notice that a dependency does not answer.
const steadyFor = 6 * time.Second

func (b *bench) staysReady(r run) error {
	var since time.Time
	return r.within(r.limit, "the binder stays ready", func(ctx context.Context) (string, error) {
		missing, err := r.binder.missing(ctx)
		switch {
		case err != nil || missing != "":
			since = time.Time{}
			return missing, err
		case since.IsZero():
			since = time.Now()
		}
		if time.Since(since) < steadyFor {
			return "not long yet", nil
		}
		return "", nil
	})
}
