package conformance

import (
	"fmt"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// fill puts the objects where upstream's listers look.
func (o objects) fill(factory informers.SharedInformerFactory) error {
	core, apps := factory.Core().V1(), factory.Apps().V1()
	var err error
	add := func(to cache.SharedIndexInformer, obj any) {
		if failed := to.GetIndexer().Add(obj); failed != nil {
			err = failed
		}
	}
	for _, n := range o.namespaces {
		add(core.Namespaces().Informer(), n.DeepCopy())
	}
	for _, s := range o.services {
		add(core.Services().Informer(), s.DeepCopy())
	}
	for _, r := range o.replicaSets {
		add(apps.ReplicaSets().Informer(), r.DeepCopy())
	}
	for _, s := range o.statefulSets {
		add(apps.StatefulSets().Informer(), s.DeepCopy())
	}
	for _, r := range o.controllers {
		add(core.ReplicationControllers().Informer(), r.DeepCopy())
	}
	return err
}

// snapshot is the same objects as facts leave them in a store.
func (o objects) snapshot() (*state.Snapshot, error) {
	var facts []events.SequencedFact
	var err error
	add := func(k events.Kind, obj state.APIObject) {
		data, failed := obj.Marshal()
		if failed != nil {
			err = fmt.Errorf("%s %s: %w", k, obj.GetName(), failed)
		}
		sequence := uint64(len(facts) + 1)
		facts = append(facts, events.SequencedFact{Sequence: sequence, Fact: events.Fact{
			Kind: k, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
			ResourceVersion: sequence, Progress: sequence, Object: data,
		}})
	}
	for _, n := range o.namespaces {
		add(events.KindNamespace, n)
	}
	for _, s := range o.services {
		add(events.KindService, s)
	}
	for _, r := range o.replicaSets {
		add(events.KindReplicaSet, r)
	}
	for _, s := range o.statefulSets {
		add(events.KindStatefulSet, s)
	}
	for _, r := range o.controllers {
		add(events.KindReplicationContrl, r)
	}
	if err != nil {
		return nil, err
	}
	store := state.New()
	if _, err := store.Apply(facts); err != nil {
		return nil, err
	}
	return store.Snapshot(), nil
}
