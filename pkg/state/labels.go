package state

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// MayMatch reports whether an object with these labels may be selected: it is selected as far as its labels are
// known (see LabelsCut). It is for rules that keep other pods away or protect the object.
func MayMatch(s labels.Selector, set map[string]string) bool {
	if _, cut := set[strip.LabelsCut]; !cut {
		return s.Matches(labels.Set(set))
	}
	return matchesKnown(s, set, true)
}

// MustMatch reports whether an object with these labels is selected, whatever further labels it has (see
// LabelsCut). It is for rules that need the object.
func MustMatch(s labels.Selector, set map[string]string) bool {
	if _, cut := set[strip.LabelsCut]; !cut {
		return s.Matches(labels.Set(set))
	}
	return matchesKnown(s, set, false)
}

// MayMatch reports whether a selector may select pods of this kind, see the function MayMatch.
func (k *PodClass) MayMatch(s labels.Selector) bool { return MayMatch(s, k.Labels) }

// MustMatch reports whether a selector selects all pods of this kind, see the function MustMatch.
func (k *PodClass) MustMatch(s labels.Selector) bool { return MustMatch(s, k.Labels) }

// matchesKnown evaluates each requirement about a known label, and uses unknown as the result for any other.
func matchesKnown(s labels.Selector, set map[string]string, unknown bool) bool {
	requirements, selects := s.Requirements()
	if !selects {
		return false
	}
	for i := range requirements {
		matches := unknown
		if _, known := set[requirements[i].Key()]; known {
			matches = requirements[i].Matches(labels.Set(set))
		}
		if !matches {
			return false
		}
	}
	return true
}
