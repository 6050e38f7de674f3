//go:build e2e

package deploy_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

const (
	// sixtyNodes is the demo's cluster.
	sixtyNodes = "tools/cluster/examples/demo-nodes.yaml"
	// placedWithin bounds the wait for pods that have room.
	placedWithin = 90 * time.Second
	// scheduler is the name that the manifests' configuration serves.
	scheduler = "berth"
)

// TestDemoAsShipped does the demo's work with everything as the manifests of the ha variant
// say: three members of each store with TLS and rights, two queues, three shards, two
// binders, two deschedulers, each under its own service account.
func TestDemoAsShipped(t *testing.T) {
	s := newSystem(t, sixtyNodes)
	s.install("overlays/ha")
	s.certificates()
	s.startStores()
	members := s.startAll()
	t.Run("workloads are placed", func(t *testing.T) { s.workloads("demo") })
	t.Run("metrics are for those who may", func(t *testing.T) {
		for name, m := range members {
			_, status, err := m.get(t.Context(), "/metrics")
			if err != nil || status != 200 {
				t.Errorf("%s: prometheus gets %d, %v", name, status, err)
			}
			m.client = s.reader("")
			if _, status, err = m.get(t.Context(), "/metrics"); err != nil || status != 401 {
				t.Errorf("%s: somebody without a certificate gets %d, %v", name, status, err)
			}
			m.client = s.reader("prometheus")
		}
	})
	t.Run("operators ask", func(t *testing.T) { s.asks(t, "demo") })
	t.Run("pods are taken from a tainted node", func(t *testing.T) { s.deschedules("demo", members) })
	t.Run("a shard is drained", func(t *testing.T) { s.drains(t) })
	t.Run("any member may be lost", func(t *testing.T) { s.losses(t, members) })
	t.Run("nothing was refused", func(t *testing.T) { s.noRefusals(t, members) })
	t.Run("nothing secret was logged", func(t *testing.T) { s.noSecrets(t) })
}

// drains makes one shard hand everything over, and checks that work continues.
func (s *system) drains(t *testing.T) {
	store, err := s.openLedger("root")
	s.must(err)
	shards, _, err := store.List(t.Context(), roster.PrefixMember+"scheduler/")
	s.must(err)
	id := filepath.Base(shards[0].Key)
	result, err := programs.Command(t.Context(), append([]string{"drain-shard", id}, s.ledgerFlags()...)...)
	if err != nil || result.Code != 0 || !strings.Contains(result.Stdout, "handed over") {
		t.Fatalf("drain-shard %s: %v, %s%s", id, err, result.Stdout, result.Stderr)
	}
	t.Log(result.Stdout)
	s.workloads("drained")
}

// ledgerFlags lead an operator's command to the ledger.
func (s *system) ledgerFlags() []string {
	return []string{
		"--etcd-endpoints", strings.Join(s.stores.etcdURLs(), ","), "--etcd-ca-file", s.file("root", "ca.crt"),
		"--etcd-cert-file", s.file("root", "tls.crt"), "--etcd-key-file", s.file("root", "tls.key"),
	}
}

// logFlags lead an operator's command to the log, as the observer: the administrator is in the account of the
// streams, where no service hears requests.
func (s *system) logFlags() []string {
	return []string{
		"--nats-url", strings.Join(s.stores.natsURLs(), ","), "--nats-ca-file", s.file("observer", "ca.crt"),
		"--nats-cert-file", s.file("observer", "tls.crt"), "--nats-key-file", s.file("observer", "tls.key"),
		"--nats-inbox-prefix", "_INBOX.berth-observer",
	}
}

// asks runs operators' commands with the operators' certificates.
func (s *system) asks(t *testing.T, ns string) {
	log := s.logFlags()
	for _, args := range [][]string{
		append([]string{"check"}, s.ledgerFlags()...),
		append([]string{"explain", "pod", ns + "/db-0"}, log...),
		append([]string{"explain", "node", "demo-0001"}, log...),
	} {
		result, err := programs.Command(t.Context(), append(args, "--kubeconfig", s.cluster.Kubeconfig)...)
		if err != nil || result.Code != 0 {
			t.Errorf("berth %v: %v, %s%s", args, err, result.Stdout, result.Stderr)
		}
		if strings.Contains(result.Stdout+result.Stderr, "not answer") {
			t.Errorf("berth %v was not answered: %s%s", args, result.Stdout, result.Stderr)
		}
	}
}

// deschedules taints a node, which the shipped policy clears; a descheduler with the shipped
// arguments but a shorter interval replaces those that run.
func (s *system) deschedules(ns string, members map[string]*member) {
	s.Helper()
	pods, err := s.client.CoreV1().Pods(ns).List(s.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	s.must(err)
	victim := pods.Items[0]
	taint := []byte(`{"spec":{"taints":[{"key":"away","effect":"NoSchedule"}]}}`)
	_, err = s.client.CoreV1().Nodes().Patch(
		s.Context(), victim.Spec.NodeName, types.StrategicMergePatchType, taint, metav1.PatchOptions{})
	s.must(err)
	for i := range 2 {
		name := fmt.Sprintf("descheduler-%d", i)
		s.must(members[name].Stop(s.Context()))
		members[name] = s.start("descheduler", name+"-often", "--descheduling-interval=2s")
	}
	s.eventually(placedWithin, victim.Name+" has gone", func(ctx context.Context) (string, error) {
		_, err := s.client.CoreV1().Pods(ns).Get(ctx, victim.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return fmt.Sprint("it is there: ", err), nil
	})
}

// workloads creates a Deployment, a StatefulSet and Jobs in a new namespace and waits until
// all their pods are bound.
func (s *system) workloads(ns string) {
	s.Helper()
	const web, db, jobs, podsPerJob = 60, 9, 20, 3
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	ctx, options := s.Context(), metav1.CreateOptions{}
	_, err := s.client.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr(web), Selector: labels("web"), Template: template("web", "500m")},
	}, options)
	s.must(err)
	_, err = s.client.AppsV1().StatefulSets(ns).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr(db), Selector: labels("db"), Template: template("db", "1"), ServiceName: "db",
			PodManagementPolicy: appsv1.ParallelPodManagement,
		},
	}, options)
	s.must(err)
	for i := range jobs {
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("batch-%02d", i)},
			Spec: batchv1.JobSpec{
				Parallelism: ptr(podsPerJob), Completions: ptr(podsPerJob), Template: template("batch", "250m"),
			},
		}
		job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err = s.client.BatchV1().Jobs(ns).Create(ctx, job, options)
		s.must(err)
	}
	s.bound(ns, web+db+jobs*podsPerJob, placedWithin)
}

// bound waits until that many pods of a namespace have a node.
func (s *system) bound(ns string, want int, within time.Duration) {
	s.Helper()
	s.eventually(within, fmt.Sprintf("%d pods of %s are bound", want, ns), func(ctx context.Context) (string, error) {
		pods, err := s.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error(), nil
		}
		n := 0
		for _, p := range pods.Items {
			if p.Spec.NodeName != "" {
				n++
			}
		}
		if n < want {
			return fmt.Sprintf("%d of %d", n, want), nil
		}
		return "", nil
	})
}

func ptr(n int32) *int32 { return &n }

func labels(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func template(app, cpu string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{
			Name: app, Image: "example.com/" + app + ":1",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			},
		}}},
	}
}
