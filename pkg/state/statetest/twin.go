package statetest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Twin is a store without indexes, batches or snapshots: the list of facts applied and a map of the resulting
// objects. It answers by searching all of it.
type Twin struct {
	// Barrier is as in state.Store.SetBarrier.
	Barrier uint64

	applied []events.SequencedFact
	objects map[string]events.Fact // kind and uid -> last upsert
}

// Apply applies one fact; it ignores a fact that is not the next one.
func (w *Twin) Apply(f events.SequencedFact) {
	if f.Sequence != uint64(len(w.applied))+1 {
		return
	}
	w.applied = append(w.applied, f)
	if w.objects == nil {
		w.objects = map[string]events.Fact{}
	}
	key := string(f.Kind) + " " + f.UID
	switch f.Op {
	case events.OpUpsert:
		for other, o := range w.objects {
			if o.Kind == f.Kind && o.Namespace == f.Namespace && o.Name == f.Name {
				delete(w.objects, other)
			}
		}
		w.objects[key] = f.Fact
	case events.OpDelete:
		delete(w.objects, key)
	}
}

// Progress is state.Position.Progress by its definition: the largest claim made since the last epoch began, inside
// the repair not before the kind's marker; none before the barrier or inside a repair.
func (w *Twin) Progress(k events.Kind) (uint64, bool) {
	begin, end := -1, -1
	for i, f := range w.applied {
		switch f.Op {
		case events.OpEpochBegin:
			begin, end = i, -1
		case events.OpEpochEnd:
			if end < 0 {
				end = i
			}
		}
	}
	if uint64(len(w.applied)) < w.Barrier || begin >= 0 && end < 0 {
		return 0, false
	}
	var claim uint64
	marked := begin < 0
	for i, f := range w.applied[begin+1:] {
		marked = marked || begin+1+i > end || f.Kind == k && f.Op == events.OpProgress && f.Progress != 0
		if f.Kind == k && marked {
			claim = max(claim, f.Progress)
		}
	}
	return claim, claim != 0
}

// Diff compares the twin with a snapshot by everything a snapshot can return; it is empty when they agree.
func (w *Twin) Diff(s *state.Snapshot) string {
	var problems []string
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if got, want := s.Position().Sequence, uint64(len(w.applied)); got != want {
		complain("sequence %d, want %d", got, want)
	}
	for _, k := range state.Kinds() {
		got, gotOK := s.Position().Progress(k)
		want, wantOK := w.Progress(k)
		if got != want || gotOK != wantOK {
			complain("progress of %s is %d %v, want %d %v", k, got, gotOK, want, wantOK)
		}
		if got, want := listed(s, k), w.listed(k); !slices.Equal(got, want) {
			complain("%ss are %v, want %v", k, got, want)
		}
	}
	for _, node := range []string{"a", "aa", "b"} {
		if got, want := placedOn(s, node), w.placedOn(node); !slices.Equal(got, want) {
			complain("pods on %s are %v, want %v", node, got, want)
		}
	}
	for _, o := range w.objects {
		if got := lookups(s, o); got != "" {
			complain("%s", got)
		}
	}
	return strings.Join(problems, "\n")
}

// line returns an object in short form.
func line(uid, namespace, name string, rv uint64) string {
	return fmt.Sprintf("%s/%s %s@%d", namespace, name, uid, rv)
}

func listed(s *state.Snapshot, k events.Kind) []string {
	var list []string
	switch k {
	case events.KindPod:
		for p := range s.Pods() {
			list = append(list, line(p.UID, p.Namespace, p.Name, p.ResourceVersion))
		}
	case events.KindNode:
		for n := range s.Nodes() {
			list = append(list, line(n.UID, "", n.Name, n.ResourceVersion))
		}
	default:
		for o := range s.Objects(k) {
			list = append(list, line(o.UID, o.Namespace, o.Name, o.ResourceVersion))
		}
	}
	return list
}

func (w *Twin) listed(k events.Kind) []string {
	var list []string
	for _, o := range w.objects {
		if o.Kind == k {
			list = append(list, line(o.UID, o.Namespace, o.Name, o.ResourceVersion))
		}
	}
	slices.Sort(list)
	return list
}

func placedOn(s *state.Snapshot, node string) []string {
	var uids []string
	for p := range s.PodsOnNode(node) {
		uids = append(uids, p.UID)
	}
	return uids
}

func (w *Twin) placedOn(node string) []string {
	var uids []string
	for _, o := range w.objects {
		if o.Kind != events.KindPod {
			continue
		}
		if pod := decodePod(o.Object); pod.Spec.NodeName == node {
			uids = append(uids, o.UID)
		}
	}
	slices.Sort(uids)
	return uids
}

// lookups looks up one object by UID and by name.
func lookups(s *state.Snapshot, o events.Fact) string {
	var byUID, byName string
	switch o.Kind {
	case events.KindPod:
		if p, ok := s.Pod(o.UID); ok {
			byUID = p.UID
		}
		if p, ok := s.PodByName(o.Namespace, o.Name); ok {
			byName = p.UID
		}
	case events.KindNode:
		if n, ok := s.Node(o.UID); ok {
			byUID = n.UID
		}
		if n, ok := s.NodeByName(o.Name); ok {
			byName = n.UID
		}
	default:
		if v, ok := s.Object(o.Kind, o.UID); ok {
			byUID = v.UID
		}
		if v, ok := s.ObjectByName(o.Kind, o.Namespace, o.Name); ok {
			byName = v.UID
		}
	}
	if byUID != o.UID || byName != o.UID {
		return fmt.Sprintf("%s %s: found %q by uid and %q by name", o.Kind, o.UID, byUID, byName)
	}
	return ""
}

func decodePod(data []byte) *corev1.Pod {
	pod := &corev1.Pod{}
	if err := pod.Unmarshal(data); err != nil {
		panic(fmt.Sprintf("statetest: %v", err))
	}
	return pod
}
