package render_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-scheduler/berth/tools/deploy/internal/render"
)

// podSpec finds the template of any object that makes pods.
func podSpec(o *unstructured.Unstructured) (map[string]any, bool) {
	path := []string{"spec", "template", "spec"}
	if o.GetKind() == "CronJob" {
		path = append([]string{"spec", "jobTemplate"}, path...)
	}
	spec, ok, err := unstructured.NestedMap(o.Object, path...)
	return spec, ok && err == nil
}

func component(o *unstructured.Unstructured) string {
	return o.GetLabels()["app.kubernetes.io/component"]
}

// credentialed are the components that may talk to Kubernetes.
var credentialed = []string{"queue", "binder", "single"}

// TestEveryPodIsConfined: no root, no capability, nothing writable, no credentials but for
// those that need them, and never a pod that Berth would have to place itself.
func TestEveryPodIsConfined(t *testing.T) {
	for _, v := range render.Variants() {
		chart, _ := objectsOf(t, v)
		for _, o := range chart {
			spec, ok := podSpec(o)
			if !ok {
				continue
			}
			t.Run(v.Name+"/"+o.GetKind()+"/"+o.GetName(), func(t *testing.T) {
				checkPod(t, component(o), spec)
				if names := profiles(t, chart); slices.Contains(names, spec["schedulerName"].(string)) {
					t.Errorf("placed by %s, which is Berth", spec["schedulerName"])
				}
			})
		}
	}
}

func checkPod(t *testing.T, component string, spec map[string]any) {
	t.Helper()
	if got := spec["automountServiceAccountToken"]; got != slices.Contains(credentialed, component) {
		t.Errorf("automountServiceAccountToken of %s is %v", component, got)
	}
	at := func(o map[string]any, path ...string) any {
		value, _, err := unstructured.NestedFieldNoCopy(o, path...)
		if err != nil {
			t.Error(err)
		}
		return value
	}
	if at(spec, "securityContext", "runAsNonRoot") != true ||
		at(spec, "securityContext", "seccompProfile", "type") != "RuntimeDefault" {
		t.Errorf("security context of the pod: %v", spec["securityContext"])
	}
	for _, c := range spec["containers"].([]any) {
		container := c.(map[string]any)
		drop, _, _ := unstructured.NestedStringSlice(container, "securityContext", "capabilities", "drop")
		if at(container, "securityContext", "readOnlyRootFilesystem") != true ||
			at(container, "securityContext", "allowPrivilegeEscalation") != false || !slices.Equal(drop, []string{"ALL"}) {
			t.Errorf("security context of %v: %v", container["name"], container["securityContext"])
		}
		if at(container, "resources", "requests", "memory") == nil || at(container, "resources", "limits", "memory") == nil {
			t.Errorf("%v has no memory request or limit", container["name"])
		}
	}
}

// profiles are the scheduler names of the variant's own configuration.
func profiles(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != "ConfigMap" || o.GetName() != "berth-config" {
			continue
		}
		text, _, _ := unstructured.NestedString(o.Object, "data", "scheduler.yaml")
		config, err := render.Objects(text)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		all, _, _ := unstructured.NestedSlice(config[0].Object, "profiles")
		for _, p := range all {
			names = append(names, p.(map[string]any)["schedulerName"].(string))
		}
		return names
	}
	t.Fatal("no configuration")
	return nil
}

// TestHandOverChangesTheConfigurationAlone: from canary to replace-default no object differs but the ConfigMap, which
// has a profile more. So no store is replaced at that moment, no descheduler begins, and no pod loses its scheduler.
func TestHandOverChangesTheConfigurationAlone(t *testing.T) {
	before, _ := objectsOf(t, render.Variant{Name: "canary"})
	after, _ := objectsOf(t, render.Variant{Name: "replace-default"})
	if len(before) != len(after) {
		t.Fatalf("%d objects before, %d after", len(before), len(after))
	}
	for i := range before {
		if before[i].GetKind() == "ConfigMap" && before[i].GetName() == "berth-config" {
			continue
		}
		if diff := cmp.Diff(before[i].Object, after[i].Object); diff != "" {
			t.Errorf("%s %s: %s", before[i].GetKind(), before[i].GetName(), diff)
		}
		if component(before[i]) == "descheduler" {
			t.Errorf("%s %s: want no descheduler that nobody asked for", before[i].GetKind(), before[i].GetName())
		}
	}
	for _, name := range profiles(t, before) {
		if !slices.Contains(profiles(t, after), name) {
			t.Errorf("pods of %s have no scheduler after the hand-over", name)
		}
	}
	if !slices.Contains(profiles(t, after), "default-scheduler") {
		t.Errorf("profiles %q: want default-scheduler", profiles(t, after))
	}
}

// TestEveryRuleOfThePoliciesNamesPorts: a rule without ports, or without anything, opens all of them.
func TestEveryRuleOfThePoliciesNamesPorts(t *testing.T) {
	bare := map[string]any{"otlp": map[string]any{"ports": []any{}}, "apiServers": []any{}, "externalStores": []any{}}
	variants := append(render.Variants(), render.Variant{Name: render.Base, Set: map[string]any{"networkPolicy": bare}},
		render.Variant{Name: "ha", Set: map[string]any{"networkPolicy": bare}})
	for _, v := range variants {
		templates, err := render.Chart(root, v)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := render.Objects(render.Merged(templates))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if o.GetKind() == "NetworkPolicy" {
				checkPolicy(t, v.Name, o)
			}
		}
	}
}

func checkPolicy(t *testing.T, variant string, policy *unstructured.Unstructured) {
	t.Helper()
	for _, direction := range []string{"ingress", "egress"} {
		rules, _, err := unstructured.NestedSlice(policy.Object, "spec", direction)
		if err != nil {
			t.Error(err)
		}
		for _, r := range rules {
			ports, _, err := unstructured.NestedSlice(r.(map[string]any), "ports")
			if err != nil || len(ports) == 0 {
				t.Errorf("%s: %s, %s: rule %v: %v: want ports", variant, policy.GetName(), direction, r, err)
			}
		}
	}
}

// TestNoOtherAccountHasRights: roles exist for the components with credentials only, and none has a wildcard, a secret,
// or a right to grant rights. The only other role is the observer's, which is bound to no account.
func TestNoOtherAccountHasRights(t *testing.T) {
	for _, v := range render.Variants() {
		chart, _ := objectsOf(t, v)
		for _, o := range chart {
			checkRights(t, v.Name, o)
		}
	}
}

func checkRights(t *testing.T, variant string, o *unstructured.Unstructured) {
	t.Helper()
	switch o.GetKind() {
	case "ClusterRole":
		if !slices.Contains(credentialed, component(o)) {
			t.Errorf("%s: %s has rights", variant, o.GetName())
		}
		rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
		for _, r := range rules {
			checkRule(t, variant+" "+o.GetName(), r.(map[string]any))
		}
	case "Role":
		checkObserver(t, variant, o)
	case "RoleBinding":
		t.Errorf("%s: %s %s", variant, o.GetKind(), o.GetName())
	}
}

// checkObserver: the observer's role permits reading one secret and forwarding ports of the stores' pods.
func checkObserver(t *testing.T, variant string, o *unstructured.Unstructured) {
	t.Helper()
	rules, _, err := unstructured.NestedSlice(o.Object, "rules")
	if err != nil {
		t.Fatal(err)
	}
	pods := []any{"berth-etcd-0", "berth-etcd-1", "berth-etcd-2", "berth-nats-0", "berth-nats-1", "berth-nats-2"}
	core := []any{""}
	want := []any{
		map[string]any{
			"apiGroups": core, "resources": []any{"secrets"}, "verbs": []any{"get"},
			"resourceNames": []any{"berth-observer-tls"},
		},
		map[string]any{"apiGroups": core, "resources": []any{"pods"}, "verbs": []any{"list"}},
		map[string]any{
			"apiGroups": core, "resources": []any{"pods/portforward"}, "verbs": []any{"create", "get"},
			"resourceNames": pods,
		},
	}
	if diff := cmp.Diff(want, rules); diff != "" || o.GetName() != "berth-observer" {
		t.Errorf("%s: Role %s (-want +got):\n%s", variant, o.GetName(), diff)
	}
}

// readsMetrics is the only right to a path of the API server: its metrics name the feature gates.
var readsMetrics = map[string]any{"nonResourceURLs": []any{"/metrics"}, "verbs": []any{"get"}}

func checkRule(t *testing.T, where string, rule map[string]any) {
	t.Helper()
	if reflect.DeepEqual(rule, readsMetrics) {
		return
	}
	for _, field := range []string{"apiGroups", "resources", "verbs"} {
		values, _, err := unstructured.NestedStringSlice(rule, field)
		if err != nil || len(values) == 0 {
			t.Errorf("%s: rule %v: %s: %v", where, rule, field, err)
		}
		for _, value := range values {
			if strings.Contains(value, "*") ||
				slices.Contains([]string{"secrets", "bind", "escalate", "impersonate", "serviceaccounts/token"}, value) {
				t.Errorf("%s: rule %v gives %s", where, rule, value)
			}
		}
	}
}

// ofKubeScheduler are the rights to change something that kube-scheduler has too, by the default roles
// system:kube-scheduler and system:volume-scheduler
// (plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go of Kubernetes 1.36).
var ofKubeScheduler = []string{
	"create pods/binding", "patch pods/status", "delete pods", "patch scheduling.k8s.io/podgroups/status",
	"create events.k8s.io/events", "patch events.k8s.io/events",
	"patch persistentvolumes", "patch persistentvolumeclaims",
	"patch resource.k8s.io/resourceclaims", "create resource.k8s.io/resourceclaims",
	"delete resource.k8s.io/resourceclaims", "patch resource.k8s.io/resourceclaims/status",
	"patch resource.k8s.io/resourceclaims/binding",
}

// beyondThose are the other rights, each with its purpose by role.
var beyondThose = map[string]map[string]string{
	"create pods/eviction": {
		"berth-binder": "evictions that disruption budgets may forbid",
		"berth-single": "the same",
	},
	"patch pods":  {"berth-quota-gate": "removal of a gate"},
	"patch nodes": {"berth-node-marks": "marks for cluster autoscalers"},
}

// TestNoOtherRightToChange: the shipped roles may change what kube-scheduler may change, and the resources listed
// here. The right to patch pods includes the image of every container, privileged ones too: it comes with the quota
// gate alone. The right to patch nodes includes taints that evict pods: it comes with the marks for autoscalers alone.
func TestNoOtherRightToChange(t *testing.T) {
	gated := render.Variant{Name: render.Base, Set: map[string]any{"quotaGate": map[string]any{"enabled": true}}}
	marking := render.Variant{Name: render.Base, Set: map[string]any{"binder": map[string]any{"nodeMarks": "write"}}}
	for _, v := range append(render.Variants(), gated, marking) {
		templates, err := render.Chart(root, v)
		if err != nil {
			t.Fatal(err)
		}
		chart, err := render.Objects(render.Merged(templates))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range chart {
			if o.GetKind() == "ClusterRole" {
				checkChanges(t, v, o)
			}
		}
	}
}

func checkChanges(t *testing.T, v render.Variant, role *unstructured.Unstructured) {
	t.Helper()
	for _, change := range changesOf(role) {
		if !slices.Contains(ofKubeScheduler, change) && beyondThose[change][role.GetName()] == "" {
			t.Errorf("%s %v: %s may %s: want it listed, and why", v.Name, v.Set, role.GetName(), change)
		}
	}
}

// changesOf are "verb group/resource" of a role's rights that are not to read.
func changesOf(role *unstructured.Unstructured) (list []string) {
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	for _, r := range rules {
		values := func(field string) []string {
			items, _, _ := unstructured.NestedStringSlice(r.(map[string]any), field)
			return items
		}
		for _, group := range values("apiGroups") {
			for _, resource := range values("resources") {
				list = append(list, changing(values("verbs"), group, resource)...)
			}
		}
	}
	return list
}

func changing(verbs []string, group, resource string) (list []string) {
	for _, verb := range verbs {
		if !slices.Contains([]string{"get", "list", "watch"}, verb) {
			list = append(list, verb+" "+strings.TrimPrefix(group+"/"+resource, "/"))
		}
	}
	return list
}

// TestTheQueueChangesNothing: its roles read, and nothing else.
func TestTheQueueChangesNothing(t *testing.T) {
	for _, v := range render.Variants() {
		chart, _ := objectsOf(t, v)
		for _, o := range chart {
			if o.GetKind() == "ClusterRole" && component(o) == "queue" {
				checkReads(t, v.Name, o)
			}
		}
	}
}

func checkReads(t *testing.T, variant string, role *unstructured.Unstructured) {
	t.Helper()
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	for _, r := range rules {
		verbs, _, err := unstructured.NestedStringSlice(r.(map[string]any), "verbs")
		writes := slices.ContainsFunc(verbs, func(verb string) bool {
			return !slices.Contains([]string{"get", "list", "watch"}, verb)
		})
		if err != nil || len(verbs) == 0 || writes {
			t.Errorf("%s: %s: %v, want get, list and watch alone", variant, role.GetName(), r)
		}
	}
}
