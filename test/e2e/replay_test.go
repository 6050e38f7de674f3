//go:build e2e

package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

var (
	replayPods = flag.Int("replay-pods", 1000, "pods that TestReplayArrivesAtEveryNode places")
	replaySeed = flag.Uint64("replay-seed", 0, "order of its pods; 0: TEST_SEED")
)

const (
	// podsPerNode leaves a third of the nodes' pods free; fewer nodes than leastNodes would not
	// give each of two shards the home nodes that it takes to prefer them.
	podsPerNode, leastNodes = 75, 150
	// replayPace is a rate that is met on two busy processors in addition to all other work.
	replayPace = 60
	// groupOfPods is how many pods share a rule about each other.
	groupOfPods = 25
)

// replayed is the output of `berth replay -o json`.
type replayed struct {
	Decisions, Same, Explained, Different, Missing int
	Why                                            map[string]int
	List                                           []json.RawMessage
}

// Two shard processes place pods with and without rules about each other. With the nodes erased from
// all records, replay arrives at every one of them; and so does, on the live log, a random sample.
func TestReplayArrivesAtEveryNode(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	s := newStack(t, nodesFile(t, max(leastNodes, *replayPods/podsPerNode)))
	f := newReplayed(s)
	ns := s.namespace("replay")
	pods := mixedPods(ns, *replayPods)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	binds, err := harness.WatchBinds(s.Context(), s.client, ns)
	s.must(err)
	begin := time.Now()
	s.create(pods...)
	limit := placedWithin + time.Duration(len(pods))*time.Second/replayPace
	s.must(binds.Wait(s.Context(), len(pods), limit))
	t.Logf("%d pods placed in %s", len(pods), time.Since(begin).Round(time.Second))

	f.replayAll(len(pods), seed)
}

func first(list []json.RawMessage) string {
	const some = 5
	text := ""
	for _, one := range list[:min(len(list), some)] {
		text += string(one) + "\n"
	}
	return text
}

// berth runs the command, which must succeed.
func (s *stack) berth(args ...string) string {
	s.Helper()
	result, err := programs.Command(s.Context(), args...)
	s.must(err)
	if result.Code != 0 {
		s.Fatalf("berth %v: exit code %d\n%s%s", args, result.Code, result.Stdout, result.Stderr)
	}
	return result.Stdout
}

// replayDecisions runs berth replay, which may find differences.
func (s *stack) replayDecisions(args ...string) replayed {
	s.Helper()
	begin := time.Now()
	result, err := programs.Command(s.Context(), append([]string{"replay", "-o", "json"}, args...)...)
	s.must(err)
	var out replayed
	if err := json.Unmarshal([]byte(result.Stdout), &out); err != nil {
		s.Fatalf("berth replay %v: exit code %d, %v\n%s", args, result.Code, err, result.Stderr)
	}
	s.Logf("berth replay %v took %s and at most %d MiB of memory", args, time.Since(begin).Round(time.Millisecond),
		result.PeakMemory>>20)
	return out
}

// nodesFile describes nodes in three zones, in a file.
func nodesFile(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nodes.yaml")
	text := fmt.Sprintf(`groups:
- namePrefix: node-
  count: %d
  region: local
  zones: [zone-a, zone-b, zone-c]
  capacity: {cpu: "32", memory: 256Gi, pods: "110"}
`, n)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mixedPods are mostly plain pods; the others have rules about nodes or each other.
func mixedPods(ns string, n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		group := fmt.Sprintf("group-%d", i/20/groupOfPods)
		pod := newPod(ns, fmt.Sprintf("pod-%06d", i), "50m")
		switch i % 20 {
		case 0, 1:
			preferring(10, corev1.LabelTopologyZone, "zone-b")(pod)
		case 2:
			selecting(corev1.LabelTopologyZone, "zone-c")(pod)
		case 3, 4:
			pod.Labels = map[string]string{app: "even-" + group}
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 2, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: matching("even-" + group),
			}}
		case 5, 6:
			pod.Labels = map[string]string{app: "apart-" + group}
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: corev1.LabelHostname, LabelSelector: matching("apart-" + group)},
				},
			}}
		case 7:
			pod.Labels = map[string]string{app: "near-" + group}
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{
						MatchLabels: map[string]string{app: "near-" + group},
					}},
				},
			}}
		}
		pods[i] = pod
	}
	return pods
}
