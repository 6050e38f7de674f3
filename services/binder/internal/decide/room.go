package decide

import "github.com/berth-scheduler/berth/pkg/state"

// room is whether a pod's annotations have room for the attempt.
type room uint8

const (
	unknownRoom room = iota
	enoughRoom
	noRoom
)

func roomIn(p *state.Pod) room {
	if p.AnnotationsFull() {
		return noRoom
	}
	return enoughRoom
}

// knowsRoom reports whether it is known if there is room at the version that the bind names. Facts of an earlier
// version do not show it: the bind waits for newer ones. Facts of a later version need not show it, because the API
// server refuses the bind.
func (r *reservation) knowsRoom(p *state.Pod) bool {
	if p.ResourceVersion >= r.rv {
		r.room = roomIn(p)
	}
	return r.room != unknownRoom
}
