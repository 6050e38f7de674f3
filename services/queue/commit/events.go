package commit

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry/alpha"
)

// ObserveEvents observes the changes that one step handled, by kube-scheduler's names of the events. The core does not
// measure time, so each counts for the mean of the step. Changes that no rule has an interest in have no name and are
// left out.
func ObserveEvents(changes state.Changes, took time.Duration) {
	total := len(changes.Others) + len(changes.Nodes) + len(changes.Pods)
	if total == 0 {
		return
	}
	names := map[string]int{}
	count := func(c rule.Change) {
		if c.Actions != 0 {
			names[c.Label()]++
		}
	}
	for _, o := range changes.Others {
		count(rule.ObjectChange(o))
	}
	for _, n := range changes.Nodes {
		count(rule.NodeChange(n))
	}
	for _, p := range changes.Pods {
		count(rule.PodChange(p))
	}
	each := took / time.Duration(total)
	for name, number := range names {
		alpha.EventsHandled(name, number, each)
	}
}
