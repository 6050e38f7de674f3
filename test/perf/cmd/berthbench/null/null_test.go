package null

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program gets the options that it was started with.
func TestArgsAreParsedAsTheyWereMade(t *testing.T) {
	want := Options{NATS: "nats://127.0.0.1:1", Etcd: "http://127.0.0.1:2", Kubeconfig: "/a b", Nodes: 1000, Pods: 20000,
		Warm: 500, FactReaders: 5, DecisionReaders: 3, FactBytes: 1500, DecisionBytes: 900}
	args := want.Args()
	if args[0] != "null" {
		t.Fatalf("%v: want the name of the subcommand first", args)
	}
	var got Options
	if err := bench.Parse(&got, args[1:]...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	few := want
	few.Nodes = Group * inFlight
	if err := few.Validate(); err == nil || !strings.Contains(err.Error(), "--nodes 96") {
		t.Errorf("%v: two transactions at once about one node are accepted", err)
	}
	if err := (&Options{Nodes: 1000}).Validate(); err == nil || !strings.Contains(err.Error(), "--pods 0") {
		t.Errorf("%v: no pods are accepted", err)
	}
}

// Expectations add up, and one that is met stays met.
func TestTallyClosesWhenAllIsCounted(t *testing.T) {
	counted := func(reached <-chan struct{}) bool {
		select {
		case <-reached:
			return true
		default:
			return false
		}
	}
	bytes := newTally()
	if !counted(bytes.expect(0)) {
		t.Error("nothing is expected, and yet it is waited for")
	}
	first := bytes.expect(10)
	for range 3 {
		bytes.add(3)
	}
	if counted(first) {
		t.Error("9 of 10 bytes are all")
	}
	bytes.add(5) // 4 of them are the next pass's
	second := bytes.expect(6)
	if !counted(first) || counted(second) {
		t.Errorf("first %v, second %v, want only the first", counted(first), counted(second))
	}
	bytes.add(2)
	if !counted(second) {
		t.Error("16 bytes of 10 and 6 are not all")
	}
	bytes.add(20)
	if !counted(bytes.expect(20)) {
		t.Error("what was counted before it was expected is not all")
	}
	if !counted(bytes.expect(0)) {
		t.Error("nothing more is expected, and yet it is waited for")
	}
}

// The sink takes the binds and events for what they are.
func TestPostsAreABindAndAnEvent(t *testing.T) {
	api, err := sink.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: PodName(podPrefix, 7)}}
	if _, err := api.AddPods([]*corev1.Pod{pod}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, api.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := newPoster(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	defer p.client.CloseIdleConnections()
	if err := p.bind(t.Context(), "pod-000007", "node-1"); err != nil {
		t.Error(err)
	}
	if err := p.event(t.Context(), "pod-000007", "node-1"); err != nil {
		t.Error(err)
	}
	if bound, _ := api.Bound(); bound != 1 || api.Events() != 1 || len(api.Strange()) > 0 {
		t.Errorf("%d bound, %d events, %v", bound, api.Events(), api.Strange())
	}
	if err := p.bind(t.Context(), "pod-000007", "node-2"); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("a pod is bound twice: %v", err)
	}
}
