package state_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/reduce"
)

// memberStore is a store of pods of groups.
type memberStore struct {
	*testing.T
	store *state.Store
	rv    uint64
}

func newMemberStore(t *testing.T) *memberStore { return &memberStore{T: t, store: state.New()} }

func (m *memberStore) apply(f events.Fact) {
	m.Helper()
	m.rv++
	f.Kind, f.ResourceVersion, f.Progress = events.KindPod, m.rv, m.rv
	if _, err := m.store.Apply([]events.SequencedFact{{Sequence: m.rv, Fact: f}}); err != nil {
		m.Fatal(err)
	}
}

func (m *memberStore) put(p *corev1.Pod) {
	m.Helper()
	p.ResourceVersion = fmt.Sprint(m.rv + 1)
	data, err := p.Marshal()
	if err != nil {
		m.Fatal(err)
	}
	m.apply(events.Fact{Op: events.OpUpsert, UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Object: data})
}

func (m *memberStore) remove(uid string) {
	m.Helper()
	m.apply(events.Fact{Op: events.OpDelete, UID: uid, Namespace: "ns"})
}

func (m *memberStore) want(group string, want ...string) {
	m.Helper()
	var got []string
	for p := range m.store.Snapshot().PodsOfGroup("ns", group) {
		got = append(got, p.UID)
	}
	if !slices.Equal(got, want) {
		m.Errorf("members of %s are %v, want %v", group, got, want)
	}
}

func memberPod(uid, group string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)}}
	if group != "" {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	}
	return p
}

// The members of a group are its pods, whatever happens to them; of a pod that is too large, the group is kept.
func TestMembersOfGroups(t *testing.T) {
	m := newMemberStore(t)
	m.put(memberPod("b", "g"))
	m.put(memberPod("a", "g"))
	m.put(memberPod("c", "other"))
	m.put(memberPod("d", ""))
	m.want("g", "a", "b")
	m.want("other", "c")
	m.want("none")

	large := memberPod("a", "g")
	large.Labels = many()
	if !reduce.Reduce(large, 2*limit, limit) {
		t.Fatal("the pod is not reduced")
	}
	m.put(large)
	m.want("g", "a", "b")
	m.remove("a")
	m.put(memberPod("e", "g"))
	m.want("g", "b", "e")
}

// A version that has lost its group, as queues without knowledge of groups reduce pods, leaves no trace of itself.
func TestMemberThatLosesItsGroup(t *testing.T) {
	m := newMemberStore(t)
	m.put(memberPod("a", "g"))
	m.put(memberPod("b", "g"))
	m.put(memberPod("a", ""))
	m.want("g", "b")
	m.remove("a")
	m.put(memberPod("c", ""))
	m.put(memberPod("d", "g"))
	m.want("g", "b", "d")
	m.put(memberPod("c", "g"))
	m.want("g", "b", "c", "d")
}

// All pods of a group belong to one partition, whatever rules they have besides.
func TestGroupsHavePartitions(t *testing.T) {
	plain, spread := state.NewPod(memberPod("a", "g")), memberPod("b", "g")
	spread.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 1,
	}}
	if a, b := plain.Group(), state.NewPod(spread).Group(); a != b || a == "" {
		t.Errorf("groups %q and %q, want one", a, b)
	}
	if ledger.PartitionOf(plain.Group()) == ledger.PartitionOf(state.NewPod(memberPod("a", "h")).Group()) {
		t.Error("two groups have one partition, by chance or by mistake")
	}
}
