package sim

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Kubernetes' own storage is restored from a backup: objects and resourceVersions go back. The queue that leads
// finds that out when it goes on with its watches, or begins a round (watch.go, generation.go).

// kubernetes is what becomes of the API server as a whole.
type kubernetes struct {
	kept *keptAPI
	// lives is how often the API server has been started again: connections end with each life.
	lives    int
	restores int
	// wentBack: it was restored, and no generation has been opened on that account. unseen: nor begun.
	wentBack, unseen bool
}

// keptAPI is a backup.
type keptAPI struct {
	api  apiServer
	away []awayNode
}

// othersWrite is by how much resourceVersions rise on account of those who write things that nobody here reads:
// between a backup and what follows, so that a restored API server is not as far as before by the time that
// somebody looks; and once more after that, so that resourceVersions come again, for something else.
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

// apiAway says whether the API server is being started again.
func (w *world) apiAway() bool { return w.now < w.faults.apiAway }

// restartAPI has the API server go away for a moment, and come back with what it had, or with a backup of that.
func (w *world) restartAPI() error {
	if w.cluster.family != anew || w.apiAway() {
		return nil
	}
	underWay := func(c *call) bool { return c.to == toAPI && !c.done }
	if !slices.ContainsFunc(w.calls, underWay) && w.chance(70) {
		return nil // rather while something is under way to it
	}
	w.faults.apiAway = w.now + time.Duration(500+w.rng.IntN(4000))*time.Millisecond
	w.lives++
	w.breakConnections()
	if w.doubtful || w.restores > 0 || !w.toldSince(w.kept) || w.chance(25) {
		w.tracef("the API server is restarted")
		return nil
	}
	w.hit("Kubernetes restored from a backup")
	w.tracef("Kubernetes is restored from a backup of %d: it was at %d", w.kept.api.rv, w.api.rv)
	w.doubtful, w.wentBack, w.unseen, w.restores = true, true, true, w.restores+1
	w.goBack(w.kept)
	w.oracle.goBack()
	return nil
}

// toldSince says whether facts tell of what came after a backup. Else nobody has acted on what it lacks, and
// nobody could see that it is lost.
func (w *world) toldSince(b *keptAPI) bool {
	return b != nil && slices.ContainsFunc(w.queues, func(q *queueReplica) bool {
		rv, known := q.facts.Snapshot().Position().Progress(events.KindPod)
		return known && rv > b.api.rv
	})
}

// breakConnections loses what is under way to the API server, and its answers.
func (w *world) breakConnections() {
	w.calls = slices.DeleteFunc(w.calls, func(c *call) bool { return c.to == toAPI && (c.late || !c.alive()) })
	for _, c := range w.calls {
		if c.to == toAPI {
			c.fail()
		}
	}
}

// fail has the caller hear that there is no answer.
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
	for _, n := range a.nodes() {
		if n.Name == name {
			return true
		}
	}
	return false
}

// goBack forgets what is not so any more, because Kubernetes went back.
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

// opened is when members may rely on the ledger again. What was bound in the time of doubt stays, also by the
// names of nodes that are away.
func (w *world) opened() {
	if w.unseen {
		return // it was begun for something else
	}
	if w.wentBack {
		for _, a := range w.cluster.away {
			w.oracle.excess[a.node.Name] = w.oracle.taken(a.node.Name)
		}
		w.api.rv += othersWrite
		if w.faults.on {
			w.lagFacts(50)
		}
	}
	w.doubtful, w.wentBack = false, false
}

func restoreMutants() []Mutant {
	return []Mutant{{
		Name: "facts-before-restore", expected: expected{rare: true, family: anew},
		Missing:  "after Kubernetes was restored the next generation lets members act on the facts of before",
		switches: switches{factsBefore: true},
	}}
}
