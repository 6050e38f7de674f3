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

// classCache keeps the most recently used classes, within a memory budget.
type classCache struct {
	budget, size int64 // budget 0: the default
	byKey        map[classKey]*cached
	// recent is the order of use, most recent first.
	recent *list.List
	wides  map[wideKey]*wide
	// byPod is a shortcut past the signature for pods whose parts have been seen before.
	byPod map[podKey]*cached
	// spare is a dropped class whose arrays the next new one may reuse.
	spare *class
}

type cached struct {
	*class
	place *list.Element // its Value is the *cached
	size  int64
	// known holds the keys of byPod that lead to this class, the oldest first.
	known []podKey
}

// podKey is everything about a pod that a class depends on, compared by identity: pods that have a part in common
// share one copy of it. The pod is not on a node yet.
type podKey struct {
	profile  *placement.Profile
	template *corev1.Pod
	kind     *state.Kind
	status   *corev1.PodStatus
	home     bool
}

// maxKnown bounds the shortcuts to one class. Pods with a template of their own, such as those of a StatefulSet,
// would otherwise add one each.
const maxKnown = 8

// keyOf returns the key of a pod; ok is false for a pod that has none.
func keyOf(p *placement.Profile, q Query) (key podKey, ok bool) {
	return podKey{p, q.Pod.Template, q.Pod.Kind, q.Pod.Status(), q.Home},
		q.Pod.NodeName == "" && !volumes.HasEphemeral(&q.Pod.Template.Spec) && !rule.HasDeviceClaims(&q.Pod.Template.Spec)
}

func newClassCache(budget int64) classCache {
	return classCache{
		budget: budget, recent: list.New(),
		byKey: map[classKey]*cached{}, byPod: map[podKey]*cached{}, wides: map[wideKey]*wide{},
	}
}

// add adds a new class.
func (k *classCache) add(c *class) *cached {
	entry := &cached{class: c}
	entry.place = k.recent.PushFront(entry)
	k.byKey[c.key] = entry
	return entry
}

// know records that pods with the key belong to a class.
func (k *classCache) know(key podKey, entry *cached) {
	if len(entry.known) == maxKnown {
		delete(k.byPod, entry.known[0])
		entry.known = slices.Delete(entry.known, 0, 1)
	}
	entry.known = append(entry.known, key)
	k.byPod[key] = entry
}

// use marks a class as most recently used.
func (k *classCache) use(entry *cached) { k.recent.MoveToFront(entry.place) }

// settle updates the size of the class in use and drops others until the budget is kept.
func (k *classCache) settle(c *class, nodes int) {
	budget := k.budget
	if budget <= 0 {
		budget = min(DefaultCacheBytes+DefaultCacheBytesPerNode*int64(nodes), MaxCacheBytes)
	}
	front := k.recent.Front().Value.(*cached)
	size := c.bytes()
	k.size += size - front.size
	front.size = size
	size = c.wide.bytes()
	k.size += size - c.wide.counted
	c.wide.counted = size
	for k.size > budget && k.recent.Len() > 1 {
		k.drop(k.recent.Back().Value.(*cached))
	}
}

func (k *classCache) drop(entry *cached) {
	k.recent.Remove(entry.place)
	delete(k.byKey, entry.key)
	for _, key := range entry.known {
		delete(k.byPod, key)
	}
	k.size -= entry.size
	k.spare = entry.class
	w := entry.wide
	if w.users--; w.users > 0 {
		return
	}
	k.size -= w.counted
	if k.wides[w.key] == w {
		delete(k.wides, w.key)
	}
}

func (k *classCache) clear() {
	clear(k.byKey)
	clear(k.byPod)
	clear(k.wides)
	k.recent.Init()
	k.size, k.spare = 0, nil
}

// blank returns an empty class, with the arrays of the spare one if there is one.
func (k *classCache) blank(key classKey) *class {
	c := &class{key: key}
	if old := k.spare; old != nil {
		k.spare = nil
		c.cells = old.cells[:0]
		c.base = old.base[:0]
		c.group = old.group[:0]
		c.groups = old.groups
		c.traits = old.traits[:0]
		c.gauges = old.gauges[:0]
	}
	c.groups.reset(maxGauges)
	return c
}

// classOf returns the class of a pod, and creates it if necessary.
func (e *Engine) classOf(p *placement.Profile, q Query) (*class, error) {
	key, brief := keyOf(p, q)
	if entry, ok := e.cache.byPod[key]; ok && brief && e.serves(entry, q.Pod) {
		e.cache.use(entry)
		return entry.class, nil
	}
	entry, err := e.find(p, q)
	if err != nil {
		return nil, err
	}
	if brief {
		e.cache.know(key, entry)
	}
	return entry.class, nil
}

// serves reports whether everything that a class was made from is still valid.
func (e *Engine) serves(entry *cached, pod *state.Pod) bool {
	return entry.basis == e.basis() && e.isCurrent(entry.wide, pod)
}

// find is classOf based on the contents of the pod.
func (e *Engine) find(p *placement.Profile, q Query) (*cached, error) {
	shape, wideLen, err := e.sign.Of(q.Pod)
	if err != nil {
		return nil, err
	}
	if entry, ok := e.cache.byKey[classKey{p, q.Pod.Kind, q.Home, string(shape)}]; ok {
		if e.serves(entry, q.Pod) {
			e.cache.use(entry)
			return entry, nil
		}
		e.cache.drop(entry)
	}
	c := e.cache.blank(classKey{p, q.Pod.Kind, q.Home, string(shape)})
	c.basis = e.basis()
	c.wide = e.cache.wides[wideKey{p, q.Pod.Kind, string(shape[:wideLen])}]
	if c.wide != nil && e.isCurrent(c.wide, q.Pod) {
		c.plan = newPlan(e, c, q.Pod, nil)
	} else {
		c.wide = e.newWide(wideKey{p, q.Pod.Kind, string(shape[:wideLen])}, q.Pod)
		c.plan = newPlan(e, c, q.Pod, c.wide)
		if c.plan.err != nil || c.plan.rejected != nil || c.plan.uncompiled {
			delete(e.cache.wides, c.wide.key) // not all rules have been compiled into it
		}
	}
	c.wide.users++
	c.id, c.refused = classID(c.key, q.Pod), make([]int32, len(c.plan.filters))
	return e.cache.add(c), nil
}

func (e *Engine) basis() basis { return basis{e.columns.Resources.Version, e.epoch} }

// newWide creates a wide without rules and replaces one that is out of date.
func (e *Engine) newWide(key wideKey, pod *state.Pod) *wide {
	w := &wide{key: key}
	w.basis = wideBasis{e.version, e.epoch, e.digest(w, pod)}
	e.cache.wides[key] = w
	return w
}

func (e *Engine) digest(w *wide, pod *state.Pod) string {
	return string(objectDigest(nil, w.key.profile, pod, rule.OrNone(e.objects)))
}

// isCurrent reports whether everything that a wide was made from is still valid. It mostly is when objects have
// changed; finding that out takes a look at the objects that matter to it.
func (e *Engine) isCurrent(w *wide, pod *state.Pod) bool {
	if w.basis.epoch != e.epoch || !w.fits() {
		return false
	}
	if w.basis.objects != e.version {
		if e.digest(w, pod) != w.basis.digest {
			return false
		}
		w.basis.objects = e.version
	}
	return true
}
