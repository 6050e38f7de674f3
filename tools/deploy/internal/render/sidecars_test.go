package render_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-scheduler/berth/tools/deploy/internal/render"
)

// containers are a pod's, by name.
func containers(template object) map[string]object {
	all := map[string]object{}
	for _, c := range field(template, "spec.containers").(list) {
		all[c.(object)["name"].(string)] = c.(object)
	}
	return all
}

// mounts are the folders that a container sees, by path, each with the name of its volume.
func mounts(container object) map[string]string {
	all := map[string]string{}
	mounted, _ := container["volumeMounts"].(list)
	for _, m := range mounted {
		all[m.(object)["mountPath"].(string)] = m.(object)["name"].(string)
	}
	return all
}

// natsFile is a file that the configuration of NATS names.
var natsFile = regexp.MustCompile(`(?m)^\s*(?:(?:ca|cert|key)_file:|pid_file:|include)\s+(\S+)$`)

// TestReloader: it sees the server's process, its pid file, and every file that the configuration names.
func TestReloader(t *testing.T) {
	for _, tls := range []bool{true, false} {
		objects := chartObjects(t, "ha", set("tls.enabled", tls))
		nats := templates(objects)["StatefulSet/nats"]
		if field(nats, "spec.shareProcessNamespace") != true {
			t.Error("the reloader does not see the server")
		}
		both := containers(nats)
		if diff := cmp.Diff(both["nats"]["securityContext"], both["reloader"]["securityContext"]); diff != "" {
			t.Errorf("the server (-) and the reloader (+), which signals it, are not alike:\n%s", diff)
		}
		config := field(find(objects, "ConfigMap", "berth-stores"), "data").(object)["nats.conf"].(string)
		args := fmt.Sprint(both["reloader"]["args"])
		if !strings.Contains(config, "pid_file: /var/run/nats/nats.pid\n") ||
			args != "[-pid /var/run/nats/nats.pid -config /etc/nats/nats.conf]" {
			t.Errorf("arguments %s, configuration\n%s", args, config)
		}
		files := natsFile.FindAllStringSubmatch(config, -1)
		if want := map[bool]int{true: 8, false: 1}[tls]; len(files) != want {
			t.Errorf("%d files are named, want %d", len(files), want)
		}
		for _, found := range files {
			dir := filepath.Dir(filepath.Join("/etc/nats", found[1]))
			if filepath.IsAbs(found[1]) {
				dir = filepath.Dir(found[1])
			}
			if server, reloader := mounts(both["nats"])[dir], mounts(both["reloader"])[dir]; server == "" || server != reloader {
				t.Errorf("%s: the server has volume %q there, the reloader %q", found[1], server, reloader)
			}
		}
	}
	objects := chartObjects(t, "ha", set("stores.nats.reloader.enabled", false))
	nats := templates(objects)["StatefulSet/nats"]
	config := fmt.Sprint(field(find(objects, "ConfigMap", "berth-stores"), "data"))
	if containers(nats)["reloader"] != nil || field(nats, "spec.shareProcessNamespace") != nil ||
		strings.Contains(config, "pid_file") || mounts(containers(nats)["nats"])["/var/run/nats"] != "" {
		t.Error("without the reloader, something of it is there")
	}
}

// TestExporter: Prometheus reaches it, and no longer the server's own monitoring, which reveals connections.
func TestExporter(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		objects := chartObjects(t, "ha", set("stores.nats.exporter.enabled", enabled), set("serviceMonitor.enabled", true))
		exporter := containers(templates(objects)["StatefulSet/nats"])["exporter"]
		monitor := find(objects, "PodMonitor", "berth-nats")
		if (exporter != nil) != enabled || (monitor != nil) != enabled {
			t.Errorf("enabled: %t, but there is %v and %v", enabled, exporter, monitor)
		}
		want := 8222.0
		if enabled {
			want = 7777
			if got := field(exporter, "ports.0.name"); got != field(monitor, "spec.podMetricsEndpoints.0.port") ||
				fmt.Sprint(field(exporter, "ports.0.containerPort")) != "7777" {
				t.Errorf("the monitor does not scrape the exporter's port: %v", got)
			}
		}
		if got := scrapable(find(objects, "NetworkPolicy", "berth-nats")); !slices.Equal(got, []any{want}) {
			t.Errorf("ports that are open for the metrics namespaces: %v, want %v", got, want)
		}
	}
}

// scrapable are the ports that a policy opens for namespaces.
func scrapable(policy object) (open []any) {
	for _, rule := range field(policy, "spec.ingress").(list) {
		if field(rule, "from.0.namespaceSelector") != nil {
			for _, port := range field(rule, "ports").(list) {
				open = append(open, port.(object)["port"])
			}
		}
	}
	return open
}

// TestStoresAreScraped: by a port of the pods that Prometheus reaches, and with the job that the alerts select by, in
// an installation of any name.
func TestStoresAreScraped(t *testing.T) {
	given := parse(t, `{enabled: true, namespace: monitoring, labels: {release: stack}, interval: 30s, scrapeTimeout: 20s,
		relabelings: [{action: labeldrop, regex: x}], metricRelabelings: [{action: drop, regex: y}]}`)
	objects := chartObjects(t, "ha", set("name", "other"), object{"serviceMonitor": given})
	for store, want := range map[string]string{
		"etcd": `[{port: health, interval: 30s, scrapeTimeout: 20s, metricRelabelings: [{action: drop, regex: y}],
			relabelings: [{targetLabel: job, replacement: berth-etcd}, {action: labeldrop, regex: x}]}]`,
		"nats": `[{port: metrics, interval: 30s, scrapeTimeout: 20s, metricRelabelings: [{action: drop, regex: y}],
			relabelings: [{targetLabel: job, replacement: berth-nats}, {action: labeldrop, regex: x}]}]`,
	} {
		monitor := find(objects, "PodMonitor", "other-"+store)
		if diff := cmp.Diff(parse(t, want), field(monitor, "spec.podMetricsEndpoints")); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", store, diff)
		}
		pods := field(templates(objects)["StatefulSet/"+store], "metadata.labels").(object)
		for label, value := range field(monitor, "spec.selector.matchLabels").(object) {
			if pods[label] != value {
				t.Errorf("%s: the monitor wants %s=%v, the pods have %v", store, label, value, pods[label])
			}
		}
		if field(monitor, "metadata.namespace") != "monitoring" || field(monitor, "metadata.labels.release") != "stack" ||
			fmt.Sprint(field(monitor, "spec.namespaceSelector.matchNames")) != "[berth-system]" {
			t.Errorf("%s: Prometheus does not find it: %v", store, monitor)
		}
		if alerts := read(t, "deploy/helm/berth/files/alerts.yaml"); !strings.Contains(alerts, `job=\"berth-`+store+`\"`) {
			t.Errorf("no alert selects job berth-%s", store)
		}
	}
	for _, variant := range []string{"base", "dev"} {
		if len(ofKind(chartObjects(t, variant, set("serviceMonitor.enabled", true)), "PodMonitor")) > 0 {
			t.Errorf("%s: stores that are not there are scraped", variant)
		}
	}
}

// TestComponentsScrapeStores: the components monitoring and monitoring-stores add to the overlay ha what the chart adds
// with monitoring switched on.
func TestComponentsScrapeStores(t *testing.T) {
	enabled := object{"enabled": true}
	chart := chartObjects(t, "ha", object{"serviceMonitor": enabled, "prometheusRule": enabled})
	text, err := render.Kustomize(kustomizationOf(t, "overlays/ha", "monitoring", "monitoring-stores"))
	if err != nil {
		t.Fatal(err)
	}
	kustomization, err := render.Objects(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(chart, slices.DeleteFunc(kustomization, isNamespace)); diff != "" {
		t.Errorf("chart (-) and components (+) differ:\n%s", diff)
	}
}

// expiryAlert is how many days before its end a certificate is warned about.
var expiryAlert = regexp.MustCompile(`not_after_timestamp_seconds\{[^}]*\}\) - time\(\) < (\d+) \* 24 \* 3600`)

// TestRenewalComesBeforeTheAlert: cert-manager has a month to renew a certificate before an alert fires.
func TestRenewalComesBeforeTheAlert(t *testing.T) {
	const toRenew = 30 * 24 * time.Hour
	objects := chartObjects(t, "ha", set("tls.certManager.enabled", true))
	renewed, err := time.ParseDuration(field(find(objects, "Certificate", "berth-queue"), "spec.renewBefore").(string))
	if err != nil {
		t.Fatal(err)
	}
	found := expiryAlert.FindAllStringSubmatch(read(t, "deploy/helm/berth/files/alerts.yaml"), -1)
	if len(found) != 2 {
		t.Fatalf("%d alerts are about certificates, want two", len(found))
	}
	for _, alert := range found {
		days, err := time.ParseDuration(alert[1] + "h")
		if err != nil || renewed < 24*days+toRenew {
			t.Errorf("renewed %s before the end, the alert comes %s days before: %v", renewed, alert[1], err)
		}
	}
}

// TestDefragmentation: as etcd's root, with its certificate and with no other, where the network lets it.
func TestDefragmentation(t *testing.T) {
	for _, tls := range []bool{true, false} {
		objects := chartObjects(t, "ha", set("tls.enabled", tls))
		cron := find(objects, "CronJob", "berth-etcd-defragment")
		if field(cron, "spec.suspend") != true {
			t.Error("it runs by itself without having been asked to")
		}
		template := field(cron, "spec.jobTemplate.spec.template").(object)
		container := containers(template)["etcdctl"]
		want := "[etcdctl defrag --cluster --command-timeout=10m]"
		if got := fmt.Sprint(container["command"]); got != want || container["image"] != etcdImage(objects) {
			t.Errorf("%s of %v, want %s of %v", got, container["image"], want, etcdImage(objects))
		}
		secrets := mounted(&unstructured.Unstructured{Object: cron})
		if wanted := map[bool][]string{true: {"berth-root-tls"}}[tls]; !slices.Equal(secrets, wanted) {
			t.Errorf("secrets %v, want %v", secrets, wanted)
		}
		scheme := map[bool]string{true: "https", false: "http"}[tls]
		if got := variable(container, "ETCDCTL_ENDPOINTS"); got != numbered(scheme+"://berth-etcd-N.berth-etcd:2379", 3) {
			t.Errorf("endpoints %v", got)
		}
		for name, file := range map[string]string{"CACERT": "ca.crt", "CERT": "tls.crt", "KEY": "tls.key"} {
			if got := variable(container, "ETCDCTL_"+name); (got == "/etc/berth/tls/"+file) != tls {
				t.Errorf("tls %t: ETCDCTL_%s is %v", tls, name, got)
			}
		}
	}
}

func etcdImage(objects []*unstructured.Unstructured) any {
	return containers(templates(objects)["StatefulSet/etcd"])["etcd"]["image"]
}

// variable is the value of a container's environment variable, nil without one.
func variable(container object, name string) any {
	for _, v := range container["env"].(list) {
		if v.(object)["name"] == name {
			return v.(object)["value"]
		}
	}
	return nil
}
