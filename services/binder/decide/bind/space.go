package bind

import "github.com/berth-scheduler/berth/pkg/state"

// space is whether a pod's annotations have space for the attempt.
type space uint8

const (
	unknownSpace space = iota
	enoughSpace
	noSpace
)

func spaceIn(p *state.Pod) space {
	if p.AnnotationsFull() {
		return noSpace
	}
	return enoughSpace
}

// knowsSpace reports whether it is known if there is space at the version that the bind names. Facts of an earlier
// version do not show it: the bind waits for newer ones. Facts of a later version need not show it, because the API
// server refuses the bind.
func (r *reservation) knowsSpace(p *state.Pod) bool {
	if p.ResourceVersion >= r.rv {
		r.space = spaceIn(p)
	}
	return r.space != unknownSpace
}
