package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	runtimeregistry "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-scheduler/berth/pkg/placement"
	berthconfig "github.com/berth-scheduler/berth/pkg/placement/config"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/plugins"
)

// customConfig enables the plugins of customplugins_test.go as a file would.
const customConfig = `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
"profiles": [{"schedulerName": "default-scheduler",
 "plugins": {"multiPoint": {"enabled": [{"name": "Racks"}, {"name": "Prices", "weight": %d}, {"name": "Tickets"},
   {"name": "Stamps"}]}, "bind": {"enabled": [{"name": "Stamps"}, {"name": "Tickets"}]},
  "postFilter": {"enabled": [{"name": "Stamps"}, {"name": "Tickets"}], "disabled": [{"name": "*"}]}},
 "pluginConfig": [{"name": "Prices", "args": {"defaultPrice": %d, "best": %d}}]}]}`

// TestCustomPlugins: plugins written for kube-scheduler, asked about the same pods in the same clusters by its
// scheduler and by a shard, are called the same and shown the same, and the same comes of it.
func TestCustomPlugins(t *testing.T) {
	withoutDevices(t)
	first, seen := firstSeed(t), map[string]int{}
	for i := range uint64(max(*comparisons/extenderShare, 1)) {
		compareCustom(t, first+i, seen)
		if t.Failed() {
			t.Fatalf("replay this one with -run '^%s$' -args -seed=%d -comparisons=1", t.Name(), first+i)
		}
	}
	t.Log(seen)
	for _, kind := range []string{"placed", "unplaceable", "failed", racksName, "Filter", "Normalize", "Unreserve",
		"Bind", "PostFilter", "PreBind", "PostBind", "activated", ticketsName} {
		if *comparisons >= 2000 && seen[kind] == 0 {
			lacks(t, "no case of %q in %v", kind, seen)
		}
	}
}

// newCustomCase is a case without extenders, in racks and with prices.
func newCustomCase(rng *rand.Rand) *extendedCase {
	c := newExtendedCase(rng)
	c.extenders, c.pod.Status.NominatedNodeName = nil, ""
	some := func(percent int, values ...string) (string, bool) {
		return values[rng.IntN(len(values))], rng.IntN(100) < percent
	}
	note := func(pod *corev1.Pod, key, value string, ok bool) {
		if ok {
			pod.Annotations[key] = value
		}
	}
	for _, n := range c.nodes {
		if rack, ok := some(85, "a", "b", "c", "a", "b", "c", "haunted"); ok {
			n.Labels = map[string]string{"rack": rack}
		}
		if price, ok := some(60, "0", "1", "20", "80", "dear"); ok && (price != "dear" || rng.IntN(5) == 0) {
			n.Annotations["price"] = price
		}
	}
	limit, ok := some(80, "1", "2", "3", "4", "5", "6", "0", "some", "broken")
	note(c.pod, "rack-limit", limit, ok)
	rack, ok := some(25, "a", "b", "none")
	note(c.pod, "racks", rack, ok)
	money, ok := some(30, "none", "none", "lost", "all")
	note(c.pod, "money", money, ok)
	for _, name := range []string{ticketsName, stampsName} {
		ticket, ok := some(50, "no reserve", "no permit", "broken reserve", "broken permit", "broken flight", "broken bind",
			"binds", "binds", "broken glue", "late", "allowed", "rejected", "skip", "skip")
		note(c.pod, name, ticket, ok)
	}
	return c
}

func compareCustom(t *testing.T, seed uint64, seen map[string]int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	c := newCustomCase(rng)
	text := fmt.Appendf(nil, customConfig, 1+rng.IntN(10), rng.IntN(30), 1+rng.IntN(1+rng.IntN(100)))
	var given configv1.KubeSchedulerConfiguration
	if err := json.Unmarshal(text, &given); err != nil {
		t.Fatal(err)
	}
	theirs, mine := &pluginLog{}, &pluginLog{}
	want, err := c.upstreamWith(t.Context(), given, runtimeregistry.Registry{
		racksName: newRacks(theirs), pricesName: newPrices(theirs),
		ticketsName: newTickets(theirs, ticketsName), stampsName: newTickets(theirs, stampsName),
	}, theirs.activated)
	if err != nil {
		t.Fatalf("seed %d: upstream: %v", seed, err)
	}
	if want.Node != "" {
		theirs.await("activated bound-" + stampsName)
	}
	got, tied, err := c.oursWithPlugins(t, text, mine, map[string]plugins.Factory{
		racksName: newRacks(mine), pricesName: newPrices(mine),
		ticketsName: newTickets(mine, ticketsName), stampsName: newTickets(mine, stampsName),
	})
	if err != nil {
		t.Fatalf("seed %d: ours: %v", seed, err)
	}
	if want.Node != "" && slices.Contains(tied, want.Node) {
		got.Node = want.Node // upstream draws lots among the best
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed %d: upstream (-) and ours (+) differ:\n%s\nfor %s", seed, diff, c)
	}
	if !want.Failed || theirs.has("Reserve") { // an error may or may not end the parallel calls
		if diff := cmp.Diff(theirs.sorted(), mine.sorted()); diff != "" {
			t.Errorf("seed %d: what plugins saw in upstream (-) and in ours (+) differs:\n%s\nfor %s", seed, diff, c)
		}
	}
	want.count(c, len(theirs.lines), seen)
	for _, line := range theirs.lines {
		point, _, _ := strings.Cut(line, " ")
		seen[point]++
	}
	for _, name := range want.Plugins {
		seen[name]++
	}
}

// listen notes what plugins want activated, until they want a pod without a name.
func listen(made *plugins.Runtime, d *pluginLog, done chan<- struct{}) {
	defer close(done)
	for last := false; !last; {
		for _, pod := range <-made.Activated() {
			if last = last || pod.Name == ""; pod.Name != "" {
				d.activated(pod.Name)
			}
		}
	}
}

// binding makes a client treat bindings as successful.
func binding(client *fake.Clientset) *fake.Clientset {
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.GetSubresource() == "binding", a.(clienttesting.CreateAction).GetObject(), nil
	})
	return client
}

// oursWithPlugins runs a shard's core for one pod, with the plugins that a configuration enables.
func (c *extendedCase) oursWithPlugins(
	t *testing.T, text []byte, d *pluginLog, factories map[string]plugins.Factory,
) (v attemptResult, tied []string, err error) {
	read, err := berthconfig.Parse("config", text, racksName, pricesName, ticketsName, stampsName)
	if err != nil {
		return v, nil, err
	}
	profile, err := placement.NewProfile(read.Profiles[0])
	if err != nil {
		return v, nil, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	toActivate, err := plugins.NewPodsToActivate(func() fwk.StateData { return framework.NewPodsToActivate() })
	if err != nil {
		cancel()
		return v, nil, err
	}
	made, err := plugins.New(ctx, plugins.Config{
		Profiles: read.Profiles, Factories: factories, PodsToActivate: toActivate,
	}, plugins.Deps{Client: binding(c.client(true)), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		cancel()
		return v, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	listened := make(chan struct{})
	go listen(made, d, listened)
	defer func() {
		d.handle.Activate(klog.Logger{}, map[string]*corev1.Pod{"": podNamed("")}) // the last one
		<-listened
		cancel()
		<-ended
	}()
	set, _ := made.Of(read.Profiles[0].SchedulerName)
	var guidance *placement.Guidance
	driver := newShardDriver(ctx, profile, func(q step.Consult) step.Advice {
		advice := set.Consult(ctx, q)
		guidance = advice.Guidance
		return advice
	}, func(p step.PluginRequest) step.PluginResult { return set.Perform(ctx, p) })
	if v, err = driver.attempt(c); err != nil || v.Node == "" {
		return v, nil, err
	}
	if err := driver.bind(c, v.Node); err != nil {
		return v, nil, err
	}
	return v, driver.tied(profile, state.NewPod(c.pod), c, guidance, v.Node), nil
}
