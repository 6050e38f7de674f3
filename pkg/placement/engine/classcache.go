package engine

import (
	"container/list"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/placement/volumes"
	"github.com/berth-scheduler/berth/pkg/state"
)

// classCache keeps the most recently used classes, within a memory budget. Three maps lead to them: byKey, by the
// contents of a pod; byPod, by the identity of its parts; and crossNodes, to the states that classes share.
type classCache struct {
	// budget and size are in bytes; budget 0 means the default.
	budget, size int64 // budget 0: the default
	byKey        map[classKey]*cached
	// recent is the order of use, most recent first.
	recent     *list.List
	crossNodes map[crossNodeKey]*crossNodeState
	// byPod is a shortcut past the signature for pods whose parts have been seen before: writing a signature
	// reads the whole spec of a pod.
	byPod map[podKey]*cached
	// spare is a dropped class whose arrays the next new one may reuse. Where every pod has a shape of its own,
	// classes are created and dropped with every decision, and without reuse each of them would allocate arrays
	// of the size of the cluster.
	spare *class
}

// cached is an entry of the cache: a class, its place in the order of use, and its size in bytes as last counted.
type cached struct {
	*class
	place *list.Element // its Value is the *cached
	size  int64
	// shortcuts holds the keys of byPod that lead to this class, the oldest first.
	shortcuts []podKey
}

// podKey is everything about a pod that a class depends on, compared by identity: pods that have a part in common
// share one copy of it, because the store keeps one. The pod is not on a node yet.
type podKey struct {
	profile  *placement.Profile
	template *corev1.Pod
	kind     *state.PodClass
	status   *corev1.PodStatus
	home     bool
}

// maxShortcuts bounds the shortcuts to one class. Pods with a template of their own, such as those of a
// StatefulSet, would otherwise add one each.
const maxShortcuts = 8

// keyOf returns the key of a pod; ok is false for a pod that has none: one that is on a node, that has ephemeral
// volumes (the names of their claims contain that of the pod), or that names device claims.
func keyOf(p *placement.Profile, pod *state.Pod, home bool) (key podKey, ok bool) {
	return podKey{p, pod.Template, pod.Kind, pod.Status(), home},
		pod.NodeName == "" && !volumes.HasEphemeral(&pod.Template.Spec) && !rule.HasDeviceClaims(&pod.Template.Spec)
}

// newClassCache returns an empty cache. budget is in bytes, 0 for the default.
func newClassCache(budget int64) classCache {
	return classCache{
		budget: budget, recent: list.New(),
		byKey: map[classKey]*cached{}, byPod: map[podKey]*cached{}, crossNodes: map[crossNodeKey]*crossNodeState{},
	}
}

// add adds a new class.
func (k *classCache) add(c *class) *cached {
	entry := &cached{class: c}
	entry.place = k.recent.PushFront(entry)
	k.byKey[c.key] = entry
	return entry
}

// addShortcut records that pods with the key belong to a class. It replaces the oldest shortcut if there are too
// many.
func (k *classCache) addShortcut(key podKey, entry *cached) {
	if len(entry.shortcuts) == maxShortcuts {
		delete(k.byPod, entry.shortcuts[0])
		entry.shortcuts = slices.Delete(entry.shortcuts, 0, 1)
	}
	entry.shortcuts = append(entry.shortcuts, key)
	k.byPod[key] = entry
}

// use marks a class as most recently used.
func (k *classCache) use(entry *cached) { k.recent.MoveToFront(entry.place) }

// enforceBudget updates the size of c, the class in use, and drops the least recently used classes until the
// budget is kept. c must be the most recently used one; it stays even if it alone exceeds the budget. nodes is
// the number of nodes, for the default.
func (k *classCache) enforceBudget(c *class, nodes int) {
	budget := k.budget
	if budget <= 0 {
		budget = min(DefaultCacheBytes+DefaultCacheBytesPerNode*int64(nodes), MaxCacheBytes)
	}
	front := k.recent.Front().Value.(*cached)
	size := c.bytes()
	k.size += size - front.size
	front.size = size
	size = c.crossNode.bytes()
	k.size += size - c.crossNode.counted
	c.crossNode.counted = size
	for k.size > budget && k.recent.Len() > 1 {
		k.drop(k.recent.Back().Value.(*cached))
	}
}

// drop removes a class and, with its last user, the state that it shares. A state that has been replaced under
// the same key is no longer in the map, but still counts until its last user is dropped.
func (k *classCache) drop(entry *cached) {
	k.recent.Remove(entry.place)
	delete(k.byKey, entry.key)
	for _, key := range entry.shortcuts {
		delete(k.byPod, key)
	}
	k.size -= entry.size
	k.spare = entry.class
	w := entry.crossNode
	if w.users--; w.users > 0 {
		return
	}
	k.size -= w.counted
	if k.crossNodes[w.key] == w {
		delete(k.crossNodes, w.key)
	}
}

// clear drops everything. The spare class is dropped as well.
func (k *classCache) clear() {
	clear(k.byKey)
	clear(k.byPod)
	clear(k.crossNodes)
	k.recent.Init()
	k.size, k.spare = 0, nil
}

// emptyClass returns a class without results, with the arrays of the spare one if there is one. The arrays are
// empty but keep their capacity; columns.GrowBy overwrites old content.
func (k *classCache) emptyClass(key classKey) *class {
	c := &class{key: key}
	if old := k.spare; old != nil {
		k.spare = nil
		c.cells = old.cells[:0]
		c.base = old.base[:0]
		c.group = old.group[:0]
		c.groups = old.groups
		c.traits = old.traits[:0]
		c.scaled = old.scaled[:0]
	}
	c.groups.reset(maxScaledScores)
	return c
}
