package bind

import "github.com/berth-scheduler/berth/pkg/state"

// precondition is the version of the pod that the next Binding names, and what is known of the pod at that version.
// The API server refuses the Binding if the pod has another version by then.
type precondition struct {
	// rv is the entry's version, or a fresher one after a refresh.
	rv uint64
	// space is whether the pod's annotations have space for the attempt at rv.
	space space
}

// preconditionOf returns the precondition that names a pod as read.
func preconditionOf(p *state.Pod) precondition { return precondition{p.ResourceVersion, spaceIn(p)} }

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

// spaceKnown reports whether it is known if there is space at the version that the bind names, given the pod as the
// facts show it. Facts of an earlier version do not show it: the bind waits for newer ones. Facts of a later version
// need not show it, because the API server refuses the bind.
func (c *precondition) spaceKnown(p *state.Pod) bool {
	if p.ResourceVersion >= c.rv {
		c.space = spaceIn(p)
	}
	return c.space != unknownSpace
}
