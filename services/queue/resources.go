package queue

import (
	"iter"

	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// Resources returns the pods for the metrics of requested resources. It yields none while this replica does not lead,
// so that each pod counts once. It is safe for concurrent use.
func (q *Queue) Resources() iter.Seq[telemetry.PodResources] {
	return func(yield func(telemetry.PodResources) bool) {
		if !q.leads.Load() {
			return
		}
		snapshot := q.applied.Snapshot()
		for p := range snapshot.Pods() {
			if p.Template == nil {
				continue
			}
			if !yield(telemetry.PodResources{
				Namespace: p.Namespace, Name: p.Name, Node: p.NodeName, Ended: p.Terminal, Spec: &p.Template.Spec,
			}) {
				return
			}
		}
	}
}
