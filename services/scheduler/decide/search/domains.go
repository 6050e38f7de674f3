package search

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
)

// Domain is the nodes that have one value of each of some topology keys.
type Domain struct {
	// Name are the values, separated by slashes.
	Name string
	// Nodes are those that pods may be placed on now, in the order of View.Nodes.
	Nodes []*state.NodeInfo
	// Slots is how many of the smallest of the pods fit on these nodes by their resources: at least as many as of any
	// other of the pods.
	Slots int
}

// Domains returns the domains of some topology keys, those with the fewest slots for pods first, then by name. Nodes
// without one of the labels are in no domain. If members have places on nodes already, by name, only the domain of
// these is returned. An error reports that these are not in one domain: one of them is not known, has not all the
// labels, or is in another domain than the others. Source: getScheduledPodsTopologyDomain in
// plugins/topologyaware/topology_placement.go.
func (x *Searcher) Domains(keys []string, pods []*state.Pod, placed []string) (domains []Domain, err error) {
	least := LeastOf(pods)
	pinned, err := x.pinned(keys, placed)
	if err != nil {
		return nil, err
	}
	byName := map[string]*Domain{}
	for _, n := range x.Shard.View.Nodes() {
		name, in := domainOf(n, keys)
		if !in || pinned != "" && name != pinned || !x.Shard.Gate.Usable(n) {
			continue
		}
		d := byName[name]
		if d == nil {
			d = &Domain{Name: name}
			byName[name] = d
		}
		d.Nodes = append(d.Nodes, n)
		d.Slots += SlotsOn(n, least, len(pods))
	}
	for _, d := range byName {
		domains = append(domains, *d)
	}
	slices.SortFunc(domains, func(a, b Domain) int {
		return cmp.Or(cmp.Compare(a.Slots, b.Slots), strings.Compare(a.Name, b.Name))
	})
	return domains, nil
}

// pinned returns the domain of nodes, by name; empty for no nodes.
func (x *Searcher) pinned(keys []string, placed []string) (domain string, err error) {
	if len(keys) == 0 {
		return "", nil
	}
	for _, node := range slices.Compact(slices.Sorted(slices.Values(placed))) {
		n := x.nodeNamed(node)
		if n == nil {
			return "", fmt.Errorf("node %s does not exist", node)
		}
		name, in := domainOf(n, keys)
		switch {
		case !in:
			return "", fmt.Errorf("node %s has no label %s", node, strings.Join(keys, " or "))
		case domain != "" && name != domain:
			return "", fmt.Errorf("they are in %s and %s", min(domain, name), max(domain, name))
		}
		domain = name
	}
	return domain, nil
}

// NodesKnown reports whether the facts show the nodes of all members with a place: those of reservations, given by
// name, exist, and no promised pod is bound to a node whose registration the facts do not show yet.
func (x *Searcher) NodesKnown(reserved []string) bool {
	return !x.Shard.View.HasPodsOnUnknownNodes() &&
		!slices.ContainsFunc(reserved, func(node string) bool { return x.nodeNamed(node) == nil })
}

// nodeNamed returns the node of a name; nil if there is none.
func (x *Searcher) nodeNamed(name string) *state.NodeInfo {
	nodes := x.Shard.View.Nodes() // by name
	i, known := slices.BinarySearchFunc(nodes, name, func(n *state.NodeInfo, name string) int {
		return strings.Compare(n.Node.Name, name)
	})
	if !known {
		return nil
	}
	return nodes[i]
}

// domainOf returns the domain that a node is in; false if it lacks one of the labels.
func domainOf(n *state.NodeInfo, keys []string) (name string, in bool) {
	values := make([]string, len(keys))
	for i, key := range keys {
		if values[i], in = n.Node.Object.Labels[key]; !in {
			return "", false
		}
	}
	return strings.Join(values, "/"), true
}

// LeastOf returns, of each resource that all pods request, the smallest request.
func LeastOf(pods []*state.Pod) map[string]int64 {
	least := pods[0].Requests.Map()
	for _, p := range pods[1:] {
		maps.DeleteFunc(least, func(name string, _ int64) bool { return p.Requests.Get(name) == 0 })
		for name, v := range least {
			least[name] = min(v, p.Requests.Get(name))
		}
	}
	return least
}

// SlotsOn returns how many pods with these requests fit on a node by its resources, at most as many as wanted.
func SlotsOn(n *state.NodeInfo, requests map[string]int64, wanted int) int {
	slots := int64(wanted)
	for name, v := range requests {
		if v <= 0 {
			continue
		}
		free := n.Node.Allocatable.Get(name) - n.Requested.Get(name)
		slots = min(slots, max(free/v, 0))
	}
	return int(slots)
}

// FindIn evaluates the nodes of a domain for a pod, as Find evaluates all. The rules are evaluated from scratch, which
// a domain is small enough for. Places that others hold by nominations are taken into account; holds that hard spread
// depends on are not: a spread rule of the pod counts them like placements.
func (x *Searcher) FindIn(
	a *attempt.Attempt, profile *placement.Profile, v claims.Supply, avoided []string, within *Domain,
) record.Evaluation {
	basis := x.Record.Basis(profile, avoided)
	basis.Unlisted = true // no record names the domain, so that the decision cannot be made again from it
	objects := v.Lookups(x.Shard.View.Snapshot())
	beside := x.besidesOf(a.Pod, profile, objects)
	for _, n := range within.Nodes {
		beside.takes(n)
	}
	if err := beside.failed(); err != nil {
		return record.Evaluation{Result: placement.Result{Err: err}, Basis: basis}
	}
	in := placement.Input{
		Pod: a.Pod, Nodes: x.Shard.View.Nodes(), Candidates: within.Nodes, Objects: objects,
		Seed: attempt.Seed(a.Pod.UID, a.Offer.Attempt), Opinions: beside.opinions(), Everywhere: true,
		Excluded: map[string]string{},
	}
	for _, uid := range avoided {
		in.Excluded[uid] = avoid.OwnerMessage
	}
	return x.found(record.Evaluation{Result: profile.Evaluate(in), Basis: basis})
}
