package statetest

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state"
)

// History writes facts in sequence, as the queue would. The zero value is empty.
type History struct {
	// Facts written so far; sequences start at 1.
	Facts []events.SequencedFact
	// Epoch of the next facts.
	Epoch uint64

	rv       uint64
	progress map[events.Kind]uint64
}

// Upsert writes obj at a new resourceVersion and returns that version. It keeps no reference to obj.
func (h *History) Upsert(kind events.Kind, obj state.APIObject) uint64 {
	h.rv++
	obj.SetResourceVersion(strconv.FormatUint(h.rv, 10))
	data, err := obj.Marshal()
	if err != nil {
		panic(fmt.Sprintf("statetest: %v", err))
	}
	h.write(events.Fact{
		Kind: kind, Op: events.OpUpsert, UID: string(obj.GetUID()),
		Namespace: obj.GetNamespace(), Name: obj.GetName(), ResourceVersion: h.rv, Object: data,
	})
	return h.rv
}

// Delete writes the deletion of an object.
func (h *History) Delete(kind events.Kind, uid string) uint64 {
	h.rv++
	h.write(events.Fact{Kind: kind, Op: events.OpDelete, UID: uid, ResourceVersion: h.rv})
	return h.rv
}

// Bookmark writes that everything of a kind up to now is in the history.
func (h *History) Bookmark(kind events.Kind) uint64 {
	if h.progress == nil {
		h.progress = map[events.Kind]uint64{}
	}
	h.progress[kind] = h.rv
	h.write(events.Fact{Kind: kind, Op: events.OpProgress})
	return h.rv
}

// BeginEpoch opens a repair; EndEpoch closes it. Epochs are never used twice, even when Facts has been truncated in
// between.
func (h *History) BeginEpoch() {
	h.Epoch++
	begin := events.SequencedFact{
		Sequence: uint64(len(h.Facts)) + 1,
		Fact:     events.Fact{Op: events.OpEpochBegin, Epoch: h.Epoch},
	}
	if n := len(h.Facts); n > 0 {
		begin.Progress = h.Facts[n-1].Epoch
	}
	h.Facts = append(h.Facts, begin)
}

// EndEpoch closes the repair.
func (h *History) EndEpoch() { h.write(events.Fact{Op: events.OpEpochEnd}) }

func (h *History) write(f events.Fact) {
	f.Epoch = h.Epoch
	f.Progress = h.progress[f.Kind]
	h.Facts = append(h.Facts, events.SequencedFact{Sequence: uint64(len(h.Facts)) + 1, Fact: f})
}

// Draw draws a history of about steps facts: objects are created, changed, deleted and created again under the same
// name, deletions are missed or reported for unknown objects, kinds make progress, and the log is repaired now and
// then.
func Draw(t *rapid.T, steps int) *History {
	d := drawing{T: t, History: &History{}}
	if d.chance(50, "starts in an epoch") {
		d.Epoch = 1
	}
	for range rapid.IntRange(0, steps).Draw(t, "steps") {
		d.step()
	}
	return d.History
}

type drawing struct {
	*rapid.T
	*History
	generation int
}

func (d *drawing) chance(percent int, what string) bool {
	return rapid.IntRange(0, 99).Draw(d.T, what) < percent
}

func (d *drawing) step() {
	kind := rapid.SampledFrom([]events.Kind{
		events.KindPod, events.KindPod, events.KindPod, events.KindNode, events.KindNode,
		events.KindNamespace, events.KindDisruptionBudget,
	}).Draw(d.T, "kind")
	switch n := rapid.IntRange(0, 99).Draw(d.T, "step"); {
	case n < 60:
		d.Upsert(kind, d.object(kind))
	case n < 75:
		d.Delete(kind, d.uid())
	case n < 92:
		d.Bookmark(kind)
	case n < 96:
		d.BeginEpoch()
	default:
		d.EndEpoch()
	}
}

// name draws from few names, so that objects collide.
func (d *drawing) name() string {
	return rapid.SampledFrom([]string{"a", "b", "c", "aa"}).Draw(d.T, "name")
}

// uid draws an incarnation, usually of an object that exists or existed.
func (d *drawing) uid() string {
	incarnation := rapid.IntRange(max(0, d.generation-2), d.generation).Draw(d.T, "incarnation")
	return fmt.Sprintf("uid-%s-%d", d.name(), incarnation)
}

func (d *drawing) object(kind events.Kind) state.APIObject {
	if d.chance(10, "new incarnation") {
		d.generation++
	}
	uid := d.uid()
	// The name belongs to the UID for its life, as in Kubernetes.
	name := nameOf(uid)
	meta := metav1.ObjectMeta{Name: name, UID: types.UID(uid)}
	switch kind {
	case events.KindPod:
		pod := Pod("default", name, "cpu", rapid.SampledFrom([]string{"0", "100m", "2"}).Draw(d.T, "cpu"))
		pod.UID = types.UID(uid)
		pod.Spec.NodeName = rapid.SampledFrom([]string{"", "a", "aa"}).Draw(d.T, "node")
		pod.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{
			corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded,
		}).Draw(d.T, "phase")
		return pod
	case events.KindNode:
		node := Node(name, "cpu", rapid.SampledFrom([]string{"1", "4"}).Draw(d.T, "cpu"), "pods", "110")
		node.UID = types.UID(uid)
		node.Spec.Unschedulable = d.chance(20, "cordoned")
		return node
	case events.KindDisruptionBudget:
		meta.Namespace = "default"
		return &policyv1.PodDisruptionBudget{ObjectMeta: meta}
	default:
		return &corev1.Namespace{ObjectMeta: meta}
	}
}

// nameOf returns the name inside a drawn UID.
func nameOf(uid string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(uid, "uid-"), "-")
	return name
}
