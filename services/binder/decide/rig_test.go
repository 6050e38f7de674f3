package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// rig is a world with one binder, for scenarios in single steps.
type rig struct {
	*testing.T
	*world
	b *member
}

// newRig has one node n0 and pods p0, p1, …, all of it shown to the binder.
func newRig(t *testing.T, pods int) *rig {
	w := newWorld(1, 1, pods, ablation{})
	r := &rig{T: t, world: w, b: w.binders[0]}
	r.see()
	return r
}

// see shows the binder the present state.
func (r *rig) see() {
	r.showFacts(r.b, len(r.api.history)-1)
	r.showDocs(r.b, len(r.ledger.history))
}

// reserve places p0 on n0, and shows the ledger to the binder.
func (r *rig) reserve() ledger.Entry {
	r.Helper()
	r.shards[0].facts, r.shards[0].docs = len(r.api.history)-1, len(r.ledger.history)
	if !r.place(0, 0) {
		r.Fatal("the shard could not place p0 on n0")
	}
	r.showDocs(r.b, len(r.ledger.history))
	return r.doc().Entries[len(r.doc().Entries)-1]
}

func (r *rig) doc() ledger.NodeDoc { return r.ledger.current[ledger.KeyNode("n0-uid")] }

// wait advances the time.
func (r *rig) wait(d time.Duration) {
	r.b.now = r.b.now.Add(d)
	r.step(r.b, effect.Tick{})
}

// next returns the only pending effect, which must be a T.
func next[T effect.Effect](r *rig) T {
	r.Helper()
	if len(r.b.lines) != 1 {
		r.Fatalf("effects to be sent: %s, want one %T", lines(r.b), *new(T))
	}
	e, ok := r.b.lines[0].(T)
	if !ok {
		r.Fatalf("effect to be sent: %s, want %T", lines(r.b), *new(T))
	}
	return e
}

func lines(b *member) string {
	var out []string
	for _, e := range b.lines {
		out = append(out, fmt.Sprintf("%T%+v", e, e))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// quiet requires that no effect is pending.
func (r *rig) quiet(why string) {
	r.Helper()
	if len(r.b.lines) != 0 {
		r.Fatalf("%s: effects to be sent: %s, want none", why, lines(r.b))
	}
}

// run carries out the only pending effect, which must be a T.
func run[T effect.Effect](r *rig, f delivery) T {
	r.Helper()
	e := next[T](r)
	if err := r.perform(r.b, 0, f); err != nil {
		r.Fatal(err)
	}
	return e
}

// answer takes the only pending effect, which must be a T, and answers it without carrying it out.
func answer[T effect.Effect](r *rig, a func(e T) effect.Input) T {
	r.Helper()
	e := next[T](r)
	r.b.lines = nil
	r.step(r.b, a(e))
	return e
}

// wantDecisions returns the decisions published since the last call, and checks their kinds.
func (r *rig) wantDecisions(want ...events.DecisionKind) []events.Decision {
	r.Helper()
	var got []events.DecisionKind
	for _, d := range r.published {
		got = append(got, d.Kind)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Fatalf("decisions told (-want +got):\n%s", diff)
	}
	published := r.published
	r.published = nil
	return published
}

// expectFence requires the whole fence, step by step, and its end.
func (r *rig) expectFence(reason string) {
	r.Helper()
	if why := run[effect.Transact](r, delivered).Why; why != "fence-mark" {
		r.Fatalf("first step of the fence is %s", why)
	}
	run[effect.FencePod](r, delivered)
	if why := run[effect.Transact](r, delivered).Why; why != "fence-release" {
		r.Fatalf("last step of the fence is %s", why)
	}
	r.quiet("after the fence")
	if n := len(r.doc().Entries); n != 0 {
		r.Fatalf("%d entries left after the fence", n)
	}
	if d := r.wantDecisions(events.DecisionReleased)[0]; !strings.Contains(d.Message, reason) {
		r.Fatalf("released because %q, want %q", d.Message, reason)
	}
}

func (r *rig) receive(d events.Decision) { r.step(r.b, effect.DecisionSeen{Decision: d}) }

func about(pod string) events.PodRef {
	return events.PodRef{UID: pod + "-uid", Namespace: "ns", Name: pod}
}
