//go:build e2e

package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

const (
	// arrivals is how far apart pods of each scheduler name arrive during the walk.
	arrivals = 400 * time.Millisecond
	// soonBound is the longest that a pod may wait in the walk: a replaced queue takes over within a few
	// seconds, on a machine that runs everything.
	soonBound = 15 * time.Second
	// eachStep is how many more pods of each name have to be bound in each step.
	eachStep = 10
)

// replaced are the services of the overlays canary and replace-default, in the order in which they are replaced.
var replaced = []string{"queue", "scheduler", "binder"}

// walk is a migration from kube-scheduler and back, while pods of both scheduler names arrive.
type walk struct {
	*system
	kubeScheduler *harness.Peer
	running       map[string]*member
	rounds        int
	// policies reports whether the API server has MutatingAdmissionPolicies, as from 1.36 on.
	policies bool
	// names are the scheduler names in the pods that arrive, by their namespace: strings.
	names map[string]*atomic.Value
	binds map[string]*harness.Binds
	// began is when pods began to arrive, and stop ends that.
	began time.Time
	stop  func() int
	// patience is the longest that a pod may wait.
	patience time.Duration
}

// TestHandOverAndBack follows docs/migrate.md with a real kube-scheduler: Berth runs next to it, takes over
// default-scheduler, loses each of its parts, and gives the name back. Pods of both scheduler names arrive all the
// time, and each is bound soon. No pod is evicted, and no store is replaced by the hand-over.
func TestHandOverAndBack(t *testing.T) {
	w := newWalk(t)
	w.install("overlays/canary")
	w.certificates()
	w.startStores()
	w.alongside()
	w.handOver()
	w.back()
}

func newWalk(t *testing.T) *walk {
	w := &walk{
		system: newSystem(t, sixtyNodes), running: map[string]*member{}, patience: soonBound,
		names: map[string]*atomic.Value{"plain": {}, "canary": {}},
	}
	w.names["plain"].Store("default-scheduler")
	w.names["canary"].Store("")
	has, err := w.client.Discovery().ServerResourcesForGroupVersion(admissionv1.SchemeGroupVersion.String())
	w.must(err)
	w.policies = slices.ContainsFunc(has.APIResources, func(r metav1.APIResource) bool {
		return r.Name == "mutatingadmissionpolicies"
	})
	return w
}

// applyPolicy applies a file of deploy/k8s/components that has a MutatingAdmissionPolicy. An API server without that
// kind refuses it, and accepts the rest of the file.
func (w *walk) applyPolicy(file ...string) {
	w.Helper()
	path := filepath.Join(append([]string{programs.Root, "deploy", "k8s", "components"}, file...)...)
	_, err := w.kubectl("", "apply", "-f", path)
	if w.policies {
		w.must(err)
		return
	}
	const refused = `no matches for kind "MutatingAdmissionPolicy" in version "admissionregistration.k8s.io/v1"`
	if err == nil || !strings.Contains(err.Error(), refused) {
		w.Fatalf("applied on an API server without the kind: %v, want %q", err, refused)
	}
}

// give makes new pods of a namespace get a scheduler name: by a policy, or directly where there is none.
func (w *walk) give(ns, name string) {
	w.Helper()
	if w.policies {
		w.namesOf(ns, name)
		return
	}
	w.names[ns].Store(name)
}

// alongside is the first part: the cluster starts without Berth, and Berth places the pods of a labelled namespace
// while kube-scheduler runs.
func (w *walk) alongside() {
	w.Helper()
	w.startBootstrapScheduler()
	w.coldStart()
	w.startKubeScheduler()
	kit.AtEnd(w.T, func(ctx context.Context) error { return w.kubeScheduler.Stop(ctx) })
	w.replace()
	w.adopt("canary")
	w.began, w.stop = time.Now(), w.arrive()
	w.step("Berth beside kube-scheduler")
}

// handOver is the second: Berth takes kube-scheduler's place.
func (w *walk) handOver() {
	w.Helper()
	w.configure("overlays/replace-default")
	w.replace()
	w.step("both serve default-scheduler")
	w.must(w.kubeScheduler.Stop(w.Context()))
	w.step("Berth in the place of kube-scheduler")
}

// back is the last part: kube-scheduler takes over again, and Berth is removed.
func (w *walk) back() {
	w.Helper()
	w.startKubeScheduler()
	w.configure("overlays/canary")
	w.replace()
	w.step("back beside kube-scheduler")
	_, err := w.kubectl("", "label", "namespace", "canary", "berth.dev/schedule-")
	w.must(err)
	w.give("canary", "default-scheduler")
	w.step("no pod asks for Berth")
	for name, m := range w.running {
		w.must(m.Stop(w.Context()))
		delete(w.running, name)
	}
	w.step("without Berth")
	w.finish(w.stop())
}

// adopt gives Berth the new pods of a namespace, as docs/managed-clusters.md says.
func (w *walk) adopt(ns string) {
	w.Helper()
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: ns, Labels: map[string]string{"berth.dev/schedule": "true"},
	}})
	w.applyPolicy("adopt-namespaces", "policy.yaml")
	w.give(ns, "berth")
}

// namesOf waits until new pods of a namespace get a scheduler name.
func (w *walk) namesOf(ns, want string) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: named("probe"), Spec: template("probe", "10m").Spec}
	pod.Spec.SchedulerName = ""
	if ns == namespace {
		w.confine(&pod.Spec)
	}
	w.eventually(inForceWithin, "pods of "+ns+" get "+want, func(ctx context.Context) (string, error) {
		made, err := w.client.CoreV1().Pods(ns).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err != nil && ctx.Err() != nil:
			return "", err
		case err != nil:
			return err.Error(), nil // such as no service account yet
		case made.Spec.SchedulerName != want:
			return made.Spec.SchedulerName, nil
		}
		return "", nil
	})
}

// confine gives a pod what Pod Security asks for in Berth's namespace.
func (w *walk) confine(spec *corev1.PodSpec) {
	w.Helper()
	queue := pick[*appsv1.Deployment](w.system, w.shipped, "berth-queue").Spec.Template.Spec
	spec.SecurityContext, spec.Containers[0].SecurityContext = queue.SecurityContext, queue.Containers[0].SecurityContext
}

// loseEach kills one member of everything and starts it again.
func (w *walk) loseEach() {
	w.Helper()
	for _, store := range []string{"etcd", "nats"} {
		w.stores.running[store+"-0"].Kill()
		w.step("without " + store + "-0")
		w.stores.startMember(store, 0)
		w.stores.ready(store, 0)
	}
	for _, service := range replaced {
		name := service + "-0"
		w.running[name].Kill()
		w.step("without " + name)
		w.rounds++
		w.running[name] = w.start(service, fmt.Sprintf("%s-%d", name, w.rounds))
	}
}

// startBootstrapScheduler starts the scheduler of deploy/bootstrap, with its configuration and its lease.
func (w *walk) startBootstrapScheduler() {
	w.Helper()
	config, err := os.ReadFile(filepath.Join(programs.Root, "deploy", "bootstrap", "scheduler.yaml"))
	w.must(err)
	const shipped = "/etc/kubernetes/scheduler.conf"
	if !strings.Contains(string(config), shipped) {
		w.Fatalf("deploy/bootstrap/scheduler.yaml names no %s", shipped)
	}
	file := filepath.Join(w.dir, "bootstrap.yaml")
	w.must(os.WriteFile(file, []byte(strings.ReplaceAll(string(config), shipped, w.cluster.Kubeconfig)), 0o600))
	process, err := w.cluster.StartReplica(w.dir, "bootstrap-scheduler", file)
	w.must(err)
	w.Cleanup(process.Kill)
}

// coldStart: nothing runs but the bootstrap scheduler, as after all nodes were replaced. Pods of the cluster's own
// namespaces and of Berth are placed; other pods wait for Berth.
func (w *walk) coldStart() {
	w.Helper()
	lease := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:kube-scheduler", ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: "coordination.k8s.io", Resource: "leases", Name: "bootstrap-scheduler",
			Namespace: "kube-system", Verb: "update",
		},
	}}
	w.applyPolicy("bootstrap-scheduler", "bootstrap.yaml")
	w.eventually(inForceWithin, "kube-scheduler's user may hold the lease", func(ctx context.Context) (string, error) {
		got, err := w.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, lease, metav1.CreateOptions{})
		if err != nil || got.Status.Allowed {
			return "", err
		}
		return "it may not", nil
	})
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "storage", Labels: map[string]string{"berth.dev/bootstrap": "true"},
	}})
	w.create(&corev1.Namespace{ObjectMeta: named("shop")})
	for ns, want := range map[string]string{
		"kube-system": "bootstrap-scheduler", "storage": "bootstrap-scheduler", "shop": "default-scheduler",
	} {
		own := want
		if w.policies {
			w.namesOf(ns, want)
			own = ""
		}
		w.createsFirst(ns, own)
	}
	placed := []string{"kube-system", "storage"}
	own := pick[*appsv1.Deployment](w.system, w.shipped, "berth-queue").Spec.Template.Spec.SchedulerName
	if own != "default-scheduler" { // as in overlays that never take kube-scheduler's place
		w.createsFirst(namespace, own)
		placed = append(placed, namespace)
	}
	for _, ns := range placed {
		w.bound(ns, 1, placedWithin)
	}
	waiting, err := w.client.CoreV1().Pods("shop").Get(w.Context(), "first", metav1.GetOptions{})
	w.must(err)
	if waiting.Spec.NodeName != "" {
		w.Errorf("the pod of shop is on %q, though nothing serves default-scheduler", waiting.Spec.NodeName)
	}
}

// createsFirst creates a namespace's first pod.
func (w *walk) createsFirst(ns, scheduler string) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: named("first"), Spec: template("first", "100m").Spec}
	pod.Spec.SchedulerName = scheduler
	if ns == namespace {
		w.confine(&pod.Spec)
	}
	w.eventually(inForceWithin, "the first pod of "+ns+" is created", func(ctx context.Context) (string, error) {
		_, err := w.client.CoreV1().Pods(ns).Create(ctx, pod, metav1.CreateOptions{})
		return reason(err), nil // such as no service account yet
	})
}

func (w *walk) startKubeScheduler() {
	w.Helper()
	var err error
	w.kubeScheduler, err = w.cluster.StartKubeScheduler(w.Context(), "")
	w.must(err)
}

// configure gives the services the configuration of a variant, as a kubelet updates a mounted ConfigMap.
func (w *walk) configure(variant string) {
	w.Helper()
	objects := w.objects(variant)
	w.sameStores(objects)
	w.writeConfig(objects)
}

// sameStores checks that a variant runs the stores as those that run.
func (w *walk) sameStores(objects []runtime.Object) {
	w.Helper()
	for _, store := range []string{"berth-etcd", "berth-nats"} {
		before := pick[*appsv1.StatefulSet](w.system, w.shipped, store).Spec
		after := pick[*appsv1.StatefulSet](w.system, objects, store).Spec
		if diff := cmp.Diff(before, after); diff != "" {
			w.Errorf("%s is replaced: %s", store, diff)
		}
	}
}

// replace replaces every service one by one, as Deployments do: a new replica is ready before an old one stops.
func (w *walk) replace() {
	w.Helper()
	w.rounds++
	for _, service := range replaced {
		for i := range int(*pick[*appsv1.Deployment](w.system, w.shipped, "berth-"+service).Spec.Replicas) {
			name := fmt.Sprintf("%s-%d", service, i)
			before := w.running[name]
			w.running[name] = w.start(service, fmt.Sprintf("%s-%d", name, w.rounds))
			if before != nil {
				w.must(before.Stop(w.Context()))
			}
		}
	}
}

// arrive creates pods of both scheduler names until stop is called, which returns how many of each there are.
func (w *walk) arrive() (stop func() int) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	w.binds = map[string]*harness.Binds{}
	w.create(&corev1.Namespace{ObjectMeta: named("plain")})
	for ns := range w.names {
		seen, err := harness.WatchBinds(w.Context(), w.client, ns)
		w.must(err)
		w.binds[ns] = seen
	}
	var done sync.WaitGroup
	created, failed := 0, error(nil)
	done.Go(func() {
		for ticker := time.NewTicker(arrivals); ; created++ {
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
			}
			for ns, scheduler := range w.names {
				spec := template("steady", "10m").Spec
				spec.SchedulerName = scheduler.Load().(string)
				_, err := w.client.CoreV1().Pods(ns).Create(w.Context(),
					&corev1.Pod{ObjectMeta: named(fmt.Sprintf("p-%d", created)), Spec: spec}, metav1.CreateOptions{})
				failed = errors.Join(failed, err)
			}
		}
	})
	return func() int {
		cancel()
		done.Wait()
		w.must(failed)
		return created
	}
}

// step waits until more pods of both names have been bound.
func (w *walk) step(what string) {
	w.Helper()
	for ns, binds := range w.binds {
		before, err := binds.Count()
		w.must(err)
		if err := binds.Wait(w.Context(), before+eachStep, placedWithin); err != nil {
			w.Fatalf("%s: pods of %s: %v", what, ns, err)
		}
	}
	w.Logf("%s: done", what)
}

// finish holds what the walk promises.
func (w *walk) finish(created int) {
	w.Helper()
	for ns, binds := range w.binds {
		w.bound(ns, created, placedWithin)
		if _, err := binds.Count(); err != nil {
			w.Error(err)
		}
		longest := binds.LongestWait(w.began, time.Now())
		w.Logf("%d pods of %s, the longest wait was %s", created, ns, longest.Round(time.Millisecond))
		if longest > w.patience {
			w.Errorf("a pod of %s waited %s, want at most %s", ns, longest, w.patience)
		}
		pods, err := w.client.CoreV1().Pods(ns).List(w.Context(), metav1.ListOptions{})
		w.must(err)
		for _, p := range pods.Items {
			if p.DeletionTimestamp != nil {
				w.Errorf("pod %s/%s is deleted", ns, p.Name)
			}
		}
		if len(pods.Items) != created {
			w.Errorf("%d pods of %s are there, %d were created", len(pods.Items), ns, created)
		}
	}
	for name, process := range w.stores.running {
		if err := process.Ended(); err != nil {
			w.Errorf("%s has ended: %v", name, err)
		}
	}
}

func reason(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
