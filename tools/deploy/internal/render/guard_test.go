package render_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/tools/deploy/internal/render"
)

// fileObjects are those of a file.
func fileObjects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := render.Objects(read(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestTheGuardIsAppliedByItself: it can keep a driver, or Berth, from coming back. So it comes with nothing that an
// installation or an upgrade applies again.
func TestTheGuardIsAppliedByItself(t *testing.T) {
	for _, v := range render.Variants() {
		if find(chartObjects(t, v.Name), "ValidatingAdmissionPolicy", "bootstrap-scheduler-guard") != nil {
			t.Errorf("variant %s of the chart has the guard", v.Name)
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "deploy/k8s/*/*/*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files of components and overlays: %v", len(files), err)
	}
	for _, file := range files {
		dir := filepath.Base(filepath.Dir(file))
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if dir != "bootstrap-scheduler-guard" && strings.Contains(string(raw), "bootstrap-scheduler-guard") {
			t.Errorf("%s names the guard", file)
		}
	}
}

// TestBootstrapSchedulerIsGuarded: the name is refused in the namespace of a tenant, and not where the policy applies
// that gives pods to bootstrap-scheduler, nor in Berth's own namespace.
func TestBootstrapSchedulerIsGuarded(t *testing.T) {
	objects := fileObjects(t, "deploy/k8s/components/bootstrap-scheduler-guard/guard.yaml")
	guard := find(objects, "ValidatingAdmissionPolicy", "bootstrap-scheduler-guard")
	binding := find(objects, "ValidatingAdmissionPolicyBinding", "bootstrap-scheduler-guard")
	for path, want := range map[string]any{
		"spec.failurePolicy": "Fail",
		"spec.matchConstraints.resourceRules": list{object{
			"apiGroups": list{""}, "apiVersions": list{"v1"}, "operations": list{"CREATE"}, "resources": list{"pods"},
		}},
		"spec.validations.0.expression": "!has(object.spec.schedulerName) || " +
			"object.spec.schedulerName != 'bootstrap-scheduler'",
	} {
		if diff := cmp.Diff(want, field(guard, path)); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", path, diff)
		}
	}
	if field(binding, "spec.policyName") != "bootstrap-scheduler-guard" ||
		!cmp.Equal(field(binding, "spec.validationActions"), list{"Deny"}) {
		t.Errorf("binding %v", field(binding, "spec"))
	}
	guarded := selector(t, field(guard, "spec.matchConstraints.namespaceSelector"))
	given := 0
	bootstrap := fileObjects(t, "deploy/k8s/components/bootstrap-scheduler/bootstrap.yaml")
	for _, o := range ofKind(bootstrap, "MutatingAdmissionPolicyBinding") {
		given++
		for _, set := range []labels.Set{
			{"kubernetes.io/metadata.name": "kube-system"},
			{"kubernetes.io/metadata.name": "storage", "berth.dev/bootstrap": "true"},
		} {
			gives := selector(t, field(o.Object, "spec.matchResources.namespaceSelector")).Matches(set)
			if gives && guarded.Matches(set) {
				t.Errorf("%s gives pods of %v to bootstrap-scheduler, and the guard refuses them", o.GetName(), set)
			}
		}
	}
	if given != 2 {
		t.Errorf("%d bindings give pods to bootstrap-scheduler, want 2", given)
	}
	// An installation in another namespace is guarded until that has the label.
	for name, want := range map[string]bool{render.Namespace: false, "shop": true, "berth-prod": true} {
		set := labels.Set{"kubernetes.io/metadata.name": name}
		if got := guarded.Matches(set); got != want {
			t.Errorf("namespace %s is guarded: %t, want %t", name, got, want)
		}
		set["berth.dev/bootstrap"] = "true"
		if guarded.Matches(set) {
			t.Errorf("namespace %s is guarded with the label", name)
		}
	}
}

func selector(t *testing.T, from any) labels.Selector {
	t.Helper()
	of, _ := from.(object)
	var s metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(of, &s); err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

// resource is the one of a right without its group, such as "pods/binding" of "create pods/binding".
var resource = regexp.MustCompile(`^\w+ (?:[a-z0-9]+\.[a-z0-9.]+/)?(.*)$`)

// TestSecurityPageNamesTheBindersRights: what a binder that was taken over may change is all in its row.
func TestSecurityPageNamesTheBindersRights(t *testing.T) {
	var row string
	for line := range strings.Lines(read(t, "docs/security.md")) {
		if strings.HasPrefix(line, "| has taken over a binder |") {
			row = line
		}
	}
	var rights []string
	for _, o := range ofKind(chartObjects(t, "base"), "ClusterRole") {
		if component(o) == "binder" {
			rights = append(rights, changesOf(o)...)
		}
	}
	if len(rights) < 10 {
		t.Fatalf("rights of the binder: %q", rights)
	}
	slices.Sort(rights)
	for _, right := range rights {
		if name := "`" + resource.FindStringSubmatch(right)[1] + "`"; !strings.Contains(row, name) {
			t.Errorf("the binder may %s, and docs/security.md does not name %s", right, name)
		}
	}
}
