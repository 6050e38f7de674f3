package waiting

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// wakeIndex indexes the parked pods by what could wake them: by the rules that rejected them, and per rule in groups of
// pods that the rule's hints treat alike, so that ten thousand equal pods cost one hint. The groups are indexed by
// the topics that a change must be about, so that most changes call no hint at all.
type wakeIndex struct {
	rules map[ruleKey]*ruleGroups
	pods  int
	// lookups numbers the changes that were looked up.
	lookups uint64
}

// ruleKey names a rule of a profile. An empty plugin stands for pods that no rule rejected.
type ruleKey struct{ profile, plugin string }

// ruleGroups holds the pods that one rule rejected.
type ruleGroups struct {
	key                 ruleKey
	profile             *placement.Profile
	groups              map[string]*group
	pods, nodes, claims reach
}

// group holds pods that get the same hints, because the rule's interest in them is of the same class. A hint is
// evaluated for one member on behalf of all.
type group struct {
	rule     *ruleGroups
	interest rule.Interest
	members  []member
	// lastLookup is the number of the last call that evaluated a hint: a change can reach a group twice.
	lastLookup uint64
}

// member is an entry and the index in its waits that refers back here.
type member struct {
	entry *Entry
	slot  int
}

// groupSlot is a group and the entry's index in it.
type groupSlot struct {
	group *group
	index int
}

// reach indexes groups by the topics that reach them.
type reach struct {
	all     map[*group]struct{}
	byTopic map[string]map[*group]struct{}
}

func newWakeIndex() wakeIndex { return wakeIndex{rules: map[ruleKey]*ruleGroups{}} }

// add makes a parked pod wait for events that could change its rejectors' verdict.
func (w *wakeIndex) add(e *Entry, profile *placement.Profile) {
	w.pods++
	plugins := e.Verdict.Plugins
	if len(plugins) == 0 {
		plugins = []string{""}
	}
	for _, plugin := range plugins {
		r := w.rule(ruleKey{e.Pod.SchedulerName, plugin}, profile)
		g := r.group(profile.Interest(plugin, e.Pod))
		e.groups = append(e.groups, groupSlot{group: g, index: len(g.members)})
		g.members = append(g.members, member{entry: e, slot: len(e.groups) - 1})
	}
}

// remove forgets a pod. In each of its groups the last member takes its place, so that the cost does not depend on the
// size of the group.
func (w *wakeIndex) remove(e *Entry) {
	w.pods--
	for _, at := range e.groups {
		g := at.group
		last := len(g.members) - 1
		moved := g.members[last]
		g.members[at.index] = moved
		moved.entry.groups[moved.slot].index = at.index
		g.members[last] = member{}
		g.members = g.members[:last]
		if last == 0 {
			w.dropGroup(g)
		}
	}
	e.groups = nil
}

// rule returns the groups of a rule, new ones if it holds no pod back yet.
func (w *wakeIndex) rule(key ruleKey, profile *placement.Profile) *ruleGroups {
	r, ok := w.rules[key]
	if !ok {
		r = &ruleGroups{key: key, profile: profile, groups: map[string]*group{}}
		w.rules[key] = r
	}
	return r
}

// dropGroup drops a group without members, and its rule if that has no other: classes come and go with the workloads.
func (w *wakeIndex) dropGroup(g *group) {
	r := g.rule
	delete(r.groups, g.interest.Class)
	r.pods.drop(g, g.interest.Pods)
	r.nodes.drop(g, g.interest.Nodes)
	r.claims.drop(g, g.interest.Claims)
	if len(r.groups) == 0 {
		delete(w.rules, r.key)
	}
}

// group returns the group of a class, a new one if no pod of it is parked yet.
func (r *ruleGroups) group(interest rule.Interest) *group {
	g, ok := r.groups[interest.Class]
	if !ok {
		g = &group{rule: r, interest: interest}
		r.groups[interest.Class] = g
		r.pods.put(g, interest.Pods)
		r.nodes.put(g, interest.Nodes)
		r.claims.put(g, interest.Claims)
	}
	return g
}

// put indexes a group by the topics that its rule has named, or among those that every change reaches.
func (r *reach) put(g *group, of rule.Reach) {
	if of.All {
		if r.all == nil {
			r.all = map[*group]struct{}{}
		}
		r.all[g] = struct{}{}
		return
	}
	for _, t := range of.Topics {
		if r.byTopic == nil {
			r.byTopic = map[string]map[*group]struct{}{}
		}
		if r.byTopic[t] == nil {
			r.byTopic[t] = map[*group]struct{}{}
		}
		r.byTopic[t][g] = struct{}{}
	}
}

func (r *reach) drop(g *group, of rule.Reach) {
	delete(r.all, g)
	for _, t := range of.Topics {
		if delete(r.byTopic[t], g); len(r.byTopic[t]) == 0 {
			delete(r.byTopic, t)
		}
	}
}

// HintCount is the key for counting equal results of one rule's hints about one event: the label values of
// queueing_hint_execution_duration_seconds.
type HintCount struct {
	Plugin, Event string
	Queue         bool
}

// lookup is the lookup of one change among the waiting pods.
type lookup struct {
	change rule.Change
	blind  bool
	// changed is the UID of the pod that changed, if the change is of a pod. What the change means for that pod
	// itself is evaluated elsewhere.
	changed string
	topics  []string
	number  uint64
	woken   []*Entry
	hints   map[HintCount]int
}

// lookup returns the pods that an occurrence could help, in order of arrival, each once.
func (w *wakeIndex) lookup(o *Occurrence) *lookup {
	w.lookups++
	c := &lookup{change: o.Change, blind: o.Blind, changed: ChangedPod(o.Change), number: w.lookups}
	for _, r := range w.rules {
		if r.profile.Listens(r.key.plugin, o.Change) {
			c.evaluate(r)
		}
	}
	slices.SortFunc(c.woken, BySerial)
	c.woken = slices.Compact(c.woken)
	return c
}

// evaluate evaluates the hints of one rule for the groups within reach of the change.
func (c *lookup) evaluate(r *ruleGroups) {
	within := c.within(r)
	if within == nil {
		for _, g := range r.groups {
			c.hint(g)
		}
		return
	}
	for g := range within.all {
		c.hint(g)
	}
	if len(within.byTopic) == 0 {
		return
	}
	if c.topics == nil {
		c.topics = c.change.Topics()
	}
	for _, t := range c.topics {
		for g := range within.byTopic[t] {
			c.hint(g)
		}
	}
}

// within returns the groups of a rule that changes of this kind can reach; nil for all of them.
func (c *lookup) within(r *ruleGroups) *reach {
	switch {
	case c.blind:
		return nil
	case c.change.Kind == events.KindPod:
		return &r.pods
	case c.change.Kind == events.KindNode:
		return &r.nodes
	case c.change.Kind == events.KindResourceClaim && c.change.Objects != nil && c.change.NewObject != nil:
		return &r.claims
	}
	return nil
}

// hint evaluates the hint for one pod of a group on behalf of all.
func (c *lookup) hint(g *group) {
	if g.lastLookup == c.number {
		return
	}
	g.lastLookup = c.number
	i := slices.IndexFunc(g.members, func(m member) bool { return m.entry.Pod.UID != c.changed })
	if i < 0 {
		return
	}
	key := HintCount{Plugin: g.rule.key.plugin, Event: c.change.Label()}
	key.Queue = c.blind || g.rule.profile.Wakes(g.members[i].entry.Pod, []string{key.Plugin}, c.change)
	if c.hints == nil {
		c.hints = map[HintCount]int{}
	}
	c.hints[key]++
	if key.Queue {
		c.wake(g)
	}
}

// wake adds the pods of a group to those that the change could help, except the changed pod itself.
func (c *lookup) wake(g *group) {
	for _, m := range g.members {
		if m.entry.Pod.UID != c.changed {
			c.woken = append(c.woken, m.entry)
		}
	}
}
