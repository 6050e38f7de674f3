package render_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/berth-scheduler/berth/tools/deploy/internal/render"
)

// TestMistakesAreRefused: values that are right by themselves, and wrong together. The error names each with its value.
func TestMistakesAreRefused(t *testing.T) {
	single := set("mode", "single")
	for name, c := range map[string]struct {
		variant string
		values  object
		says    []string
	}{
		"Berth would place itself": {
			"second-scheduler", set("bootstrapSchedulerName", "berth"),
			[]string{`bootstrapSchedulerName: "berth": is a schedulerName of config.profiles (berth)`},
		},
		"Berth would place itself by the default's name": {
			"second-scheduler", set("config.profiles", list{object{}}),
			[]string{`bootstrapSchedulerName: "default-scheduler"`},
		},
		"two kinds of stores": {
			"ha", with(set("stores.etcd.endpoints", list{"https://a:2379"}), set("stores.nats.urls", list{"tls://b:4222"})),
			[]string{"stores.etcd.endpoints: https://a:2379: want none", "stores.nats.urls: tls://b:4222: want none"},
		},
		"certificates without TLS": {
			"base", set("tls", object{"enabled": false, "certManager": object{"enabled": true}}),
			[]string{"tls.certManager.enabled: true"},
		},
		"tokens without TLS": {
			"base", set("tls", object{"enabled": false, "tokenReview": true}), []string{"tls.tokenReview: true"},
		},
		"observers without stores": {
			"base", set("observers", list{object{"kind": "User", "name": "alice"}}), []string{"observers: 1 entries"},
		},
		"a schedule in one pod": {
			"dev", set("descheduler.kind", "CronJob"), []string{`descheduler.kind: "CronJob": want Deployment or None`},
		},
		"several in one pod": {
			"base",
			with(single, set("stores.deploy", true), set("scheduler.autoscaling.enabled", true),
				set("queue.extraArgs", list{"--one"}), set("binder.nodeSelector", object{"a": "b"}),
				set("stores.nats.urls", list{"tls://b:4222"})),
			[]string{
				"stores.deploy: true: has no effect in mode single", "scheduler.autoscaling.enabled: true: has no effect",
				`queue.extraArgs: ["--one"]: has no effect`, `binder.nodeSelector: {"a":"b"}: has no effect`,
				`stores.nats.urls: ["tls://b:4222"]: has no effect`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render.Chart(root, render.Variant{Name: c.variant, Set: c.values})
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
}

// TestOnePodTakesWhatItCan: values of the services that its one process has flags for.
func TestOnePodTakesWhatItCan(t *testing.T) {
	objects := chartObjects(t, "dev", set("scheduler.wholeCluster", true), set("descheduler.interval", "7m"),
		set("binder.scheduledEvents", "none"))
	spec, _ := field(find(objects, "StatefulSet", "berth-single"), "spec.template.spec").(object)
	var args []string
	for _, arg := range argsOf(spec) {
		args = append(args, arg.(string))
	}
	for _, want := range []string{"--whole-cluster", "--descheduling-interval=7m", "--scheduled-events=none"} {
		if !strings.Contains(strings.Join(args, " ")+" ", want+" ") {
			t.Errorf("%s is not in %q", want, args)
		}
	}
}

// TestEventsOfBinds: the binder gets the value, if it is not the default; others are refused.
func TestEventsOfBinds(t *testing.T) {
	for value, want := range map[string]bool{"all": false, "aggregated": true, "none": true} {
		objects := chartObjects(t, "base", set("binder.scheduledEvents", value))
		spec, _ := field(find(objects, "Deployment", "berth-binder"), "spec.template.spec").(object)
		if got := slices.Contains(argsOf(spec), any("--scheduled-events="+value)); got != want {
			t.Errorf("%s: the flag is there: %v, want %v", value, got, want)
		}
	}
	wrong := render.Variant{Name: "base", Set: set("binder.scheduledEvents", "some")}
	if _, err := render.Chart(root, wrong); err == nil || !strings.Contains(err.Error(), "scheduledEvents") {
		t.Errorf("%v, want that the value is refused", err)
	}
}

// running is a cluster with a Deployment that has so many replicas.
type running struct {
	dynamic.NamespaceableResourceInterface
	name     string
	replicas int64
}

func (r running) GetClientFor(_, _ string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return r, true, nil
}

func (r running) Namespace(string) dynamic.ResourceInterface { return r }

func (r running) Get(
	_ context.Context, name string, _ metav1.GetOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	if name != r.name {
		return &unstructured.Unstructured{}, nil
	}
	return &unstructured.Unstructured{Object: object{"spec": object{"replicas": r.replicas}}}, nil
}

// TestAutoscalingKeepsTheShardsThatRun: an upgrade that leaves spec.replicas out would have Kubernetes set one, if the
// release before had set a number.
func TestAutoscalingKeepsTheShardsThatRun(t *testing.T) {
	autoscaled := set("scheduler.autoscaling.enabled", true)
	for _, c := range []struct {
		cluster *running
		want    any
	}{{nil, nil}, {&running{name: "berth-scheduler", replicas: 7}, 7.0}} {
		v := render.Variant{Name: "ha", Set: with(autoscaled)}
		if c.cluster != nil {
			v.Cluster = *c.cluster
		}
		templates, err := render.Chart(root, v)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := render.Objects(templates["scheduler"])
		if err != nil {
			t.Fatal(err)
		}
		if got := field(find(objects, "Deployment", "berth-scheduler"), "spec.replicas"); got != c.want {
			t.Errorf("on %+v: %v replicas, want %v", c.cluster, got, c.want)
		}
	}
}
