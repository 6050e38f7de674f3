package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// ours is the engine over a store, as a shard has them.
type ours struct {
	store    *state.Store
	engine   *engine.Engine
	profile  *placement.Profile
	sequence uint64
	// index is kept as a shard keeps it.
	index devices.Index
	// The pod to decide about, its claim, and the outcome.
	pod    *state.Pod
	claim  *resourcev1.ResourceClaim
	chosen *state.NodeInfo
	picks  []devices.Pick
}

// objects are facts with what a shard keeps about devices.
type objects struct {
	*state.Snapshot
	index *devices.Index
}

// Devices implements devices.Memory.
func (o objects) Devices() *devices.Index { return o.index }

func newOurs(_ context.Context, l load) (contender, error) {
	profile, err := placement.NewProfile(placement.DefaultProfile(corev1.DefaultSchedulerName))
	if err != nil {
		return nil, err
	}
	o := &ours{store: state.New(), engine: engine.New(engine.Config{}), profile: profile}
	if err := o.apply(events.KindDeviceClass, deviceClass()); err != nil {
		return nil, err
	}
	for i := range l.nodes {
		if err := o.apply(events.KindResourceSlice, l.slice(i)); err != nil {
			return nil, err
		}
	}
	for _, c := range l.taken() {
		if err := o.apply(events.KindResourceClaim, c); err != nil {
			return nil, err
		}
	}
	o.index.Fill(o.store.Snapshot())
	for i := range l.nodes {
		n := l.node(i)
		strip.Strip(n)
		o.engine.SetNode(state.NewNodeInfo(state.NewNode(n)))
	}
	return o, nil
}

// apply applies the fact of an object.
func (o *ours) apply(kind events.Kind, obj state.APIObject) error {
	data, err := obj.Marshal()
	if err != nil {
		return err
	}
	o.sequence++
	changes, err := o.store.Apply([]events.SequencedFact{{Sequence: o.sequence, Fact: events.Fact{
		Kind: kind, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		ResourceVersion: o.sequence, Progress: o.sequence, Object: data,
	}}})
	if err != nil {
		return err
	}
	for _, c := range changes.Others {
		o.index.Apply(c)
	}
	if slices.ContainsFunc(changes.Others, engine.ObjectsMatter) {
		o.engine.SetObjects(o.objects())
	} else {
		o.engine.Refresh(o.objects())
	}
	return nil
}

func (o *ours) objects() objects { return objects{o.store.Snapshot(), &o.index} }

func (o *ours) arrive(_ context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim) error {
	strip.Strip(pod)
	o.pod, o.claim = state.NewPod(pod), claim
	return o.apply(events.KindResourceClaim, claim)
}

func (o *ours) decide(context.Context) error {
	r := o.engine.Evaluate(o.profile, engine.Query{Pod: o.pod, Seed: o.sequence})
	if r.Err != nil || len(r.Feasible) == 0 {
		return errors.Join(r.Err, errors.New("no node"))
	}
	o.chosen = r.Feasible[0].Node
	var ok bool
	if o.picks, ok = o.profile.DevicePicks(o.pod, o.chosen.Node, o.objects(), o.sequence); !ok {
		return fmt.Errorf("node %s has no device after all", o.chosen.Node.Name)
	}
	o.chosen.AddPod(o.pod)
	o.engine.ChangePod(o.chosen, nil, o.pod)
	return nil
}

func (o *ours) settle(context.Context) error {
	o.claim.Status.Allocation = o.picks[0].Allocation
	o.claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
		{Resource: "pods", Name: o.pod.Name, UID: types.UID(o.pod.UID)},
	}
	return o.apply(events.KindResourceClaim, o.claim)
}
