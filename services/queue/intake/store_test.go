package intake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// factCapacity is the capacity of a test's channel of facts; more than any test makes.
const factCapacity = 10_000

func newStore(
	base map[string]loggedObject, fail context.CancelCauseFunc, done <-chan struct{},
) (*kindStore, chan events.Fact) {
	out := make(chan events.Fact, factCapacity)
	return &kindStore{
		kind: events.KindPod, cause: CauseList, out: out, logged: base, fail: fail, done: done,
		onListed: func() error { return nil }, strip: strip.Strip,
	}, out
}

func version(o metav1.Object, v uint64) { o.SetResourceVersion(strconv.FormatUint(v, 10)) }

func podAt(name string, v uint64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	version(p, v)
	return p
}

// factLines returns the facts, one per line: operation, object, version and claimed progress.
func factLines(out chan events.Fact) []string {
	var lines []string
	for len(out) > 0 {
		f := <-out
		lines = append(lines, fmt.Sprintf("%s %s rv=%d progress=%d %s", f.Op, f.Name, f.ResourceVersion, f.Progress, f.Cause))
	}
	return lines
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A restored API server is detected by a list that is behind the version at which the round began; or, if it has
// advanced further since, by an object that is older in a list than it was before.
func TestAListThatWentBackEndsTheRound(t *testing.T) {
	for name, c := range map[string]struct {
		reached, moved uint64
		list           string
		ends           bool
	}{
		"an object went back":                  {40, 11, "50", true},
		"the list went back with it":           {0, 11, "11", true},
		"the list is not as far as it was":     {40, 12, "39", true},
		"the list is as far as it was":         {40, 12, "40", false},
		"the list is further, with the object": {40, 41, "50", false},
	} {
		ctx, fail := context.WithCancelCause(t.Context())
		s, _ := newStore(map[string]loggedObject{"same": {10, "ns", "same"}, "moved": {12, "ns", "moved"}}, fail, nil)
		s.reached = c.reached
		err := s.Replace([]any{podAt("same", 10), podAt("moved", c.moved)}, c.list)
		var back *WentBackError
		if errors.As(err, &back) != c.ends || errors.As(context.Cause(ctx), &back) != c.ends {
			t.Errorf("%s: %v, the round ends with %v; want it to end: %t", name, err, context.Cause(ctx), c.ends)
		}
		fail(nil)
	}
}

func TestAListIsComparedAndClaimsProgressAtItsEnd(t *testing.T) {
	_, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	s, out := newStore(map[string]loggedObject{
		"same": {10, "ns", "same"}, "moved": {11, "ns", "moved"}, "gone": {12, "ns", "gone"},
	}, fail, nil)
	must(t, s.Replace([]any{podAt("new", 40), podAt("moved", 30), podAt("same", 10)}, "50"))
	want := []string{
		"delete gone rv=50 progress=0 list",
		"upsert moved rv=30 progress=0 list",
		"upsert new rv=40 progress=0 list",
		"progress  rv=0 progress=50 list",
	}
	if diff := gocmp.Diff(want, factLines(out)); diff != "" {
		t.Fatal(diff)
	}
	// The watch, then another list: only what changed in between, at the old progress.
	must(t, s.Add(podAt("watched", 60)))
	s.UpdateResourceVersion("60")
	must(t, s.Update(podAt("same", 61)))
	s.UpdateResourceVersion("61")
	must(t, s.Delete(podAt("new", 62)))
	s.UpdateResourceVersion("62")
	s.UpdateResourceVersion("70")
	must(t, s.Replace([]any{podAt("moved", 30), podAt("same", 80), podAt("watched", 60)}, "90"))
	want = []string{
		"upsert watched rv=60 progress=60 watch",
		"upsert same rv=61 progress=61 watch",
		"delete new rv=62 progress=62 watch",
		"progress  rv=0 progress=70 bookmark",
		"upsert same rv=80 progress=70 list",
		"progress  rv=0 progress=90 list",
	}
	if diff := gocmp.Diff(want, factLines(out)); diff != "" {
		t.Fatal(diff)
	}
}

// TestAStreamedListIsPublishedAsItComes checks that it is published as it arrives, and only once although the stream
// breaks and begins again.
func TestAStreamedListIsPublishedAsItComes(t *testing.T) {
	ctx, fail := context.WithCancelCause(t.Context())
	s, out := newStore(map[string]loggedObject{"same": {10, "ns", "same"}, "gone": {12, "ns", "gone"}}, fail, ctx.Done())
	stream := func(pods ...*corev1.Pod) []any {
		var list []any
		for _, p := range pods {
			short, err := s.Transformer()(p)
			must(t, err)
			list = append(list, short)
		}
		return list
	}
	stream(podAt("new", 40), podAt("brief", 41))
	want := []string{"upsert new rv=40 progress=0 list", "upsert brief rv=41 progress=0 list"}
	if diff := gocmp.Diff(want, factLines(out)); diff != "" {
		t.Fatal(diff)
	}
	must(t, s.Replace(stream(podAt("new", 45), podAt("same", 10)), "50"))
	want = []string{
		"upsert new rv=45 progress=0 list",
		"delete brief rv=50 progress=0 list",
		"delete gone rv=50 progress=0 list",
		"progress  rv=0 progress=50 list",
	}
	if diff := gocmp.Diff(want, factLines(out)); diff != "" {
		t.Fatal(diff)
	}
	// An object that cannot be published must not be taken for missing later.
	if _, err := s.Transformer()(&corev1.Pod{}); err == nil || ctx.Err() == nil {
		t.Fatalf("a nameless pod passes: %v", err)
	}
	if err := s.Replace(nil, "60"); err == nil || len(factLines(out)) > 0 {
		t.Fatalf("a broken list goes on: %v", err)
	}
}

func TestWhatCannotBePublishedEndsTheRound(t *testing.T) {
	for name, feed := range map[string]func(s *kindStore) error{
		"no resourceVersion": func(s *kindStore) error {
			return s.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}})
		},
		"no uid": func(s *kindStore) error {
			p := podAt("", 7)
			return s.Add(p)
		},
		"not an object": func(s *kindStore) error { return s.Add("text") },
		"a list from the past": func(s *kindStore) error {
			must(t, s.Replace(nil, "50"))
			return s.Replace(nil, "49")
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, fail := context.WithCancelCause(t.Context())
			s, out := newStore(map[string]loggedObject{}, fail, ctx.Done())
			if err := feed(s); err == nil || context.Cause(ctx) == nil {
				t.Fatalf("error %v, cause %v", err, context.Cause(ctx))
			}
			factLines(out)
			s.UpdateResourceVersion("100")
			if lines := factLines(out); len(lines) > 0 {
				t.Fatalf("after the end it said %q", lines)
			}
		})
	}
}

func TestAFactThatWasNotHandedOverIsTheLast(t *testing.T) {
	ctx, fail := context.WithCancelCause(t.Context())
	s, _ := newStore(map[string]loggedObject{}, fail, ctx.Done())
	out := make(chan events.Fact, 1)
	s.out = out
	must(t, s.Add(podAt("a", 10)))
	fail(nil)
	if err := s.Add(podAt("b", 11)); err == nil {
		t.Fatal("a full channel took a fact")
	}
	<-out // there is room again
	s.UpdateResourceVersion("11")
	if err := s.Add(podAt("c", 12)); err == nil || len(out) > 0 {
		t.Fatalf("after a lost fact the store went on: %v", err)
	}
}

// cluster is a simple history of pods: the pods at each resourceVersion.
type cluster struct {
	now     uint64
	history map[uint64]map[string]uint64
}

func (c *cluster) change(name string, gone bool) {
	next := maps.Clone(c.history[c.now])
	c.now++
	if gone {
		delete(next, name)
	} else {
		next[name] = c.now
	}
	c.history[c.now] = next
}

// list returns the result of a list now.
func (c *cluster) list() (items []any, resourceVersion string) {
	for _, name := range slices.Sorted(maps.Keys(c.history[c.now])) {
		items = append(items, podAt(name, c.history[c.now][name]))
	}
	return items, strconv.FormatUint(c.now, 10)
}

// TestProgressNeverClaimsWhatIsNotThere checks that, whatever the reflector does, a reader that has applied a fact
// with progress P sees every change up to P, wherever it stops reading.
func TestProgressNeverClaimsWhatIsNotThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		c := &cluster{now: 1, history: map[uint64]map[string]uint64{1: {}}}
		for range rapid.IntRange(0, 8).Draw(t, "before") {
			name := names.Draw(t, "name")
			_, exists := c.history[c.now][name]
			c.change(name, exists && rapid.Bool().Draw(t, "gone"))
		}
		// The log has the pods as of some time.
		replayed, base := map[string]uint64{}, map[string]loggedObject{}
		for name, v := range c.history[rapid.Uint64Range(1, c.now).Draw(t, "log at")] {
			base[name], replayed[name] = loggedObject{v, "ns", name}, v
		}
		s, out := newStore(base, func(error) { t.Fatal("the round ended") }, nil)
		drive(t, c, s, names)
		for len(out) > 0 {
			replay(t, c, replayed, <-out)
		}
		if want := c.history[s.progress]; !maps.Equal(replayed, want) {
			t.Fatalf("at the end %v, want %v", replayed, want)
		}
	})
}

// drive feeds the store like a reflector: a list, then watch events in order, occasionally a bookmark, or a list
// again after changes that the watch has not delivered.
func drive(t *rapid.T, c *cluster, s *kindStore, names *rapid.Generator[string]) {
	items, at := c.list()
	ok(t, s.Replace(items, at))
	for range rapid.IntRange(0, 20).Draw(t, "steps") {
		name := names.Draw(t, "name")
		_, exists := c.history[c.now][name]
		gone := exists && rapid.Bool().Draw(t, "gone")
		switch step := rapid.IntRange(0, 5).Draw(t, "step"); {
		case step == 0:
			for range rapid.IntRange(0, 3).Draw(t, "missed") {
				c.change(names.Draw(t, "missed name"), false)
			}
			items, at := c.list()
			ok(t, s.Replace(items, at))
		case step == 1:
			s.UpdateResourceVersion(strconv.FormatUint(c.now, 10))
		case gone:
			c.change(name, true)
			ok(t, s.Delete(podAt(name, c.now)))
			s.UpdateResourceVersion(strconv.FormatUint(c.now, 10))
		default:
			c.change(name, false)
			if exists {
				ok(t, s.Update(podAt(name, c.now)))
			} else {
				ok(t, s.Add(podAt(name, c.now)))
			}
			s.UpdateResourceVersion(strconv.FormatUint(c.now, 10))
		}
	}
}

func ok(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// replay applies one fact and compares the state with the claim.
func replay(t *rapid.T, c *cluster, replayed map[string]uint64, f events.Fact) {
	switch f.Op {
	case events.OpUpsert:
		replayed[f.UID] = f.ResourceVersion
	case events.OpDelete:
		delete(replayed, f.UID)
	}
	truth := c.history[f.Progress]
	for name, v := range truth {
		got, exists := replayed[name]
		if exists && got >= v {
			continue
		}
		if _, later := c.history[c.now][name]; exists || later && !deletedAfter(c, name, f.Progress) {
			t.Fatalf("after %s %s: progress %d, but %s is at %d, it was at %d", f.Op, f.Name, f.Progress, name, got, v)
		}
	}
	for name, v := range replayed {
		if _, there := truth[name]; !there && f.Progress > 0 && v <= f.Progress {
			t.Fatalf("after %s %s: progress %d, but %s still shows", f.Op, f.Name, f.Progress, name)
		}
	}
}

// deletedAfter reports whether the pod was absent at some time after a resourceVersion.
func deletedAfter(c *cluster, name string, after uint64) bool {
	for v := after; v <= c.now; v++ {
		if _, there := c.history[v][name]; !there {
			return true
		}
	}
	return false
}

// An object that is too large for the log is published as what readers need to stay safe; if that is too large as
// well, it is published as deleted. Later facts are published as usual, and the object is published whole when it is
// smaller.
func TestObjectsThatAreTooLarge(t *testing.T) {
	_, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	long := strings.Repeat("x", eventlog.MaxObject)
	large := func(v uint64) *corev1.Pod {
		p := podAt("large", v)
		p.Spec.NodeName, p.Spec.Tolerations = "n1", []corev1.Toleration{{Key: long}}
		return p
	}
	s, out := newStore(map[string]loggedObject{}, fail, nil)
	must(t, s.Replace([]any{large(5), podAt("small", 6)}, "10"))
	must(t, s.Update(large(11)))
	must(t, s.Update(podAt("large", 12)))
	must(t, s.Delete(podAt("large", 13)))
	var gated []bool
	for len(out) > 0 {
		f := <-out
		if m := events.EncodeFact(f); events.CheckAppend(eventlog.Facts, []eventlog.Message{m}) != nil {
			t.Errorf("%s %s has %d bytes", f.Op, f.Name, m.Size())
		}
		if f.Name == "large" && f.Op == events.OpUpsert {
			var p corev1.Pod
			must(t, p.Unmarshal(f.Object))
			gated = append(gated, len(p.Spec.SchedulingGates) > 0 && p.Spec.NodeName == "n1")
		}
	}
	if !slices.Equal(gated, []bool{true, true, false}) {
		t.Errorf("reduced to what counts on its node: %v, want the first two versions", gated)
	}

}

// The same for a node that is too large, and for a volume.
func TestOtherObjectsThatAreTooLarge(t *testing.T) {
	_, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	long := strings.Repeat("x", eventlog.MaxObject)
	s, out := newStore(map[string]loggedObject{}, fail, nil)
	s.kind = events.KindNode
	node := func(v uint64, label string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: map[string]string{"l": label}}}
		version(n, v)
		return n
	}
	must(t, s.Replace([]any{node(5, long)}, "10"))
	must(t, s.Update(node(11, "short")))
	must(t, s.Delete(node(12, long)))
	want := []string{
		"upsert n rv=5 progress=0 list",
		"progress  rv=0 progress=10 list",
		"upsert n rv=11 progress=11 watch",
		"delete n rv=12 progress=12 watch",
	}
	if diff := gocmp.Diff(want, factLines(out)); diff != "" {
		t.Error(diff)
	}

	volume := func(v uint64, label string) *corev1.PersistentVolume {
		o := &corev1.PersistentVolume{}
		o.Name, o.UID, o.Labels = "v", "v", map[string]string{"l": label}
		version(o, v)
		return o
	}
	s, out = newStore(map[string]loggedObject{}, fail, nil)
	s.kind = events.KindPersistentVolume
	must(t, s.Replace([]any{volume(5, long)}, "10"))
	must(t, s.Update(volume(11, long)))
	must(t, s.Update(volume(12, "short")))
	must(t, s.Update(volume(13, long)))
	must(t, s.Delete(volume(14, long)))
	want = []string{
		"progress  rv=0 progress=10 list",
		"progress  rv=0 progress=11 watch",
		"upsert v rv=12 progress=12 watch",
		"delete v rv=13 progress=13 watch",
	}
	if diff := gocmp.Diff(want, factLines(out)); diff != "" {
		t.Error(diff)
	}
}

// TestReducedObjectsArePublishedAgain checks that an object that an earlier version of the queue has reduced is
// published as this version reduces it, in the first list of its round, and that a store applies it although the
// object's version is the same.
func TestReducedObjectsArePublishedAgain(t *testing.T) {
	_, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	before := podAt("large", 5)
	before.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: events.TooLargeGate}}
	data, err := before.Marshal()
	must(t, err)
	facts := []events.SequencedFact{{Sequence: 1, Fact: events.Fact{
		Kind: events.KindPod, Op: events.OpUpsert, UID: "large", Namespace: "ns", Name: "large", ResourceVersion: 5,
		Object: data,
	}}}
	store := state.New()
	if _, err := store.Apply(facts); err != nil {
		t.Fatal(err)
	}
	s, out := newStore(loggedObjects(store.Snapshot(), events.KindPod), fail, nil)
	now := podAt("large", 5)
	now.Labels = map[string]string{"app": "web"}
	must(t, s.Replace([]any{now}, "10"))
	for len(out) > 0 {
		facts = append(facts, events.SequencedFact{Sequence: uint64(len(facts) + 1), Fact: <-out})
	}
	if _, err := store.Apply(facts[1:]); err != nil {
		t.Fatal(err)
	}
	if p, ok := store.Snapshot().Pod("large"); !ok || p.Template.Labels["app"] != "web" {
		t.Errorf("the pod is known %t, as %+v", ok, p)
	}
}
