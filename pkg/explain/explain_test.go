package explain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/eventstest"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

func TestAskAndServe(t *testing.T) {
	log := memlog.New(memlog.Options{})
	defer log.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	serving, stop := context.WithCancel(ctx)
	var g errgroup.Group
	for _, member := range []string{"a", "b", "silent"} {
		g.Go(func() error {
			return explain.Serve(serving, log, work.SubjectAskShards,
				func(_ context.Context, q explain.Question) (explain.ShardAnswer, bool) {
					return explain.ShardAnswer{Member: member + " about " + q.Node}, member != "silent"
				})
		})
	}
	two := func(list []explain.ShardAnswer) bool { return len(list) == 2 }
	var answers []explain.ShardAnswer
	for len(answers) < 2 { // until both subscribe
		asking, stopAsking := context.WithTimeout(ctx, 50*time.Millisecond)
		var err error
		answers, err = explain.Ask(asking, log, work.SubjectAskShards, explain.Question{Node: "n1"}, two)
		stopAsking()
		if err != nil {
			t.Fatal(err)
		}
		if ctx.Err() != nil {
			t.Fatal("nobody answers")
		}
	}
	for _, a := range answers {
		if a.Member != "a about n1" && a.Member != "b about n1" {
			t.Errorf("answer of %q", a.Member)
		}
	}
	stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// records returns records as a log would hold them, a second apart.
func records(t *testing.T, begin time.Time, msgs ...eventlog.Message) []eventlog.Record {
	t.Helper()
	var list []eventlog.Record
	for i, m := range msgs {
		list = append(list, eventlog.Record{
			Message: m, Sequence: uint64(i + 1), Time: begin.Add(time.Duration(i) * time.Second),
		})
	}
	return list
}

func fact(t *testing.T, op events.Op, pod *corev1.Pod) eventlog.Message {
	t.Helper()
	f := events.Fact{Kind: events.KindPod, Op: op, UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
	if op == events.OpUpsert {
		var err error
		if f.Object, err = pod.Marshal(); err != nil {
			t.Fatal(err)
		}
	}
	return events.EncodeFact(f)
}

func TestExplainAnEvictedPod(t *testing.T) {
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := statetest.Pod("shop", "cart", "cpu", "1")
	bound := pod.DeepCopy()
	bound.Spec.NodeName = "n1"
	ref := events.PodRef{UID: string(pod.UID), Namespace: "shop", Name: "cart"}
	story := explain.BuildStory(string(pod.UID),
		records(t, begin, fact(t, events.OpUpsert, pod), fact(t, events.OpUpsert, bound), fact(t, events.OpDelete, bound)),
		records(t, begin.Add(100*time.Millisecond),
			events.EncodeDecision(events.Decision{
				Kind: events.DecisionPlaced, Pod: ref, Actor: "scheduler-0", Attempt: 1,
				NodeName: "n1", NodesTotal: 9, NodesFeasible: 4, Plugins: []string{"Courier"},
				Evidence: &evidence.Evidence{
					Examined: 9, Usable: 9,
					Rejected: map[string]int32{names.NodeResourcesFit: 5}, ScoredBy: []string{names.ImageLocality},
					Candidates: []evidence.Candidate{{Node: "n1", Total: 77, Points: []int64{77}}},
				},
			}),
			events.EncodeDecision(events.Decision{
				Kind: events.DecisionEvict, Pod: ref, Actor: "descheduler", Strategy: "RemoveDuplicates", Message: "twice on n1",
				Landing: "n2",
			}),
			events.EncodeDecision(events.Decision{Kind: events.DecisionEvicted, Pod: ref, Actor: "binder-0"}),
		))
	if story.State != "gone" || story.Node != "n1" || story.Evicted == nil || story.Evicted.Done.IsZero() {
		t.Fatalf("story %+v, want a pod that is gone from n1 by eviction", story)
	}
	var out strings.Builder
	if err := story.Text(&out, begin.Add(time.Minute), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"state: gone, was on node n1", "evicted: by descheduler, strategy RemoveDuplicates", "twice on n1",
		"expected on node n2", "chosen: n1, 4 of 9 nodes feasible", "looked at: all 9 nodes", "bound by plugin Courier",
		"rejected: 5 NodeResourcesFit", "77",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, out.String())
		}
	}
}

// Which nodes a decision looked at is in the text of the choice.
func TestNodesThatWereLookedAt(t *testing.T) {
	for _, tc := range []struct {
		name string
		e    evidence.Evidence
		want string
	}{
		{"all", evidence.Evidence{Examined: 9, Usable: 9}, "  looked at: all 9 nodes\n"},
		{"some", evidence.Evidence{Examined: 5, Usable: 9}, "  looked at: 5 of 9 nodes\n"},
		{"home", evidence.Evidence{Home: true, Examined: 3, Usable: 9},
			"  looked at: 3 of 9 nodes, its shard's home nodes only, which come first (homeNodesFirst)\n"},
		{"home, of an older member", evidence.Evidence{Home: true}, "  looked at: its shard's home nodes only\n"},
		{"unknown", evidence.Evidence{}, ""},
		{"near", evidence.Evidence{
			Examined: 9, Usable: 9, Basis: evidence.Basis{LookNumber: 1, Near: 2},
			Candidates: []evidence.Candidate{{Node: "n1", Total: 90}, {Node: "n2", Total: 91}},
		}, "  looked at: all 9 nodes; a home node of its shard came first, as good as the best once other shards' pods " +
			"are there\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := statetest.Pod("shop", "cart", "cpu", "1")
			ref := events.PodRef{UID: string(pod.UID), Namespace: "shop", Name: "cart"}
			begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
			story := explain.BuildStory(string(pod.UID), records(t, begin, fact(t, events.OpUpsert, pod)), records(t, begin,
				events.EncodeDecision(events.Decision{
					Kind: events.DecisionPlaced, Pod: ref, Attempt: 1, NodeName: "n1", Evidence: &tc.e,
				})))
			var out strings.Builder
			if err := story.Text(&out, begin.Add(time.Minute), false); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); !strings.Contains(got, tc.want) || tc.want == "" && strings.Contains(got, "looked at") {
				t.Errorf("text\n%s\nwant %q in it", got, tc.want)
			}
		})
	}
}

func TestTextOfAWaitingPod(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	s := explain.Story{
		Namespace: "shop", Name: "big", State: "waiting",
		Queue: &explain.QueueAnswer{
			Pool: "parked", Reason: "rejected by NodeResourcesFit", Since: now.Add(-time.Minute),
			Wakes: []explain.Wake{{Plugin: "NodeResourcesFit", Events: []string{"NodeAdd"}}},
		},
		Shard: &explain.PodView{Nodes: 5000, Explanation: placement.Explanation{
			Classes: []placement.NodeClass{
				{Nodes: 4997, Examples: []string{"n0", "n1"}, Failures: []placement.Failure{
					{Plugin: "NodeResourcesFit", Code: rule.Unschedulable, Reasons: []string{"Insufficient cpu"}},
				}},
				{Nodes: 3, Examples: []string{"g0", "g1", "g2"}, Failures: []placement.Failure{{
					Plugin: "TaintToleration", Code: rule.UnschedulableAndUnresolvable,
					Reasons: []string{"node(s) had untolerated taint(s)"}, Details: []string{"taint gpu:NoSchedule"},
				}}},
			},
			Nearest: []placement.Miss{{Node: "n17", Short: []placement.Shortage{{
				Resource: "cpu", Asked: 2000, Free: 1800, Lacked: 200,
			}}}},
		}},
	}
	var out strings.Builder
	if err := s.Text(&out, now, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"in pool parked for 60s", "NodeResourcesFit: NodeAdd", "0 of 5000 would accept it now",
		"4997  NodeResourcesFit: Insufficient cpu", "n17 lacks 200m cpu (requests 2, 1800m free)",
		"3 nodes would fit except for: node(s) had untolerated taint(s) (taint gpu:NoSchedule)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, out.String())
		}
	}
}

// TestExplainWithRecordsThatCannotBeRead checks that unreadable records are noted, and the rest is shown.
func TestExplainWithRecordsThatCannotBeRead(t *testing.T) {
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := statetest.Pod("shop", "cart", "cpu", "1")
	broken := fact(t, events.OpUpsert, pod)
	broken.Data = broken.Data[:10]
	facts := records(t, begin, fact(t, events.OpUpsert, pod), eventlog.Message{Subject: "facts.pod.x.1"}, broken,
		fact(t, events.OpDelete, pod))
	var poison []eventlog.Message
	for _, m := range eventstest.PoisonDecisions() {
		poison = append(poison, m)
	}
	bound := events.EncodeDecision(events.Decision{
		Kind: events.DecisionBound, Pod: events.PodRef{UID: string(pod.UID)}, NodeName: "n1",
	})
	story := explain.BuildStory(string(pod.UID), facts, records(t, begin, append(poison, bound)...))
	if len(story.Notes) != 2+len(poison) || !strings.Contains(story.Notes[0], "record 2 (facts.pod.x.1)") {
		t.Errorf("notes %q, want one for each record that cannot be read", story.Notes)
	}
	if story.State != "gone" || story.Events[len(story.Events)-1].What == "" {
		t.Errorf("state %q, events %+v; want gone, and what can be read", story.State, story.Events)
	}
}

// TestBoundAccordingToTheBinder covers a binder that has the API server's answer before the facts show the bind.
func TestBoundAccordingToTheBinder(t *testing.T) {
	pod := statetest.Pod("shop", "cart", "cpu", "1")
	ref := events.PodRef{UID: string(pod.UID), Namespace: "shop", Name: "cart"}
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	story := explain.BuildStory(string(pod.UID), records(t, begin, fact(t, events.OpUpsert, pod)), records(t, begin,
		events.EncodeDecision(events.Decision{Kind: events.DecisionBound, Pod: ref, NodeName: "n1"})))
	if story.State != "bound" || story.Node != "n1" {
		t.Errorf("state %q, on node %q; want bound, on n1", story.State, story.Node)
	}
}

func TestWaterfall(t *testing.T) {
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := statetest.Pod("shop", "cart", "cpu", "1")
	bound := pod.DeepCopy()
	bound.Spec.NodeName = "n1"
	ref := events.PodRef{UID: string(pod.UID), Namespace: "shop", Name: "cart"}
	facts := records(t, begin, fact(t, events.OpUpsert, pod), fact(t, events.OpUpsert, bound))
	facts[1].Time = begin.Add(10 * time.Second)
	decisions := records(t, begin.Add(100*time.Millisecond),
		events.EncodeDecision(events.Decision{
			Kind: events.DecisionUnplaceable, Pod: ref, Attempt: 1, NodesTotal: 9, Plugins: []string{"NodeResourcesFit"},
			Evidence: &evidence.Evidence{
				Cause: "UnschedulablePodAdd", Waited: 10 * time.Millisecond, Considered: time.Millisecond,
			},
		}),
		events.EncodeDecision(events.Decision{
			Kind: events.DecisionPlaced, Pod: ref, Attempt: 2, NodeName: "n1", NodesTotal: 9, NodesFeasible: 1,
			Evidence: &evidence.Evidence{
				Cause: "AssignedPodDelete", Waited: 2 * time.Second, Considered: time.Millisecond, Reserved: 3 * time.Millisecond,
			},
		}),
		events.EncodeDecision(events.Decision{Kind: events.DecisionBound, Pod: ref, NodeName: "n1"}),
	)
	decisions[1].Time = begin.Add(8 * time.Second)
	decisions[2].Time = begin.Add(8050 * time.Millisecond)
	story := explain.BuildStory(string(pod.UID), facts, decisions)
	type step struct {
		name   string
		at, by time.Duration
	}
	var got []step
	for _, s := range story.Steps(begin.Add(time.Hour)) {
		got = append(got, step{s.Name, s.Start.Sub(begin), s.End.Sub(s.Start)})
	}
	ms := time.Millisecond
	want := []step{
		{"seen", 0, 0}, {"queued", 89 * ms, 10 * ms}, {"attempt", 99 * ms, ms},
		{"parked", 100 * ms, 5896 * ms}, {"queued", 5996 * ms, 2000 * ms}, {"attempt", 7996 * ms, 4 * ms},
		{"reserve", 7997 * ms, 3 * ms}, {"bind", 8000 * ms, 50 * ms},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	var out strings.Builder
	if err := story.Waterfall(&out, begin.Add(time.Hour), false); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len([]rune(line)) > 160 {
			t.Errorf("a line of %d characters: %s", len(line), line)
		}
	}
	if !strings.Contains(out.String(), "AssignedPodDelete") || !strings.Contains(out.String(), "====") {
		t.Errorf("the picture lacks the cause, or a bar:\n%s", out.String())
	}
}
