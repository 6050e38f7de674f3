package placement

import (
	"container/list"
)

// classCache keeps the classes that were asked about last, within a budget.
type classCache struct {
	budget, size int64
	byKey        map[classKey]*cached
	// recent is the order of use, the latest first.
	recent *list.List
	// spare is a class that went, whose arrays the next one may have.
	spare *class
}

type cached struct {
	*class
	place *list.Element // its Value is the *cached
	size  int64
}

func newClassCache(budget int64) classCache {
	return classCache{budget: budget, byKey: map[classKey]*cached{}, recent: list.New()}
}

// add takes in a new class.
func (k *classCache) add(c *class) {
	entry := &cached{class: c}
	entry.place = k.recent.PushFront(entry)
	k.byKey[c.key] = entry
}

// use notes that a class is asked about.
func (k *classCache) use(entry *cached) { k.recent.MoveToFront(entry.place) }

// settle brings the size of the class in use up to date and makes room for it.
func (k *classCache) settle(c *class) {
	front := k.recent.Front().Value.(*cached)
	size := c.bytes()
	k.size += size - front.size
	front.size = size
	for k.size > k.budget && k.recent.Len() > 1 {
		k.drop(k.recent.Back().Value.(*cached))
	}
}

func (k *classCache) drop(entry *cached) {
	k.recent.Remove(entry.place)
	delete(k.byKey, entry.key)
	k.size -= entry.size
	k.spare = entry.class
}

func (k *classCache) clear() {
	clear(k.byKey)
	k.recent.Init()
	k.size, k.spare = 0, nil
}

// blank is an empty class, with the arrays of a spare one if there is one.
func (k *classCache) blank(key classKey) *class {
	c := &class{key: key}
	if old := k.spare; old != nil {
		k.spare = nil
		c.static, c.verdicts, c.why = old.static[:0], old.verdicts[:0], old.why[:0]
		c.score, c.held, c.traits = old.score[:0], old.held[:0], old.traits[:0]
		c.ranking = ranking{totals: old.ranking.totals[:0], tops: old.ranking.tops[:0], touched: old.ranking.touched[:0]}
		c.wide.survey = old.wide.survey
		c.gauges = old.gauges[:0]
	}
	return c
}

// classOf finds the class of a pod, or makes it.
func (e *Engine) classOf(p *Profile, q Query) (*class, error) {
	shape, err := e.sign.of(q.Pod)
	if err != nil {
		return nil, err
	}
	if entry, ok := e.cache.byKey[classKey{p, q.Pod.Kind, q.Home, string(shape)}]; ok {
		if e.isCurrent(entry.class) {
			e.cache.use(entry)
			return entry.class, nil
		}
		e.cache.drop(entry)
	}
	c := e.cache.blank(classKey{p, q.Pod.Kind, q.Home, string(shape)})
	c.plan = newPlan(e, p, q.Pod, c)
	c.basis = e.basis()
	c.digest = string(objectDigest(nil, p, q.Pod, orNoObjects(e.objects)))
	e.cache.add(c)
	return c, nil
}

func (e *Engine) basis() basis { return basis{e.version, e.resources.version, e.epoch} }

// isCurrent tells whether a class was planned from what is still so. If only objects have
// changed it mostly is, which costs another plan to find out.
func (e *Engine) isCurrent(c *class) bool {
	now := e.basis()
	if c.basis == now {
		return true
	}
	if c.basis.places != now.places || c.basis.epoch != now.epoch || !e.sameObjects(c) {
		return false
	}
	c.basis = now
	return true
}
