//go:build e2e

package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// An API server without the API of device claims: Berth reports that once, places pods without claims, and lets pods
// with claims wait, with the reason in their condition. It does not request the missing API again and again.
func TestWithoutDevices(t *testing.T) {
	t.Parallel()
	const group = "resource.k8s.io/v1"
	s := newStackOf(t, harness.ClusterConfig{RuntimeConfig: group + "=false"})
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"})
	s.up(harness.UpConfig{Shards: 2, Binders: 1})
	ns := s.namespace("plain")
	s.create(newPods(ns, "p", 5, "10m")...)
	s.bound(ns, 5, placedWithin)
	s.create(newPod(ns, "wants", "10m", withDevice))
	s.eventually(placedWithin, "the pod with a claim says what it waits for", func(context.Context) (string, error) {
		pod := s.pod(ns, "wants")
		c := conditionOf(pod)
		if pod.Spec.NodeName == "" && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable &&
			strings.Contains(c.Message, group) {
			return "", nil
		}
		return c.Message, nil
	})
	s.create(newPods(ns, "q", 5, "10m")...)
	s.bound(ns, 10, placedWithin)
	s.loggedOnce(group)
	s.must(s.client.CoreV1().Pods(ns).Delete(s.Context(), "wants", metav1.DeleteOptions{}))
	s.audit()
}

// loggedOnce checks that Berth's log has one line about something, and none of a request that has failed for it.
func (s *stack) loggedOnce(what string) {
	s.Helper()
	log, err := os.ReadFile(filepath.Join(s.dir, "berth.log"))
	s.must(err)
	var lines []string
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, what) || strings.Contains(line, "resourceclaims") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 {
		s.Errorf("%d lines about %s, want one:\n%s", len(lines), what, strings.Join(lines, ""))
	}
}
