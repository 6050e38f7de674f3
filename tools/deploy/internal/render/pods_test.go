package render_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/tools/deploy/internal/render"
)

// podValue is a value that all pods take: the value given for all of them, one component's own, the result of both,
// and the path in the template where the result lands.
type podValue struct{ all, own, both, lands string }

// Entries that begin with "test" are distinguished from the chart's own.
var podValues = map[string]podValue{
	"nodeSelector": {
		all: `{test-a: all, test-b: ""}`, own: `{test-b: own, test-c: ""}`,
		both: `{test-a: all, test-b: own, test-c: ""}`, lands: "spec.nodeSelector",
	},
	"podLabels": {
		all: `{test-a: all, test-b: ""}`, own: `{test-b: own}`,
		both: `{test-a: all, test-b: own}`, lands: "metadata.labels",
	},
	"podAnnotations": {
		all: `{test-a: all, test-b: ""}`, own: `{test-b: own}`,
		both: `{test-a: all, test-b: own}`, lands: "metadata.annotations",
	},
	"tolerations": {
		all: `[{key: test-all, operator: Exists}]`, own: `[{key: test-own, operator: Exists}]`,
		both: `[{key: test-own, operator: Exists}]`, lands: "spec.tolerations",
	},
	"affinity": {
		all: `{test-all: {a: {}}}`, own: `{test-own: {b: {}}}`, both: `{test-own: {b: {}}}`, lands: "spec.affinity",
	},
	"topologySpreadConstraints": {
		all: `[{topologyKey: test-all, labelSelector: {}}]`, own: `[{topologyKey: test-own, labelSelector: {}}]`,
		both: `[{topologyKey: test-own, labelSelector: {}}]`, lands: "spec.topologySpreadConstraints",
	},
	"extraEnv": {
		all: `[{name: test-a, value: all}, {name: test-b, value: all}]`, own: `[{name: test-b, value: own}]`,
		both: `[{name: test-a, value: all}, {name: test-b, value: own}]`, lands: "spec.containers.0.env",
	},
	"extraVolumes": {
		all: `[{name: test-a, emptyDir: {}}, {name: test-b, emptyDir: {}}]`, own: `[{name: test-b, secret: {}}]`,
		both: `[{name: test-a, emptyDir: {}}, {name: test-b, secret: {}}]`, lands: "spec.volumes",
	},
	"extraVolumeMounts": {
		all: `[{name: one, mountPath: /test-a}, {name: one, mountPath: /test-b}]`, own: `[{name: two, mountPath: /test-b}]`,
		both:  `[{name: one, mountPath: /test-a}, {name: two, mountPath: /test-b}]`,
		lands: "spec.containers.0.volumeMounts",
	},
}

// ofTest returns the entries that a test has given, without the chart's own.
func ofTest(t *testing.T, value any) any {
	t.Helper()
	if items, ok := value.(list); ok {
		return slices.DeleteFunc(slices.Clone(items), func(item any) bool {
			text, err := yaml.Marshal(item)
			return err != nil || !strings.Contains(string(text), "test-")
		})
	}
	given := object{}
	all, _ := value.(object)
	for key, value := range all {
		if strings.HasPrefix(key, "test-") {
			given[key] = value
		}
	}
	return given
}

// checkPodValues compares a template's values with the wanted ones.
func checkPodValues(t *testing.T, where string, template object, want func(podValue) string) {
	t.Helper()
	for name, v := range podValues {
		if diff := cmp.Diff(parse(t, want(v)), ofTest(t, field(template, v.lands))); diff != "" {
			t.Errorf("%s: %s: want (-), got (+):\n%s", where, name, diff)
		}
	}
}

// podValuesAt are all of them below a path.
func podValuesAt(t *testing.T, path string, given func(podValue) string) object {
	t.Helper()
	values := object{}
	for name, v := range podValues {
		values = with(values, set(path+"."+name, parse(t, given(v))))
	}
	return values
}

func forAll(v podValue) string { return v.all }
func own(v podValue) string    { return v.own }
func both(v podValue) string   { return v.both }

// TestEveryPodTakesWhatIsForAll: every workload that makes pods, in every variant.
func TestEveryPodTakesWhatIsForAll(t *testing.T) {
	secret := set("image.pullSecrets", parse(t, "[{name: registry}]"))
	for _, d := range everyPod(t, podValuesAt(t, "pods", forAll), secret) {
		checkPodValues(t, d.variant+" "+d.workload, d.template, forAll)
		if got := field(d.template, "spec.imagePullSecrets.0.name"); got != "registry" {
			t.Errorf("%s: %s: image.pullSecrets: %v, want registry", d.variant, d.workload, got)
		}
		want := 1
		if d.workload == "StatefulSet/nats" {
			want = 3 // the containers next to the server take none of these values
		}
		if all := field(d.template, "spec.containers").(list); len(all) != want {
			t.Errorf("%s: %s has %d containers: this test looks at the first", d.variant, d.workload, len(all))
		}
	}
}

// TestAComponentHasItsOwn: its values are for its pods alone, and are combined with the defaults as values.yaml says.
func TestAComponentHasItsOwn(t *testing.T) {
	for _, w := range workloads {
		given := podValuesAt(t, w.values, own)
		for other, template := range templates(chartObjects(t, w.variant, given, podValuesAt(t, "pods", forAll))) {
			want := forAll
			if other == w.name {
				want = both
			}
			checkPodValues(t, fmt.Sprintf("%s, given for %s and for all", other, w.values), template, want)
		}
		template := templates(chartObjects(t, w.variant, given))[w.name]
		checkPodValues(t, fmt.Sprintf("%s, given for %s", w.name, w.values), template, own)
	}
}

// TestSpread: a list replaces the default constraints, and one without a selector is about the component's own pods.
func TestSpread(t *testing.T) {
	values := set("pods.topologySpreadConstraints",
		parse(t, "[{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}]"))
	for _, d := range everyPod(t, values) {
		_, component, _ := strings.Cut(d.workload, "/")
		want := parse(t, fmt.Sprintf(`[{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector:
			{matchLabels: {app.kubernetes.io/name: berth, app.kubernetes.io/part-of: berth,
			app.kubernetes.io/component: %s}}}]`, component))
		if diff := cmp.Diff(want, field(d.template, "spec.topologySpreadConstraints")); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", d.workload, diff)
		}
	}
}

// TestExtraArgsComeLast: where they win over the chart's own.
func TestExtraArgsComeLast(t *testing.T) {
	for _, w := range workloads {
		if w.ofStore() {
			continue
		}
		values := set(w.values+".extraArgs", list{"--log-level=debug", "--one=more"})
		args, _ := field(templates(chartObjects(t, w.variant, values))[w.name], "spec.containers.0.args").(list)
		if len(args) < 3 || args[len(args)-2] != "--log-level=debug" || args[len(args)-1] != "--one=more" {
			t.Errorf("%s: %v, want the given ones last", w.name, args)
		}
	}
}

// TestServiceAccountsHaveTheirAnnotations: those for all, and the component's own.
func TestServiceAccountsHaveTheirAnnotations(t *testing.T) {
	all := set("pods.serviceAccountAnnotations", parse(t, "{a: all, b: all}"))
	for _, w := range workloads {
		path := w.values
		if w.ofStore() {
			path = "stores"
		}
		own := set(path+".serviceAccountAnnotations", object{"b": "own"})
		for _, o := range ofKind(chartObjects(t, w.variant, all, own), "ServiceAccount") {
			want := map[string]string{"a": "all", "b": "all"}
			if o.GetName() == "berth-"+path {
				want["b"] = "own"
			}
			if diff := cmp.Diff(want, o.GetAnnotations()); diff != "" {
				t.Errorf("%s: want (-), got (+):\n%s", o.GetName(), diff)
			}
		}
	}
}

// TestCommonLabels: on every object and pod, and in no selector, which could never change again.
func TestCommonLabels(t *testing.T) {
	everything := parse(t, `{commonLabels: {team: blue}, serviceMonitor: {enabled: true}, prometheusRule: {enabled: true},
		grafanaDashboard: {enabled: true}, quotaGate: {enabled: true}, queue: {metricsInterval: 30s},
		binder: {nodeMarks: write},
		networkPolicy: {extenderPorts: [8888], extraEgress: {queue: [{}]}}}`).(object)
	for _, v := range render.Variants() {
		autoscaled := set("scheduler.autoscaling.enabled", v.Name != "dev") // refused in mode single
		for _, o := range chartObjects(t, v.Name, everything, autoscaled) {
			if o.GetLabels()["team"] != "blue" {
				t.Errorf("%s: %s %s: labels %v", v.Name, o.GetKind(), o.GetName(), o.GetLabels())
			}
			checkSelectors(t, o)
		}
	}
	for _, d := range everyPod(t, everything) {
		if field(d.template, "metadata.labels.team") != "blue" {
			t.Errorf("%s: the pods of %s have no such label", d.variant, d.workload)
		}
	}
}

func checkSelectors(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	for _, path := range []string{
		"spec.selector", "spec.podSelector", "spec.template.spec.topologySpreadConstraints",
	} {
		text, err := yaml.Marshal(field(o.Object, path))
		if err != nil || strings.Contains(string(text), "team") {
			t.Errorf("%s %s selects by a common label: %s", o.GetKind(), o.GetName(), text)
		}
	}
}

// TestPriorityClass: all pods name one, and the chart makes it unless it exists.
func TestPriorityClass(t *testing.T) {
	for given, want := range map[string]struct {
		name string
		made bool
	}{
		"{}":                           {"berth-control-plane", true},
		"{value: 7}":                   {"berth-control-plane", true},
		"{create: false}":              {"berth-control-plane", false},
		"{name: system-cluster-first}": {"system-cluster-first", false},
	} {
		values := object{"priorityClass": parse(t, given)}
		for _, d := range everyPod(t, values) {
			if got := field(d.template, "spec.priorityClassName"); got != want.name {
				t.Errorf("%s: %s: %v, want %s", given, d.workload, got, want.name)
			}
		}
		if made := len(ofKind(chartObjects(t, "ha", values), "PriorityClass")) > 0; made != want.made {
			t.Errorf("%s: a class is made: %t", given, made)
		}
	}
}

// TestAStoreMayHaveAMemoryLimit: GOMEMLIMIT is the chart's in services alone.
func TestAStoreMayHaveAMemoryLimit(t *testing.T) {
	limit := parse(t, "[{name: GOMEMLIMIT, value: 1GiB}]")
	pods := templates(chartObjects(t, "ha", set("stores.etcd.extraEnv", limit), set("stores.nats.extraEnv", limit)))
	for _, store := range []string{"StatefulSet/etcd", "StatefulSet/nats"} {
		env, _ := field(pods[store], "spec.containers.0.env").(list)
		if len(env) != 2 || !cmp.Equal(env[1], limit.(list)[0]) {
			t.Errorf("%s: %v, want POD_NAME and the limit", store, env)
		}
	}
}
