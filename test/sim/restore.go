package sim

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// Kubernetes' own storage is restored from a backup: objects and resourceVersions go back. The leading queue finds
// that out when it resumes its watches or begins a round (watch.go, generation.go).

// kubernetes is the state of the API server's storage as a whole.
type kubernetes struct {
	// goesBack: Kubernetes is restored in this run, before the loss of the ledger's store, if that happens.
	goesBack bool
	kept     *keptAPI
	// restarts is how often the API server has been started again: connections end with each life.
	restarts int
	restores int
	// begun is when a generation was opened on account of that.
	begun time.Duration
	// wentBack: it was restored, and no generation has been opened on that account. unseen: nor begun.
	wentBack, unseen bool
}

// keptAPI is a backup.
type keptAPI struct {
	api  apiServer
	away []awayNode
}

// othersWrite is the rise of resourceVersions through writes to kinds that Berth does not read: between a backup and
// the restore, so that a restored API server is behind even when a member looks at it later; and once more after the
// restore, so that resourceVersions are used again for other changes.
const othersWrite = 1000

// keepAPI makes a backup.
func (w *world) keepAPI() {
	if w.apiAway() || w.wentBack {
		return
	}
	w.kept = &keptAPI{w.api.clone(), slices.Clone(w.cluster.away)}
	w.api.rv += othersWrite
}

// clone is a copy of all that is stored. Objects are never changed in place.
func (a *apiServer) clone() apiServer {
	c := *a
	c.objects = map[events.Kind]map[string]metav1.Object{}
	for kind, objects := range a.objects {
		c.objects[kind] = maps.Clone(objects)
	}
	c.history, c.deletedAt = slices.Clone(a.history), maps.Clone(a.deletedAt)
	return c
}

// apiAway reports whether the API server is being started again.
func (w *world) apiAway() bool { return w.now < w.faults.apiAway }

// restartAPI makes the API server unavailable for a moment; it comes back with its content, or with a backup of it.
func (w *world) restartAPI() {
	restores := w.goesBack && !w.doubtful && w.restores == 0 && w.publishedSince(w.kept)
	if w.apiAway() || !restores && w.chance(95) {
		return
	}
	underWay := func(c *call) bool { return c.to == toAPI && !c.done }
	if !slices.ContainsFunc(w.calls, underWay) && w.chance(70) {
		return // rather while something is under way to it
	}
	if restores && !w.losesBinds(w.kept) && w.chance(90) {
		return // rather one that pods are waiting in which are bound by now
	}
	w.faults.apiAway = w.now + time.Duration(500+w.rng.IntN(4000))*time.Millisecond
	w.restarts++
	w.breakConnections()
	if !restores {
		w.tracef("the API server is restarted")
		return
	}
	w.hit("Kubernetes restored from a backup")
	w.tracef("Kubernetes is restored from a backup of %d: it was at %d", w.kept.api.rv, w.api.rv)
	w.doubtful, w.wentBack, w.unseen, w.restores = true, true, true, w.restores+1
	w.goBack(w.kept)
	w.oracle.goBack()
}

// publishedSince reports whether a queue has read the whole log of facts, and found resourceVersions later than a
// backup in it. Otherwise no queue could notice that Kubernetes was restored.
func (w *world) publishedSince(b *keptAPI) bool {
	last, err := w.log.Last(w.ctx, eventlog.Facts)
	return err == nil && b != nil && slices.ContainsFunc(w.queues, func(q *queueReplica) bool {
		seen := q.facts.Seen()
		read := q.up && q.facts.Snapshot().Position().Sequence == last && seen.Epoch > w.generation().FactsAfter
		return read && seen.Versions[events.KindPod] > b.api.rv
	})
}

// losesBinds: pods that wait in a backup are bound by now.
func (w *world) losesBinds(b *keptAPI) bool {
	return slices.ContainsFunc(b.api.pods(), func(p *corev1.Pod) bool {
		now, ok := w.api.pod(string(p.UID))
		return p.Spec.NodeName == "" && ok && now.Spec.NodeName != ""
	})
}

// breakConnections loses the calls under way to the API server, and its answers.
func (w *world) breakConnections() {
	w.calls = slices.DeleteFunc(w.calls, func(c *call) bool { return c.to == toAPI && (c.late || !c.alive()) })
	for _, c := range w.calls {
		if c.to == toAPI {
			c.fail()
		}
	}
}

// fail ends the call for the caller, without an answer.
func (c *call) fail() { c.done, c.result, c.err = true, nil, errUnknown }

// goBack makes Kubernetes what a backup has. The kubelets of nodes that it does not know register them again.
func (w *world) goBack(b *keptAPI) {
	c, before := &w.cluster, w.cluster.away
	for _, n := range w.api.nodes() {
		before = append(before, awayNode{n, w.now})
	}
	*w.api, c.away = b.api.clone(), slices.Clone(b.away)
	for _, a := range before {
		same := func(o awayNode) bool { return o.node.Name == a.node.Name }
		if !slices.ContainsFunc(c.away, same) && !w.api.hasNode(a.node.Name) {
			c.away = append(c.away, a)
		}
	}
	maps.DeleteFunc(c.registered, func(uid types.UID, _ uint64) bool {
		_, there := w.api.node(string(uid))
		return !there
	})
}

func (a *apiServer) hasNode(name string) bool {
	return slices.ContainsFunc(a.nodes(), func(n *corev1.Node) bool { return n.Name == name })
}

// goBack forgets records that are no longer true, because Kubernetes went back.
func (o *oracle) goBack() {
	maps.DeleteFunc(o.boundAt, func(uid string, _ uint64) bool {
		p, there := o.w.api.pod(uid)
		return !there || p.Spec.NodeName == ""
	})
	for member := range o.closed {
		o.closed[member] = map[string]uint64{}
	}
	o.gone, o.seenRV = nil, 0
	clear(o.since)
	clear(o.committedAt)
	clear(o.markedAt)
	clear(o.places)
}

// timeFactor is by how much time passes faster: while a generation stays closed because Kubernetes went back, little
// happens that matters, and much is to happen once it is open.
func (w *world) timeFactor() time.Duration {
	if w.wentBack && !w.unseen {
		return 5
	}
	return 1
}

// restoreUnobserved reports whether Kubernetes was restored and some process may not have observed its new state yet.
func (w *world) restoreUnobserved() bool {
	return w.wentBack || w.begun > 0 && w.now < w.begun+faultsAfterRestore
}

// faultsAfterRestore is how long things go wrong, at least, after a generation was opened because Kubernetes went back.
const faultsAfterRestore = 25 * time.Second

// opened is when members may rely on the ledger again. What was bound in the time of doubt stays, also by the
// names of nodes that are away.
func (w *world) opened() {
	if w.wentBack {
		for _, a := range w.cluster.away {
			w.oracle.excess[a.node.Name] = w.oracle.taken(a.node.Name)
		}
		w.api.rv, w.begun = w.api.rv+othersWrite, w.now
		if w.faults.on {
			w.behind()
		}
	}
	w.doubtful, w.wentBack, w.unseen = false, false, false
}

// behind leaves most binders, and some shards, with the old facts for longer than it takes to publish and use new
// ones.
func (w *world) behind() {
	w.lagFacts(20)
	for _, b := range w.binders {
		if w.chance(70) {
			b.cut[toLog] = w.now + time.Duration(10_000+w.rng.IntN(15_000))*time.Millisecond
		}
	}
}

func restoreMutants() []Mutant {
	return []Mutant{{
		Name: "facts-before-restore", expected: expected{rare: true, family: storeReplaced},
		Missing:  "after Kubernetes was restored the next generation lets members act on the facts of before",
		switches: switches{factsBefore: true},
	}, {
		Name: "usable-facts", expected: expected{rare: true, family: storeReplaced},
		Missing:  "the queue does not compare the API server with facts behind an undecodable one, or of an open epoch",
		switches: switches{usableFacts: true},
	}}
}
