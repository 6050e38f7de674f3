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

// knowsRoom reports whether there is room at the version that the bind names. Facts of before do not tell: the bind
// waits for them. Those of after it need not, because the API server refuses the bind.
func (r *reservation) knowsRoom(p *state.Pod) bool {
	if p.ResourceVersion >= r.rv {
		r.room = roomIn(p)
	}
	return r.room != unknownRoom
}
