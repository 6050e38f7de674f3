package render_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-scheduler/berth/tools/deploy/internal/render"
)

const root = "../../../.."

// objectsOf returns a variant's objects by either way.
func objectsOf(t *testing.T, v render.Variant) (chart, kustomization []*unstructured.Unstructured) {
	t.Helper()
	templates, err := render.Chart(root, v)
	if err != nil {
		t.Fatal(err)
	}
	if chart, err = render.Objects(render.Merged(templates)); err != nil {
		t.Fatal(err)
	}
	text, err := render.Kustomization(root, v)
	if err != nil {
		t.Fatal(err)
	}
	if kustomization, err = render.Objects(text); err != nil {
		t.Fatal(err)
	}
	return chart, kustomization
}

// isNamespace: Helm makes the namespace itself (--create-namespace), before the chart.
func isNamespace(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" }

// TestBothWaysGiveTheSame is the promise of deploy/: whichever tool installs a variant.
func TestBothWaysGiveTheSame(t *testing.T) {
	for _, v := range render.Variants() {
		t.Run(v.Name, func(t *testing.T) {
			chart, kustomization := objectsOf(t, v)
			kustomization = slices.DeleteFunc(kustomization, isNamespace)
			if diff := cmp.Diff(chart, kustomization); diff != "" {
				t.Errorf("chart (-) and kustomization (+) differ:\n%s", diff)
			}
			if len(chart) < 8 {
				t.Errorf("%d objects: want at least 8", len(chart))
			}
		})
	}
}

// Values that are newer than a release may be absent: helm upgrade --reuse-values renders as with their defaults.
func TestNewerValuesMayBeAbsent(t *testing.T) {
	newer := []string{
		"queue.lease", "queue.metricsInterval", "binder.nodeMarks", "binder.scheduledEvents", "tls.tokenReview",
	}
	for _, name := range []string{render.Base, "dev"} {
		want, err := render.Chart(root, render.Variant{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		got, err := render.Chart(root, render.Variant{Name: name, Absent: newer})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s without %v (-with +without):\n%s", name, newer, diff)
		}
	}
}

// A component adds to the base the same objects as the chart does with the corresponding values.
func TestComponentsAreValues(t *testing.T) {
	enabled := map[string]any{"enabled": true}
	for component, set := range map[string]map[string]any{
		"metrics":      {"queue": map[string]any{"metricsInterval": "30s"}},
		"monitoring":   {"serviceMonitor": enabled, "prometheusRule": enabled},
		"quota-gate":   {"quotaGate": enabled},
		"autoscaling":  {"scheduler": map[string]any{"autoscaling": enabled}},
		"token-review": {"tls": map[string]any{"tokenReview": true}},
		"lease":        {"queue": map[string]any{"lease": "kube-system/kube-scheduler"}},
		"node-marks":   {"binder": map[string]any{"nodeMarks": "write"}},
	} {
		t.Run(component, func(t *testing.T) {
			templates, err := render.Chart(root, render.Variant{Name: render.Base, Set: set})
			if err != nil {
				t.Fatal(err)
			}
			chart, err := render.Objects(render.Merged(templates))
			if err != nil {
				t.Fatal(err)
			}
			text, err := render.Kustomize(withComponent(t, component))
			if err != nil {
				t.Fatal(err)
			}
			kustomization, err := render.Objects(text)
			if err != nil {
				t.Fatal(err)
			}
			kustomization = slices.DeleteFunc(kustomization, isNamespace)
			sortArgs(chart)
			sortArgs(kustomization)
			if diff := cmp.Diff(chart, kustomization); diff != "" {
				t.Errorf("chart (-) and component (+) differ:\n%s", diff)
			}
			if component == "metrics" {
				checkMetrics(t, kustomization)
			}
		})
	}
}

// Extenders are reachable through the configured ports, by the services that call them, and by none without such
// ports.
func TestExtendersAreReachedThroughTheirPorts(t *testing.T) {
	for _, ports := range [][]any{nil, {8888.0, 9443.0}} {
		set := map[string]any{"networkPolicy": map[string]any{"extenderPorts": ports}}
		templates, err := render.Chart(root, render.Variant{Name: render.Base, Set: set})
		if err != nil {
			t.Fatal(err)
		}
		objects, err := render.Objects(render.Merged(templates))
		if err != nil {
			t.Fatal(err)
		}
		var got []any
		for _, o := range objects {
			if o.GetKind() != "NetworkPolicy" || o.GetName() != "berth-extenders" {
				continue
			}
			got = append(got, portsOut(o)...)
			pods, _, _ := unstructured.NestedSlice(o.Object, "spec", "podSelector", "matchExpressions")
			if len(pods) != 1 || !cmp.Equal(pods[0].(map[string]any)["values"], []any{"scheduler", "binder", "single"}) {
				t.Errorf("it is about %v, want schedulers and binders", pods)
			}
		}
		if diff := cmp.Diff(ports, got); diff != "" {
			t.Errorf("ports given (-) and open (+):\n%s", diff)
		}
	}
}

// portsOut are those that a network policy lets out to.
func portsOut(o *unstructured.Unstructured) (ports []any) {
	rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "egress")
	for _, rule := range rules {
		list, _, _ := unstructured.NestedSlice(rule.(map[string]any), "ports")
		for _, port := range list {
			ports = append(ports, port.(map[string]any)["port"])
		}
	}
	return ports
}

// withComponent is a kustomization of the base with one component.
func withComponent(t *testing.T, component string) (dir string) {
	return kustomizationOf(t, "base", component)
}

// kustomizationOf is a folder of deploy/k8s with some components.
func kustomizationOf(t *testing.T, folder string, components ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	k8s, err := filepath.Abs(filepath.Join(root, "deploy", "k8s"))
	if err != nil {
		t.Fatal(err)
	}
	if k8s, err = filepath.Rel(dir, k8s); err != nil {
		t.Fatal(err)
	}
	text := "resources: [" + k8s + "/" + folder + "]\ncomponents:\n"
	for _, component := range components {
		text += "- " + k8s + "/components/" + component + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// argsOf are those of the first container.
func argsOf(spec map[string]any) []any {
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		return nil
	}
	first, _ := containers[0].(map[string]any)
	args, _ := first["args"].([]any)
	return args
}

// sortArgs puts flags in order: a patch can only add to their end.
func sortArgs(objects []*unstructured.Unstructured) {
	for _, o := range objects {
		spec, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec")
		if pod, ok := spec.(map[string]any); ok {
			slices.SortFunc(argsOf(pod), func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
}

// checkMetrics: the queue is configured to poll metrics.k8s.io, and only the queue may list the metrics served there.
func checkMetrics(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	list := func(resource string) any {
		return map[string]any{
			"apiGroups": []any{"metrics.k8s.io"}, "resources": []any{resource}, "verbs": []any{"list"},
		}
	}
	polls, allowed, bound := false, false, ""
	for _, o := range objects {
		switch o.GetKind() + " " + o.GetName() {
		case "Deployment berth-queue":
			spec, _ := podSpec(o)
			polls = slices.Contains(argsOf(spec), any("--metrics-interval=30s"))
		case "ClusterRole berth-metrics":
			rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
			allowed = cmp.Equal(rules, []any{list("nodes"), list("pods")})
		case "ClusterRoleBinding berth-metrics":
			subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
			role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
			if len(subjects) == 1 && role == "berth-metrics" {
				subject := subjects[0].(map[string]any)
				bound, _ = subject["name"].(string)
			}
		}
	}
	if !polls || !allowed || bound != "berth-queue" {
		t.Errorf("the queue polls: %t, the role allows just that: %t, it is bound to %q", polls, allowed, bound)
	}
}

func TestGeneratedFilesAreFresh(t *testing.T) {
	if err := render.Generate(root, true); err != nil {
		t.Error(err)
	}
}

// A descheduler evicts pods of every scheduler: the chart has one only where the values ask for it.
func TestNoDeschedulerUnlessAskedFor(t *testing.T) {
	for _, mode := range []string{"services", "single"} {
		for kind, want := range map[string]bool{"": false, "None": false, "Deployment": true} {
			set := map[string]any{"mode": mode}
			if kind != "" {
				set["descheduler"] = map[string]any{"kind": kind}
			}
			templates, err := render.Chart(root, render.Variant{Set: set})
			if err != nil {
				t.Fatal(err)
			}
			text := render.Merged(templates)
			got := strings.Contains(text, "name: berth-descheduler\n") || strings.Contains(text, "--policy")
			if got != want {
				t.Errorf("mode %s, descheduler.kind %q: a descheduler: %v, want %v", mode, kind, got, want)
			}
		}
	}
}

// TestEveryOverlayIsAVariant: a folder that is not rendered is not checked.
func TestEveryOverlayIsAVariant(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root, "deploy", "k8s", "overlays"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{render.Base}
	for _, e := range entries {
		want = append(want, e.Name())
	}
	var got []string
	for _, v := range render.Variants() {
		got = append(got, v.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("folders (-) and variants (+) differ:\n%s", diff)
	}
}

// TestBadValuesAreRefused: the schema names the value and the accepted ones.
func TestBadValuesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		set  map[string]any
		says string
	}{
		"unknown key":      {map[string]any{"queu": map[string]any{"replicas": 2}}, "queu"},
		"no replicas":      {map[string]any{"queue": map[string]any{"replicas": 0}}, "replicas"},
		"kind":             {map[string]any{"descheduler": map[string]any{"kind": "Daemon"}}, "kind"},
		"no port":          {map[string]any{"networkPolicy": map[string]any{"extenderPorts": []any{0}}}, "extenderPorts"},
		"digest":           {map[string]any{"image": map[string]any{"digest": "latest"}}, "digest"},
		"above the system": {map[string]any{"priorityClass": map[string]any{"value": 2000000000}}, "value"},
		"other config":     {map[string]any{"config": map[string]any{"kind": "Pod"}}, "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render.Chart(root, render.Variant{Name: render.Base, Set: c.set})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an error that names %s", err, c.says)
			}
		})
	}
}
