package state

import (
	"slices"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// AnnotationsFull reports whether the pod's annotations have no room for the token of an attempt; the token is then
// in a condition of the pod, see Attempt.
func (p *Pod) AnnotationsFull() bool { return p.Annotation(strip.FullAnnotation) != "" }

// Attempt returns the token of the attempt that has placed the pod where it is; empty if it is not bound, or not by
// Berth.
//
// An annotation that is a token takes precedence over the condition. The condition may come from an earlier
// attempt, whose fence was by a version that did not know it. The annotation cannot: a bind overwrites it, unless
// the annotations are full, and with one that is as long as a token they are not.
//
// Do not trust it where the pod's owner may gain by another token: the owner controls the annotations.
func (p *Pod) Attempt() string {
	if p.NodeName == "" {
		return ""
	}
	annotation := p.Annotation(events.AttemptAnnotation)
	if isToken(annotation) {
		return annotation
	}
	for _, c := range p.Status().Conditions {
		if token, node, ok := strings.Cut(c.Message, " "); c.Type == strip.AttemptCondition && ok && node == p.NodeName {
			return token
		}
	}
	return annotation
}

// isToken reports whether ledger.ParseToken accepts s.
func isToken(s string) bool {
	_, err := strconv.ParseUint(s, 16, 64)
	return err == nil && len(s) == strip.TokenDigits
}

// TooLarge reports whether the facts contain a reduced pod, see package reduce.
func (p *Pod) TooLarge() bool {
	return p.Gated && slices.ContainsFunc(p.Template.Spec.SchedulingGates, strip.IsGate(events.TooLargeGate))
}
