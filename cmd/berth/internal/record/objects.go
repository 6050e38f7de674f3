package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	backoff "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

const (
	// pageSize is the page size of lists: pages of full pods stay below some megabytes.
	pageSize = 1000
	// listTimeout bounds one page.
	listTimeout = 30 * time.Second
	// backoffReset is how long a watch must have lived for the backoff to be reset.
	backoffReset = 10 * time.Second
)

// retry spaces attempts to reach the API server: 0.1 s doubling to 2 s, without end. A recording that gives up would
// miss the outage that it is there to observe.
var retry = backoff.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Cap: 2 * time.Second, Steps: 6}

// errRelist means that the API server no longer has the changes since the last version seen.
var errRelist = errors.New("resourceVersion is no longer available from the API server")

// kind describes how to read objects of one kind, and which of their fields to keep. list and watch are those of the
// typed client.
type kind struct {
	name  recording.Kind
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// strip fills in the kind's field of a record.
	strip func(runtime.Object, *recording.Object)
}

// seen is the newest recorded version of one object.
type seen struct {
	rv   uint64
	hash uint64
}

// source follows the objects of one kind. listed is closed when the first list has been recorded.
type source struct {
	kind   kind
	out    chan<- recording.Record
	logger *slog.Logger
	listed chan struct{}
	// seed is that of the hashes in objects, which are compared within one process only.
	seed maphash.Seed
	// version and started are used by run's goroutine only. version is the resourceVersion from which to watch; empty
	// means that a list is needed.
	version string
	started bool
	mu      struct {
		sync.Mutex
		// objects holds the newest recorded version of every object that exists, by UID.
		objects map[string]seen
		// newest is the resourceVersion up to which everything was recorded.
		newest uint64
	}
}

// newSource returns a source that has recorded nothing.
func newSource(k kind, out chan<- recording.Record, logger *slog.Logger) *source {
	s := &source{kind: k, out: out, logger: logger, listed: make(chan struct{}), seed: maphash.MakeSeed()}
	s.mu.objects = map[string]seen{}
	return s
}

// run lists and watches until ctx ends. Failures are retried with a growing delay, and logged when they begin and end.
func (s *source) run(ctx context.Context) error {
	failing := false
	delay := retry.DelayWithReset(clock.RealClock{}, backoffReset)
	_ = delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) { // ends only with ctx
		err := s.follow(ctx)
		if ctx.Err() != nil {
			return false, nil
		}
		if failed := err != nil && !errors.Is(err, errRelist); failed != failing {
			s.logger.Info("watch state changed", "kind", s.kind.name, "failing", failed, telemetry.KeyError, err)
			failing = failed
		}
		return false, nil
	})
	return nil
}

// follow lists if it must, and watches until the watch breaks. The watch begins at the version of the list or of the
// last event, so nothing is missed between them. API servers end a watch after some minutes; the next one then
// continues at the last event or bookmark.
func (s *source) follow(ctx context.Context) error {
	// A list is needed at the start, and after the API server has forgotten the version from which to go on.
	if s.version == "" {
		items, rv, err := s.listAll(ctx)
		if err != nil {
			return err
		}
		if err := s.applyList(ctx, items, rv); err != nil {
			return err
		}
		s.version = strconv.FormatUint(rv, 10)
		if !s.started {
			s.started = true
			close(s.listed)
		}
	}
	w, err := s.kind.watch(ctx, metav1.ListOptions{ResourceVersion: s.version, AllowWatchBookmarks: true})
	if err != nil {
		return s.relistIfExpired(err)
	}
	defer w.Stop()
	for ev := range w.ResultChan() {
		if err := s.applyEvent(ctx, ev); err != nil {
			return s.relistIfExpired(err)
		}
	}
	return nil
}

// relistIfExpired makes the next attempt list if the API server requires it.
func (s *source) relistIfExpired(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		s.version = ""
		return errRelist
	}
	return err
}

// applyEvent records one event of the watch. A bookmark only advances the version: from there a broken watch can
// continue, although no object of the kind has changed.
func (s *source) applyEvent(ctx context.Context, ev watch.Event) error {
	// The error is a Status object, such as "too old resource version".
	if ev.Type == watch.Error {
		return apierrors.FromObject(ev.Object)
	}
	uid, rv, err := identityOf(ev.Object)
	if err != nil {
		return err
	}
	if ev.Type != watch.Bookmark {
		o := recording.Object{UID: uid, RV: rv, Gone: ev.Type == watch.Deleted}
		if err := s.recordVersion(ctx, ev.Object, o); err != nil {
			return err
		}
	}
	s.version = strconv.FormatUint(rv, 10)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.newest = max(s.mu.newest, rv)
	return nil
}

// recordVersion records one version, unless nothing that the audit uses has changed since the version before: most
// updates of nodes and pods are heartbeats and conditions. Versions are compared by a hash of what would be recorded.
func (s *source) recordVersion(ctx context.Context, obj runtime.Object, o recording.Object) error {
	o.Kind = s.kind.name
	var hash uint64
	if !o.Gone {
		s.kind.strip(obj, &o)
		var err error
		if hash, err = s.hash(o); err != nil {
			return err
		}
	}
	s.mu.Lock()
	// The deletion of an object that was never recorded is left out, too.
	old, known := s.mu.objects[o.UID]
	if o.Gone {
		delete(s.mu.objects, o.UID)
	} else {
		s.mu.objects[o.UID] = seen{rv: o.RV, hash: hash}
	}
	s.mu.Unlock()
	if o.Gone && !known || !o.Gone && known && old.hash == hash {
		return nil
	}
	send(ctx, s.out, recording.Record{Object: &o})
	return nil
}

// hash returns a hash of a version, without what differs between versions of equal content.
func (s *source) hash(o recording.Object) (uint64, error) {
	o.RV = 0
	o.After = 0
	o.Missed = false
	text, err := json.Marshal(o)
	if err != nil {
		return 0, fmt.Errorf("record: %s %s: %w", o.Kind, o.UID, err)
	}
	return maphash.Bytes(s.seed, text), nil
}

// applyList takes a list as the current state. Anything that differs from what was recorded was missed: it happened
// after the newest version recorded before, and at the version in the list at the latest. Objects that are recorded
// and not listed are gone, unless they are newer than the list.
func (s *source) applyList(ctx context.Context, items []runtime.Object, rv uint64) error {
	s.mu.Lock()
	// What the list shows and was not recorded happened after this version.
	after := s.mu.newest
	gone := map[string]struct{}{}
	for uid, o := range s.mu.objects {
		if o.rv <= rv {
			gone[uid] = struct{}{}
		}
	}
	s.mu.Unlock()
	for _, obj := range items {
		uid, itemRV, err := identityOf(obj)
		if err != nil {
			return err
		}
		delete(gone, uid)
		s.mu.Lock()
		old := s.mu.objects[uid]
		s.mu.Unlock()
		if old.rv >= itemRV {
			continue
		}
		if err := s.recordVersion(ctx, obj, recording.Object{UID: uid, RV: itemRV, Missed: true, After: after}); err != nil {
			return err
		}
	}
	// An object that is not in the list was deleted at an unknown version in between.
	for uid := range gone {
		o := recording.Object{UID: uid, RV: rv, Gone: true, Missed: true, After: after}
		if err := s.recordVersion(ctx, nil, o); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.newest = max(s.mu.newest, rv)
	return nil
}

// settle waits until everything that a list shows has been recorded, up to a quarter of settleTimeout and no longer
// than ctx, and then takes the rest from the list, as missed. It returns the list's resourceVersion, up to which this
// kind is then complete.
func (s *source) settle(ctx context.Context) (uint64, error) {
	items, rv, err := s.listAll(ctx)
	if err != nil {
		return 0, err
	}
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	// A watch that is further behind is not awaited: the list has the rest.
	for limit := time.Now().Add(settleTimeout / 4); !s.caughtUp(items, rv) && time.Now().Before(limit); {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
	}
	if s.caughtUp(items, rv) {
		return rv, nil
	}
	return rv, s.applyList(ctx, items, rv)
}

// caughtUp reports whether everything that a list shows has been recorded: every object in it, at least in its
// version, and the deletion of every other one.
func (s *source) caughtUp(items []runtime.Object, rv uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.newest >= rv {
		return true
	}
	listed := map[string]struct{}{}
	for _, obj := range items {
		uid, itemRV, err := identityOf(obj)
		if err != nil || s.mu.objects[uid].rv < itemRV {
			return false
		}
		listed[uid] = struct{}{}
	}
	for uid, o := range s.mu.objects {
		if _, ok := listed[uid]; !ok && o.rv <= rv {
			return false
		}
	}
	return true
}

// current returns the newest resourceVersion of the API server, read from its store.
func (s *source) current(ctx context.Context) (uint64, error) {
	list, err := s.kind.list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return listVersion(list)
}

// listAll lists all objects, as of one resourceVersion.
func (s *source) listAll(ctx context.Context) ([]runtime.Object, uint64, error) {
	var all []runtime.Object
	opts := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := s.page(ctx, opts)
		if err != nil {
			return nil, 0, fmt.Errorf("record: list %ss: %w", s.kind.name, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, 0, fmt.Errorf("record: list %ss: %w", s.kind.name, err)
		}
		all = append(all, items...)
		m, err := meta.ListAccessor(list)
		if err != nil {
			return nil, 0, fmt.Errorf("record: list %ss: %w", s.kind.name, err)
		}
		// All pages are of the version of the first one, which the last one repeats.
		if opts.Continue = m.GetContinue(); opts.Continue == "" {
			rv, err := listVersion(list)
			return all, rv, err
		}
	}
}

// page lists one page, within listTimeout.
func (s *source) page(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return s.kind.list(ctx, opts)
}

// identityOf returns the UID and the resourceVersion of an object or a bookmark. resourceVersions are parsed as
// numbers, as the order of versions is needed (KEP-5504).
func identityOf(obj runtime.Object) (uid string, rv uint64, err error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return "", 0, err
	}
	rv, err = strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	return string(m.GetUID()), rv, err
}

// listVersion returns the resourceVersion of a list.
func listVersion(list runtime.Object) (uint64, error) {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(m.GetResourceVersion(), 10, 64)
}
