package plugins

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
)

// cycle implements framework.CycleState: the state that plugins keep for one attempt at a pod. Read, Write, Delete
// and Clone are safe for concurrent use. The lists of skipped plugins are not: they change only between extension
// points.
type cycle struct {
	skipped
	data sync.Map // framework.StateKey to framework.StateData
}

// skipped are the plugins that have nothing to do in a cycle, by extension point, and those that may run in parallel
// before a bind.
type skipped struct {
	filter, score, preBind, parallel sets.Set[string]
}

// newCycle returns a cycle that is empty except for the pods to activate, if the runtime supports these.
func (r *Runtime) newCycle() *cycle {
	c := &cycle{}
	if r.toActivate != nil {
		c.Write(PodsToActivateKey, r.toActivate.create())
	}
	return c
}

// ShouldRecordPluginMetrics implements framework.CycleState: Berth has metrics of its own.
func (c *cycle) ShouldRecordPluginMetrics() bool { return false }

// The getters and setters of skipped plugins implement framework.CycleState. Nil sets are those of a cycle in which
// no plugin was skipped. Pods are placed one by one, so that there is no pod group's cycle.
func (c *cycle) GetSkipFilterPlugins() sets.Set[string]                   { return c.filter }
func (c *cycle) SetSkipFilterPlugins(names sets.Set[string])              { c.filter = names }
func (c *cycle) GetSkipScorePlugins() sets.Set[string]                    { return c.score }
func (c *cycle) SetSkipScorePlugins(names sets.Set[string])               { c.score = names }
func (c *cycle) GetSkipPreBindPlugins() sets.Set[string]                  { return c.preBind }
func (c *cycle) SetSkipPreBindPlugins(names sets.Set[string])             { c.preBind = names }
func (c *cycle) GetParallelPreBindPlugins() sets.Set[string]              { return c.parallel }
func (c *cycle) SetParallelPreBindPlugins(n sets.Set[string])             { c.parallel = n }
func (c *cycle) ShouldSkipAllPostFilterPlugins() bool                     { return false }
func (c *cycle) IsPodGroupSchedulingCycle() bool                          { return false }
func (c *cycle) GetPodGroupSchedulingCycle() framework.PodGroupCycleState { return nil }

// SetPodGroupSchedulingCycle implements framework.CycleState: pods are placed one by one.
func (c *cycle) SetPodGroupSchedulingCycle(framework.PodGroupCycleState) {}

// Read returns framework.ErrNotFound for a key that no plugin has written.
func (c *cycle) Read(key framework.StateKey) (framework.StateData, error) {
	if v, ok := c.data.Load(key); ok {
		return v.(framework.StateData), nil
	}
	return nil, framework.ErrNotFound
}

// Write replaces the value under a key. Plugins of one profile share the keys, as upstream.
func (c *cycle) Write(key framework.StateKey, value framework.StateData) { c.data.Store(key, value) }

// Delete removes the value under a key, if there is one.
func (c *cycle) Delete(key framework.StateKey) { c.data.Delete(key) }

// Clone copies the data with their own Clone methods, and shares the rest.
func (c *cycle) Clone() framework.CycleState {
	if c == nil {
		return nil
	}
	copied := &cycle{skipped: c.skipped}
	c.data.Range(func(key, value any) bool {
		copied.data.Store(key, value.(framework.StateData).Clone())
		return true
	})
	return copied
}
