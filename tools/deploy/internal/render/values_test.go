package render_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/tools/deploy/internal/render"
)

// object and list are values and rendered objects as YAML has them.
type (
	object = map[string]any
	list   = []any
)

// parse reads YAML.
func parse(t *testing.T, text string) (value any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// set is a value at its path, such as "stores.etcd.replicas".
func set(path string, value any) object {
	for _, key := range slices.Backward(strings.Split(path, ".")) {
		value = object{key: value}
	}
	return value.(object)
}

// with is the sum of some values. It shares nothing with them, for the renderer adds to its input.
func with(all ...object) object {
	sum := object{}
	for _, values := range all {
		for key, value := range values {
			if inner, ok := value.(object); ok {
				before, _ := sum[key].(object)
				value = with(before, inner)
			}
			sum[key] = value
		}
	}
	return sum
}

// chartObjects are the objects of a variant with some values.
func chartObjects(t *testing.T, variant string, values ...object) []*unstructured.Unstructured {
	t.Helper()
	templates, err := render.Chart(root, render.Variant{Name: variant, Set: with(values...)})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := render.Objects(render.Merged(templates))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// find returns the object of a kind with a name, nil if there is none.
func find(objects []*unstructured.Unstructured, kind, name string) object {
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o.Object
		}
	}
	return nil
}

// ofKind are the objects of a kind.
func ofKind(objects []*unstructured.Unstructured, kind string) (all []*unstructured.Unstructured) {
	for _, o := range objects {
		if o.GetKind() == kind {
			all = append(all, o)
		}
	}
	return all
}

// field is a part of an object by its path, nil if it is not there. "0" is the first item of a list.
func field(from any, path string) any {
	for _, key := range strings.Split(path, ".") {
		if items, ok := from.(list); ok && key == "0" && len(items) > 0 {
			from = items[0]
			continue
		}
		of, _ := from.(object)
		from = of[key]
	}
	return from
}

// templates are the pod templates of some objects, by kind and component.
func templates(objects []*unstructured.Unstructured) map[string]object {
	all := map[string]object{}
	for _, o := range objects {
		path := "spec.template"
		if o.GetKind() == "CronJob" {
			path = "spec.jobTemplate.spec.template"
		}
		if template, ok := field(o.Object, path).(object); ok {
			all[o.GetKind()+"/"+component(o)] = template
		}
	}
	return all
}

// workload makes pods: kind and component, a variant that has it, and the path of its values.
type workload struct{ name, variant, values string }

// workloads are all that the chart can deploy.
var workloads = []workload{
	{"Deployment/queue", "ha", "queue"}, {"Deployment/scheduler", "ha", "scheduler"},
	{"Deployment/binder", "ha", "binder"}, {"Deployment/descheduler", "ha", "descheduler"},
	{"CronJob/descheduler", "descheduler-cronjob", "descheduler"}, {"Job/descheduler", "descheduler-job", "descheduler"},
	{"StatefulSet/etcd", "ha", "stores.etcd"}, {"StatefulSet/nats", "ha", "stores.nats"},
	{"Job/etcd-roles", "ha", "stores.etcdRoles"}, {"CronJob/etcd-defragment", "ha", "stores.etcdDefragment"},
	{"StatefulSet/single", "dev", "single"},
}

// ofStore reports whether it is no service of Berth.
func (w workload) ofStore() bool { return strings.HasPrefix(w.values, "stores.") }

// deployed is the pod template of a workload in a rendered variant.
type deployed struct {
	workload, variant string
	template          object
}

// everyPod are the pod templates of all variants with some values.
func everyPod(t *testing.T, values ...object) (all []deployed) {
	t.Helper()
	for _, v := range render.Variants() {
		for name, template := range templates(chartObjects(t, v.Name, values...)) {
			all = append(all, deployed{workload: name, variant: v.Name, template: template})
		}
	}
	return all
}

// TestEveryWorkloadIsKnown: the tests of values that are for all pods iterate over workloads.
func TestEveryWorkloadIsKnown(t *testing.T) {
	for _, d := range everyPod(t) {
		if !slices.ContainsFunc(workloads, func(w workload) bool { return w.name == d.workload }) {
			t.Errorf("%s: %s is not in workloads", d.variant, d.workload)
		}
	}
}

// leaves are the values of a schema that are not divided further, by path, with their types.
func leaves(schema, defs object, path string, into map[string]string) {
	properties, _ := schema["properties"].(object)
	for key, value := range properties {
		property := value.(object)
		if name, ok := property["$ref"].(string); ok {
			property = defs[strings.TrimPrefix(name, "#/$defs/")].(object)
		}
		if _, divided := property["properties"]; divided {
			leaves(property, defs, path+key+".", into)
			continue
		}
		into[path+key], _ = property["type"].(string)
	}
}

// TestWrongTypesAreRefused: of every value, by an error that names its path.
func TestWrongTypesAreRefused(t *testing.T) {
	text := read(t, "deploy/helm/berth/values.schema.json")
	schema := parse(t, text).(object)
	all := map[string]string{}
	leaves(schema, schema["$defs"].(object), "", all)
	if len(all) < 150 {
		t.Errorf("only %d values were found", len(all))
	}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		var wrong any = object{"wrong": true}
		if all[path] == "object" {
			wrong = "wrong"
		}
		err := chartutil.ValidateAgainstSingleSchema(set(path, wrong), []byte(text))
		if want := "'/" + strings.ReplaceAll(path, ".", "/") + "'"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v: got %v, want an error that names %s", path, wrong, err, want)
		}
	}
}

// TestWrongItemsAreRefused: what a type alone does not say.
func TestWrongItemsAreRefused(t *testing.T) {
	for _, c := range []struct{ path, value, names string }{
		{"stores.etcd.replicas", "2", "/stores/etcd/replicas"},
		{"stores.nats.replicas", "4", "/stores/nats/replicas"},
		{"commonLabels", "{tier: 1}", "/commonLabels/tier"},
		{"pods.nodeSelector", "{disk: 1}", "/pods/nodeSelector/disk"},
		{"queue.podLabels", "{tier: 1}", "/queue/podLabels/tier"},
		{"binder.tolerations", "[everything]", "/binder/tolerations/0"},
		{"scheduler.extraArgs", "[7]", "/scheduler/extraArgs/0"},
		{"descheduler.extraEnv", "[{value: x}]", "/descheduler/extraEnv/0"},
		{"single.extraVolumes", "[{emptyDir: {}}]", "/single/extraVolumes/0"},
		{"stores.etcd.extraVolumeMounts", "[{name: x}]", "/stores/etcd/extraVolumeMounts/0"},
		{"stores.etcd.extraArgs", "[--x]", "extraArgs"},
		{"priorityClass.name", "Upper", "/priorityClass/name"},
		{"serviceMonitor.scrapeTimeout", "10", "/serviceMonitor/scrapeTimeout"},
		{"networkPolicy.otlp.ports", "[0]", "/networkPolicy/otlp/ports/0"},
		{"networkPolicy.extraEgress.everything", "[]", "everything"},
		// What the chart sets itself.
		{"pods.extraEnv", "[{name: GOMEMLIMIT, value: 1GiB}]", "extraEnv: GOMEMLIMIT"},
		{"queue.extraVolumes", "[{name: config}]", "extraVolumes: config"},
		{"queue.extraVolumeMounts", "[{name: x, mountPath: /etc/berth/tls}]", "extraVolumeMounts: /etc/berth/tls"},
		{"queue.podAnnotations", "{berth.dev/configuration: x}", "podAnnotations: berth.dev/configuration"},
		{"pods.podLabels", "{app.kubernetes.io/name: x}", "podLabels: app.kubernetes.io/name"},
		{"commonLabels", "{app.kubernetes.io/part-of: x}", "commonLabels: app.kubernetes.io/part-of"},
		{"stores.nats.extraEnv", "[{name: POD_NAME, value: x}]", "extraEnv: POD_NAME"},
		{"stores.nats.extraVolumes", "[{name: pid}]", "extraVolumes: pid"},
		{"stores.etcdDefragment.extraEnv", "[{name: ETCDCTL_CERT, value: x}]", "extraEnv: ETCDCTL_CERT"},
	} {
		t.Run(c.path+" "+c.value, func(t *testing.T) {
			_, err := render.Chart(root, render.Variant{Name: "ha", Set: set(c.path, parse(t, c.value))})
			if err == nil || !strings.Contains(err.Error(), c.names) {
				t.Errorf("%s: got %v, want an error that names %s", c.value, err, c.names)
			}
		})
	}
}

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// valuesBlock is an example of values in a document.
var valuesBlock = regexp.MustCompile("(?s)```yaml\n(# values.yaml\n.*?)```")

// TestDocumentsShowValues: the chart takes every example of values that a document shows, in mode services.
func TestDocumentsShowValues(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	// Mode single refuses some of the values.
	variants := slices.DeleteFunc(render.Variants(), func(v render.Variant) bool { return v.Name == "dev" })
	examples := 0
	for _, name := range names {
		for _, found := range valuesBlock.FindAllStringSubmatch(read(t, "docs/"+filepath.Base(name)), -1) {
			examples++
			for _, v := range variants {
				chartObjects(t, v.Name, parse(t, found[1]).(object))
			}
		}
	}
	if examples < 3 {
		t.Errorf("%d examples were found, want at least 3", examples)
	}
}
