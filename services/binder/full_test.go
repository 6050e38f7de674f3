package binder

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/berth-scheduler/berth/pkg/audit/strip"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// fill gives a pod annotations as large as the API server accepts, in an annotation that facts do not show.
func (s *apiServer) fill(name string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.mu.pods[name].DeepCopy()
	rest := validation.TotalAnnotationSizeLimitB - len(corev1.LastAppliedConfigAnnotation)
	p.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", rest)}
	return s.change(p)
}

// A pod whose annotations are full is bound, and the kubelet can still write its status and it can be evicted: the
// API server validates the annotations on every later write, and not on the bind.
func TestFullAnnotationsAreBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, 1)
		defer s.end()
		s.server.fill("p0")
		s.start("binder-0")
		settle(time.Second)
		s.reserve(s.server.pod("p0"), "n0", 1)
		settle(2 * time.Second)
		p := s.server.pod("p0")
		if err := validation.ValidateAnnotationsSize(p.Annotations); err != nil || p.Spec.NodeName != "n0" {
			t.Fatalf("bound to %q: %v", p.Spec.NodeName, err)
		}
		if token := state.NewPod(p).Attempt(); token != ledger.Token(1).String() {
			t.Errorf("attempt %q, want that of the reservation", token)
		}
		if _, decided := s.decisions(events.DecisionBound)["p0"]; !decided {
			t.Error("the log does not say that it is bound")
		}
		if kept := strip.Pod(p); len(kept.Status.Conditions) != 1 {
			t.Errorf("a history keeps the conditions %+v, want that of the attempt", kept.Status.Conditions)
		}
	})
}

// Its reservation can be taken back, although there is no room for the annotation of a fence.
func TestFullAnnotationsAreFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, 1)
		defer s.end()
		s.server.fill("p0")
		s.refuse("create/binding")
		s.start("binder-0")
		settle(time.Second)
		s.reserve(s.server.pod("p0"), "n0", 1)
		settle(2 * time.Second)
		if _, released := s.decisions(events.DecisionReleased)["p0"]; !released || len(s.doc("n0").Entries) != 0 {
			t.Errorf("not released: events %q", s.notes("FailedRelease"))
		}
		conditions := s.server.pod("p0").Status.Conditions
		if len(conditions) != 1 || conditions[0].Type != effect.ConditionFence ||
			!strings.HasPrefix(conditions[0].Message, ledger.Token(1).String()+"-") {
			t.Errorf("conditions %+v, want the mark of the fence alone", conditions)
		}
	})
}
