package scale

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

const (
	schedulerName = "default-scheduler"
	namespace     = "default"
	// leaseTTL is that of the shards' session; no clock runs in the in-memory ledger.
	leaseTTL = 10 * time.Second
)

// fleet makes the objects of a scenario for the real cores: the nodes and pods of berthbench path.
type fleet struct{ Scenario }

func newFleet(s Scenario) *fleet { return &fleet{s} }

func nodeUID(i int) string { return fmt.Sprintf("n-%07d", i) }

func podUID(seed uint64, i int) string { return fmt.Sprintf("p-%d-%07d", seed, i) }

func zoneOf(i int) string { return fmt.Sprintf("zone-%d", i%zones) }

// beginning is the state that every shard starts from. Facts are shared and never changed.
type beginning struct {
	facts   []events.SequencedFact
	ledger  []ledger.KV
	at      int64
	version uint64
}

// beginning fills the ledger with members and owners, and lists it; the facts are the nodes and their pods.
func (f *fleet) beginning(store *mem.Store, owners []int32) (b beginning, err error) {
	ctx := context.Background()
	session, err := store.OpenSession(ctx, leaseTTL)
	if err != nil {
		return b, err
	}
	for i := range f.Shards {
		value, err := roster.EncodeMember(roster.Member{ID: memberName(i), Role: membership.RoleScheduler})
		if err != nil {
			return b, err
		}
		key := roster.KeyMember(membership.RoleScheduler, memberName(i))
		put := ledger.Put{Key: key, Value: value, Lease: session.Lease()}
		if _, err := store.Commit(ctx, ledger.Txn{Puts: []ledger.Put{put}}); err != nil {
			return b, err
		}
	}
	for p, owner := range owners {
		txn, err := roster.TakePartition(int32(p), roster.Owner{Member: memberName(int(owner))}, session.Lease())
		if err != nil {
			return b, err
		}
		if _, err := store.Commit(ctx, txn); err != nil {
			return b, err
		}
	}
	if b.ledger, b.at, err = store.List(ctx, ""); err != nil {
		return b, err
	}
	return b, f.stand(&b)
}

// stand makes the facts.
func (f *fleet) stand(b *beginning) error {
	add := func(k events.Kind, obj state.APIObject) error {
		b.version++
		fact, err := factOf(k, obj, b.version)
		b.facts = append(b.facts, events.SequencedFact{Sequence: uint64(len(b.facts) + 1), Fact: fact})
		return err
	}
	if err := add(events.KindNamespace, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: "namespace"}}); err != nil {
		return err
	}
	for i := range f.Nodes {
		if err := add(events.KindNode, f.node(i)); err != nil {
			return err
		}
	}
	for i := range f.Nodes {
		if f.Full == 0 {
			break
		}
		level := f.standing(i)
		if err := add(events.KindPod, f.standingPod(i, level)); err != nil {
			return err
		}
	}
	for _, k := range state.Kinds() {
		b.facts = append(b.facts, events.SequencedFact{Sequence: uint64(len(b.facts) + 1),
			Fact: events.Fact{Kind: k, Op: events.OpProgress, Progress: b.version, Cause: "list"}})
	}
	return nil
}

// factOf makes the fact of an object as the queue's intake does.
func factOf(k events.Kind, obj state.APIObject, version uint64) (events.Fact, error) {
	obj.SetResourceVersion(fmt.Sprint(version))
	strip.Strip(obj)
	data, err := obj.Marshal()
	if err != nil {
		return events.Fact{}, fmt.Errorf("%s %s: %w", k, obj.GetName(), err)
	}
	return events.Fact{
		Kind: k, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		ResourceVersion: version, Progress: version, Cause: "watch", Object: data,
	}, nil
}

func (f *fleet) node(i int) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(nodeCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(nodeMemory<<20, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(podsPerNode, resource.DecimalSI),
	}
	uid := nodeUID(i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), Labels: map[string]string{
			corev1.LabelHostname: uid, corev1.LabelTopologyZone: zoneOf(i)}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func (f *fleet) standingPod(node int, level float64) *corev1.Pod {
	p := newPod(fmt.Sprintf("s-%07d", node), int64(level*nodeCPU), int64(level*nodeMemory)<<20)
	p.Spec.NodeName, p.Status.Phase = nodeUID(node), corev1.PodRunning
	return p
}

// pod is the i-th to be placed, on a node or (-1) on none yet.
func (f *fleet) pod(i, node int32) *corev1.Pod {
	p := newPod(podUID(f.Seed, int(i)), podCPU, podMemory<<20)
	if f.Workload == Leaning {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: Towards(zoneOf(int(i)))}
	}
	if node >= 0 {
		p.Spec.NodeName = nodeUID(int(node))
	}
	return p
}

func newPod(uid string, cpu, memory int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: uid, UID: types.UID(uid), Labels: map[string]string{"app": "pod"}},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName, RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
					corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
				}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// Towards is the wish to be in a zone.
func Towards(zone string) *corev1.NodeAffinity {
	return &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
		Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone},
		}}},
	}}}
}
