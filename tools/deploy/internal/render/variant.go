package render

import "helm.sh/helm/v3/pkg/engine"

// Namespace is where every variant is installed.
const Namespace = "berth-system"

// Variant is one way to run Berth. Its chart values and its kustomization give the same
// objects.
type Variant struct {
	// Name of the folder under deploy/k8s/overlays, and of values-<name>.yaml in the chart; the folder of
	// "base" is deploy/k8s/base. Empty: the chart's own values.
	Name string
	// Set are values in addition to the file's, for values that have no file.
	Set map[string]any
	// Absent are paths of values, such as queue.lease, that the chart's own file does not have: helm upgrade
	// --reuse-values has none that are newer than the release.
	Absent []string
	// Cluster is where the chart looks objects up that exist already; nil: there are none.
	Cluster engine.ClientProvider
}

// Variants are all of them.
func Variants() []Variant {
	return []Variant{
		{Name: Base}, {Name: "dev"}, {Name: "ha"}, {Name: "second-scheduler"}, {Name: "canary"},
		{Name: "replace-default"}, {Name: "descheduler-job"}, {Name: "descheduler-cronjob"},
	}
}

// Base is the variant that the others add to.
const Base = "base"

// file is one generated file of deploy/k8s: the result of one template with some values.
type file struct {
	path, template string
	variant        Variant
	// kinds, when set, are the only ones that are kept.
	kinds []string
}

// files are the manifests that Generate writes.
func files() []file {
	var all []file
	for _, name := range []string{"queue", "scheduler", "binder", "descheduler", "config", "priority", "rbac", "network"} {
		all = append(all, file{path: "base/" + name + ".yaml", template: name, variant: Variant{Name: Base}})
	}
	for _, name := range []string{"single", "config", "priority", "rbac", "network"} {
		all = append(all, file{path: "overlays/dev/" + name + ".yaml", template: name, variant: Variant{Name: "dev"}})
	}
	return append(all,
		file{path: "components/stores/stores.yaml", template: "stores", variant: Variant{Name: "ha"}},
		file{path: "components/stores/observer.yaml", template: "observer", variant: Variant{Name: "ha"}},
		file{
			path: "components/monitoring/monitoring.yaml", template: "monitoring",
			variant: Variant{Name: Base, Set: map[string]any{"serviceMonitor": map[string]any{"enabled": true}}},
		},
		file{
			path: "components/monitoring-stores/monitors.yaml", template: "monitoring", kinds: []string{"PodMonitor"},
			variant: Variant{Name: "ha", Set: map[string]any{"serviceMonitor": map[string]any{"enabled": true}}},
		},
		file{path: "components/monitoring/alerts.yaml", template: "alerts", variant: alerting()},
		file{path: "../monitoring/alerts.yaml", template: "alerts", variant: alerting()},
		file{
			path: "components/autoscaling/autoscaling.yaml", template: "autoscaling",
			variant: Variant{Name: Base, Set: autoscaled()},
		},
		file{
			path: "components/metrics/metrics.yaml", template: "metrics",
			variant: Variant{Name: Base, Set: map[string]any{"queue": map[string]any{"metricsInterval": "30s"}}},
		},
		file{
			path: "components/token-review/tokenreview.yaml", template: "tokenreview",
			variant: Variant{Name: Base, Set: map[string]any{"tls": map[string]any{"tokenReview": true}}},
		},
		file{
			path: "components/lease/lease.yaml", template: "lease",
			variant: Variant{Name: Base, Set: map[string]any{"queue": map[string]any{"lease": "kube-system/kube-scheduler"}}},
		},
		file{
			path: "components/quota-gate/quotagate.yaml", template: "quotagate",
			variant: Variant{Name: Base, Set: map[string]any{"quotaGate": map[string]any{"enabled": true}}},
		},
		file{
			path: "components/node-marks/nodemarks.yaml", template: "nodemarks",
			variant: Variant{Name: Base, Set: map[string]any{"binder": map[string]any{"nodeMarks": "write"}}},
		},
		file{
			path: "overlays/descheduler-job/job.yaml", template: "descheduler",
			variant: Variant{Name: "descheduler-job"}, kinds: []string{"Job"},
		},
		file{
			path: "overlays/descheduler-cronjob/cronjob.yaml", template: "descheduler",
			variant: Variant{Name: "descheduler-cronjob"}, kinds: []string{"CronJob"},
		},
	)
}

func alerting() Variant {
	return Variant{Name: Base, Set: map[string]any{"prometheusRule": map[string]any{"enabled": true}}}
}

func autoscaled() map[string]any {
	return map[string]any{"scheduler": map[string]any{"autoscaling": map[string]any{"enabled": true}}}
}
