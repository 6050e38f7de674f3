package placementbench

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// Site is an engine with what a shard keeps around it: a NodeInfo per node, and a store for the other objects. Its
// profile is the default one, rules beyond one node included. It is not safe for concurrent use.
type Site struct {
	Engine  *engine.Engine
	Profile *placement.Profile
	// Objects are the namespaces, services and replica sets.
	Objects *state.Snapshot
	// nodes finds the NodeInfo of a node by its name.
	nodes map[string]*state.NodeInfo
}

// NewSite takes ownership of a cluster's nodes and pods, and strips them of the fields that no rule reads, as the
// queue does before it writes a fact. It is not part of what is measured.
func NewSite(c Cluster) (*Site, error) {
	config := placement.DefaultProfile(corev1.DefaultSchedulerName)
	profile, err := placement.NewProfile(config)
	if err != nil {
		return nil, err
	}
	objects, err := c.snapshot()
	if err != nil {
		return nil, err
	}
	s := &Site{
		Engine: engine.New(engine.Config{}), Profile: profile, Objects: objects,
		nodes: make(map[string]*state.NodeInfo, len(c.Nodes)),
	}
	s.Engine.SetObjects(objects)
	for _, n := range c.Nodes {
		strip.Strip(n)
		s.nodes[n.Name] = state.NewNodeInfo(state.NewNode(n))
	}
	for _, p := range c.Pods {
		s.nodes[p.Spec.NodeName].AddPod(Arrive(p))
	}
	for _, n := range c.Nodes {
		s.Engine.SetNode(s.nodes[n.Name])
	}
	return s, nil
}

// snapshot returns the objects that are neither nodes nor pods, as facts leave them in a store.
func (c Cluster) snapshot() (*state.Snapshot, error) {
	var facts []events.SequencedFact
	var failed error
	add := func(k events.Kind, obj state.APIObject) {
		data, err := obj.Marshal()
		if err != nil {
			failed = fmt.Errorf("placementbench: %s %s: %w", k, obj.GetName(), err)
		}
		sequence := uint64(len(facts) + 1)
		facts = append(facts, events.SequencedFact{Sequence: sequence, Fact: events.Fact{
			Kind: k, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
			ResourceVersion: sequence, Progress: sequence, Object: data,
		}})
	}
	for _, n := range c.Namespaces {
		add(events.KindNamespace, n)
	}
	for _, s := range c.Services {
		add(events.KindService, s)
	}
	for _, r := range c.ReplicaSets {
		add(events.KindReplicaSet, r)
	}
	if failed != nil {
		return nil, failed
	}
	store := state.New()
	if _, err := store.Apply(facts); err != nil {
		return nil, err
	}
	return store.Snapshot(), nil
}

// Arrive does the work that a scheduler does once for every pod it learns of; it keeps obj.
func Arrive(obj *corev1.Pod) *state.Pod {
	strip.Strip(obj)
	return state.NewPod(obj)
}

// Decide evaluates a pod with the engine, and adds the pod to the best node, if any. This is the decision that
// benchmarks measure.
func (s *Site) Decide(pod *state.Pod, seed uint64) placement.Result {
	r := s.Engine.Evaluate(s.Profile, engine.Query{Pod: pod, Seed: seed})
	if len(r.Feasible) > 0 {
		n := r.Feasible[0].Node
		n.AddPod(pod)
		s.Engine.ChangePod(n, nil, pod)
	}
	return r
}

// Remove removes a pod from its node, unless it was removed together with the node.
func (s *Site) Remove(n *state.NodeInfo, pod *state.Pod) {
	if n.RemovePod(pod.UID) {
		s.Engine.ChangePod(n, pod, nil)
	}
}

// Nodes returns all nodes, sorted by name.
func (s *Site) Nodes() []*state.NodeInfo {
	list := make([]*state.NodeInfo, 0, len(s.nodes))
	for _, n := range s.nodes {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *state.NodeInfo) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	return list
}

// Change applies an event. The pods of a removed node are removed with it. It keeps After, which has been
// stripped. Like a shard, it changes the NodeInfo first and reports the change to the engine after that.
func (s *Site) Change(e NodeEvent) {
	switch {
	case e.Before == nil:
		n := state.NewNodeInfo(state.NewNode(e.After))
		s.nodes[e.After.Name] = n
		s.Engine.SetNode(n)
	case e.After != nil:
		n := s.nodes[e.After.Name]
		n.SetNode(state.NewNode(e.After))
		s.Engine.SetNode(n)
	default:
		n := s.nodes[e.Before.Name]
		delete(s.nodes, e.Before.Name)
		for _, p := range slices.Collect(n.Pods()) {
			s.Remove(n, p)
		}
		s.Engine.DropNode(n)
	}
}
