//go:build e2e

package e2e_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/test/e2e/audit"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/sink"
)

var loadPods = flag.Int("replay-load-pods", 5000, "pods that TestReplayUnderLoad places")

const (
	// loadPace is a rate of mixed pods that is exceeded on two busy processors where the API server costs
	// nothing.
	loadPace = 100
	// loadBatch is how many pods appear at once: the stand-in serves no request in the meantime.
	loadBatch = 1000
)

// The same where the API server is no bottleneck: it is the stand-in of test/perf/sink, so that two
// shard processes have as many pods as they can place; log, ledger and services are real.
func TestReplayUnderLoad(t *testing.T) {
	seed := seedOf(t)
	s := &stack{T: t, dir: kit.Dir(t, "e2e"), recorded: map[string]*harness.History{}}
	api, err := sink.Start()
	s.must(err)
	t.Cleanup(api.Close)
	s.cluster = &harness.Cluster{Kubeconfig: filepath.Join(s.dir, "kubeconfig")}
	s.must(os.WriteFile(s.cluster.Kubeconfig, api.Kubeconfig(), 0o600))
	s.must(api.AddNodes(manyNodes(max(leastNodes, *loadPods/podsPerNode))))
	config, err := contend.WriteConfig(s.dir)
	s.must(err)
	f := newReplayed(s, "--config", config)

	pods := mixedPods("replay", *loadPods)
	for _, pod := range pods {
		admit(pod)
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	begin := time.Now()
	var bound <-chan struct{}
	for some := range slices.Chunk(pods, loadBatch) {
		bound, err = api.AddPods(some)
		s.must(err)
	}
	limit := placedWithin + time.Duration(len(pods))*time.Second/loadPace
	select {
	case <-bound:
	case <-time.After(limit):
		n, _ := api.Bound()
		t.Fatalf("%d of %d pods are bound after %s", n, len(pods), limit)
	}
	took := time.Since(begin)
	t.Logf("%d pods placed in %s, %.0f a second", len(pods), took.Round(time.Second),
		float64(len(pods))/took.Seconds())
	for _, wrong := range audit.Check(api.Objects()) {
		t.Error(wrong)
	}
	if strange := api.Strange(); len(strange) > 0 {
		t.Errorf("requests that the stand-in does not serve: %v", strange)
	}
	f.replayAll(len(pods), seed)
}

// manyNodes are the nodes that nodesFile describes.
func manyNodes(n int) []*corev1.Node {
	nodes := make([]*corev1.Node, n)
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"),
			corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110")}
		nodes[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: "zone-" + string("abc"[i%3])}},
			Status: corev1.NodeStatus{Capacity: room, Allocatable: room,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}
	return nodes
}

// admit gives a pod what an API server does and placement can see.
func admit(pod *corev1.Pod) {
	pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	pod.Spec.ServiceAccountName = "default"
	pod.Spec.RestartPolicy, pod.Spec.DNSPolicy = corev1.RestartPolicyAlways, corev1.DNSClusterFirst
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations,
			corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	}
	pod.Status.Phase = corev1.PodPending
}

// newReplayed starts the producers of records: a queue, two shards and a binder on stores of their own.
func newReplayed(s *stack, args ...string) *fleet {
	s.Helper()
	f := &fleet{stack: s, members: map[string]*harness.Berth{}}
	for name, url := range map[string]*string{"etcd": &f.etcdURL, "nats": &f.natsURL} {
		store, err := programs.StartStore(s.Context(), name, filepath.Join(s.dir, name))
		s.must(err)
		kit.AtEnd(s.T, store.Stop)
		*url = store.URL
	}
	for _, member := range []string{"queue-0", "scheduler-0", "scheduler-1", "binder-0"} {
		f.start(member[:len(member)-2], member, args...)
	}
	return f
}

// seedOf is the seed of this run.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	return seedtest.First(t, *replaySeed)
}

// replayAll exports the log and makes all of its decisions again, which must be at least as many as
// there are pods; then a sample, from the log itself.
func (f *fleet) replayAll(pods int, seed uint64) {
	f.Helper()
	begin := time.Now()
	bundle := filepath.Join(f.dir, "bundle.tar")
	f.Logf("berth export\n%s", f.berth("export", "--nats-url", f.natsURL, "--file", bundle))
	f.Logf("took %s", time.Since(begin).Round(time.Millisecond))
	all := f.replayDecisions("--bundle", bundle, "--all", "--strict")
	if all.Decisions < pods || all.Same != all.Decisions {
		f.Errorf("of %d decisions %d are the same: %d different, %d explained, %d not reproducible (%v)\n%s",
			all.Decisions, all.Same, all.Different, all.Explained, all.Missing, all.Why, first(all.List))
	}
	sampled := f.replayDecisions("--nats-url", f.natsURL, "--sample", "200", "--seed", strconv.FormatUint(seed, 10))
	if sampled.Decisions == 0 || sampled.Same != sampled.Decisions {
		f.Errorf("of a sample of %d, %d are the same (%v)\n%s", sampled.Decisions, sampled.Same, sampled.Why,
			first(sampled.List))
	}
	f.Logf("%d decisions recomputed, %d identical; of a sample of %d, %d", all.Decisions, all.Same,
		sampled.Decisions, sampled.Same)
}
