package render_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-scheduler/berth/tools/deploy/internal/render"
)

// TestMonitoringIsFound: a monitoring stack finds its objects by namespace and labels.
func TestMonitoringIsFound(t *testing.T) {
	given := parse(t, `{enabled: true, namespace: monitoring, labels: {release: stack}, annotations: {a: b}}`)
	objects := chartObjects(t, "base", object{"serviceMonitor": given, "prometheusRule": given, "grafanaDashboard": given})
	for kind, name := range map[string]string{
		"ServiceMonitor": "berth-services", "PrometheusRule": "berth-alerts", "ConfigMap": "berth-dashboard",
	} {
		metadata, _ := field(find(objects, kind, name), "metadata").(object)
		labels := map[string]any{
			"app.kubernetes.io/name": "berth", "app.kubernetes.io/part-of": "berth", "release": "stack",
			"app.kubernetes.io/component": strings.TrimPrefix(name, "berth-"),
		}
		if kind == "ConfigMap" {
			labels["grafana_dashboard"] = "1"
		}
		want := object{"name": name, "namespace": "monitoring", "labels": labels, "annotations": object{"a": "b"}}
		if diff := cmp.Diff(want, metadata); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", kind, diff)
		}
	}
}

// TestServiceMonitor checks a ServiceMonitor's description of its targets, which stay in Berth's namespace.
func TestServiceMonitor(t *testing.T) {
	given := parse(t, `{enabled: true, namespace: monitoring, interval: 30s, scrapeTimeout: 20s,
		relabelings: [{action: labeldrop, regex: pod}], metricRelabelings: [{action: drop, regex: x}]}`)
	monitor := find(chartObjects(t, "base", object{"serviceMonitor": given}), "ServiceMonitor", "berth-services")
	for path, want := range map[string]string{
		"spec.namespaceSelector":         `{matchNames: [berth-system]}`,
		"spec.endpoints.0.interval":      `30s`,
		"spec.endpoints.0.scrapeTimeout": `20s`,
		// The first one makes the jobs that alerts and dashboard select.
		"spec.endpoints.0.relabelings": `[{sourceLabels: [__meta_kubernetes_service_label_app_kubernetes_io_component],
			targetLabel: job, replacement: berth-$1}, {action: labeldrop, regex: pod}]`,
		"spec.endpoints.0.metricRelabelings": `[{action: drop, regex: x}]`,
	} {
		if diff := cmp.Diff(parse(t, want), field(monitor, path)); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", path, diff)
		}
	}
}

// TestDashboard: the ConfigMap has the dashboard that is in deploy/monitoring.
func TestDashboard(t *testing.T) {
	config := find(chartObjects(t, "base", set("grafanaDashboard.enabled", true)), "ConfigMap", "berth-dashboard")
	text, _ := field(config, "data").(object)["berth.json"].(string)
	want := read(t, "deploy/monitoring/dashboard.json")
	if strings.TrimSpace(text) != strings.TrimSpace(want) || !json.Valid([]byte(text)) {
		t.Errorf("%d bytes, want the %d of deploy/monitoring/dashboard.json", len(text), len(want))
	}
}

// TestCollectorsPorts: those that are given are open for all services.
func TestCollectorsPorts(t *testing.T) {
	for given, want := range map[string]list{
		"[]": {53.0, 53.0}, "[9999]": {53.0, 53.0, 9999.0},
	} {
		objects := chartObjects(t, "base", set("networkPolicy.otlp.ports", parse(t, given)))
		policy := &unstructured.Unstructured{Object: find(objects, "NetworkPolicy", "berth-services")}
		if diff := cmp.Diff(want, list(portsOut(policy))); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", given, diff)
		}
	}
}

// TestExtraRules: each is for the pods of its component and adds to one direction alone.
func TestExtraRules(t *testing.T) {
	out := parse(t, `[{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}],
		ports: [{protocol: TCP, port: 9090}]}]`)
	in := parse(t, `[{from: [{podSelector: {matchLabels: {app: proxy}}}]}]`)
	for _, component := range []string{"queue", "scheduler", "binder", "descheduler", "single", "etcd", "nats"} {
		egress, ingress := set("networkPolicy.extraEgress."+component, out), set("networkPolicy.extraIngress."+component, in)
		for _, c := range []struct {
			values  object
			types   list
			out, in any
		}{
			{egress, list{"Egress"}, out, nil},
			{ingress, list{"Ingress"}, nil, in},
			{with(egress, ingress), list{"Ingress", "Egress"}, out, in},
		} {
			policy := find(chartObjects(t, "ha", c.values), "NetworkPolicy", "berth-"+component+"-extra")
			want := object{
				"policyTypes": c.types,
				"podSelector": object{"matchLabels": object{
					"app.kubernetes.io/name": "berth", "app.kubernetes.io/part-of": "berth",
					"app.kubernetes.io/component": component,
				}},
			}
			if c.out != nil {
				want["egress"] = c.out
			}
			if c.in != nil {
				want["ingress"] = c.in
			}
			if diff := cmp.Diff(want, field(policy, "spec")); diff != "" {
				t.Errorf("%s %v: want (-), got (+):\n%s", component, c.types, diff)
			}
		}
	}
	off := chartObjects(t, "base", set("networkPolicy.enabled", false), set("networkPolicy.extraEgress.queue", out))
	if find(off, "NetworkPolicy", "berth-queue-extra") != nil {
		t.Error("there is a policy though there should be none")
	}
}

// TestNotes: Helm's notes list the installed parts, the next steps, and steps that are often forgotten.
func TestNotes(t *testing.T) {
	for name, c := range map[string]struct {
		variant     string
		values      object
		says, lacks []string
	}{
		"stores of one's own, not named": {
			variant: render.Base,
			says: []string{
				"queue        2 replicas", "etcd         not deployed: https://berth-etcd-0.berth-etcd:2379,",
				"get secret berth-queue-tls berth-scheduler-tls berth-binder-tls berth-descheduler-tls\n",
				"get pods --selector app.kubernetes.io/name=berth,app.kubernetes.io/part-of=berth",
				`--overrides='{"spec":{"schedulerName":"berth"}}'`,
				"WARNING: stores.deploy is false and stores.etcd.endpoints and stores.nats.urls are empty.",
			},
		},
		"one of them named": {
			variant: render.Base, values: set("stores.nats.urls", list{"tls://c:4222"}),
			says: []string{
				"NATS         not deployed: tls://c:4222\n",
				"WARNING: stores.deploy is false and stores.etcd.endpoints is empty.",
			},
		},
		"both named": {
			variant: render.Base,
			values:  with(set("stores.nats.urls", list{"tls://c:4222"}), set("stores.etcd.endpoints", list{"https://a:2379"})),
			lacks:   []string{"WARNING"},
		},
		"without the descheduler": {
			variant: "second-scheduler",
			says: []string{
				"descheduler  None\n", "etcd         3 members\n", "NATS         3 servers\n",
				"get secret berth-queue-tls berth-scheduler-tls berth-binder-tls berth-etcd-tls berth-etcd-peer-tls " +
					"berth-nats-tls berth-nats-peer-tls berth-root-tls\n",
			},
			lacks: []string{"WARNING", "berth-descheduler-tls"},
		},
		"one pod": {
			variant: "dev", says: []string{"StatefulSet berth-single", "1. Wait until all pods are ready"},
			lacks: []string{"secret", "WARNING"},
		},
		"in the place of kube-scheduler": {
			variant: "replace-default", values: set("name", "other"),
			says: []string{
				"with the schedulerName berth or default-scheduler.", "--name other", "other-queue-tls",
				`"schedulerName":"berth"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			notes, err := render.Notes(root, render.Variant{Name: c.variant, Set: c.values})
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range c.says {
				if !strings.Contains(notes, text) {
					t.Errorf("it does not say %q:\n%s", text, notes)
				}
			}
			for _, text := range c.lacks {
				if strings.Contains(notes, text) {
					t.Errorf("it says %q:\n%s", text, notes)
				}
			}
		})
	}
}
