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

// knownOf reads the objects of one kind out of a snapshot, by UID. Of those that are reduced (see state.Reduce) no
// version is known: each round publishes them again, as the queue before it may have reduced them otherwise.
func knownOf(s *state.Snapshot, kind events.Kind) map[string]known {
	out := map[string]known{}
	switch kind {
	case events.KindPod:
		for p := range s.Pods() {
			// A clone: the pod's own text would outlive the pod.
			at := unless(p.TooLarge(), p.ResourceVersion)
			out[strings.Clone(p.UID)] = known{at, p.Namespace, strings.Clone(p.Name)}
		}
	case events.KindNode:
		for n := range s.Nodes() {
			at := unless(state.Reduced(n.Object), n.ResourceVersion)
			out[n.UID] = known{version: at, name: n.Name}
		}
	default:
		for o := range s.Objects(kind) {
			at := unless(state.Reduced(o.API), o.ResourceVersion)
			out[o.UID] = known{at, o.Namespace, o.Name}
		}
	}
	return out
}

func unless(reduced bool, version uint64) uint64 {
	if reduced {
		return 0
	}
	return version
}
