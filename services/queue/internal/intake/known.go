package intake

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// known is what the log says of one object: enough to compare, and to delete it.
type known struct {
	version         uint64
	namespace, name string
}

// knownOf reads the objects of one kind out of a snapshot, by UID.
func knownOf(s *state.Snapshot, kind events.Kind) map[string]known {
	out := map[string]known{}
	switch kind {
	case events.KindPod:
		for p := range s.Pods() {
			// A clone: the pod's own text would outlive the pod.
			out[strings.Clone(p.UID)] = known{p.ResourceVersion, p.Namespace, strings.Clone(p.Name)}
		}
	case events.KindNode:
		for n := range s.Nodes() {
			out[n.UID] = known{version: n.ResourceVersion, name: n.Name}
		}
	default:
		for o := range s.Objects(kind) {
			out[o.UID] = known{o.ResourceVersion, o.Namespace, o.Name}
		}
	}
	return out
}
