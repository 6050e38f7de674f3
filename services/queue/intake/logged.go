package intake

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// loggedObject is the log's knowledge of one object: enough to compare it, and to delete it.
type loggedObject struct {
	version         uint64
	namespace, name string
}

// loggedObjects reads the objects of one kind from a snapshot, by UID. The version of a reduced object (see
// reduce.Reduce) is not known: each round publishes it again, because an earlier queue may have reduced it
// differently.
func loggedObjects(s *state.Snapshot, kind events.Kind) map[string]loggedObject {
	out := map[string]loggedObject{}
	switch kind {
	case events.KindPod:
		for p := range s.Pods() {
			// The strings are cloned: sharing the pod's text would keep it alive beyond the pod.
			at := versionUnless(p.TooLarge(), p.ResourceVersion)
			out[strings.Clone(p.UID)] = loggedObject{at, p.Namespace, strings.Clone(p.Name)}
		}
	case events.KindNode:
		for n := range s.Nodes() {
			at := versionUnless(strip.Reduced(n.Object), n.ResourceVersion)
			out[n.UID] = loggedObject{version: at, name: n.Name}
		}
	default:
		for o := range s.Objects(kind) {
			at := versionUnless(strip.Reduced(o.API), o.ResourceVersion)
			out[o.UID] = loggedObject{at, o.Namespace, o.Name}
		}
	}
	return out
}

// versionUnless returns the version of an object, or 0 for a reduced one: no object has version 0, so that the next
// list publishes it again.
func versionUnless(reduced bool, version uint64) uint64 {
	if reduced {
		return 0
	}
	return version
}
