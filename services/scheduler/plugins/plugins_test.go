package plugins_test

import (
	"context"
	"errors"
	"log/slog"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/plugins"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// probe is a plugin that behaves as a test requests.
type probe struct {
	filter func(framework.NodeInfo) *framework.Status
}

func (p *probe) Name() string { return "Probe" }

func (p *probe) Filter(
	_ context.Context, _ framework.CycleState, _ *corev1.Pod, n framework.NodeInfo,
) *framework.Status {
	return p.filter(n)
}

// sorter is a QueueSort plugin, which Berth refuses; binder is a Bind plugin.
type sorter struct{ probe }

func (s *sorter) Less(_, _ framework.QueuedPodInfo) bool { return false }

type binder struct{ probe }

func (b *binder) Bind(context.Context, framework.CycleState, *corev1.Pod, string) *framework.Status {
	return nil
}

func profileWith(points ...string) []placement.ProfileConfig {
	p := placement.DefaultProfile("s")
	p.Custom = &placement.Custom{Points: map[string][]placement.CustomPlugin{}}
	for _, at := range points {
		p.Custom.Points[at] = []placement.CustomPlugin{{Name: "Probe", Weight: 1}}
	}
	return []placement.ProfileConfig{p}
}

func factory(make func(framework.Handle) framework.Plugin) map[string]plugins.Factory {
	return map[string]plugins.Factory{
		"Probe": func(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
			return make(h), nil
		},
	}
}

func TestPluginsThatCannotBe(t *testing.T) {
	asks := func(h framework.Handle) framework.Plugin {
		h.SharedInformerFactory().Core().V1().Pods().Lister()
		return &probe{}
	}
	for _, test := range []struct {
		at   string
		make map[string]plugins.Factory
		rest func() (*restclient.Config, error)
		want string
	}{
		{placement.AtFilter, map[string]plugins.Factory{"Other": nil}, nil,
			"plugin Probe: not compiled into this program, want one of Other"},
		{placement.AtFilter, factory(func(framework.Handle) framework.Plugin { return &sorter{} }), nil, "QueueSort"},
		{placement.AtFilter, factory(asks), nil, "requests a client, but this process has none: want --kubeconfig"},
		{placement.AtFilter, factory(asks), func() (*restclient.Config, error) { return nil, errors.New("no such file") },
			"requests a client: no such file"},
	} {
		_, err := plugins.New(t.Context(), plugins.Config{Profiles: profileWith(test.at), Factories: test.make},
			plugins.Deps{RestConfig: test.rest, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), "profile s: ") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// A plugin that implements more points than the configuration enables is called only at the enabled ones.
func TestPointsThatAreNotEnabled(t *testing.T) {
	_, err := plugins.New(t.Context(), plugins.Config{
		Profiles:  profileWith(placement.AtFilter),
		Factories: factory(func(framework.Handle) framework.Plugin { return &binder{} }),
	}, plugins.Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Error(err)
	}
}

// Cycles do not overlap, whichever shard asks; and the handle shows the cluster that the current cycle was shown.
func TestOneCycleAtATime(t *testing.T) {
	var inside, overlaps, unseen atomic.Int32
	make := func(h framework.Handle) framework.Plugin {
		return &probe{filter: func(n framework.NodeInfo) *framework.Status {
			if inside.Add(1) > 1 {
				overlaps.Add(1)
			}
			if seen, err := h.SnapshotSharedLister().NodeInfos().Get(n.Node().Name); err != nil || seen != n {
				unseen.Add(1)
			}
			for range 1000 { // so that another cycle would interleave
				goruntime.Gosched()
			}
			inside.Add(-1)
			return nil
		}}
	}
	cfg := plugins.Config{Profiles: profileWith(placement.AtFilter), Factories: factory(make)}
	runtime, err := plugins.New(t.Context(), cfg, plugins.Deps{
		Client: fake.NewClientset(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := goRun(func() error { return runtime.Run(ctx) })
	set, _ := runtime.Of("s")
	var g errgroup.Group
	for id := range uint64(8) {
		g.Go(func() error {
			node := state.NewNodeInfo(state.NewNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}))
			return set.Consult(ctx, step.Consult{
				ID: id, Pod: state.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}),
				Nodes: []*state.Node{node.Node}, Cluster: []*state.NodeInfo{node},
			}).Err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if overlaps.Load()+unseen.Load() > 0 {
		t.Errorf("%d calls at the same time as others, %d with another node than the handle shows",
			overlaps.Load(), unseen.Load())
	}
}

func goRun(run func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	return ended
}
