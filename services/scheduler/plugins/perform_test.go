package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/plugins"
)

// actingPlugin is a plugin that acts at all points after the choice of a node, and records it.
type actingPlugin struct {
	name string
	*stage
}

// stage is shared by acting plugins: their answers, by "Point name", and the calls that they got.
type stage struct {
	handle   framework.Handle
	statuses map[string]*framework.Status
	wait     time.Duration
	// before, if not nil, is called at PreBind, during at the points that it names.
	before func(context.Context)
	during map[string]func(framework.CycleState)
	// nominates is the result of PostFilter in addition to its status, by plugin.
	nominates map[string]*framework.PostFilterResult
	mu        struct {
		sync.Mutex
		lines []string
	}
}

func (d *actingPlugin) Name() string { return d.name }

func (d *actingPlugin) note(point string, state framework.CycleState, pod *corev1.Pod, node string) *framework.Status {
	point += " " + d.name
	line := point
	if _, err := state.Read("filtered"); err != nil || pod.Spec.NodeName != node {
		line += fmt.Sprint(": ", err, ", pod on ", pod.Spec.NodeName)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.lines = append(d.mu.lines, line)
	if during := d.during[point]; during != nil {
		during(state)
	}
	return d.statuses[point]
}

func (s *stage) callLog() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.mu.lines, ", ")
}

func (d *actingPlugin) Filter(
	_ context.Context, state framework.CycleState, _ *corev1.Pod, _ framework.NodeInfo,
) *framework.Status {
	state.Write("filtered", filtered{})
	return nil
}

type filtered struct{}

func (filtered) Clone() framework.StateData { return filtered{} }

func (d *actingPlugin) PreEnqueue(_ context.Context, _ *corev1.Pod) *framework.Status {
	return d.statuses["PreEnqueue "+d.name]
}

func (d *actingPlugin) Reserve(
	_ context.Context, s framework.CycleState, p *corev1.Pod, node string,
) *framework.Status {
	return d.note("Reserve", s, p, node)
}

func (d *actingPlugin) Unreserve(ctx context.Context, s framework.CycleState, p *corev1.Pod, node string) {
	if ctx.Err() != nil {
		d.note("Unreserve too late", s, p, node)
	}
	d.note("Unreserve", s, p, node)
}

func (d *actingPlugin) Permit(
	_ context.Context, s framework.CycleState, p *corev1.Pod, node string,
) (*framework.Status, time.Duration) {
	return d.note("Permit", s, p, node), d.wait
}

func (d *actingPlugin) PreBindPreFlight(
	_ context.Context, s framework.CycleState, p *corev1.Pod, node string,
) (*framework.PreBindPreFlightResult, *framework.Status) {
	return nil, d.note("PreFlight", s, p, node)
}

func (d *actingPlugin) PreBind(
	ctx context.Context, s framework.CycleState, p *corev1.Pod, node string,
) *framework.Status {
	if d.before != nil {
		d.before(ctx)
	}
	if ctx.Err() != nil {
		return framework.AsStatus(ctx.Err())
	}
	return d.note("PreBind", s, p, node)
}

func (d *actingPlugin) PostBind(_ context.Context, s framework.CycleState, p *corev1.Pod, node string) {
	d.note("PostBind", s, p, node)
}

func (d *actingPlugin) Bind(ctx context.Context, s framework.CycleState, p *corev1.Pod, node string) *framework.Status {
	if d.before != nil {
		d.before(ctx)
	}
	if ctx.Err() != nil {
		return framework.AsStatus(ctx.Err())
	}
	return d.note("Bind", s, p, node)
}

// pluginSet is a set with the acting plugins A and B, in a process whose informers have synced. That many of them are
// asked to bind, before DefaultBinder if it is enabled.
type pluginSet struct {
	*stage
	binds    int
	noBinder bool

	t     *testing.T
	made  *plugins.Runtime
	set   *plugins.Set
	cycle uint64
	stop  func()
}

func newPluginSet(t *testing.T) *pluginSet { return newBindingPluginSet(t, 0, false) }

func newBindingPluginSet(t *testing.T, binds int, noBinder bool) *pluginSet {
	c := &pluginSet{t: t, binds: binds, noBinder: noBinder, stage: &stage{
		statuses: map[string]*framework.Status{}, during: map[string]func(framework.CycleState){},
	}}
	p := placement.DefaultProfile("s")
	both := []placement.CustomPlugin{{Name: "A", Weight: 1}, {Name: "B", Weight: 1}}
	p.Custom = &placement.Custom{Points: map[string][]placement.CustomPlugin{
		placement.AtPreEnqueue: both, placement.AtFilter: both, placement.AtPostFilter: both,
		placement.AtReserve: both, placement.AtPermit: both,
		placement.AtPreBind: both, placement.AtBind: both, placement.AtPostBind: both,
	}, Binder: c.binds, NoBinder: c.noBinder}
	makes := func(name string) plugins.Factory {
		return func(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
			c.handle = h
			return &actingPlugin{name, c.stage}, nil
		}
	}
	toActivate, err := plugins.NewPodsToActivate(func() framework.StateData { return &upstreams{} })
	if err != nil {
		t.Fatal(err)
	}
	made, err := plugins.New(t.Context(), plugins.Config{
		Profiles: []placement.ProfileConfig{p}, Factories: map[string]plugins.Factory{"A": makes("A"), "B": makes("B")},
		PodsToActivate: toActivate,
	}, plugins.Deps{Client: fake.NewClientset(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := goRun(func() error { return made.Run(ctx) })
	c.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	c.made = made
	c.set, _ = made.Of("s")
	return c
}

var testPod = state.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}})

// do performs an act of the current cycle; ActReserve begins one.
func (c *pluginSet) do(act step.PluginAct) step.PluginResult {
	if act == step.ActReserve {
		c.cycle++
		node := state.NewNodeInfo(state.NewNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}))
		a := c.set.Consult(c.t.Context(), step.Consult{
			ID: c.cycle, Shard: "x", Pod: testPod, Nodes: []*state.Node{node.Node}, Cluster: []*state.NodeInfo{node},
		})
		if a.Err != nil {
			c.t.Fatal(a.Err)
		}
	}
	return c.set.Perform(c.t.Context(), step.PluginRequest{ID: c.cycle, Act: act, Shard: "x", Pod: testPod, Node: "n"})
}

func (c *pluginSet) want(lines string) {
	c.t.Helper()
	if diff := cmp.Diff(lines, c.callLog()); diff != "" {
		c.t.Errorf("what plugins were asked (-want +got):\n%s", diff)
	}
}

const reserves, permits, flights = "Reserve A, Reserve B, ", "Permit A, Permit B, ", "PreFlight A, PreFlight B"

// Plugins act in upstream's order, with the state of the cycle, and take back in reverse order what they have
// reserved.
func TestOrderOfActs(t *testing.T) {
	no, skip := framework.NewStatus(framework.Unschedulable, "no"), framework.NewStatus(framework.Skip)
	broken := framework.AsStatus(errors.New("broken"))
	const undone = "Unreserve B, Unreserve A"
	for _, test := range []struct {
		name     string
		statuses map[string]*framework.Status
		acts     []step.PluginAct
		lines    string
		refused  string
		err      string
	}{
		{"all", nil, []step.PluginAct{step.ActReserve, step.ActPrepare, step.ActBound, step.ActUndo},
			reserves + permits + flights + ", PreBind A, PreBind B, PostBind A, PostBind B", "", ""},
		{"nothing before the bind", map[string]*framework.Status{"PreFlight A": skip, "PreFlight B": skip},
			[]step.PluginAct{step.ActReserve, step.ActUndo, step.ActUndo, step.ActBound},
			reserves + permits + flights + ", " + undone, "", ""},
		{"one before the bind", map[string]*framework.Status{"PreFlight A": skip},
			[]step.PluginAct{step.ActReserve, step.ActPrepare}, reserves + permits + flights + ", PreBind B", "", ""},
		{"Reserve refuses", map[string]*framework.Status{"Reserve A": no},
			[]step.PluginAct{step.ActReserve, step.ActUndo}, "Reserve A, " + undone, "A: no", ""},
		{"Reserve fails", map[string]*framework.Status{"Reserve B": broken}, []step.PluginAct{step.ActReserve},
			reserves + undone, "", `running Reserve plugin "B": broken`},
		{"Permit refuses", map[string]*framework.Status{"Permit A": no}, []step.PluginAct{step.ActReserve},
			reserves + "Permit A, " + undone, "A: no", ""},
		{"Permit fails", map[string]*framework.Status{"Permit B": broken}, []step.PluginAct{step.ActReserve},
			reserves + permits + undone, "", `running Permit plugin "B": broken`},
		{"a flight fails", map[string]*framework.Status{"PreFlight B": broken}, []step.PluginAct{step.ActReserve},
			reserves + permits + flights + ", " + undone, "", `running PreBindPreFlight "B": broken`},
		{"PreBind fails", map[string]*framework.Status{"PreBind A": broken},
			[]step.PluginAct{step.ActReserve, step.ActPrepare, step.ActUndo},
			reserves + permits + flights + ", PreBind A, " + undone, "", `running PreBind plugin "A": broken`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newPluginSet(t)
			defer c.stop()
			c.statuses = test.statuses
			var refused, failed string
			for _, act := range test.acts {
				a := c.do(act)
				if a.Refusal != nil {
					refused = a.Refusal.Plugin + ": " + strings.Join(a.Refusal.Reasons, ", ")
				}
				if a.Err != nil {
					failed = a.Err.Error()
				}
			}
			c.want(test.lines)
			if refused != test.refused || failed != test.err {
				t.Errorf("refused %q, failed %q, want %q and %q", refused, failed, test.refused, test.err)
			}
		})
	}
}

// A pod that Permit makes wait continues when all plugins have allowed it, and is rejected when one rejects it, or
// when it has waited long enough.
func TestPermitWaits(t *testing.T) {
	waits := map[string]*framework.Status{
		"Permit A": framework.NewStatus(framework.Wait), "Permit B": framework.NewStatus(framework.Wait),
		"PreFlight A": framework.NewStatus(framework.Skip), "PreFlight B": framework.NewStatus(framework.Skip),
	}
	const late = "rejected due to timeout after waiting 1m0s at plugin "
	for _, test := range []struct {
		name         string
		then         func(framework.Handle, framework.WaitingPod)
		refused, err string
	}{
		{"allowed", func(_ framework.Handle, p framework.WaitingPod) {
			p.Allow("A")
			if diff := cmp.Diff([]string{"B"}, p.GetPendingPlugins()); diff != "" {
				t.Error(diff)
			}
			p.Allow("B")
		}, "", ""},
		{"allowed by one", func(_ framework.Handle, p framework.WaitingPod) { p.Allow("A") }, late + "B", ""},
		{"rejected", func(_ framework.Handle, p framework.WaitingPod) { p.Reject("A", "no more") }, "no more", ""},
		{"rejected by the handle", func(h framework.Handle, _ framework.WaitingPod) { h.RejectWaitingPod("u") },
			"removed", ""},
		{"preempted", func(_ framework.Handle, p framework.WaitingPod) { p.Preempt("A", "gone") }, "",
			"waiting on permit for pod: gone"},
		{"allowed too late", func(_ framework.Handle, p framework.WaitingPod) {
			p.Reject("A", "no more")
			if p.Allow("B"); p.Reject("B", "again") {
				t.Error("told twice")
			}
		}, "no more", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newPluginSet(t)
				defer c.stop()
				c.statuses, c.wait = waits, time.Minute
				if a := c.do(step.ActReserve); !a.Later {
					t.Fatalf("%+v, want something left to do", a)
				}
				prepared := make(chan step.PluginResult, 1)
				go func() { prepared <- c.do(step.ActPrepare) }()
				synctest.Wait()
				waiting, seen := c.handle.GetWaitingPod("u"), 0
				c.handle.IterateOverWaitingPods(func(p framework.WaitingPod) { seen++ })
				if waiting == nil || seen != 1 || waiting.GetPod().Name != "p" || len(prepared) > 0 {
					t.Fatalf("%v, %d waiting", waiting, seen)
				}
				test.then(c.handle, waiting)
				a := <-prepared
				var refused, failed string
				if a.Refusal != nil {
					refused = strings.Join(a.Refusal.Reasons, ", ")
				}
				if a.Err != nil {
					failed = a.Err.Error()
				}
				if refused != test.refused && !(strings.HasPrefix(refused, late) && strings.HasPrefix(test.refused, late)) ||
					failed != test.err {
					t.Errorf("refused %q, failed %q, want %q and %q", refused, failed, test.refused, test.err)
				}
				if c.handle.GetWaitingPod("u") != nil {
					t.Error("it waits still")
				}
				undone := strings.Count(c.callLog(), "Unreserve A")
				if want := test.refused != "" || test.err != ""; want != (undone == 1) || undone > 1 {
					t.Errorf("undone %d times", undone)
				}
			})
		})
	}
}

// A reservation that is taken back while plugins act ends their context, and is undone once, when they have
// returned.
func TestTakenBackMeanwhile(t *testing.T) {
	for _, at := range []string{"Permit", "PreBind"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newPluginSet(t)
				defer c.stop()
				under := false
				if at == "Permit" {
					c.statuses, c.wait = map[string]*framework.Status{"Permit A": framework.NewStatus(framework.Wait)}, time.Minute
				} else {
					c.before = func(ctx context.Context) {
						under = true
						<-ctx.Done()
						if strings.Contains(c.callLog(), "Unreserve") {
							t.Error("undone under the hands of PreBind")
						}
					}
				}
				c.do(step.ActReserve)
				prepared := make(chan step.PluginResult, 1)
				go func() { prepared <- c.do(step.ActPrepare) }()
				synctest.Wait()
				if inPreBind := c.handle.GetPodInPreBind("u") != nil; inPreBind != under || under != (at == "PreBind") {
					t.Fatalf("at PreBind %v, %v", inPreBind, under)
				}
				c.do(step.ActUndo)
				if a := <-prepared; a.Err == nil {
					t.Errorf("%+v, want that it was taken back", a)
				}
				c.do(step.ActUndo)
				if n := strings.Count(c.callLog(), "Unreserve A"); n != 1 {
					t.Errorf("undone %d times: %s", n, c.callLog())
				}
			})
		})
	}
}

// A pod at PreBind can be cancelled by other plugins.
func TestCancelledAtPreBind(t *testing.T) {
	c := newPluginSet(t)
	defer c.stop()
	c.before = func(context.Context) {
		if p := c.handle.GetPodInPreBind(types.UID("u")); p == nil || !p.CancelPod("preempted") {
			t.Error("not to be cancelled")
		}
	}
	c.do(step.ActReserve)
	if a := c.do(step.ActPrepare); a.Err == nil || a.Err.Error() != `running PreBind plugin "A": preempted` {
		t.Errorf("%v, want that it was preempted", a.Err)
	}
}

// An act of a cycle that has ended does nothing.
func TestCycleThatIsGone(t *testing.T) {
	c := newPluginSet(t)
	defer c.stop()
	c.do(step.ActReserve)
	c.do(step.ActReserve)
	for act := step.ActReserve; act <= step.ActBind; act++ {
		a := c.set.Perform(t.Context(), step.PluginRequest{ID: 77, Act: act, Shard: "x", Pod: testPod, Node: "n"})
		if wants := act != step.ActUndo && act != step.ActBound; (a.Err != nil) != wants {
			t.Errorf("act %d: %v", act, a.Err)
		}
	}
	c.want(reserves + permits + flights + ", " + reserves + permits + flights)
}

// A plugin that holds a pod back is asked before all others, and alone where the rules pass no node.
func TestPreEnqueue(t *testing.T) {
	for _, test := range []struct {
		status   *framework.Status
		gateOnly bool
		held     string
	}{
		{framework.NewStatus(framework.UnschedulableAndUnresolvable, "not yet"), false, "B: not yet"},
		{framework.AsStatus(errors.New("broken")), true, "B: broken"},
		{nil, true, ""},
		{nil, false, ""},
	} {
		c := newPluginSet(t)
		c.statuses["PreEnqueue B"] = test.status
		node := state.NewNodeInfo(state.NewNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}))
		a := c.set.Consult(t.Context(), step.Consult{
			ID: 1, Pod: testPod, GateOnly: test.gateOnly, Nodes: []*state.Node{node.Node}, Cluster: []*state.NodeInfo{node},
		})
		held := ""
		if a.HeldBack != nil {
			held = a.HeldBack.Plugin + ": " + strings.Join(a.HeldBack.Reasons, ", ")
		}
		if held != test.held || (a.Guidance != nil) != (held == "" && !test.gateOnly) || (held == "") != (a.Opinions != nil) {
			t.Errorf("held back %q, want %q; %+v", held, test.held, a)
		}
		c.stop()
	}
}
