package scale

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func quick() Scenario {
	return Scenario{Shards: 4, Nodes: 600, Pods: 2000, Workload: Plain, Binders: 2,
		Split: Split{Ledgers: 1, Logs: 1}, Seed: 1}
}

func costs(t *testing.T) Costs {
	t.Helper()
	c, err := Measured()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func play(t *testing.T, s Scenario, c Costs) Result {
	t.Helper()
	r, err := Run(s, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Placed+r.Refused != s.Pods {
		t.Errorf("%s: %d pods are placed and %d refused, want %d in all", s, r.Placed, r.Refused, s.Pods)
	}
	t.Logf("%s: %.0f pods/s (%.0f steady), %d searches, %d of %d transactions refused, wall %s %.2f, age %+v",
		s, r.PodsPerSecond, r.Steady, r.Searches, r.Conflicts, r.Txns, r.Wall, r.Busy, r.Age)
	return r
}

func TestTheSameSeedGivesTheSameResult(t *testing.T) {
	for _, engine := range []bool{false, true} {
		s := quick()
		s.Workload, s.Engine = Leaning, engine
		first, second := play(t, s, costs(t)), play(t, s, costs(t))
		if !reflect.DeepEqual(first, second) {
			t.Errorf("%s:\n%+v\nand then\n%+v", s, first, second)
		}
		s.Seed++
		if other := play(t, s, costs(t)); other.Seconds == first.Seconds {
			t.Errorf("%s: another seed takes exactly as long, %v s", s, first.Seconds)
		}
	}
}

// The work is accounted for: no process works more than all the time, and so many pods a second cost so many
// processors.
func TestNoProcessDoesMoreThanItCan(t *testing.T) {
	for _, cores := range []int{0, 1, 2} {
		s := quick()
		s.Cores, s.Workload = cores, Leaning
		r := play(t, s, costs(t))
		used := 0.0
		for kind, u := range r.Utilisation {
			if u > 1 {
				t.Errorf("%s: %s is busy %.0f%% of the time", s, kind, 100*u)
			}
			used += r.Micros[kind] * r.PodsPerSecond / 1e6
		}
		if cores > 0 && used > float64(cores)*1.001 {
			t.Errorf("%s: %.2f processors were used", s, used)
		}
		if cores > 0 && used < float64(cores)*0.8 {
			t.Errorf("%s: pods wait, and of %d processors only %.2f are busy", s, cores, used)
		}
	}
}

// The utilisation law: where a process is the wall, its service time determines the rate.
func TestTheWallSaysTheRate(t *testing.T) {
	for kind, slow := range map[string]string{"binder": costBinder, "queue": costQueueOffer} {
		c := maps.Clone(costs(t))
		cost := c[slow]
		cost.Micros *= 100
		c[slow] = cost
		r := play(t, quick(), c)
		width := map[string]float64{"binder": 2 * binderWidth, "queue": queueWidth}[kind]
		bound := width * 1e6 / r.Micros[kind]
		if r.Wall != kind || r.PodsPerSecond > bound*1.001 || r.PodsPerSecond < bound*0.7 {
			t.Errorf("%s is slow: %.0f pods/s, the wall is %s; want its own bound, %.0f", kind, r.PodsPerSecond, r.Wall, bound)
		}
	}
	s := quick()
	s.BindsPerSecond = 200
	if r := play(t, s, costs(t)); r.PodsPerSecond > 201 || r.PodsPerSecond < 195 || r.Wall != "API server" {
		t.Errorf("%.1f pods/s past an API server that takes 200, the wall is %s", r.PodsPerSecond, r.Wall)
	}
}

// A process is the M/D/1 queue of the textbooks: jobs that come at random and take equally long wait
// rho/(2(1-rho)) of a service time on average.
func TestAProcessIsAQueueOfTheTextbooks(t *testing.T) {
	const jobs, service = 50_000, time.Millisecond
	seed := uint64(7)
	for _, rho := range []float64{0.3, 0.6, 0.9} {
		rng := rand.New(rand.NewPCG(seed, 0))
		c := &clock{}
		p := (&machine{clock: c, free: -1}).process("server-0", 1)
		var waited time.Duration
		at := time.Duration(0)
		for range jobs {
			at += time.Duration(rng.ExpFloat64() / rho * float64(service))
			c.after(at, func() {
				came := c.now
				p.do(service, func() { waited += c.now - came - service })
			})
		}
		for c.next() {
		}
		got, want := float64(waited)/jobs/float64(service), rho/(2*(1-rho))
		if math.Abs(got/want-1) > 0.1 {
			t.Errorf("seed %d, busy %.0f%%: jobs wait %.3f service times, want %.3f", seed, 100*rho, got, want)
		}
	}
}

func TestMoreShardsAreNeverSlowerOnPlainPods(t *testing.T) {
	before := 0.0
	for _, shards := range []int{1, 2, 4, 8} {
		s := quick()
		s.Shards, s.Even = shards, true
		r := play(t, s, costs(t))
		if r.PodsPerSecond < before*0.98 {
			t.Errorf("%d shards: %.0f pods/s, half as many reach %.0f", shards, r.PodsPerSecond, before)
		}
		before = r.PodsPerSecond
	}
}

func TestOlderPicturesLoseMoreRaces(t *testing.T) {
	s := quick()
	s.Workload = Leaning
	fresh := play(t, s, costs(t))
	c := maps.Clone(costs(t))
	c[delayHop] = Cost{Micros: c[delayHop].Micros * 20, Says: "x", Evidence: "x"}
	old := play(t, s, c)
	if old.ConflictPercent() <= fresh.ConflictPercent() || old.Age.LedgerP50 < fresh.Age.LedgerP50 {
		t.Errorf("with long ways %.1f%% are refused, age %+v; with short ones %.1f%%, %+v",
			old.ConflictPercent(), old.Age, fresh.ConflictPercent(), fresh.Age)
	}
}

// The twin is as often refused as the core, and as fast.
func TestTheTwinDoesAsTheCoreDoes(t *testing.T) {
	for _, workload := range []string{Plain, Leaning} {
		for _, full := range []int{0, 50} {
			s := quick()
			s.Workload, s.Full, s.Nodes, s.Pods = workload, full, 3000, 4000
			twin := play(t, s, costs(t))
			s.Engine = true
			core := play(t, s, costs(t))
			if math.Abs(twin.ConflictPercent()-core.ConflictPercent()) > 15 {
				t.Errorf("%s: of the twin's transactions %.1f%% are refused, of the core's %.1f%%",
					s, twin.ConflictPercent(), core.ConflictPercent())
			}
			if math.Abs(twin.Steady/core.Steady-1) > 0.4 {
				t.Errorf("%s: the twin reaches %.0f pods/s, the core %.0f", s, twin.Steady, core.Steady)
			}
		}
	}
}

func TestSeveralLedgersMoveTheirWall(t *testing.T) {
	c := maps.Clone(costs(t))
	c[costTxn] = Cost{Micros: 200_000, Says: "x", Evidence: "x"}
	s := quick()
	s.Shards, s.Even = 32, true
	one := play(t, s, c)
	s.Ledgers = 4
	four := play(t, s, c)
	if one.Wall != "etcd" || four.PodsPerSecond < 2*one.PodsPerSecond {
		t.Errorf("%.0f pods/s with one slow ledger (wall %s), %.0f with four",
			one.PodsPerSecond, one.Wall, four.PodsPerSecond)
	}
	for _, split := range []Split{{1, 4, false}, {4, 4, false}, {4, 4, true}} {
		s.Split = split
		play(t, s, costs(t))
	}
	s.Workload, s.Split = Leaning, Split{4, 4, false}
	play(t, s, costs(t))
}

// What Run looks for at its end and on the way is found.
func TestBrokenPromisesAreSeen(t *testing.T) {
	open := func() *world {
		w := &world{Scenario: quick(), costs: costs(t), rng: rand.New(rand.NewPCG(1, 1))}
		if err := w.build(); err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := open()
	w.reserved([]place{{7, 1}})
	w.reserved([]place{{7, 2}})
	if w.broken == nil {
		t.Error("a pod with two reservations is not found")
	}
	w = open()
	for i := range w.pods {
		w.pods[i] = pod{node: 3, bound: true}
	}
	if _, err := w.result(); err == nil || !strings.Contains(err.Error(), "has room for") {
		t.Errorf("2,000 pods on one node: %v", err)
	}
	w = open()
	if _, err := w.result(); err == nil || !strings.Contains(err.Error(), "bound: false, refused: false") {
		t.Errorf("pods that are nowhere: %v", err)
	}
}

// A pod that fits nowhere is tried some times, and then the run continues without it.
func TestPodsThatFitNowhereAreRefused(t *testing.T) {
	w := &world{Scenario: quick(), costs: costs(t), rng: rand.New(rand.NewPCG(1, 1))}
	if err := w.build(); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.shards {
		s.decider.(*twin).best = [][2][][]int32{{make([][]int32, mostScore+1), make([][]int32, mostScore+1)}}
	}
	w.arrive()
	for w.open > 0 && w.next() {
	}
	r, err := w.result()
	if err := errors.Join(err, w.broken); err != nil || r.Refused != w.Pods {
		t.Errorf("%d of %d pods are refused: %v", r.Refused, w.Pods, err)
	}
}

func TestBadScenariosNameTheField(t *testing.T) {
	for want, change := range map[string]func(*Scenario){
		"Shards: 0: want 1 to 256":      func(s *Scenario) { s.Shards = 0 },
		"Nodes: 3000000: want 1":        func(s *Scenario) { s.Nodes = 3_000_000 },
		"Full: 99: want 0 to 95":        func(s *Scenario) { s.Full = 99 },
		"Pods: 90000: want 1 to 32700":  func(s *Scenario) { s.Pods = 90_000 },
		`Workload: "heavy": want plain`: func(s *Scenario) { s.Workload = "heavy" },
		"Binders: 0: want at least 1":   func(s *Scenario) { s.Binders = 0 },
		"Cores: -1: want 0":             func(s *Scenario) { s.Cores = -1 },
		"BindsPerSecond: -1: want 0":    func(s *Scenario) { s.BindsPerSecond = -1 },
		"Ledgers: 5: want 1 to 16, and": func(s *Scenario) { s.Ledgers = 5 },
		"Logs: 2: want 1, or as many":   func(s *Scenario) { s.Ledgers, s.Logs = 4, 2 },
		"OwnRange with 2 ledgers":       func(s *Scenario) { s.Ledgers, s.OwnRange = 2, true },
		"Engine with 2 ranges: want 1":  func(s *Scenario) { s.Ledgers, s.Engine = 2, true },
		"at most 1000000 nodes":         func(s *Scenario) { s.Engine, s.Nodes = true, 600_000 },
	} {
		s := quick()
		change(&s)
		if _, err := Run(s, costs(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func TestBadCostsNameTheCost(t *testing.T) {
	for want, change := range map[string]func(Costs){
		"queue.offer is missing":    func(c Costs) { delete(c, costQueueOffer) },
		"extra: want some of":       func(c Costs) { c["extra"] = Cost{Micros: 1, Says: "x", Evidence: "x"} },
		"nats.publish: says":        func(c Costs) { c[costPublish] = Cost{Micros: 1} },
		"memory.perPod: bytes 0":    func(c Costs) { c[bytesPod] = Cost{Micros: 1, Says: "x", Evidence: "x"} },
		"delay.hop: micros -1":      func(c Costs) { c[delayHop] = Cost{Micros: -1, Says: "x", Evidence: "x"} },
		"shard.fact: micros 1, byt": func(c Costs) { c[costFact] = Cost{Micros: 1, Bytes: 1, Says: "x", Evidence: "x"} },
	} {
		c := costs(t)
		change(c)
		raw, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseCosts("costs.yaml", raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	_, err := parseCosts("costs.yaml", []byte("delay.hop: {millis: 1}"))
	if err == nil || !strings.Contains(err.Error(), "unknown field") {
		t.Errorf("a cost in millis: %v", err)
	}
	if _, err := ReadCosts("/nowhere.yaml"); err == nil {
		t.Error("a file of costs that is not there is no error")
	}
}

// Two delays are estimates: without them, and with twice as much, the rates of many shards are the same.
func TestRatesDoNotHangOnEstimates(t *testing.T) {
	s := quick()
	s.Shards, s.Even, s.Pods, s.Nodes = 8, true, 6000, 2000
	want := play(t, s, costs(t)).PodsPerSecond
	for _, factor := range []float64{0.01, 2} {
		c := maps.Clone(costs(t))
		for _, name := range []string{delayLog, delayHop} {
			c[name] = Cost{Micros: c[name].Micros * factor, Says: "x", Evidence: "x"}
		}
		if got := play(t, s, c).PodsPerSecond; math.Abs(got/want-1) > 0.1 {
			t.Errorf("%.0f pods/s with %v times the estimated delays, %.0f with them", got, factor, want)
		}
	}
}
