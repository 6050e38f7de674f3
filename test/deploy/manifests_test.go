//go:build e2e

package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// namespace is where the manifests put everything.
	namespace = "berth-system"
	// admittedWithin bounds the wait for controllers to create pods.
	admittedWithin = 60 * time.Second
)

// kubectl runs the real one with the administrator's kubeconfig.
func (s *system) kubectl(stdin string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	args = append([]string{"--kubeconfig", s.cluster.Kubeconfig}, args...)
	cmd := exec.CommandContext(s.Context(), filepath.Join(programs.Root, ".build", "bin", "kubectl"), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w\n%s%s", strings.Join(args[2:], " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}

// render builds a folder of deploy/k8s.
func (s *system) render(folder string) string {
	s.Helper()
	text, err := s.kubectl("", "kustomize", filepath.Join(programs.Root, "deploy", "k8s", folder))
	s.must(err)
	return text
}

// objects are the typed objects of a folder of deploy/k8s.
func (s *system) objects(folder string) []runtime.Object {
	s.Helper()
	return s.decode(s.render(folder))
}

func (s *system) decode(text string) (all []runtime.Object) {
	s.Helper()
	for _, doc := range strings.Split(text, "\n---\n") {
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(doc), nil, nil)
		s.must(err)
		all = append(all, obj)
	}
	return all
}

// pick finds the one object of a type with a name.
func pick[T interface {
	runtime.Object
	metav1.Object
}](s *system, objects []runtime.Object, name string) T {
	s.Helper()
	for _, o := range objects {
		if typed, ok := o.(T); ok && typed.GetName() == name {
			return typed
		}
	}
	var none T
	s.Fatalf("the manifests have no %T %s", none, name)
	return none
}

// monitoringResources returns the custom resources that the monitoring component needs, as far as a
// dry run does.
func monitoringResources() string {
	const resource = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]ss.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]ss, singular: %[2]s}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`
	var all strings.Builder
	for _, kind := range []string{"ServiceMonitor", "PodMonitor", "PrometheusRule"} {
		fmt.Fprintf(&all, resource, kind, strings.ToLower(kind))
	}
	return all.String()
}

// TestManifestsAreAccepted: the API server takes every object of every variant, knows every
// field, and admits every pod under the strictest pod security standard.
func TestManifestsAreAccepted(t *testing.T) {
	s := newSystem(t, "")
	_, err := s.kubectl(monitoringResources(), "apply", "-f", "-")
	s.must(err)
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	folders, err := filepath.Glob(filepath.Join(programs.Root, "deploy", "k8s", "overlays", "*"))
	s.must(err)
	folders = append(folders, filepath.Join(programs.Root, "deploy", "k8s", "base"), s.everything())
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			text, err := s.kubectl("", "kustomize", "--load-restrictor=LoadRestrictionsNone", folder)
			if err != nil {
				t.Fatal(err)
			}
			out, err := s.kubectl(text, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d objects", strings.Count(out, "\n"))
		})
	}
	for _, variant := range []string{"dev", "descheduler-job", "ha"} {
		t.Run("pods of "+variant, func(t *testing.T) { s.admitsPods(t, variant) })
	}
}

// everything is a kustomization of the base with all components.
func (s *system) everything() string {
	s.Helper()
	dir := filepath.Join(s.dir, "everything")
	s.must(os.MkdirAll(dir, 0o755))
	k8s, err := filepath.Rel(dir, filepath.Join(programs.Root, "deploy", "k8s"))
	s.must(err)
	text := fmt.Sprintf("resources:\n- %s/base\ncomponents:\n", k8s)
	for _, c := range []string{
		"stores", "monitoring", "monitoring-stores", "autoscaling", "metrics", "quota-gate", "node-marks",
		"adopt-namespaces", "bootstrap-scheduler", "bootstrap-scheduler-guard",
	} {
		text += fmt.Sprintf("- %s/components/%s\n", k8s, c)
	}
	s.must(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644))
	return dir
}

// admitsPods installs a variant and waits until its controllers have created its pods.
func (s *system) admitsPods(t *testing.T, variant string) {
	text := s.render("overlays/" + variant)
	_, err := s.kubectl(text, "apply", "--server-side", "-f", "-")
	s.must(err)
	want := map[string]int{}
	for _, o := range s.objects("overlays/" + variant) {
		switch o := o.(type) {
		case *appsv1.Deployment:
			want[o.Labels["app.kubernetes.io/component"]] = int(*o.Spec.Replicas)
		case *appsv1.StatefulSet:
			want[o.Labels["app.kubernetes.io/component"]] = int(*o.Spec.Replicas)
		case *batchv1.Job:
			want[o.Labels["app.kubernetes.io/component"]] = 1
		}
	}
	err = harness.Eventually(t.Context(), admittedWithin, "pods exist", func(ctx context.Context) (string, error) {
		pods, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		got := map[string]int{}
		for _, p := range pods.Items {
			got[p.Labels["app.kubernetes.io/component"]]++
		}
		for component, n := range want {
			if got[component] < n {
				return fmt.Sprintf("%d of %d of %s", got[component], n, component), nil
			}
		}
		return "", nil
	})
	if err != nil {
		t.Error(err)
	}
}
