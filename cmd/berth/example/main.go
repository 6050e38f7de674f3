package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/cmd/berth/app"
)

func main() { os.Exit(app.Main(app.WithPlugin(name, newLicences))) }

// name is what a configuration calls the plugin.
const name = "Licences"

// wanted is the label of pods that need a licence.
const wanted = "licence"

// licences is the plugin. Its argument is the label of nodes that says how many licences there are.
type licences struct {
	Label string `json:"label"`
}

var (
	_ framework.PreFilterPlugin = &licences{}
	_ framework.FilterPlugin    = &licences{}
	_ framework.ScorePlugin     = &licences{}
)

func newLicences(_ context.Context, args runtime.Object, _ framework.Handle) (framework.Plugin, error) {
	raw, ok := args.(*runtime.Unknown)
	if !ok {
		return nil, fmt.Errorf("args: want a label, have %T", args)
	}
	l := &licences{}
	if err := json.Unmarshal(raw.Raw, l); err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	if l.Label == "" {
		return nil, fmt.Errorf("args: label: %q: want the label of nodes that have licences", l.Label)
	}
	return l, nil
}

func (l *licences) Name() string { return name }

// PreFilter leaves pods alone that need none.
func (l *licences) PreFilter(
	_ context.Context, _ framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo,
) (*framework.PreFilterResult, *framework.Status) {
	if _, needs := pod.Labels[wanted]; !needs {
		return nil, framework.NewStatus(framework.Skip)
	}
	return nil, nil
}

func (l *licences) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func (l *licences) Filter(
	_ context.Context, _ framework.CycleState, _ *corev1.Pod, node framework.NodeInfo,
) *framework.Status {
	if l.left(node) < 1 {
		return framework.NewStatus(framework.Unschedulable, "node(s) had no licence left")
	}
	return nil
}

// Score is how many licences are left, at most framework.MaxScore.
func (l *licences) Score(
	_ context.Context, _ framework.CycleState, _ *corev1.Pod, node framework.NodeInfo,
) (int64, *framework.Status) {
	return min(max(l.left(node), framework.MinScore), framework.MaxScore), nil
}

func (l *licences) ScoreExtensions() framework.ScoreExtensions { return nil }

// left is how many licences of a node are not taken by the pods on it, those that are about to be bound included.
func (l *licences) left(node framework.NodeInfo) int64 {
	left, err := strconv.ParseInt(node.Node().Labels[l.Label], 10, 64)
	if err != nil {
		return 0
	}
	for _, p := range node.GetPods() {
		if _, needs := p.GetPod().Labels[wanted]; needs {
			left--
		}
	}
	return left
}
