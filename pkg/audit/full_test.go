package audit

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/audit/mark"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// TestMarksInConditions checks that the marks of an attempt and of a fence are read from conditions where
// annotations are full.
func TestMarksInConditions(t *testing.T) {
	s := begin(t).node("n", "2", nil)
	s.pod("a", "1").pod("b", "1").place("n", "a", "b")
	s.state("n", "b", ledger.Fencing)
	s.drop("n", "b", s.fenceFull("b"))
	s.bindFull("a", "n")
	s.drop("n", "a", s.podRV["a"])
	s.mark()
	r := s.finds()
	if want := (Counts{Nodes: 1, Pods: 2, Reserved: 2, Bound: 1, HandedOver: 1, Fenced: 1}); r.Counts != want {
		t.Errorf("counts %+v, want %+v", r.Counts, want)
	}
}

// TestConditionOfAnotherNode checks that the condition of an attempt for one node does not make a bind to another
// node one of Berth's.
func TestConditionOfAnotherNode(t *testing.T) {
	s := begin(t).node("n", "2", nil).node("m", "2", nil).pod("a", "1").place("n", "a")
	s.bindFull("a", "n")
	pod := s.pods["a"]
	pod.Spec.NodeName = "m"
	if token, ours := mark.AttemptOf(pod); ours {
		t.Errorf("attempt %s, want none", token)
	}
}

// TestConditionOfAnAttemptBefore covers a condition of an earlier attempt, left by a fence of a version that did
// not know such conditions.
func TestConditionOfAnAttemptBefore(t *testing.T) {
	s := begin(t).node("n", "2", nil).pod("a", "1").place("n", "a")
	s.bindFull("a", "n")
	pod, want := s.pods["a"], s.tokens["a"]+1
	pod.Annotations = map[string]string{mark.Attempt: want.String()}
	if token, ours := mark.AttemptOf(pod); !ours || token != want {
		t.Errorf("attempt %s, want %s", token, want)
	}
}
