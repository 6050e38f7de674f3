package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// PostFilter records the statuses of the nodes n and gone, and nominates as the stage requests.
func (d *actingPlugin) PostFilter(
	_ context.Context, s framework.CycleState, p *corev1.Pod, verdicts framework.NodeToStatusReader,
) (*framework.PostFilterResult, *framework.Status) {
	nodes, err := verdicts.NodesForStatusCode(d.handle.SnapshotSharedLister().NodeInfos(), framework.Unschedulable)
	d.during["PostFilter "+d.name] = func(framework.CycleState) {
		d.mu.lines = append(d.mu.lines, fmt.Sprint(verdicts.Get("n"), verdicts.Get("n").Plugin(), verdicts.Get("gone").Code(),
			len(nodes), err))
	}
	status := d.note("PostFilter", s, p, "")
	return d.nominates[d.name], status
}

// fitsNowhere makes the plugins act on a pod that A has rejected on the only node.
func (c *pluginSet) fitsNowhere() step.PluginResult {
	c.cycle++
	node := state.NewNodeInfo(state.NewNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}))
	a := c.set.Consult(c.t.Context(), step.Consult{
		ID: c.cycle, Shard: "x", Pod: testPod, Nodes: []*state.Node{node.Node}, Cluster: []*state.NodeInfo{node},
	})
	if a.Err != nil {
		c.t.Fatal(a.Err)
	}
	return c.set.Perform(c.t.Context(), step.PluginRequest{
		ID: c.cycle, Act: step.ActPostFilter, Shard: "x", Pod: testPod,
		Verdicts: []step.Verdict{{Node: "n", Plugin: "A", Reasons: []string{"full"}, Resolvable: true}},
	})
}

// Plugins are asked in their order until one has helped, rules out help, or fails; their input and output are
// upstream's.
func TestPostFilter(t *testing.T) {
	no, never := framework.NewStatus(framework.Unschedulable, "no"),
		framework.NewStatus(framework.UnschedulableAndUnresolvable, "never")
	broken, helped := framework.AsStatus(errors.New("broken")), framework.NewStatus(framework.Success)
	to := func(node string) *framework.PostFilterResult {
		return &framework.PostFilterResult{NominatingInfo: &framework.NominatingInfo{
			NominatedNodeName: node, NominatingMode: framework.ModeOverride,
		}}
	}
	for _, test := range []struct {
		name               string
		a, b               *framework.Status
		nominates          map[string]*framework.PostFilterResult
		asked              int
		nominated, message string
	}{
		{"the first helps", helped, no, map[string]*framework.PostFilterResult{"A": to("n")}, 1, "n", ""},
		{"the second does", no, helped, map[string]*framework.PostFilterResult{"B": to("n")}, 2, "n", ""},
		{"none does", no, no, nil, 2, "", "no, no"},
		{"none does, and one nominates", no, no, map[string]*framework.PostFilterResult{"A": to("n"), "B": nil}, 2, "n",
			"no, no"},
		{"nothing can", never, no, nil, 1, "", "never"},
		{"one fails", broken, no, map[string]*framework.PostFilterResult{"A": to("n")}, 1, "", "broken"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newPluginSet(t)
			defer c.stop()
			c.statuses = map[string]*framework.Status{"PostFilter A": test.a, "PostFilter B": test.b}
			c.nominates = test.nominates
			a := c.fitsNowhere()
			if a.Nominated != test.nominated || a.Message != test.message || a.Err != nil || a.Refusal != nil {
				t.Errorf("%+v, want nominated %q and %q", a, test.nominated, test.message)
			}
			saw := fmt.Sprint(framework.NewStatus(framework.Unschedulable, "full"), "A",
				framework.UnschedulableAndUnresolvable, 1, nil)
			want := "PostFilter A, " + saw
			if test.asked > 1 {
				want += ", PostFilter B, " + saw
			}
			c.want(want)
		})
	}
}

// PostFilter in a cycle that has ended returns nothing.
func TestPostFilterOfAnotherCycle(t *testing.T) {
	c := newPluginSet(t)
	defer c.stop()
	a := c.set.Perform(t.Context(), step.PluginRequest{ID: 9, Act: step.ActPostFilter, Shard: "x", Pod: testPod})
	if a.Message+a.Nominated != "" || a.Err != nil {
		t.Errorf("%+v, want nothing", a)
	}
	c.want("")
}
