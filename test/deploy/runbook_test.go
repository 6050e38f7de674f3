//go:build e2e

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runbookBlock is a block of commands of a page.
var runbookBlock = regexp.MustCompile("(?s)\n```\n(.*?)```\n")

// oneLineEach joins the lines of a command whose continuation lines are indented.
var oneLineEach = strings.NewReplacer("\\\n  ", "", "\n  ", " ")

// needsPods are commands of kubectl that take a pod that runs.
var needsPods = regexp.MustCompile(` (exec|wait|logs|delete) `)

// runbook runs a block of docs/runbook.md on the API server, without commands that need a running pod. The block is
// the one that contains a text.
func (s *system) runbook(contains string) {
	s.Helper()
	page, err := os.ReadFile(filepath.Join(programs.Root, "docs", "runbook.md"))
	s.must(err)
	var commands []string
	for _, found := range runbookBlock.FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(found[1], contains) {
			continue
		}
		for line := range strings.Lines(oneLineEach.Replace(found[1])) {
			if !needsPods.MatchString(line) {
				commands = append(commands, line)
			}
		}
	}
	if len(commands) == 0 {
		s.Fatalf("the runbook has no commands with %q", contains)
	}
	cmd := exec.CommandContext(s.Context(), "bash", "-euo", "pipefail", "-c", strings.Join(commands, ""))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig,
		"PATH="+filepath.Join(programs.Root, ".build", "bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%s%v\n%s", strings.Join(commands, ""), err, out)
	}
}

// TestRunbookOfTheStores: the API server takes what the runbook does to the objects of the stores.
func TestRunbookOfTheStores(t *testing.T) {
	s := newSystem(t, "")
	_, err := s.kubectl(s.render("overlays/ha"), "apply", "--server-side", "-f", "-")
	s.must(err)
	jobs, sets := s.client.BatchV1().Jobs(namespace), s.client.AppsV1().StatefulSets(namespace)
	t.Run("an etcdctl", func(t *testing.T) {
		s.runbook("create job etcdctl")
		job, err := jobs.Get(t.Context(), "etcdctl", metav1.GetOptions{})
		s.must(err)
		pod := job.Spec.Template.Spec
		if diff := cmp.Diff([]string{"etcdctl", "watch", "/"}, pod.Containers[0].Command); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
		if pod.Volumes[0].Secret == nil || pod.Volumes[0].Secret.SecretName != "berth-root-tls" {
			t.Errorf("it has %v, want root's certificate", pod.Volumes)
		}
	})
	t.Run("defragmentation", func(t *testing.T) {
		s.runbook("create job defragment")
		job, err := jobs.Get(t.Context(), "defragment", metav1.GetOptions{})
		s.must(err)
		if command := job.Spec.Template.Spec.Containers[0].Command; len(command) < 2 || command[1] != "defrag" {
			t.Errorf("it runs %v", command)
		}
	})
	t.Run("a member joins again", func(t *testing.T) {
		before, err := sets.Get(t.Context(), "berth-etcd", metav1.GetOptions{})
		s.must(err)
		s.runbook("ETCD_INITIAL_CLUSTER_STATE=existing")
		after, err := sets.Get(t.Context(), "berth-etcd", metav1.GetOptions{})
		s.must(err)
		if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
			t.Errorf("before (-) and after (+) all of it:\n%s", diff)
		}
		_, err = s.kubectl("", "-n", namespace, "set", "env", "statefulset/berth-etcd", "ETCD_INITIAL_CLUSTER_STATE=existing")
		s.must(err)
		now, err := sets.Get(t.Context(), "berth-etcd", metav1.GetOptions{})
		s.must(err)
		want := corev1.EnvVar{Name: "ETCD_INITIAL_CLUSTER_STATE", Value: "existing"}
		if env := now.Spec.Template.Spec.Containers[0].Env; !cmp.Equal(env[len(env)-1], want) {
			t.Errorf("etcd's environment is %v, want %v in it", env, want)
		}
	})
}
