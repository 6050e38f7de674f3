package sim

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/berth-scheduler/berth/pkg/events"
	queueintake "github.com/berth-scheduler/berth/services/queue/intake"
)

// The leader's lists and watches, as client-go's reflectors and services/queue/intake make them.

// stepWatch moves one kind's list and watch on.
func (q *queueReplica) stepWatch() error {
	w, r := q.w, q.round
	if r == nil || w.down(&q.proc, toAPI) || len(r.out) > factRoom/2 {
		return nil
	}
	kind := w.api.kinds[w.rng.IntN(len(w.api.kinds))]
	at, listed := r.watched[kind]
	if listed && r.connected[kind] != w.restarts {
		return q.resume(kind, at)
	}
	if listed && w.fault(1, "relist") {
		listed = false
	}
	if !listed {
		return q.list(kind)
	}
	return q.watch(kind, at)
}

// resume continues a watch that has ended with the API server. If the API server is as far as the watch was, it may
// have gone back and forward again, which only a list shows.
func (q *queueReplica) resume(kind events.Kind, at uint64) error {
	if is := q.w.api.rv; is < at {
		q.w.hit("watch not resumed, because Kubernetes went back")
		q.wentBack = fmt.Sprintf("%ss are at resourceVersion %d, and the watch had reached %d", kind, is, at)
		q.round, q.cause = nil, queueintake.CauseRepair
		return nil
	}
	q.w.hit("listed again after the API server was away")
	return q.list(kind)
}

// watch publishes the events that a watch delivers.
func (q *queueReplica) watch(kind events.Kind, at uint64) error {
	w, r := q.w, q.round
	store := r.stores[kind]
	changes, ok := w.api.since(kind, at)
	if !ok {
		w.hit("API watch expired")
		delete(r.watched, kind)
		return nil
	}
	if len(changes) == 0 {
		if w.chance(30) {
			store.UpdateResourceVersion(strconv.FormatUint(w.api.rv, 10))
			r.watched[kind] = w.api.rv
		}
		return nil
	}
	if w.faults.on {
		changes = changes[:1+w.rng.IntN(len(changes))]
	}
	for _, c := range changes {
		if err := applyChange(store, c); err != nil {
			return nil // the round has failed, and reports that
		}
		r.watched[kind] = c.rv
	}
	return nil
}

func applyChange(store queueintake.KindStore, c apiChange) error {
	o := factOf(c.object)
	defer store.UpdateResourceVersion(o.GetResourceVersion())
	switch {
	case c.deleted:
		return store.Delete(o)
	case c.added:
		return store.Add(o)
	}
	return store.Update(o)
}

func (q *queueReplica) list(kind events.Kind) error {
	w, r := q.w, q.round
	rv := w.api.rv
	if err := r.stores[kind].Replace(w.api.list(kind), strconv.FormatUint(rv, 10)); err != nil {
		return nil // the round has failed, and reports that
	}
	r.watched[kind], r.connected[kind] = rv, w.restarts
	return nil
}

// repair ends the round, because of what a store has failed of, if anything. The next one compares the log with
// the cluster.
func (q *queueReplica) repair(failed error) {
	var back *queueintake.WentBackError
	if errors.As(failed, &back) {
		q.w.hit("list with an object of before what was told")
		q.wentBack = back.Error()
	}
	q.round, q.cause = nil, queueintake.CauseRepair
}
