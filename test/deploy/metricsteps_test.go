//go:build e2e

package deploy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// measured are resources of metrics.k8s.io, served by the API server itself: objects of them stay
// as they are created, which is all that a reader needs.
const measured = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: PLURAL.metrics.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, for a test"}
spec:
  group: metrics.k8s.io
  names: {kind: KIND, listKind: KINDList, plural: PLURAL, singular: SINGULAR}
  scope: SCOPE
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
`

// sample is one measurement of a node and one of a pod.
const sample = `
apiVersion: metrics.k8s.io/v1beta1
kind: NodeMetrics
metadata: {name: NAME}
timestamp: "2026-01-01T00:00:00Z"
window: 30s
usage: {cpu: 100m, memory: 1Gi}
---
apiVersion: metrics.k8s.io/v1beta1
kind: PodMetrics
metadata: {name: NAME, namespace: default}
timestamp: "2026-01-01T00:00:00Z"
window: 30s
containers:
- name: app
  usage: {cpu: 100m, memory: 1Gi}
`

// TestNoPermissionToMeasureIsSpare: with the metrics component facts of actual use arrive, and
// without any one of its permissions none do.
func TestNoPermissionToMeasureIsSpare(t *testing.T) {
	s := newSystem(t, "")
	s.install("overlays/ha")
	component := s.decode(s.component("metrics", "metrics.yaml"))
	for _, o := range component {
		s.create(o)
	}
	s.shipped = append(s.shipped, component...)
	s.certificates()
	s.startStores()
	for _, kind := range []struct{ plural, singular, kind, scope string }{
		{"nodes", "node", "NodeMetrics", "Cluster"}, {"pods", "pod", "PodMetrics", "Namespaced"},
	} {
		crd := strings.NewReplacer("PLURAL", kind.plural, "SINGULAR", kind.singular, "KIND", kind.kind,
			"SCOPE", kind.scope).Replace(measured)
		_, err := s.kubectl(crd, "apply", "-f", "-")
		s.must(err)
	}
	s.eventually(stepWithin, "metrics are served", func(context.Context) (string, error) {
		if _, err := s.kubectl(strings.ReplaceAll(sample, "NAME", "first"), "apply", "-f", "-"); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
	s.start("queue", "first").Kill() // makes the streams
	const role = "berth-metrics"
	rules := pick[*rbacv1.ClusterRole](s, s.shipped, role).Rules
	if len(rules) != 2 {
		t.Fatalf("%d rules, want one for nodes and one for pods", len(rules))
	}
	for _, rule := range rules {
		t.Run(name(rule), func(t *testing.T) {
			s.without(role, "berth-queue", rule, func() {
				if err := s.measures(brokenFor); err == nil {
					t.Error("spare: without it, actual use is told")
				}
			})
		})
	}
	t.Run("with all", func(t *testing.T) {
		if err := s.measures(stepWithin); err != nil {
			t.Error(err)
		}
	})
}

// component is a file of what a component adds.
func (s *system) component(name, file string) string {
	s.Helper()
	raw, err := os.ReadFile(filepath.Join(programs.Root, "deploy", "k8s", "components", name, file))
	s.must(err)
	return string(raw)
}

// measures starts a queue that polls, and waits for facts of nodes and of pods.
func (s *system) measures(within time.Duration) error {
	ctx, cancel := context.WithTimeout(s.Context(), within)
	defer cancel()
	reader, done, err := s.factsFromNow(ctx)
	if err != nil {
		return err
	}
	defer done()
	queue := s.begin("queue", "queue-measures", "--metrics-interval=1s")
	defer queue.Kill()
	missing := map[events.Kind]bool{events.KindNodeMetrics: true, events.KindPodMetrics: true}
	for len(missing) > 0 {
		records, err := reader.Next(ctx)
		if err != nil {
			return fmt.Errorf("no facts of %v: %w", missing, err)
		}
		for _, r := range records {
			delete(missing, events.Kind(r.Header.Get(eventlog.HeaderKind)))
		}
	}
	return nil
}
