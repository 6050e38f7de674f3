package plugins

import (
	"context"
	"strings"
	"time"

	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// PostFilters reports whether plugins are asked about pods that fit nowhere.
func (s *Set) PostFilters() bool { return len(s.postFilter) > 0 }

// postFilterFor asks plugins about a pod that fits nowhere. DefaultPreemption is not among them, and counts as
// having found nothing. Source: RunPostFilterPlugins in pkg/scheduler/framework/runtime/framework.go.
//
// It ends at the first plugin that succeeds, that rules out any help, or that fails; until then messages are
// collected, and the last nomination counts, or the last removal of one. An error is reported to the user in the
// message, as the pod has its verdict already.
func (s *Set) postFilterFor(ctx context.Context, p step.PluginRequest, answer *step.PluginResult) {
	// The cycle stays the last one of its shard, and is not opened: nothing was reserved.
	d, err := s.runtime.open.last(cycleKey{p.Shard, p.ID})
	if err != nil {
		s.logger.Warn("PostFilter plugins not called for an unschedulable pod", "pod", p.Pod.Key(), telemetry.KeyError, err)
		return
	}
	if !s.runtime.beginCycle(ctx) {
		return
	}
	defer s.runtime.endCycle()
	s.runtime.seen.Store(d.seen)
	pod, verdicts := p.Pod.Object(), statusesOf(p.Verdicts)
	var reasons []string
	for _, plugin := range s.postFilter {
		begin := time.Now()
		result, status := plugin.PostFilter(ctx, d.cycle, pod, verdicts)
		d.timeCall("PostFilter", plugin.Name(), status, begin)
		if status.IsSuccess() || status.Code() == framework.UnschedulableAndUnresolvable {
			answer.Nominated, answer.Nomination = nominated(result)
			if answer.Nomination == step.NominationUndecided {
				answer.Nomination = step.NominationKept
			}
			answer.Message = status.Message()
			return
		}
		if !status.IsRejected() {
			answer.Nominated, answer.Nomination = "", step.NominationKept
			answer.Message = status.AsError().Error()
			s.logger.Error("PostFilter failed", "pod", p.Pod.Key(), "plugin", plugin.Name(),
				telemetry.KeyError, status.AsError())
			return
		}
		if name, fate := nominated(result); fate != step.NominationUndecided {
			answer.Nominated, answer.Nomination = name, fate
		}
		reasons = append(reasons, status.Reasons()...)
	}
	answer.Message = strings.Join(reasons, ", ")
}

// nominated returns the node that a plugin nominates a pod to, empty for none, and what becomes of an earlier
// nomination: a plugin that overrides it with no name clears it.
func nominated(r *framework.PostFilterResult) (node string, fate step.NominationFate) {
	if r == nil || r.Mode() != framework.ModeOverride {
		return "", step.NominationUndecided
	}
	return r.NominatedNodeName, step.NominationCleared
}

// statuses are the rejections of the nodes, by name. It implements framework.NodeToStatusReader.
type statuses map[string]*framework.Status

// statusesOf returns the verdicts on nodes in the form in which plugins read them.
func statusesOf(verdicts []step.Verdict) statuses {
	s := make(statuses, len(verdicts))
	for _, v := range verdicts {
		code := framework.UnschedulableAndUnresolvable
		if v.Resolvable {
			code = framework.Unschedulable
		}
		s[v.Node] = framework.NewStatus(code, v.Reasons...).WithPlugin(v.Plugin)
	}
	return s
}

// absent is the status of a node that is not in the cluster. Source: NewDefaultNodeToStatus in
// pkg/scheduler/framework/types.go.
var absent = framework.NewStatus(framework.UnschedulableAndUnresolvable)

// Get returns a shared status: plugins must not change it.
func (s statuses) Get(node string) *framework.Status {
	if status, ok := s[node]; ok {
		return status
	}
	return absent
}

// NodesForStatusCode returns the nodes of a lister with a code, in its order.
func (s statuses) NodesForStatusCode(
	nodes framework.NodeInfoLister, code framework.Code,
) ([]framework.NodeInfo, error) {
	all, err := nodes.List()
	if err != nil {
		return nil, err
	}
	var list []framework.NodeInfo
	for _, n := range all {
		if s.Get(n.Node().Name).Code() == code {
			list = append(list, n)
		}
	}
	return list, nil
}
