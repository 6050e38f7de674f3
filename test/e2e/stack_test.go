//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/test/e2e/audit"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

const (
	// placedWithin bounds the wait for pods that have room; a loaded machine with two processors
	// takes seconds.
	placedWithin = time.Minute
)

// programs are the binaries under test; TestMain fills them in.
var programs harness.Programs

var kubernetesVersion = harness.OlderKubernetes()

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "e2e", &programs, kubernetesVersion)) }

// stack is a cluster and what a test runs against it.
type stack struct {
	*testing.T
	// dir is where everything is written.
	dir     string
	cluster *harness.Cluster
	client  kubernetes.Interface
	// recorded are the ledgers whose history is being recorded, by URL or data directory.
	recorded map[string]*harness.History
	// auditShows is a part of the report of each audit.
	auditShows string
}

// newStack starts a cluster with the nodes of a file (absolute, relative to the repository, or
// empty for none) and stops it, and prints its logs if the test failed, at the end.
func newStack(t *testing.T, nodes string) *stack {
	t.Helper()
	return newStackOf(t, harness.ClusterConfig{Nodes: nodes})
}

// newStackOf is newStack on a cluster of some other kind. Its directory is made here.
func newStackOf(t *testing.T, cfg harness.ClusterConfig) *stack {
	t.Helper()
	s := &stack{T: t, dir: kit.Dir(t, "e2e"), recorded: map[string]*harness.History{}}
	if cfg.Nodes != "" && !filepath.IsAbs(cfg.Nodes) {
		cfg.Nodes = filepath.Join(programs.Root, filepath.FromSlash(cfg.Nodes))
	}
	cfg.Dir = filepath.Join(s.dir, "cluster")
	cluster, err := programs.StartCluster(t.Context(), cfg)
	s.must(err)
	s.cluster, s.client = cluster, cluster.Client
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(cluster.Tails())
		}
		kit.Stop(t, cluster.Stop)
	})
	return s
}

// must ends the test on an error.
func (s *stack) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// up starts `berth up` and stops it at the end of the test; zero fields of cfg are filled in.
func (s *stack) up(cfg harness.UpConfig) *harness.Berth {
	s.Helper()
	cfg.Kubeconfig, cfg.LogDir = s.cluster.Kubeconfig, s.dir
	if cfg.DataDir == "" {
		cfg.DataDir = filepath.Join(s.dir, "data")
	}
	berth, err := programs.Up(s.Context(), cfg)
	s.must(err)
	s.stopAtEnd(berth)
	if !slices.Contains(cfg.Args, "--etcd-endpoints") {
		s.record(cfg.DataDir, harness.HistoryConfig{DataDir: cfg.DataDir})
	}
	return berth
}

// record records the history of a ledger, once, until the end of the test, and fails the test
// if the history breaks an invariant at any of its revisions.
func (s *stack) record(ledger string, cfg harness.HistoryConfig) *harness.History {
	s.Helper()
	if known := s.recorded[ledger]; known != nil {
		return known
	}
	cfg.Kubeconfig, cfg.Dir, cfg.Name = s.cluster.Kubeconfig, s.dir, fmt.Sprintf("record-%d", len(s.recorded))
	history, err := programs.Record(s.Context(), cfg)
	s.must(err)
	s.recorded[ledger] = history
	kit.AtEnd(s.T, func(ctx context.Context) error { return s.replay(ctx, history) })
	return history
}

// replay ends a recording and audits it.
func (s *stack) replay(ctx context.Context, history *harness.History) error {
	result, err := history.Audit(ctx)
	if err != nil {
		return err
	}
	s.Logf("berth audit:\n%s", result.Stdout)
	if result.Code != 0 {
		return fmt.Errorf("berth audit: exit code %d\n%s", result.Code, result.Stderr)
	}
	if !strings.Contains(result.Stdout, s.auditShows) {
		return fmt.Errorf("berth audit: the report does not contain %q", s.auditShows)
	}
	return nil
}

func (s *stack) stopAtEnd(berth *harness.Berth) {
	s.Cleanup(func() {
		// An unexpected end of a process is a failure, even if the test did not notice.
		kit.Stop(s.T, berth.Stop)
		if s.Failed() {
			s.Log(berth.Tail())
		}
	})
}

// eventually ends the test when something stays missing.
func (s *stack) eventually(limit time.Duration, what string, check func(context.Context) (string, error)) {
	s.Helper()
	s.must(harness.Eventually(s.Context(), limit, what, check))
}

// namespace makes a namespace.
func (s *stack) namespace(name string) string {
	s.Helper()
	s.must(harness.CreateNamespace(s.Context(), s.client, harness.Namespace(name)))
	return name
}

// create makes pods, many at once.
func (s *stack) create(pods ...*corev1.Pod) {
	s.Helper()
	s.must(harness.CreatePods(s.Context(), s.client, pods))
}

// burst begins to create a burst of pods. The function that it returns waits until there are all of them.
func (s *stack) burst(namespace string) (created func()) {
	failed := make(chan error, 1)
	go func() {
		failed <- harness.CreatePods(s.Context(), s.client, newPods(namespace, "pod", burst, "100m"))
	}()
	return func() {
		s.Helper()
		s.must(<-failed)
	}
}

func (s *stack) pod(namespace, name string) *corev1.Pod {
	s.Helper()
	pod, err := s.client.CoreV1().Pods(namespace).Get(s.Context(), name, metav1.GetOptions{})
	s.must(err)
	return pod
}

func (s *stack) pods(namespace string) []corev1.Pod {
	s.Helper()
	list, err := s.client.CoreV1().Pods(namespace).List(s.Context(), metav1.ListOptions{})
	s.must(err)
	return list.Items
}

// bound waits until n pods of a namespace are bound and returns them.
func (s *stack) bound(namespace string, n int, limit time.Duration) []corev1.Pod {
	s.Helper()
	var placed []corev1.Pod
	what := fmt.Sprintf("%d pods of %s are bound", n, namespace)
	s.eventually(limit, what, func(ctx context.Context) (string, error) {
		list, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		placed = placed[:0]
		waiting := ""
		for _, pod := range list.Items {
			if pod.Spec.NodeName != "" {
				placed = append(placed, pod)
			} else {
				waiting = fmt.Sprintf("; %s: %s", pod.Name, conditionOf(&pod).Message)
			}
		}
		if len(placed) >= n {
			return "", nil
		}
		return fmt.Sprintf("%d of %d%s", len(placed), len(list.Items), waiting), nil
	})
	return placed
}

// nodeOf waits until a pod is bound and returns its node's name.
func (s *stack) nodeOf(namespace, name string) string {
	s.Helper()
	node := ""
	s.eventually(placedWithin, "pod "+name+" is bound", func(ctx context.Context) (string, error) {
		pod, err := s.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if node = pod.Spec.NodeName; node != "" {
			return "", nil
		}
		return "its condition: " + conditionOf(pod).Message, nil
	})
	return node
}

// unschedulable waits until a pod's condition says Unschedulable, in a message about all nodes
// that contains every one of reasons.
func (s *stack) unschedulable(namespace, name string, reasons ...string) {
	s.Helper()
	prefix := fmt.Sprintf("0/%d nodes are available: ", s.nodeCount())
	what := fmt.Sprintf("pod %s is unschedulable: %s%q", name, prefix, reasons)
	s.eventually(placedWithin, what, func(ctx context.Context) (string, error) {
		pod, err := s.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if pod.Spec.NodeName != "" {
			return "", fmt.Errorf("it is bound to %s", pod.Spec.NodeName)
		}
		c := conditionOf(pod)
		if c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable &&
			strings.HasPrefix(c.Message, prefix) && containsAll(c.Message, reasons) {
			return "", nil
		}
		return fmt.Sprintf("condition %s=%s, reason %s: %s", c.Type, c.Status, c.Reason, c.Message), nil
	})
}

func containsAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// nodeCount is how many nodes the cluster has.
func (s *stack) nodeCount() int {
	s.Helper()
	list, err := s.client.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	s.must(err)
	return len(list.Items)
}

// deletePods deletes pods and waits until they are gone.
func (s *stack) deletePods(namespace string, names ...string) {
	s.Helper()
	for _, name := range names {
		s.must(s.client.CoreV1().Pods(namespace).Delete(s.Context(), name, metav1.DeleteOptions{}))
	}
	s.eventually(placedWithin, "the deleted pods are gone", func(ctx context.Context) (string, error) {
		for _, name := range names {
			_, err := s.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s: %v", name, err), nil
			}
		}
		return "", nil
	})
}

func conditionOf(pod *corev1.Pod) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c
		}
	}
	return corev1.PodCondition{}
}

// audit checks the whole cluster twice: with the test's own arithmetic, and with `berth check`,
// which must agree.
func (s *stack) audit() {
	s.Helper()
	nodes, pods, err := harness.ListAll(s.Context(), s.client)
	s.must(err)
	for _, wrong := range audit.Check(nodes, pods) {
		s.Error(wrong)
	}
	for ledger, flag := range s.ledgers() {
		result, err := programs.Command(s.Context(), "check", "--kubeconfig", s.cluster.Kubeconfig, flag, ledger)
		s.must(err)
		if result.Code != 0 {
			s.Errorf("berth check: exit code %d\n%s%s", result.Code, result.Stdout, result.Stderr)
		}
	}
}

// ledgers are those that can be read now, each with the flag that names it.
func (s *stack) ledgers() map[string]string {
	out := map[string]string{}
	for ledger := range s.recorded {
		if strings.Contains(ledger, "://") {
			out[ledger] = "--etcd-endpoints"
		} else if _, err := os.Stat(filepath.Join(ledger, "endpoints.json")); err == nil {
			out[ledger] = "--data-dir"
		}
	}
	return out
}

// boundOnce checks that each pod of a namespace was announced as bound exactly once, to the node that it is on.
func (s *stack) boundOnce(namespace string) {
	s.Helper()
	pods := s.pods(namespace)
	s.eventually(placedWithin, "every pod of "+namespace+" has its Scheduled event",
		func(ctx context.Context) (string, error) {
			announced, err := s.announced(ctx, namespace, pods)
			if err == nil && announced < len(pods) {
				return fmt.Sprintf("%d of %d have it", announced, len(pods)), nil
			}
			return "", err
		})
}

// boundAtMostOnce checks what boundOnce checks, but for events that are missing: one that was not
// written when its writer was stopped is lost, as it is with kube-scheduler.
func (s *stack) boundAtMostOnce(namespace string) {
	s.Helper()
	_, err := s.announced(s.Context(), namespace, s.pods(namespace))
	s.must(err)
}

// announced counts the pods that have a Scheduled event. One pod with two, or with one that names
// another node than the pod's, is an error: each successful bind is announced by itself.
func (s *stack) announced(ctx context.Context, namespace string, pods []corev1.Pod) (int, error) {
	events, err := s.client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	notes := map[types.UID][]string{}
	for _, event := range events.Items {
		if event.Reason != "Scheduled" {
			continue
		}
		if event.Series != nil {
			return 0, fmt.Errorf("pod %s was announced %d times", event.Regarding.Name, event.Series.Count)
		}
		notes[event.Regarding.UID] = append(notes[event.Regarding.UID], event.Note)
	}
	announced := 0
	for _, pod := range pods {
		want := fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, pod.Spec.NodeName)
		got := notes[pod.UID]
		if len(got) > 1 || len(got) == 1 && got[0] != want {
			return 0, fmt.Errorf("pod %s was announced with %q, want %q once", pod.Name, got, want)
		}
		announced += len(got)
	}
	return announced, nil
}
