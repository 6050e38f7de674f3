package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
	"github.com/berth-scheduler/berth/pkg/state/reduce"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// These are causes of facts.
const (
	causeWatch    = "watch"
	causeBookmark = "bookmark"
	// CauseList and CauseRepair are causes of a list: after a change of leaders, and after the log has lost something
	// or a round has failed.
	CauseList   = "list"
	CauseRepair = "repair"
)

// errStopped informs the reflector that the round has ended.
var errStopped = errors.New("queue: the watch of this term has ended")

// kindStore is the store of one kind's reflector. It keeps no objects, but turns the reflector's calls into facts. It
// is for the reflector's one goroutine.
//
// A reflector calls it as follows. A streamed list: Transformer for each object as it arrives, then Replace with what
// Transformer has returned. A list in pages: Replace with all objects. A watch: Add, Update or Delete, then
// UpdateResourceVersion; a bookmark calls the latter alone. After an error of the connection, the reflector resumes the
// watch or lists again, and calls Replace again.
//
// The store's state is the future content of the log: facts still wait in the channel and in the writer. If
// they are not stored, the round ends, and the next one begins with a store that is made from the log.
type kindStore struct {
	kind  events.Kind
	cause string
	out   chan<- events.Fact
	// notice, if not nil, is called with every object before strip, which removes from it what facts do not need.
	notice func(object)
	strip  func(metav1.Object)
	logger klog.Logger
	// tooLarge are the UIDs of objects that were logged as too large for the log in this round.
	tooLarge map[string]bool
	// logged is the content of the log, by UID, once everything handed over is stored.
	logged map[string]loggedObject
	// progress is the progress that the log then claims for this kind.
	progress uint64
	// reached is a resourceVersion that the API server had reached before the round.
	reached uint64
	// listed means that the first list of the round is complete. Later lists are of the same round: the watch was
	// interrupted for longer than the API server keeps its history.
	listed bool
	// onListed is called after the closing marker of the first list.
	onListed func() error
	// fail ends the round with an error.
	fail context.CancelCauseFunc
	// olderObject is an object of the current list that is older than in the log, nil for none. A lagging API server
	// cannot produce one, because lists are consistent reads.
	olderObject *WentBackError
	// done ends the round. Once a fact was not handed over, dead is set and nothing more is sent: a later fact would
	// claim progress past the lost one.
	done  <-chan struct{}
	ended bool
}

var (
	_ cache.ReflectorStore         = (*kindStore)(nil)
	_ cache.ResourceVersionUpdater = (*kindStore)(nil)
	_ cache.TransformingStore      = (*kindStore)(nil)
)

// WentBackError reports an API server whose storage was restored from a backup. Without a Name, the server is behind
// what it was. With a Name, it has advanced again since, and a list has an object in an older version than the log
// has.
type WentBackError struct {
	Kind            events.Kind
	Namespace, Name string
	Was, Is         uint64
}

func (e *WentBackError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("queue: %ss are at resourceVersion %d, but were at %d before", e.Kind, e.Is, e.Was)
	}
	return fmt.Sprintf("queue: %s %s/%s is at resourceVersion %d in a list, but %d was already published",
		e.Kind, e.Namespace, e.Name, e.Is, e.Was)
}

// noteOlder records an object of a list that is older than in the log. Of several it records the one whose version in
// the log is the lowest.
func (s *kindStore) noteOlder(o metav1.Object, version uint64) {
	was := s.logged[string(o.GetUID())].version
	if version >= was || s.olderObject != nil && s.olderObject.Was <= was {
		return
	}
	s.olderObject = &WentBackError{Kind: s.kind, Namespace: o.GetNamespace(), Name: o.GetName(), Was: was, Is: version}
}

// versionReached returns the highest resourceVersion that the API server is known to have reached.
func (s *kindStore) versionReached() uint64 { return max(s.progress, s.reached) }

// publishedItem stands for an object of a streamed list that has already been published.
type publishedItem struct{ metav1.ObjectMeta }

// Transformer publishes the objects of a streamed list as they arrive, and keeps of each only what Replace needs to
// find the missing ones: a list of a million pods is never in memory. An object that cannot be published ends the
// round, so that no object is taken for missing.
func (s *kindStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if _, again := obj.(*publishedItem); again {
			return obj, nil
		}
		o, version, err := s.read(obj)
		if err != nil {
			return nil, err
		}
		s.noteOlder(o, version)
		if s.logged[string(o.GetUID())].version != version {
			if err := s.upsert(o, version, s.progress, s.cause); err != nil {
				return nil, err
			}
		}
		return &publishedItem{metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		}}, nil
	}
}

// object is the interface of all watched objects.
type object = state.APIObject

// Add is called for a watch's ADDED event.
func (s *kindStore) Add(obj any) error { return s.observe(obj) }

// Update is called for a watch's MODIFIED event.
func (s *kindStore) Update(obj any) error { return s.observe(obj) }

// observe publishes an object from a watch, unless the log has this version of it: a watch that is resumed may repeat
// its last events.
func (s *kindStore) observe(obj any) error {
	o, version, err := s.read(obj)
	if err != nil {
		return err
	}
	if s.logged[string(o.GetUID())].version == version {
		return nil
	}
	return s.upsert(o, version, max(s.progress, version), causeWatch)
}

// Delete is called for a watch's DELETED event. obj is the last state, at the resourceVersion of the deletion.
func (s *kindStore) Delete(obj any) error {
	o, version, err := s.read(obj)
	if err != nil {
		return err
	}
	uid := string(o.GetUID())
	was, ok := s.logged[uid]
	if !ok {
		return nil
	}
	return s.remove(uid, was, version, max(s.progress, version), causeWatch)
}

// Replace is called with a whole list: of the first list of a round, and of every later one. The steps:
//
//  1. A list at a resourceVersion that the API server had passed before, or with an object that is older than in the
//     log, ends the round: Kubernetes was restored from a backup.
//  2. Objects that the list no longer has are deleted in the log.
//  3. Objects that are new or have changed are published.
//  4. A marker raises the progress to that of the list, now that everything up to there precedes it in the log.
func (s *kindStore) Replace(list []any, resourceVersion string) error {
	listVersion, err := s.version(resourceVersion)
	if err != nil {
		return err
	}
	if been := s.versionReached(); listVersion < been {
		return s.broken(&WentBackError{Kind: s.kind, Was: been, Is: listVersion})
	}
	items, err := s.readAll(list)
	if err != nil {
		return err
	}
	older := s.olderObject
	if s.olderObject = nil; older != nil {
		return s.broken(older)
	}
	if err := s.removeMissing(items, listVersion); err != nil {
		return err
	}
	// Facts follow the order of the objects' last change, which for pending pods is nearly that of creation.
	order := slices.SortedFunc(maps.Keys(items), func(a, b string) int {
		return cmp.Or(cmp.Compare(items[a].version, items[b].version), cmp.Compare(a, b))
	})
	for _, uid := range order {
		item := items[uid]
		if s.logged[uid].version == item.version {
			continue
		}
		if err := s.upsert(item.object, item.version, s.progress, s.cause); err != nil {
			return err
		}
	}
	if err := s.mark(listVersion, s.cause); err != nil {
		return err
	}
	return s.endFirst()
}

// endFirst ends the first list of the round, if it has not ended.
func (s *kindStore) endFirst() error {
	if s.listed {
		return nil
	}
	s.listed = true
	return s.onListed()
}

// withdraw deletes in the log every object of a kind that the API server does not serve, and ends the first list, if it
// has not ended. No reflector may run. The objects may still be in the server's storage: a list that has them publishes
// them again.
func (s *kindStore) withdraw() error {
	s.olderObject = nil // of a list that was interrupted
	for _, uid := range slices.Sorted(maps.Keys(s.logged)) {
		was := s.logged[uid]
		if err := s.remove(uid, was, max(was.version, s.versionReached()), s.progress, s.cause); err != nil {
			return err
		}
	}
	return s.endFirst()
}

// removeMissing publishes a deletion for every known object that a list does not have.
func (s *kindStore) removeMissing(items map[string]item, listVersion uint64) error {
	for _, uid := range slices.Sorted(maps.Keys(s.logged)) {
		if _, ok := items[uid]; ok {
			continue
		}
		if err := s.remove(uid, s.logged[uid], listVersion, s.progress, s.cause); err != nil {
			return err
		}
	}
	return nil
}

// Resync is never called, because the reflector's resync period is 0.
func (s *kindStore) Resync() error { return nil }

// UpdateResourceVersion is called after every event, bookmarks included. Bookmarks keep the progress of a kind current
// that rarely changes. Only a bookmark advances the version past
// that of the events.
func (s *kindStore) UpdateResourceVersion(resourceVersion string) {
	version, err := s.version(resourceVersion)
	if err != nil || version <= s.progress {
		return
	}
	// The interface returns no error; if there is one, send has ended the round.
	_ = s.mark(version, causeBookmark)
}

// item is one object of a list. One that was published while the list was streamed has no object.
type item struct {
	object  object
	version uint64
}

// readAll returns the items of a list by UID. It fails with the first object that cannot become a fact.
func (s *kindStore) readAll(list []any) (map[string]item, error) {
	items := make(map[string]item, len(list))
	for _, obj := range list {
		if t, ok := obj.(*publishedItem); ok {
			uid := string(t.UID)
			items[uid] = item{version: s.logged[uid].version}
			continue
		}
		o, version, err := s.read(obj)
		if err != nil {
			return nil, err
		}
		s.noteOlder(o, version)
		items[string(o.GetUID())] = item{o, version}
	}
	return items, nil
}

// upsert publishes an object at its version. progress is the claim of the fact: within a list the progress from before
// it, from a watch the object's own version. The object is changed: fields that facts do not need are removed, and one
// that is too large for the log is reduced.
func (s *kindStore) upsert(o object, version, progress uint64, cause string) error {
	if node, is := o.(*corev1.Node); is {
		nodemark.Disown(node)
	}
	s.strip(o)
	data, err := o.Marshal()
	if err != nil {
		return s.broken(fmt.Errorf("queue: %s %s/%s: encode: %w", s.kind, o.GetNamespace(), o.GetName(), err))
	}
	uid := string(o.GetUID())
	if len(data) > eventlog.MaxObject {
		var kept bool
		if data, kept = s.reduce(o, len(data)); !kept {
			return s.leaveOut(uid, version, progress, cause)
		}
	}
	err = s.send(events.Fact{
		Kind: s.kind, Op: events.OpUpsert, UID: uid, Namespace: o.GetNamespace(), Name: o.GetName(),
		ResourceVersion: version, Progress: progress, Cause: cause, Object: data,
	})
	if err == nil {
		s.logged[uid] = loggedObject{version, o.GetNamespace(), o.GetName()}
	}
	return err
}

// reduce shrinks an object that is too large for the log to what readers need to stay safe. It reports false if the
// result is too large as well.
func (s *kindStore) reduce(o object, size int) (data []byte, kept bool) {
	kept = reduce.Reduce(o, size, eventlog.MaxObject)
	if kept {
		var err error
		data, err = o.Marshal()
		kept = err == nil
	}
	result := telemetry.ObjectReduced
	if !kept {
		result = telemetry.ObjectLeftOut
	}
	telemetry.ObjectTooLarge(s.kind, result)
	if uid := string(o.GetUID()); !s.tooLarge[uid] {
		if s.tooLarge == nil {
			s.tooLarge = map[string]bool{}
		}
		s.tooLarge[uid] = true
		s.logger.Error(nil, "object too large for the log", "kind", s.kind, "namespace", o.GetNamespace(),
			"name", o.GetName(), "bytes", size, "limit", eventlog.MaxObject, "result", result)
	}
	return data, kept
}

// leaveOut makes readers forget an object, or never see it. The progress is raised all the same: waiting for an object
// that cannot be published would stop the whole kind.
func (s *kindStore) leaveOut(uid string, version, progress uint64, cause string) error {
	if was, ok := s.logged[uid]; ok {
		return s.remove(uid, was, version, progress, cause)
	}
	if progress > s.progress {
		return s.mark(progress, cause)
	}
	return nil
}

// remove publishes the deletion of an object. version is that of the deletion or, if a list no longer has the object,
// that of the list.
func (s *kindStore) remove(uid string, was loggedObject, version, progress uint64, cause string) error {
	err := s.send(events.Fact{
		Kind: s.kind, Op: events.OpDelete, UID: uid, Namespace: was.namespace, Name: was.name,
		ResourceVersion: version, Progress: progress, Cause: cause,
	})
	if err == nil {
		delete(s.logged, uid)
	}
	return err
}

// mark publishes a fact without an object, which only raises the progress.
func (s *kindStore) mark(version uint64, cause string) error {
	return s.send(events.Fact{Kind: s.kind, Op: events.OpProgress, Progress: version, Cause: cause})
}

// send hands over a fact of this kind. The store's progress follows the facts that were handed over, never the objects
// that were read.
func (s *kindStore) send(f events.Fact) error {
	err := s.sendMarker(f)
	if err == nil {
		s.progress = f.Progress
	}
	return err
}

// sendMarker hands over any fact, waiting as long as necessary: a full channel is backpressure.
func (s *kindStore) sendMarker(f events.Fact) error {
	if s.ended {
		return errStopped
	}
	select {
	case s.out <- f:
		return nil
	case <-s.done:
		s.ended = true
		return errStopped
	}
}

// read checks that obj can be published: it has a UID and a version.
func (s *kindStore) read(obj any) (object, uint64, error) {
	o, ok := obj.(object)
	if !ok {
		return nil, 0, s.broken(fmt.Errorf("queue: %s: the watch delivered a %T", s.kind, obj))
	}
	version, err := s.version(o.GetResourceVersion())
	if err == nil && o.GetUID() == "" {
		err = s.broken(fmt.Errorf("queue: %s %s/%s: no metadata.uid", s.kind, o.GetNamespace(), o.GetName()))
	}
	if s.notice != nil {
		s.notice(o)
	}
	return o, version, err
}

// version parses a resourceVersion. Facts are ordered by it, so one that is not a decimal number ends the round.
func (s *kindStore) version(text string) (uint64, error) {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, s.broken(fmt.Errorf("queue: %s: resourceVersion is %q, want a decimal number", s.kind, text))
	}
	return version, nil
}

// broken ends the round: the reflector would log the error and continue, and the next bookmark would claim progress
// past an object that was never published.
func (s *kindStore) broken(err error) error {
	s.ended = true
	s.fail(err)
	return err
}
