package decide

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// choose returns a number below n.
type choose func(n int) int

// walk takes one random step.
func (w *world) walk(pick choose, faults bool) error {
	b := w.binders[pick(len(w.binders))]
	switch pick(12) {
	case 0, 1:
		pod := pick(len(w.shards))
		s := w.shards[pod]
		s.facts += pick(len(w.api.history) - s.facts)
		s.docs += pick(len(w.ledger.history) - s.docs + 1)
		if node := pick(len(w.api.now().nodes)); w.place(pod, node) {
			w.logf("shard places p%d on n%d with token %d", pod, node, w.placed)
		}
	case 2:
		w.showFacts(b, b.facts+pick(len(w.api.history)-b.facts))
	case 3, 4:
		w.showDocs(b, b.docs+pick(len(w.ledger.history)-b.docs+1))
	case 5, 6, 7, 8:
		if len(b.lines) == 0 {
			return nil
		}
		f := delivered
		if faults && pick(3) == 0 {
			f = delivery(pick(4))
		}
		return w.perform(b, pick(len(b.lines)), f)
	case 9:
		b.now = b.now.Add(time.Duration(pick(40)) * 100 * time.Millisecond)
		w.step(b, effect.Tick{})
	case 10:
		if len(w.late) > 0 {
			return w.performLate(pick(len(w.late)))
		}
	case 11:
		if faults {
			w.disturb(b, pick)
		}
	}
	return nil
}

// disturb is what other clients do to the cluster, and what happens to a binder.
func (w *world) disturb(b *member, pick choose) {
	uid := fmt.Sprintf("p%d-uid", pick(len(w.shards)))
	_, exists := w.api.now().pods[uid]
	switch pick(7) {
	case 0, 1:
		if exists {
			w.logf("foreign update of %s", uid)
			w.api.changePod(uid, annotate("foreign", fmt.Sprint(w.api.now().rv)))
		}
	case 2:
		if exists {
			w.logf("labels of %s change", uid)
			w.api.changePod(uid, func(p *corev1.Pod) { p.Labels = map[string]string{"at": fmt.Sprint(w.api.now().rv)} })
		}
	case 3:
		if exists && pick(4) == 0 {
			w.logf("%s is deleted", uid)
			w.api.deletePod(uid)
		}
	case 4:
		w.logf("%s crashes", b.id)
		w.boot(b)
	case 5:
		w.logf("%s loses or gets all partitions", b.id)
		w.hold(b, pick(2) == 0)
	case 6:
		cordon := pick(2) == 0
		w.api.changeNode("n0-uid", func(n *corev1.Node) { n.Spec.Unschedulable = cordon })
	}
}

// endFaults ends the faults and lets the binders work until nothing is left to do.
func (w *world) endFaults() error {
	w.api.changeNode("n0-uid", func(n *corev1.Node) { n.Spec.Unschedulable = false })
	for len(w.late) > 0 {
		if err := w.performLate(0); err != nil {
			return err
		}
	}
	for _, b := range w.binders {
		w.hold(b, true)
	}
	for range 60 {
		for _, b := range w.binders {
			if err := w.work(b); err != nil {
				return err
			}
		}
	}
	return w.resolved()
}

// work shows a binder everything and lets it do what it can.
func (w *world) work(b *member) error {
	w.showFacts(b, len(w.api.history)-1)
	w.showDocs(b, len(w.ledger.history))
	b.now = b.now.Add(700 * time.Millisecond)
	w.step(b, effect.Tick{})
	for len(b.lines) > 0 {
		if err := w.perform(b, 0, delivered); err != nil {
			return err
		}
	}
	return nil
}

// resolved checks L2: no reservation is left, in the ledger or in memory.
func (w *world) resolved() error {
	for key, d := range w.ledger.current {
		for _, e := range d.Entries {
			return fmt.Errorf("L2: %s still holds %s in %s (token %s)", key, e.PodUID, e.State, e.Token)
		}
	}
	for _, b := range w.binders {
		if s := b.core.Stats(); s.Reservations != 0 || b.core.Running() != 0 || b.core.reservations.Stats().Waiting != 0 {
			return fmt.Errorf("%s remembers what is over: %+v, %d running", b.id, s, b.core.Running())
		}
		if s := b.core.reservations.Stats(); s.Binding != 0 || s.Lined != 0 {
			return fmt.Errorf("%s counts %d binds under way, %d wait for a turn: all are over", b.id, s.Binding, s.Lined)
		}
	}
	return nil
}

// TestRandomInterleavings: whatever is lost, late, doubled, deleted, changed or crashed in between, no node ever
// carries more than it has room for (S1), no bind succeeds after its entry's release (S2), documents only take legal
// steps (S4, S12), and once the faults end every reservation is resolved (L2).
func TestRandomInterleavings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := func(n int) int {
			if n < 2 {
				return 0
			}
			return rapid.IntRange(0, n-1).Draw(t, "pick")
		}
		w := newWorld(2, 1+pick(2), 2+pick(2), ablation{})
		fail := func(err error) {
			if err != nil {
				t.Fatalf("%v\n%s", err, strings.Join(w.trace, "\n"))
			}
		}
		for range 50 + pick(150) {
			fail(w.walk(pick, true))
		}
		fail(w.endFaults())
	})
}

// TestLongWalks is the same on plain seeds, which is much faster than drawing.
func TestLongWalks(t *testing.T) {
	base := seedtest.First(t, *firstSeed)
	walks := 3000
	if testing.Short() {
		walks = 300
	}
	for i := range uint64(walks) {
		w := newWorld(2, 1+int(i%2), 2+int(i%3), ablation{})
		if err := w.run(base+i, 300); err != nil {
			t.Fatalf("seed %d: %v\n%s", base+i, err, strings.Join(w.trace, "\n"))
		}
	}
}

func (w *world) run(seed uint64, steps int) error {
	r := rand.New(rand.NewPCG(seed, 1))
	for range steps {
		if err := w.walk(r.IntN, true); err != nil {
			return err
		}
	}
	return w.endFaults()
}

// TestAblations: each part of the protocol is needed. A walk that does not find a violation without it would not find
// a mistake in it either.
func TestAblations(t *testing.T) {
	for _, tc := range []struct {
		name string
		off  ablation
		want string
	}{
		{"bind without resourceVersion precondition", ablation{noPrecondition: true}, "S"},
		{"fence without a real change of the pod (edge case 5)", ablation{noRealChange: true}, "S"},
		{"fence without the mark", ablation{noMark: true}, "S"},
		{"refresh reads the document before the pod (edge case 4)", ablation{docBeforePod: true}, "S"},
		{"removal without high-water (edge case 1)", ablation{noHighWater: true}, "S1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const most = 200_000
			for seed := range uint64(most) {
				w := newWorld(2, 1, 2, tc.off)
				err := w.runSafely(seed, 250)
				if err != nil && strings.HasPrefix(err.Error(), tc.want) {
					t.Logf("seed %d after %d events: %v", seed, len(w.trace), err)
					return
				}
			}
			t.Fatalf("no broken rule in %d walks: the walk is blind to this part of the protocol", most)
		})
	}
}

// runSafely is run without the healing, and with the ledger's own refusal of invalid transactions (which an ablation
// may provoke) as an ordinary end.
func (w *world) runSafely(seed uint64, steps int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("refused: %v", p)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 2))
	for range steps {
		if err := w.walk(r.IntN, true); err != nil {
			return err
		}
	}
	return nil
}
