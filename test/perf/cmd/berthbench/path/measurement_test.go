package path

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

func TestBadCommandLinesNameWhatIsAccepted(t *testing.T) {
	for args, want := range map[string]string{
		"--shards=two":                     `invalid argument "two" for "--shards"`,
		"--shards=0":                       "at least 1",
		"--full=100":                       "from 0 to 99",
		"--null --workload=zonal":          "a null path obeys no rules",
		"--workload=heavy":                 "plain or constrained or zonal or leaning",
		"--full=90 --nodes=10 --pods=1000": "room for 320",
	} {
		if err := bench.Parse(&options{}, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
}

func TestStandingPodsTakeWhatTheyShouldOnAverage(t *testing.T) {
	o := options{nodes: 500}
	for _, full := range []int{10, 50, 70, 90} {
		sum := 0.0
		for _, p := range o.standing(full) {
			cpu := p.Spec.Containers[0].Resources.Requests.Cpu().AsApproximateFloat64()
			if cpu < 0 || cpu > bench.NodeCPU {
				t.Fatalf("%d%%: a pod of %v CPUs", full, cpu)
			}
			sum += cpu
		}
		if got := 100 * sum / bench.NodeCPU / 500; got < float64(full)-1 || got > float64(full)+1 {
			t.Errorf("%.1f%% are taken, want %d%%", got, full)
		}
	}
}

func TestBrokenRulesAreSeen(t *testing.T) {
	o := options{workload: constrained}
	zone := map[string]string{"a": bench.ZoneOf(0), "b": bench.ZoneOf(1), "c": bench.ZoneOf(2)}
	place := func(nodes ...string) []corev1.Pod {
		var pods []corev1.Pod
		for i, p := range o.arriving("pod", len(nodes)) {
			p.Spec.NodeName = nodes[i]
			pods = append(pods, *p)
		}
		return pods
	}
	if wrong := broken(place("a", "a", "a", "b", "b", "a", "c", "c", "a"), zone); len(wrong) > 0 {
		t.Errorf("nothing is wrong, and yet: %v", wrong)
	}
	if wrong := broken(place("a", "a", "a", "b", "a"), zone); len(wrong) != 1 {
		t.Errorf("two pods that want to be alone are on one node: %v", wrong)
	}
	if wrong := broken(place("a", "a", "a", "a", "b", "a", "a", "c"), zone); len(wrong) != 1 {
		t.Errorf("three pods of a spread group are in one zone, none in another: %v", wrong)
	}
}

func TestIdleTimeIsRead(t *testing.T) {
	got, err := parseIdle("cpu  100 1 50 700 20 0 3 0 0 0\ncpu0 1 2 3 4 5\n")
	if err != nil || got != 7200*time.Millisecond {
		t.Errorf("%v, %v, want 7.2s", got, err)
	}
	if _, err := parseIdle("processor 1"); err == nil {
		t.Error("what is not /proc/stat is no error")
	}
}

func TestPodsOutsideTheirZoneAreSeen(t *testing.T) {
	o := options{workload: zonal}
	zone := map[string]string{"a": bench.ZoneOf(0), "b": bench.ZoneOf(1)}
	var pods []corev1.Pod
	for i, p := range o.arriving("pod", 2) {
		p.Spec.NodeName = []string{"a", "b"}[i]
		pods = append(pods, *p)
	}
	if wrong := broken(pods, zone); len(wrong) > 0 {
		t.Errorf("nothing is wrong, and yet: %v", wrong)
	}
	pods[0].Spec.NodeName = "b"
	if wrong := broken(pods, zone); len(wrong) != 1 {
		t.Errorf("one pod is outside its zone, found: %v", wrong)
	}
}

func TestOutcomeComparesSettings(t *testing.T) {
	spent := func(micros float64) map[string]float64 {
		return map[string]float64{"scheduler": micros, "binder": 200, ownService: 1000}
	}
	one := result{setting: setting{1, 70, records}, PodsPerSecond: 1000, Micros: spent(100), FactMicros: 10}
	four := result{setting: setting{4, 70, records}, PodsPerSecond: 1500, Micros: spent(176), FactMicros: 10}
	four.contention = contention{Txns: 200, Conflicts: 1, Placed: []int{20, 25, 25, 30}, Attempts: 2,
		Lost: map[string]int{"node": 3, "guard": 5}}
	both := report{Results: []result{one, four}, options: options{runs: 1}, budget: budget{"scheduler": 200}}
	if got := both.losses(four.setting) + both.losses(one.setting); got != "5 guard, 3 node–" {
		t.Errorf("races lost: %s", got)
	}
	values := both.outcome().Values
	for name, want := range map[string]float64{
		"s4.f70.speedup": 1.5, "s4.f70.cpuRatio": 376. / 300, "s4.f70.conflictPercent": 0.5,
		"s4.f70.cpuRatioWithoutFacts": 296. / 280, "s4.f70.decisionsRatio": 1.2,
		"s4.f70.leastShare": 20, "s4.f70.mostShare": 30, "factsPerSecond": 100000, "budgetShare": 0.5,
	} {
		if got := values[name]; got < want*0.999 || got > want*1.001 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
