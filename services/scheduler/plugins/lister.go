package plugins

import (
	"fmt"

	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/state"
)

// cluster is all nodes at the beginning of a cycle, sorted by name. It is immutable, and implements
// framework.SharedLister and its listers. Its zero value has no nodes: what plugins see before the first cycle.
type cluster struct {
	nodes  []framework.NodeInfo
	byName map[string]*nodeView
}

// nodeView is a node of the state with its form for plugins. of is the copy from which info was built: the same
// pointer in the next question means that the node has not changed.
type nodeView struct {
	of   *state.NodeInfo
	info *nodeInfo
}

// newCluster returns the plugins' view of nodes; it reuses what was built earlier from the same copies. Its cost is
// thus proportional to the nodes that have changed, plus a map of all nodes.
func newCluster(nodes []*state.NodeInfo, before *cluster) *cluster {
	c := &cluster{nodes: make([]framework.NodeInfo, len(nodes)), byName: make(map[string]*nodeView, len(nodes))}
	for i, n := range nodes {
		p := before.viewOf(n.Node.Name)
		if p == nil || p.of != n {
			p = &nodeView{of: n, info: newNodeInfo(n)}
		}
		c.nodes[i], c.byName[n.Node.Name] = p.info, p
	}
	return c
}

// viewOf returns the view of a node by name, nil if there is no such node.
func (c *cluster) viewOf(name string) *nodeView {
	if c == nil {
		return nil
	}
	return c.byName[name]
}

// The methods below implement the listers of package framework. Lists are shared: plugins must not change them.
func (c *cluster) NodeInfos() framework.NodeInfoLister           { return c }
func (c *cluster) StorageInfos() framework.StorageInfoLister     { return c }
func (c *cluster) PodGroupStates() framework.PodGroupStateLister { return podGroups{} }
func (c *cluster) List() ([]framework.NodeInfo, error)           { return c.nodes, nil }

// HavePodsWithAffinityList returns the nodes with pods that have affinity or anti-affinity. It reads all pods.
func (c *cluster) HavePodsWithAffinityList() ([]framework.NodeInfo, error) {
	return c.nodesWith(func(n framework.NodeInfo) bool { return len(n.GetPodsWithAffinity()) > 0 }), nil
}

// HavePodsWithRequiredAntiAffinityList returns the nodes with pods that have required anti-affinity. It reads all
// pods, too.
func (c *cluster) HavePodsWithRequiredAntiAffinityList() ([]framework.NodeInfo, error) {
	return c.nodesWith(func(n framework.NodeInfo) bool { return len(n.GetPodsWithRequiredAntiAffinity()) > 0 }), nil
}

// nodesWith returns the nodes that match, in the order of their names.
func (c *cluster) nodesWith(match func(framework.NodeInfo) bool) (list []framework.NodeInfo) {
	for _, n := range c.nodes {
		if match(n) {
			list = append(list, n)
		}
	}
	return list
}

// Get returns an error that names the node if there is no such node.
func (c *cluster) Get(name string) (framework.NodeInfo, error) {
	if p := c.viewOf(name); p != nil {
		return p.info, nil
	}
	return nil, fmt.Errorf("nodeinfo not found for node name %q", name)
}

// IsPVCUsedByPods reports whether a pod on any node uses a claim, given as namespace/name.
func (c *cluster) IsPVCUsedByPods(key string) bool {
	for _, n := range c.nodes {
		if n.GetPVCRefCounts()[key] > 0 {
			return true
		}
	}
	return false
}

// podGroups has no groups: pods are placed one by one.
type podGroups struct{}

// Get implements framework.PodGroupStateLister; it always returns framework.ErrNotFound.
func (podGroups) Get(namespace, name string) (framework.PodGroupState, error) {
	return nil, fmt.Errorf("pod group %s/%s: %w: pod groups are not supported", namespace, name, framework.ErrNotFound)
}
